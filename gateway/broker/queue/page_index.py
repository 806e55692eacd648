"""Page index: the rows of paged messages that have one priority, 24 bytes each, for there may be millions.

They come at the end and are taken at the front, where the arrays are cut in large pieces; one that goes from the middle
leaves its place behind.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from itertools import compress

# Rows at the front that are looked at for such as have expired; one time to live for all of a queue needs no more.
_LOOKS = 1_000
_GONE = -1  # in place of the size of a row that has gone, from the middle


class PageIndex:
    """Rows of one priority, in the order of their numbers without signs; with costs, and expiry (0: never).

    `slack`: entries that were read, or have gone, before the arrays are cut.
    """

    __slots__ = ("_expires", "_first", "_gone", "_rows", "_sizes", "_slack")

    def __init__(self, slack: int) -> None:
        self._slack = slack
        self._rows = array("q")
        self._sizes = array("q")
        self._expires = array("d")
        self._first = 0
        self._gone = 0

    def __len__(self) -> int:
        return len(self._rows) - self._first - self._gone

    def add(self, row: int, size: int, expires: float) -> None:
        """Add a row behind the others."""
        self._rows.append(row)
        self._sizes.append(size)
        self._expires.append(expires)

    def take(self, count: int, nbytes: float = math.inf) -> list[tuple[int, int]]:
        """Remove the first: so many at most, one at least, and no more once they cost so many bytes."""
        taken = []
        while count > 0 and nbytes > 0 and len(self):
            row, size = self._rows[self._first], self._sizes[self._first]
            self._first += 1
            if size == _GONE:
                self._gone -= 1
                continue
            taken.append((row, size))
            count -= 1
            nbytes -= size
        if self._first > self._slack and self._first > len(self):
            del self._rows[: self._first], self._sizes[: self._first], self._expires[: self._first]
            self._first = 0
        return taken

    def first(self) -> int | None:
        """The number of the first; None: there is none."""
        while self._first < len(self._rows) and self._sizes[self._first] == _GONE:
            self._first += 1
            self._gone -= 1
        return self._rows[self._first] if self._first < len(self._rows) else None

    def all(self) -> tuple[array[int], array[int]]:
        """The numbers of all, and what each costs: copied at once, for there may be millions, and it is one turn."""
        rows, sizes = self._rows[self._first :], self._sizes[self._first :]
        if self._gone:
            is_here = list(map(_GONE.__ne__, sizes))
            rows, sizes = array("q", compress(rows, is_here)), array("q", compress(sizes, is_here))
        return rows, sizes

    def size_of(self, row: int) -> int | None:
        """The bytes that a row costs; None: it is not here."""
        place = self._place(row)
        return None if place is None else self._sizes[place]

    def remove(self, row: int) -> int | None:
        """Remove a row from any place; returns the bytes that it cost.  None: it is not here."""
        place = self._place(row)
        if place is None:
            return None
        size = self._sizes[place]
        self._sizes[place] = _GONE
        self._gone += 1
        if self._gone > self._slack and self._gone > len(self):
            self._compact()
        return size

    def _place(self, row: int) -> int | None:
        place = bisect_left(self._rows, abs(row), self._first, key=abs)
        is_here = place < len(self._rows) and self._rows[place] == row and self._sizes[place] != _GONE
        return place if is_here else None

    def _compact(self) -> None:
        """Forget those that have gone."""
        left = [place for place in range(self._first, len(self._rows)) if self._sizes[place] != _GONE]
        self._rows = array("q", [self._rows[place] for place in left])
        self._sizes = array("q", [self._sizes[place] for place in left])
        self._expires = array("d", [self._expires[place] for place in left])
        self._first = self._gone = 0

    def take_expired(self, now: float) -> tuple[list[tuple[int, int]], float]:
        """Remove what has expired near the front, and tell when the next one there will."""
        taken, soonest = [], math.inf
        for place in range(self._first, min(self._first + _LOOKS, len(self._rows))):
            expires = self._expires[place]
            if not expires or self._sizes[place] == _GONE:
                continue
            if expires <= now:
                taken.append((self._rows[place], self._sizes[place]))
                self._sizes[place] = _GONE
                self._gone += 1
            else:
                soonest = min(soonest, expires)
        return taken, soonest
