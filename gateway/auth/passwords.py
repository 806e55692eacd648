"""The users file: its form, and the hashes in it.  No trio here: `gateway passwd` needs none.

    # a comment, or an empty line
    alice:$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>

One user a line, the name up to the first colon.  The hash carries its own parameters, so a file may hold
hashes made by other tools or by other versions of this one.

The cost is OWASP's first choice for argon2id (19 MiB, two passes, one lane), not the library's default (64
MiB, four lanes): a verification competes with routing for the same cores, and all of a gateway's clients come
back at once after a restart.  Measured on a 2-core machine: 22 ms of CPU, the default 184 ms.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import argon2

MAX_OCTETS = 1024
"""Octets of a login or passcode.  Longer ones are refused unhashed: nobody types them, and hashing them is
our CPU."""

MAX_FILE = 64 * 1024 * 1024
"""Octets of the whole file, some half a million users: a wrong path (a log, a device) is not read to its
end."""

_hasher = argon2.PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


class UsersFileError(Exception):
    """The users file cannot be used; `str()` is one sentence that names file and line."""


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


def read_users(path: Path) -> dict[str, str]:
    """User names and their hashes.

    Raises:
        UsersFileError: the file cannot be read, or a line is not of the form above.
    """
    users: dict[str, str] = {}
    for number, line in enumerate(_read(path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, hashed = line.partition(":")
        if not user or not colon:
            raise UsersFileError(f"line {number} of {path} is not of the form user:hash")
        if user in users:
            raise UsersFileError(f"line {number} of {path} names user {user!r} a second time")
        try:
            argon2.extract_parameters(hashed.strip())
        except argon2.exceptions.InvalidHashError:
            raise UsersFileError(
                f"line {number} of {path} holds no argon2 hash; write it with `gateway passwd`"
            ) from None
        users[user] = hashed.strip()
    return users


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            octets = file.read(MAX_FILE + 1)
        if len(octets) > MAX_FILE:
            raise UsersFileError(f"{path} is larger than {MAX_FILE} octets and so hardly a users file")
        return octets.decode()
    except OSError as error:
        raise UsersFileError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsersFileError(f"{path} is not UTF-8 text") from None


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


def write_user(path: Path, user: str, hashed: str) -> bool:
    """Add the user, or replace the hash; every other line stays as it is.

    The file appears whole or not at all (rename), readable by its owner only.  A new file belongs to whoever
    runs this; an existing one keeps its owner, or a gateway that runs as another user could no longer read
    it.

    Returns:
        True when the user was there before.

    Raises:
        UsersFileError: the existing file is damaged or cannot be read.
        OSError: the file cannot be written.
    """
    path = path.resolve()  # a rename on a symbolic link would replace the link
    existed = path.exists()
    known = user in read_users(path) if existed else False
    lines = list(_replaced(_read(path).splitlines() if existed else [], user, hashed))
    if not known:
        lines.append(f"{user}:{hashed}")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
            if existed:
                owner = path.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    return known


def _replaced(lines: list[str], user: str, hashed: str) -> Iterator[str]:
    for line in lines:
        yield f"{user}:{hashed}" if line.partition(":")[0] == user and ":" in line else line
