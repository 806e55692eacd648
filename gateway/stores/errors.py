"""Errors of a store: one sentence each, with the path of the file and, where there is one, the remedy.

SQLite reports a failed write as "disk I/O error", seldom with the reason.  So `_reason` tries to write a few bytes
beside the file, and reports the system's error.
"""

import errno
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.broker.core.ports import StoreError

_DAMAGE = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_IOERR_DATA,
    sqlite3.SQLITE_IOERR_CORRUPTFS,
}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_WRITING = (errno.EROFS, errno.EACCES, errno.EPERM)
_PROBE = bytes(65_536)


class StoreFull(StoreError):
    """The disk is full.  The write can be repeated later."""

    public = "the disk is full"


class StoreReadOnly(StoreError):
    """The disk or the file is read-only."""

    public = "the store is read-only"


class StoreLocked(StoreError):
    """Another process has the file open."""


class StoreDamaged(StoreError):
    """The file is damaged.  `found`: the damage, without path and remedy."""

    public = "the store is damaged"
    is_damage = True

    def __init__(self, path: Path, found: object, remedy: str | None = None) -> None:
        self.found = found
        if remedy is None:
            remedy = (
                f"Look closer with `gateway store check {path}`; save what can be read with `gateway store export "
                f"{path}`, and make a new store of that with `gateway store import`"
            )
        super().__init__(f"{path} is damaged: {found}.  {remedy}")


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the system into a `StoreError` with the path."""
    try:
        yield
    except sqlite3.Error as error:
        raise _sentence(error, path) from error
    except OSError as error:
        raise _refused(error, path) from error


def is_damage(error: sqlite3.Error) -> bool:
    """True if the file is damaged; False if disk, permissions or caller are at fault."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by Python's module itself
        return str(error).startswith("Could not decode to UTF-8")
    return code in _DAMAGE or code & 0xFF == sqlite3.SQLITE_CORRUPT


def _sentence(error: sqlite3.Error, path: Path) -> StoreError:
    if is_damage(error):
        return StoreDamaged(path, error)
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the upper bits tell sub-kinds
    if code == sqlite3.SQLITE_BUSY:
        return StoreLocked(f"{path} is in use: another gateway, or another program, has it open")
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"{path} cannot grow: {os.strerror(errno.ENOSPC)}")
    if code not in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        return StoreError(f"{path}: {error}")
    reason = _reason(path)
    if reason is not None:
        return _refused(reason, path)
    kind = StoreReadOnly if code == sqlite3.SQLITE_READONLY else StoreError
    return kind(f"{path}: {error} ({error.sqlite_errorname})")


def _refused(reason: OSError, path: Path) -> StoreError:
    if reason.errno in _NO_ROOM:
        return StoreFull(f"{path} cannot grow: {reason.strerror}")
    kind = StoreReadOnly if reason.errno in _NO_WRITING else StoreError
    return kind(f"{path} cannot be used: {reason.strerror}")


def _reason(path: Path) -> OSError | None:
    """The system's reason why the file cannot be written; None: writing beside it works."""
    try:
        with tempfile.TemporaryFile(dir=path.parent) as probe:
            probe.write(_PROBE)
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error
    # The file is not opened: closing it would release this process's own lock.
    if path.exists() and not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        return PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return None
