"""Locks of archivers and compactions: one process at a time works on a journal or an archive."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gateway import files
from gateway.journal.segments import reason_of

from . import layout
from .errors import ArchiveError, BusyError


def lock_in(archive: Path, name: str, busy: str) -> int:
    """Take a lock (`lock`) of an archive; a missing archive is made, for its owner alone."""
    try:
        files.make_private(archive)
    except OSError as error:
        raise ArchiveError(f"the archive {archive} cannot be made: {reason_of(error)}") from error
    return lock(archive / layout.LOCKS / name, busy)


def lock(path: Path, busy: str) -> int:
    """Take a lock, until its descriptor is closed.  `BusyError`: another process has it."""
    try:
        files.make_folder(path.parent)
        descriptor = files.lock(path)
    except BlockingIOError as error:
        raise BusyError(f"{busy} (process {_owner(path) or 'unknown'})") from error
    except OSError as error:
        raise ArchiveError(f"{path} cannot be locked: {reason_of(error)}") from error
    with contextlib.suppress(OSError):  # on a full disk the process that makes room must get the lock
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor


def _owner(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")[:20].strip()
    except OSError:
        return ""
