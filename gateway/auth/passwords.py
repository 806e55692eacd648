"""Passwords: the form of the users file, and the hashes in it.  Without trio, which `gateway passwd` does not need.

    # a comment, or an empty line
    alice:$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>
    bob:$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>:ops,traders

A hash carries its own parameters, so other tools may have made it.  The cost is OWASP's first choice for argon2id (19
MiB, two passes, one lane): a verification competes with routing for the same cores, and all clients come back at once
after a restart.  Measured on a 2-core machine: 22 ms of CPU; the library's default (64 MiB, four lanes) 184 ms.
"""

import os
import secrets
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import argon2

from gateway.files import FileFault, read_text, writing

MAX_LENGTH = 1024  # bytes of a login or passcode. Longer ones, which no user types, are refused without hashing.

MAX_FILE = 64 * 1024 * 1024
"""Bytes of the whole file, some half a million users.  A wrong path (a log, a device) is not read to its end."""

_hasher = argon2.PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


class StoredUser(NamedTuple):
    hashed: str
    groups: frozenset[str] = frozenset()


def hash_passcode(passcode: str) -> str:
    """A salted argon2id hash of the passcode, with its parameters."""
    return _hasher.hash(encoded(passcode))


def verify(hashed: str, passcode: str) -> bool:
    """True if the passcode is the one hashed.  Takes tens of milliseconds of CPU, without the GIL."""
    try:
        return _hasher.verify(hashed, encoded(passcode))
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False


def encoded(text: str) -> bytes:
    """UTF-8; the lone surrogates that a `str` may hold are no error."""
    return text.encode(errors="surrogatepass")


def is_too_long(text: str) -> bool:
    """True if a login or passcode is too long to be hashed."""
    return len(encoded(text)) > MAX_LENGTH


def read_users(
    path: Path, known: Mapping[str, StoredUser] = MappingProxyType({}), max_size: int = MAX_FILE
) -> dict[str, StoredUser]:
    """Users by name.  Raises FileFault: the file cannot be read, or a line is not of the form above.

    `known` are the users before: checking a hash takes longer than all else, and most hashes stay the same.
    """
    users: dict[str, StoredUser] = {}
    for number, line in enumerate(read_text(path, max_size, "a users file").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, rest = line.partition(":")
        hashed, _, groups = rest.partition(":")
        if not user or not colon:
            raise FileFault(f"line {number} of {path} is not of the form user:hash or user:hash:group,group")
        if user in users:
            raise FileFault(f"line {number} of {path} names user {user!r} a second time")
        hashed = hashed.strip()
        if user not in known or known[user].hashed != hashed:
            try:
                argon2.extract_parameters(hashed)
            except argon2.exceptions.InvalidHashError:
                fault = f"line {number} of {path} holds no argon2 hash; write it with `gateway passwd`"
                raise FileFault(fault) from None
        users[user] = StoredUser(hashed, frozenset(filter(None, map(str.strip, groups.split(",")))))
    return users


def refuse_user(user: str) -> str | None:
    """Why a user cannot have that name, as one sentence; None: the name is fine."""
    if not user or user != user.strip():
        return "a user's name must not be empty or have spaces around it"
    if ":" in user or user.startswith("#"):
        return "a user's name must not have a colon or start with #, which the users file uses itself"
    if not user.isprintable() or is_too_long(user):
        return f"a user's name must be printable and at most {MAX_LENGTH} bytes long"
    return None


def refuse_passcode(passcode: str) -> str | None:
    """Why that cannot be a passcode, as one sentence; None: it is fine."""
    return f"a passcode must have 1 to {MAX_LENGTH} bytes" if not passcode or is_too_long(passcode) else None


def refuse_group(group: str) -> str | None:
    """Why a group cannot have that name, as one sentence; None: the name is fine."""
    if not group or group != group.strip() or set(group) & set(",:") or not group.isprintable():
        return "a group's name must be printable, and not empty, without comma, colon and spaces around it"
    return None


def write_user(path: Path, user: str, hashed: str, groups: Collection[str] | None = None) -> bool:
    """Add the user, or replace the hash; all other lines stay.  Returns True if the user was there before.

    Without `groups` those in the file stay.  Raises FileFault: the existing file is damaged; OSError: it cannot be
    written.
    """
    existed = path.exists()
    known = read_users(path).get(user) if existed else None
    if groups is None:
        groups = known.groups if known is not None else ()
    line = f"{user}:{hashed}" + (f":{','.join(sorted(groups))}" if groups else "")
    lines = [line if _names(each, user) else each for each in (_lines(path) if existed else [])]
    if known is None:
        lines.append(line)
    _write(path, lines)
    return known is not None


def remove_user(path: Path, user: str) -> bool:
    """Remove the user; all other lines stay.  Returns True if the user was there; raises as `write_user`."""
    if user not in read_users(path):
        return False
    _write(path, [each for each in _lines(path) if not _names(each, user)])
    return True


def _lines(path: Path) -> list[str]:
    return read_text(path, MAX_FILE, "a users file").splitlines()


def _write(path: Path, lines: list[str]) -> None:
    path = path.resolve()  # a rename over a symbolic link would replace the link
    with writing(path, 0o600, fresh=path.with_name(f".{path.name}.{secrets.token_hex(8)}")) as file:
        # An existing file keeps its owner: a gateway that runs as another user must still be able to read it.
        if path.exists():
            owner = path.stat()
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        file.write("".join([f"{line}\n" for line in lines]).encode())


def _names(line: str, user: str) -> bool:
    """True if the line is the user's; a user's name never begins as a comment does."""
    return line.partition(":")[0] == user and ":" in line
