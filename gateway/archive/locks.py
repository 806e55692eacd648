"""Locks that say who is at work.  The system gives them free when the process ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from gateway.files import make_folder, make_private
from gateway.journal.segments import reason_of

from . import layout
from .errors import ArchiveError, BusyError


def lock_in(archive: Path, name: str, busy: str) -> int:
    """Take a lock of an archive, which is made if there is none: its owner's alone.

    Raises:
        BusyError, ArchiveError: as with `lock`.
    """
    try:
        make_private(archive)
    except OSError as error:
        raise ArchiveError(f"the archive {archive} cannot be made: {reason_of(error)}") from error
    return lock(archive / layout.LOCKS / name, busy)


def lock(path: Path, busy: str) -> int:
    """Take a lock, until its descriptor is closed.

    Args:
        path: of the file; it stays there.
        busy: what to say if another process has it, without the number of that.

    Raises:
        BusyError: another process has it.
        ArchiveError: the file cannot be had.
    """
    try:
        make_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ArchiveError(f"{path} cannot be made: {reason_of(error)}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        who = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise BusyError(f"{busy} (process {who or 'unknown'})") from error
    except OSError as error:
        os.close(descriptor)
        raise ArchiveError(f"{path} cannot be locked: {reason_of(error)}") from error
    with contextlib.suppress(OSError):  # a full disk: whoever makes room must get in
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor
