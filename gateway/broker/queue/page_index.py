"""Page index: the rows of paged messages that have one priority.  They come at the end and are taken at the front."""

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
        # Arrays, with 24 bytes for each row and no objects: there may be millions.
        self._rows = array("q")
        self._sizes = array("q")
        self._expires = array("d")
        self._first = 0  # the entries before it were taken
        self._gone = 0  # entries behind it that are marked

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
        # The last may cost more than is left of `nbytes`: a message larger than that must be read as well.
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
        """The numbers of all, and what each costs."""
        # Slices, and below no loop of Python: it is one turn for millions.
        rows, sizes = self._rows[self._first :], self._sizes[self._first :]
        if self._gone:
            is_here = list(map(_GONE.__ne__, sizes))
            rows, sizes = array("q", compress(rows, is_here)), array("q", compress(sizes, is_here))
        return rows, sizes

    def size_of(self, row: int) -> int | None:
        """The bytes that a row costs; None: it is not here."""
        index = self._index_of(row)
        return None if index is None else self._sizes[index]

    def remove(self, row: int) -> int | None:
        """Remove a row from anywhere; returns the bytes that it cost.  None: it is not here."""
        index = self._index_of(row)
        if index is None:
            return None
        size = self._sizes[index]
        # The entry stays: to take it out would move all that are behind it.
        self._sizes[index] = _GONE
        self._gone += 1
        if self._gone > self._slack and self._gone > len(self):
            self._compact()
        return size

    def _index_of(self, row: int) -> int | None:
        # A sign only says that a row is transient, and has no part in the order.
        index = bisect_left(self._rows, abs(row), self._first, key=abs)
        is_here = index < len(self._rows) and self._rows[index] == row and self._sizes[index] != _GONE
        return index if is_here else None

    def _compact(self) -> None:
        """Forget those that have gone."""
        left = [index for index in range(self._first, len(self._rows)) if self._sizes[index] != _GONE]
        self._rows = array("q", [self._rows[index] for index in left])
        self._sizes = array("q", [self._sizes[index] for index in left])
        self._expires = array("d", [self._expires[index] for index in left])
        self._first = self._gone = 0

    def take_expired(self, now: float) -> tuple[list[tuple[int, int]], float]:
        """Remove what has expired near the front, and tell when the next one there will."""
        taken, soonest = [], math.inf
        for index in range(self._first, min(self._first + _LOOKS, len(self._rows))):
            expires = self._expires[index]
            if not expires or self._sizes[index] == _GONE:
                continue
            if expires <= now:
                taken.append((self._rows[index], self._sizes[index]))
                self._sizes[index] = _GONE
                self._gone += 1
            else:
                soonest = min(soonest, expires)
        return taken, soonest
