"""How a file comes to be there, at once and for good.

    _name written  ->  on the disk  ->  touched  ->  renamed to name  ->  the folder on the disk

Whoever lists the folder sees the whole file or none.  It is touched because Spark's file source ignores what is much
older than the newest file it has seen: a file has the time at which it became visible, not that of its first octet.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gateway.journal.segments import synchronize_folder

from .layout import HIDDEN


def hidden(path: Path) -> Path:
    """The name under which a file is written."""
    return path.with_name(HIDDEN + path.name)


def make_folder(folder: Path) -> None:
    """A folder, and those that it is in, on the disk.

    Raises:
        OSError: it cannot be made.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    # Bodies of messages are in there: nobody reads them whom the group does not allow to.
    for each in reversed(missing):
        each.mkdir(mode=0o750, exist_ok=True)
        synchronize_folder(each.parent)


def reveal(path: Path) -> None:
    """Give a file that is on the disk already its name.

    Raises:
        OSError: it may have it, or not.
    """
    os.utime(hidden(path))
    hidden(path).replace(path)
    synchronize_folder(path.parent)


def store(path: Path, octets: bytes) -> None:
    """Write a small file.

    Raises:
        OSError: it has its old content, or the new one, which may not outlive a power cut.
    """
    try:
        with hidden(path).open("wb") as file:
            file.write(octets)
            file.flush()
            os.fsync(file.fileno())
        reveal(path)
    except OSError:
        with contextlib.suppress(OSError):
            hidden(path).unlink(missing_ok=True)
        raise
