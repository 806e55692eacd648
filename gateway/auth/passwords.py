"""The users file: its form, and the hashes in it.  No trio here: `gateway passwd` needs none.

    # a comment, or an empty line
    alice:$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>
    bob:$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>:ops,traders

One user a line, the name up to the first colon; behind another one the groups, which rules speak of.  The hash
carries its own parameters, so a file may hold hashes made by other tools or by other versions of this one.

The cost is OWASP's first choice for argon2id (19 MiB, two passes, one lane), not the library's default (64
MiB, four lanes): a verification competes with routing for the same cores, and all of a gateway's clients come
back at once after a restart.  Measured on a 2-core machine: 22 ms of CPU, the default 184 ms.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import argon2

from gateway.auth.files import FileFault, read_text

MAX_OCTETS = 1024
"""Octets of a login or passcode.  Longer ones are refused unhashed: nobody types them, and hashing them is
our CPU."""

MAX_FILE = 64 * 1024 * 1024
"""Octets of the whole file, some half a million users: a wrong path (a log, a device) is not read to its
end."""

_hasher = argon2.PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


class User(NamedTuple):
    """What the file says of one user."""

    hashed: str
    groups: frozenset[str] = frozenset()


def hash_passcode(passcode: str) -> str:
    """A salted argon2id hash of the passcode, with its parameters."""
    return _hasher.hash(octets_of(passcode))


def verify(hashed: str, passcode: str) -> bool:
    """True when the passcode is the one hashed.  Takes tens of milliseconds of CPU, without the GIL."""
    try:
        return _hasher.verify(hashed, octets_of(passcode))
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False


def octets_of(text: str) -> bytes:
    """UTF-8, and no failure on the lone surrogates that a `str` may hold."""
    return text.encode(errors="surrogatepass")


def is_too_long(text: str) -> bool:
    """True when a login or passcode is longer than any that is hashed."""
    return len(octets_of(text)) > MAX_OCTETS


def read_users(path: Path, known: Mapping[str, User] = MappingProxyType({})) -> dict[str, User]:
    """Users by name.

    Args:
        known: as they were: to look at a hash takes longer than all else, and most stay the same.

    Raises:
        FileFault: the file cannot be read, or a line is not of the form above.
    """
    users: dict[str, User] = {}
    for number, line in enumerate(_read(path).splitlines(), 1):
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
            _check_hash(hashed, number, path)
        users[user] = User(hashed, frozenset(filter(None, map(str.strip, groups.split(",")))))
    return users


def _check_hash(hashed: str, number: int, path: Path) -> None:
    try:
        argon2.extract_parameters(hashed)
    except argon2.exceptions.InvalidHashError:
        raise FileFault(f"line {number} of {path} holds no argon2 hash; write it with `gateway passwd`") from None


def _read(path: Path) -> str:
    return read_text(path, MAX_FILE, "a users file")


def refuse_user(user: str) -> str | None:
    """Why this cannot be a user's name, as one sentence; None when it can."""
    if not user or user != user.strip():
        return "a user's name is not empty and has no spaces around it"
    if ":" in user or user.startswith("#"):
        return "a user's name holds no colon and does not start with #, for the file's sake"
    if not user.isprintable() or is_too_long(user):
        return f"a user's name is printable and at most {MAX_OCTETS} octets long"
    return None


def refuse_passcode(passcode: str) -> str | None:
    """Why this cannot be a passcode, as one sentence; None when it can."""
    if not passcode or is_too_long(passcode):
        return f"a passcode has 1 to {MAX_OCTETS} octets"
    return None


def refuse_group(group: str) -> str | None:
    """Why this cannot be a group's name, as one sentence; None when it can."""
    if not group or group != group.strip() or set(group) & set(",:") or not group.isprintable():
        return "a group's name is not empty, printable, and has no comma, no colon and no spaces around it"
    return None


def write_user(path: Path, user: str, hashed: str, groups: Collection[str] | None = None) -> bool:
    """Add the user, or replace the hash; every other line stays as it is.

    Args:
        groups: in place of those that the file says; None: those stay.

    The file appears whole or not at all (rename), readable by its owner only.  A new file belongs to whoever
    runs this; an existing one keeps its owner, or a gateway that runs as another user could no longer read
    it.

    Returns:
        True when the user was there before.

    Raises:
        FileFault: the existing file is damaged or cannot be read.
        OSError: the file cannot be written.
    """
    existed = path.exists()
    known = read_users(path).get(user) if existed else None
    if groups is None:
        groups = known.groups if known is not None else ()
    line = f"{user}:{hashed}" + (f":{','.join(sorted(groups))}" if groups else "")
    lines = [line if _names(each, user) else each for each in (_read(path).splitlines() if existed else [])]
    if known is None:
        lines.append(line)
    _write(path, lines)
    return known is not None


def remove_user(path: Path, user: str) -> bool:
    """Take the user out; every other line stays as it is.  The file is written as `write_user` does it.

    Returns:
        True when the user was there.

    Raises:
        FileFault: the file is damaged or cannot be read.
        OSError: the file cannot be written.
    """
    if user not in read_users(path):
        return False
    _write(path, [each for each in _read(path).splitlines() if not _names(each, user)])
    return True


def _write(path: Path, lines: list[str]) -> None:
    path = path.resolve()  # a rename on a symbolic link would replace the link
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("".join([f"{line}\n" for line in lines]))
            if path.exists():
                owner = path.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _names(line: str, user: str) -> bool:
    """Whether that line is the user's; no user's name begins as a comment does."""
    return line.partition(":")[0] == user and ":" in line
