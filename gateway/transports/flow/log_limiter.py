"""Log limiter: lines that clients cause are written once for a key, and a bounded number of times in a minute."""

from __future__ import annotations

import math
from collections.abc import Hashable

import trio

_MINUTE = 60.0


class LogLimiter:
    """Decides which lines of one kind are written.

    Args:
        lines: at most, in a minute.
        keys: that are remembered; then all of them may be written once more.
    """

    def __init__(self, lines: int = 20, keys: int = 1_000) -> None:
        self._most_lines = lines
        self._most_keys = keys
        self._known: set[Hashable] = set()
        self._minute = -math.inf
        self._lines = 0
        self._untold = 0

    def admit(self, key: Hashable) -> int | None:
        """How many lines were left out since the last one that was written; None: this one is left out, too."""
        if key in self._known:
            return None
        now = trio.current_time()
        if now - self._minute >= _MINUTE:
            self._minute, self._lines = now, 0
        if self._lines >= self._most_lines:
            self._untold += 1
            return None
        if len(self._known) >= self._most_keys:
            self._known.clear()
        self._known.add(key)
        self._lines += 1
        untold, self._untold = self._untold, 0
        return untold
