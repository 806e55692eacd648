"""The loop of an archiver: it archives the due segments, deletes old files, and sleeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from . import retention
from .archiver import Archiver
from .errors import ArchiveError

RAW_RETENTION = 48 * 3600.0
"""Seconds that a raw file stays after it is in the history, by default."""

_EXPIRE_EVERY = 60.0
"""Seconds between two looks for old files."""


class Expiry:
    """Deletes old files, now and then.  A call returns True if nothing failed.

    Args:
        raw, history: seconds after which files are deleted; None: never.
        warn: called with a sentence on an error, once as long as it lasts.
    """

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
            retention.expire_raw(self._archive, self._raw, now)
            if self._history is not None:
                retention.expire_history(self._archive, self._history, now)
        except (OSError, ArchiveError) as error:
            sentence = f"old files cannot be deleted: {error}"
            if sentence != self._said:
                self._warn(sentence)
        self._said = sentence
        return not sentence


def work(
    archiver: Archiver, expire: Callable[[bool], bool], stop: threading.Event, *, once: bool, interval: float
) -> bool:
    """Pass after pass; True if nothing failed in the last one."""
    while True:
        good = archiver.step(everything=once)
        if not stop.is_set():
            good = expire(once) and good
        if once or stop.wait(interval):
            return good
