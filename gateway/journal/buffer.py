"""Rows on their way from the event loop to the thread that writes.

There is one list.  The loop appends to it; the thread copies its start and then deletes that: each of these is one
operation of the interpreter, so no row needs a lock.  What is counted is counted by one side alone: the loop knows what
`entered`, the thread what is `settled`, and the difference is what waits.

The loop rings (`wake`) when the thread sleeps without a date, and after each step of bytes; between, a row costs one
comparison.  The order of what happens in `_ring` and `is_empty` is what makes sure that nobody sleeps while there are
rows: the loop appends, then looks at the alarm; the thread sets the alarm, then looks at the rows.

When more waits than may, rows are dropped and counted, until a quarter of it has gone; then a row tells how many they
were.  Whoever would rather hold the publishers back looks at `is_behind`, which is true from three quarters on, down to
a half; what still comes beyond the limit is dropped then, too.  Nobody is held back for a disk that takes nothing.

What waits is counted in bytes of the records; in memory each row costs about 40 more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from .record import LAYOUTS, string

# Bytes that are written at once, and sooner than after the usual time.
_STEP = 1024 * 1024

Piece = bytes | tuple[bytes, ...]
"""A row; a large body in it is a piece of its own, and is not copied."""

_DROPPED = LAYOUTS["journal_dropped"]


class RowBuffer:
    """The rows that wait.

    Attributes:
        rows_dropped: those that were dropped so far.
        is_behind: publishers are to be held back.
        failure: why nothing can be written for now; empty: it can.
        wake: for the thread.
        step: bytes that are written at once, and sooner than after the usual time.

    Args:
        clock: nanoseconds, monotonic.
        limit: bytes that may wait.
        holds: publishers are held back before the limit is reached.
    """

    def __init__(self, clock: Callable[[], int], limit: int, *, holds: bool) -> None:
        self.clock = clock
        self.rows_dropped = 0
        self.is_behind = False
        self.failure = ""
        self.wake = threading.Event()
        self._limit = limit
        self._holds = holds
        self.step = min(_STEP, limit // 8)
        self._rows: list[Piece] = []
        self._append: Callable[[Piece], None] = self._rows.append
        self._entered = 0
        self._settled = 0
        self._alarm = 0
        self._missing = 0  # rows that were dropped, which no row tells so far
        self._why = ""

    @property
    def queued(self) -> int:
        """Bytes that wait."""
        return self._entered - self._settled

    @property
    def waiting(self) -> int:
        """Rows that wait, but for those that the thread has in hand."""
        return len(self._rows)

    # the loop

    def _enter(self, row: Piece) -> None:
        """A row."""
        self._append(row)
        self._entered += bytes_of(row)
        if self._entered > self._alarm:
            self._ring()

    def _ring(self) -> None:
        """The alarm: the thread sleeps, or a step is full."""
        queued = self._entered - self._settled
        if queued > self._limit:
            self._append = self._refuse
        if self._holds and queued > self._limit * 3 // 4 and not self.failure:
            self.is_behind = True
        self._alarm = self._entered + self.step
        self.wake.set()

    def _refuse(self, row: Piece) -> None:
        """Instead of appending: drop the row, or find that there is room again."""
        if self._entered - self._settled <= self._limit * 3 // 4:
            self._append = self._rows.append
            self.tell_missing()
            self._append(row)
            return
        self._entered -= bytes_of(row)  # the caller counts it
        self._drop("the queue is full")

    def _drop(self, reason: str) -> None:
        self._append = self._refuse  # so that the next row that finds room tells of it
        self._why = self.failure or reason
        self._missing += 1
        self.rows_dropped += 1

    def _give_up(self, row: Piece) -> None:
        """Instead of appending, behind the end."""
        self._entered -= bytes_of(row)
        self.rows_dropped += 1

    def end(self) -> None:
        """Nothing is taken any more."""
        self.tell_missing()
        self._append = self._give_up

    def tell_missing(self) -> None:
        """A row that tells how many were dropped."""
        if self._missing:
            payload = string(self._why)
            row = _DROPPED.pack(_DROPPED.rest + len(payload), _DROPPED.code, 0, self.clock(), self._missing) + payload
            self._missing = 0
            self._rows.append(row)
            self._entered += len(row)

    # the thread

    def is_empty(self) -> bool:
        """Whether nothing waits; then the next row rings."""
        if self._rows:
            return False
        self._alarm = 0
        return not self._rows

    def take(self) -> list[Piece]:
        """The oldest rows: of as many bytes as are written at once, nearly."""
        rows = self._rows
        count, queued = len(rows), self.queued
        if queued > 2 * self.step:
            count = max(1, count * self.step // queued)
        taken = rows[:count]
        del rows[:count]
        return taken

    def settle(self, nbytes: int) -> None:
        """Rows of so many bytes are written, or given up."""
        self._settled += nbytes

    def is_relieved(self) -> bool:
        """Whether publishers who were held back can go on from now."""
        if self.is_behind and (self.failure or self.queued <= self._limit // 2):
            self.is_behind = False
            return True
        return False


def bytes_of(row: Piece) -> int:
    """The bytes of a row."""
    return len(row) if isinstance(row, bytes) else sum([len(piece) for piece in row])


def joined(rows: list[Piece]) -> list[bytes]:
    """The bytes of rows, the small ones together."""
    try:
        return [b"".join(rows)]  # type: ignore[arg-type]  # mostly it is right
    except TypeError:
        pass  # there are large bodies
    pieces: list[bytes] = []
    small: list[bytes] = []
    for row in rows:
        if isinstance(row, bytes):
            small.append(row)
            continue
        pieces += [b"".join(small), *row]
        small.clear()
    return [*pieces, b"".join(small)]
