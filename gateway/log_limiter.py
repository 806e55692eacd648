"""Log limiter: a line that clients or a broken disk can cause again and again is written a bounded number of times."""

import math
from collections.abc import Hashable

import trio

_MINUTE = 60.0


class LogLimiter:
    """Decides which lines of one kind are written.

    Args:
        quiet: seconds in which there is one line for each key; infinity: a key has one line for ever.
        lines: of all keys together, at most, in a minute.
        keys: that are remembered; behind them the oldest is forgotten, and may have a line again.
    """

    def __init__(self, quiet: float = math.inf, lines: float = math.inf, keys: int = 1_000) -> None:
        self._quiet = quiet
        self._most_lines, self._most_keys = lines, keys
        self._known: dict[Hashable, tuple[float, int]] = {}  # the end of its quiet time, and lines left out in it
        self._minute = -math.inf
        self._lines = 0
        self._beyond = 0  # lines left out because there were too many in a minute

    def admit(self, key: Hashable = None) -> int | None:
        """Ask for a line; returns how many were left out before it, or None: this one is left out, too."""
        now = trio.current_time()
        until, left_out = self._known.get(key, (-math.inf, 0))
        if now < until:
            self._known[key] = until, left_out + 1
            return None
        if now - self._minute >= _MINUTE:
            self._minute, self._lines = now, 0
        if self._lines >= self._most_lines:
            self._beyond += 1
            return None
        self._lines += 1
        self._known.pop(key, None)
        if len(self._known) >= self._most_keys:
            del self._known[next(iter(self._known))]
        self._known[key] = now + self._quiet, 0
        left_out, self._beyond = left_out + self._beyond, 0
        return left_out
