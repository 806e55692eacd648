"""How a file comes to be there, at once and for good.

    _name written  ->  on the disk  ->  renamed to name  ->  the folder on the disk

Whoever lists the folder sees the old file or the new one, and so does who comes after a power cut.  Names that begin
with `_` are no files for Spark, nor for others who know Hadoop's habits.  A name has one writer at a time; where there
may be several, each writes under a hidden name of its own.

Who may read it.  Bodies of messages are in the archive and in the journal, and names of clients in the tables.  So
whatever the umask, nothing here is for everybody unless the caller says so: `FILE` and `FOLDER` leave it to the group,
and the outermost folder (`make_private`) is its owner's alone.  To share it with the group is one `chmod` of that
folder, for what is in it and for what will be.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

HIDDEN = "_"
"""What a name begins with that is not there."""

FILE, FOLDER, PRIVATE = 0o640, 0o750, 0o700
"""Modes at most: the umask may take more away."""

SHOWN = 0o666
"""Of a file that is made to be shown: as the umask says."""


def hidden(path: Path) -> Path:
    """The name under which a file is written."""
    return path.with_name(HIDDEN + path.name)


def opened(path: Path, mode: int = FILE) -> BinaryIO:
    """A new file, in place of what is there.

    Raises:
        OSError: it cannot be made.
    """
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode))


@contextlib.contextmanager
def writing(path: Path, mode: int = FILE, *, fresh: Path | None = None) -> Iterator[BinaryIO]:
    """A file that gets its name at the end of the block; where that fails, what is there stays.

    Args:
        fresh: where it is written, beside the path; None: `hidden`.

    Raises:
        OSError: the old one is there still, or the new one, which may not outlive a power cut.
    """
    fresh = fresh or hidden(path)
    try:
        with opened(fresh, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    synchronize_folder(path.parent)


def store(path: Path, data: bytes, mode: int = FILE, *, fresh: Path | None = None) -> None:
    """Write a small file (`writing`).

    Raises:
        OSError: as there.
    """
    with writing(path, mode, fresh=fresh) as file:
        file.write(data)


def reveal(path: Path) -> None:
    """Give a file that is on the disk already its name.

    It is touched, because Spark's file source ignores what is much older than the newest file it has seen: a file has
    the time at which it became visible, not that of its first byte.

    Raises:
        OSError: it may have it, or not.
    """
    os.utime(hidden(path))
    hidden(path).replace(path)
    synchronize_folder(path.parent)


def make_folder(folder: Path, mode: int = FOLDER) -> None:
    """A folder, and those that it is in, on the disk.

    Raises:
        OSError: it cannot be made.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=mode, exist_ok=True)
        synchronize_folder(each.parent)


def make_private(folder: Path) -> None:
    """The folder that holds all of it: its owner's alone, if it is not there yet.

    Raises:
        OSError: it cannot be made.
    """
    if not folder.parent.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
    make_folder(folder, PRIVATE)


def synchronize_folder(folder: Path) -> None:
    """See that the names in a folder outlive a power cut.

    Raises:
        OSError: that cannot be done.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path) -> int:
    """Lock a file, which is made if it is missing; the descriptor holds the lock until it is closed.

    The system releases the lock when the process ends, however it ends.

    Raises:
        BlockingIOError: another process holds the lock.
        OSError: the file cannot be made or locked.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
