"""Retention: old files are deleted.

A raw file is deleted when its rows are in the history, and when it has been visible for so long that every stream has
seen it.  Empty folders of hours stay: Spark lists `raw` folder by folder, and a query ends if one is removed meanwhile.
Those of a week are removed together, a day after the week, when all are empty.

The history of an hour is deleted when the hour is old enough, and no raw file of it is left: without the manifest such
a file would count again.  The manifest goes first: from then on the hour has no rows, for its files are pending.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from . import history, layout
from .compact import lock_of
from .history import MANIFEST, PENDING
from .layout import ArchiveError

RAW_RETENTION = 48 * 3600.0  # seconds that a raw file stays after it is in the history, by default
_EXPIRE_EVERY = 60.0  # seconds between two looks for old files
_WEEK = timedelta(days=7)
_REST = timedelta(days=1)  # after the end of a week, until the folders of its raw files may be removed


class Expiry:
    """Deletes old files, now and then, and warns of an error once; `raw` and `history` in seconds, None: never."""

    def __init__(self, archive: Path, raw: float, history: float | None, warn: Callable[[str], None]) -> None:
        self._archive = archive
        self._raw = raw
        self._history = history
        self._warn = warn
        self._next = 0.0
        self._said = ""

    def __call__(self, at_once: bool = False) -> bool:
        now = time.time()
        if now < self._next and not at_once:
            return True
        self._next = now + _EXPIRE_EVERY
        sentence = ""
        try:
            expire_raw(self._archive, self._raw, now)
            if self._history is not None:
                expire_history(self._archive, self._history, now)
        except (OSError, ArchiveError) as error:
            sentence = f"old files cannot be deleted: {error}"
            if sentence != self._said:
                self._warn(sentence)
        self._said = sentence
        return not sentence


def expire_raw(archive: Path, seconds: float, now: float, at: Callable[[str], None] = lambda _: None) -> int:
    """Delete raw files that are in the history and were visible for so many `seconds`; returns how many."""
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
    _remove_weeks(archive / layout.RAW, now)
    return count


def expire_history(archive: Path, seconds: float, now: float, at: Callable[[str], None] = lambda _: None) -> int:
    """Delete the history of hours that ended so many `seconds` ago; returns how many, 0 if a compaction is at work."""
    try:
        held = lock_of(archive)
    except ArchiveError:
        return 0
    count = 0
    try:
        for hour, folder in layout.hours(archive / layout.HISTORY):
            is_old = layout.start_of(hour + 1) <= datetime.fromtimestamp(now - seconds, UTC)
            if is_old and not layout.visible(archive / layout.RAW / layout.folder_of(hour)):
                _remove_hour(folder, at)
                count += 1
    finally:
        os.close(held)
    return count


def _remove_hour(folder: Path, at: Callable[[str], None]) -> None:
    """Delete the history of an hour, so that no reader sees a part of it."""
    history.announce(folder, layout.visible(folder))
    (folder / MANIFEST).unlink(missing_ok=True)
    at("manifest deleted")
    for path in folder.iterdir():
        if path.name != PENDING:
            path.unlink(missing_ok=True)
            at("history file deleted")
    (folder / PENDING).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()


def _remove_weeks(root: Path, now: float) -> None:
    """Remove the folders of weeks that are over, if all are empty."""
    weeks: dict[datetime, list[Path]] = {}
    for hour, folder in layout.hours(root):
        day = layout.start_of(hour - hour % 24)
        weeks.setdefault(day - timedelta(days=day.weekday()), []).append(folder)
    for monday, folders in weeks.items():
        days = sorted({folder.parent for folder in folders})
        with contextlib.suppress(OSError):  # an archiver wrote a late file just now: it stays
            is_over = (monday + _WEEK + _REST).timestamp() <= now
            if is_over and {path for day in [*days, *folders] for path in day.iterdir()} == set(folders):
                for folder in [*folders, *days]:
                    folder.rmdir()
