"""What a user may do with a file, by its owner, its group and its mode.

`os.access` would answer for ourselves; but the doctor is called by root, or by an operator, and the gateway runs as a
user of its own.  Access lists, and what systemd or a container takes away, are not looked at.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from .finding import Trouble

READ, WRITE, ENTER = 4, 2, 1
_WORDS = {READ: "read", WRITE: "write", ENTER: "enter"}


@dataclass(frozen=True, slots=True)
class User:
    """Somebody with rights."""

    name: str
    uid: int
    groups: frozenset[int]


def user_of(name: str) -> User:
    """The user of a name or number; empty: we.

    Raises:
        Trouble: there is none of that name.
    """
    if not name:
        uid = os.geteuid()
        return User(user_name(uid), uid, frozenset([os.getegid(), *os.getgroups()]))
    if name.isdigit():  # as in a container, where nobody has named it
        return User(name, int(name), frozenset())
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise Trouble(f"there is no user {name!r}", "Name the gateway's user by --user") from None
    return User(name, entry.pw_uid, frozenset(os.getgrouplist(name, entry.pw_gid)))


def user_name(uid: int) -> str:
    """A user's name, or the number that has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def refuse_to(user: User, path: Path, rights: int) -> None:
    """See whether a user may do that.

    Raises:
        Trouble: he may not, or nobody could.
    """
    for folder in reversed(path.absolute().parents):
        _refuse(user, folder, ENTER)
    _refuse(user, path, rights)
    if rights & WRITE and os.statvfs(path).f_flag & os.ST_RDONLY:
        remedy = f"Mount it for writing (`mount -o remount,rw`), or name another place; systemd: ReadWritePaths={path}"
        raise Trouble(f"{path} is on a file system that is read-only", remedy)


def _refuse(user: User, path: Path, rights: int) -> None:
    try:
        found = path.stat()
    except FileNotFoundError:
        raise Trouble(f"there is no {path}", f"Make it, or change the setting: {_making(user, path)}") from None
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise Trouble(f"{path} cannot be looked at: {reason}", "Run the doctor as root") from None
    if user.uid == 0:
        return
    shift = 6 if found.st_uid == user.uid else 3 if found.st_gid in user.groups else 0
    missing = rights & ~(found.st_mode >> shift)
    if missing:
        words = " and ".join([word for bit, word in _WORDS.items() if missing & bit])
        owner = user_name(found.st_uid)
        detail = f"{user.name} may not {words} {path}, which is {owner}'s ({found.st_mode & 0o777:04o})"
        raise Trouble(detail, f"`chown {user.name} {path}`, or `chmod u+{_letters(missing)} {path}` if it is his")


def _letters(rights: int) -> str:
    return "".join([letter for bit, letter in ((READ, "r"), (WRITE, "w"), (ENTER, "x")) if rights & bit])


def _making(user: User, path: Path) -> str:
    return f"`install -d -o {user.name} -m 750 {path}` for a folder"
