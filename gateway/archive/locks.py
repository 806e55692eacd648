"""Locks that say who is at work.  The system gives them free when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from gateway.journal.segments import reason_of

from .errors import ArchiveError, BusyError
from .storing import make_folder


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
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise ArchiveError(f"{path} cannot be made: {reason_of(error)}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    except BlockingIOError as error:
        who = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise BusyError(f"{busy} (process {who or 'unknown'})") from error
    except OSError as error:
        os.close(descriptor)
        raise ArchiveError(f"{path} cannot be locked: {reason_of(error)}") from error
    return descriptor
