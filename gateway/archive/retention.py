"""What is too old goes.

A raw file goes when its rows are in the history, and when it has been visible for so long that every stream has seen
it.  Age is counted from when it became visible, and not from its hour: an archiver may have been late.

The history of an hour goes when the hour is old enough, and no raw file of it is left, for without the manifest such a
file would count again.  The manifest goes first: from then on the hour has no rows.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from . import history, layout
from .compact import lock_of
from .errors import ArchiveError
from .history import MANIFEST


def expire_raw(archive: Path, seconds: float, now: float, at: Callable[[str], None] = lambda _: None) -> int:
    """Delete raw files that are in the history.

    Args:
        seconds: that they must have been visible.
        now: seconds since 1970.
        at: for tests; called after each step that a kill may follow.

    Returns:
        how many were deleted.

    Raises:
        ArchiveError: a manifest makes no sense.
        OSError: a file cannot be deleted.
    """
    count = 0
    for hour, folder in layout.hours(archive / layout.RAW):
        names = layout.visible(folder)
        listed = history.read(archive / layout.HISTORY / layout.folder_of(hour)).raw
        for name in names:
            path = folder / name
            if name in listed and path.stat().st_mtime <= now - seconds:
                path.unlink()
                count += 1
                at("raw file deleted")
        if names:
            _remove_empty(folder)
    return count


def expire_history(archive: Path, seconds: float, now: float, at: Callable[[str], None] = lambda _: None) -> int:
    """Delete the history of hours that are over for so long; where a compaction is at work, nothing.

    Args:
        seconds: since the end of the hour.
        now: seconds since 1970.
        at: for tests; called after each step that a kill may follow.

    Returns:
        how many hours were deleted.

    Raises:
        OSError: a file cannot be deleted.
    """
    try:
        held = lock_of(archive)
    except ArchiveError:
        return 0
    count = 0
    try:
        for hour, folder in layout.hours(archive / layout.HISTORY):
            is_old = layout.start_of(hour + 1) <= datetime.fromtimestamp(now - seconds, UTC)
            if is_old and not layout.visible(archive / layout.RAW / layout.folder_of(hour)):
                (folder / MANIFEST).unlink(missing_ok=True)
                at("manifest deleted")
                for path in folder.iterdir():
                    path.unlink(missing_ok=True)
                    at("history file deleted")
                _remove_empty(folder)
                count += 1
    finally:
        os.close(held)
    return count


def _remove_empty(folder: Path) -> None:
    """The folder of an hour, and of its day, if nothing is in them."""
    with contextlib.suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()
