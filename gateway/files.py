"""Files that are written whole and read whole.

    _name written  ->  on the disk  ->  renamed to name  ->  the folder on the disk

A reader of the folder sees the old file or the new one, also after a power cut.  Spark ignores names that begin with
`_`.  A name has one writer at a time; where there may be several, each writes under a hidden name of its own.

The archive and the journal hold bodies of messages, so no file here is readable by all users unless the caller says so:
`FILE` and `FOLDER` allow the group, and the outermost folder (`make_private`) is its owner's alone.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

HIDDEN = "_"  # the start of the name of a file that is not finished
FILE, FOLDER, PRIVATE = 0o640, 0o750, 0o700  # modes, from which the umask may take more away
SHOWN = 0o666  # the mode of a file for all users, as far as the umask allows


class FileFault(Exception):
    """A file cannot be used; `str()` is one sentence that names the file."""


def read_bytes(path: Path, limit: int, what: str) -> bytes:
    """The contents of a file; raises FileFault where it cannot be read, or has more than `limit` bytes.

    A wrong path (a log, a device) is not read to its end.  `what` is the kind of file, with its article.
    """
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise FileFault(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > limit:
        raise FileFault(f"{path} is larger than {limit} bytes, so it cannot be {what}; check the path")
    return data


def read_text(path: Path, limit: int, what: str) -> str:
    """The text of a file (`read_bytes`).  Raises FileFault: it cannot be read, is larger, or is no text."""
    try:
        return read_bytes(path, limit, what).decode()
    except UnicodeDecodeError:
        raise FileFault(f"{path} is not UTF-8 text") from None


def hidden(path: Path) -> Path:
    """The name under which a file is written."""
    return path.with_name(HIDDEN + path.name)


def opened(path: Path, mode: int = FILE) -> BinaryIO:
    """A new, empty file, which replaces an existing one.  Raises OSError: it cannot be made."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode))


@contextlib.contextmanager
def writing(path: Path, mode: int = FILE, *, fresh: Path | None = None) -> Iterator[BinaryIO]:
    """A file that gets its name at the end of the block; if the block fails, the old file stays.

    It is written under the name `fresh`.  Raises OSError: the path has the old file, or the new one, which may not
    survive a power cut.
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
    """Write a small file (`writing`).  Raises OSError: as in `writing`."""
    with writing(path, mode, fresh=fresh) as file:
        file.write(data)


def reveal(path: Path) -> None:
    """Give a file, written to the disk under its hidden name, its own name; raises OSError.

    Its time becomes that of the rename: Spark's file source ignores files that are much older than the newest one.
    """
    os.utime(hidden(path))
    hidden(path).replace(path)
    synchronize_folder(path.parent)


def make_folder(folder: Path, mode: int = FOLDER) -> None:
    """Make a folder and its parents, on the disk.  Raises OSError: it cannot be made."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=mode, exist_ok=True)
        synchronize_folder(each.parent)


def make_private(folder: Path) -> None:
    """Make the outermost folder, for its owner alone; an existing one stays as it is.  Raises OSError."""
    if not folder.parent.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
    make_folder(folder, PRIVATE)


def synchronize_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, so that they survive a power cut.  Raises OSError: it failed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path) -> int:
    """Lock a file, which is made if it is missing; the descriptor holds the lock until it is closed, or the process
    ends.

    Raises BlockingIOError: another process holds the lock; OSError: the file cannot be made or locked.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
