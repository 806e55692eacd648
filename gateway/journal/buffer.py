"""Buffer of rows between the event loop and the thread that writes.

There is one list.  The loop appends to it; the thread copies its start and then deletes that.  Each of these is one
operation of the interpreter, so no row needs a lock.  The loop counts bytes that `entered`, the thread bytes that are
`settled`; the difference waits.

Beyond the limit rows are dropped and counted, until a quarter of the limit is free; then a row tells their number.
With `holds` publishers are held back instead (`is_behind`), from three quarters of the limit down to a half, but not
for a disk that takes nothing.  Sizes are bytes of the records; in memory each row costs about 40 more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from .record import LAYOUTS, string

# Bytes that are written before the usual time.
_STEP = 1024 * 1024

Piece = bytes | tuple[bytes, ...]  # a row; a large body is a piece of its own, and is not copied

_DROPPED = LAYOUTS["journal_dropped"]


class RowBuffer:
    """The rows that wait.

    `clock`: nanoseconds, monotonic.  `limit`: most bytes that wait.  `holds`: hold publishers back before the limit is
    reached.
    """

    def __init__(self, clock: Callable[[], int], limit: int, *, holds: bool) -> None:
        self.clock = clock
        self.rows_dropped = 0  # number of dropped rows
        self.is_behind = False  # publishers must be held back
        self.failure = ""  # reason why rows cannot be written now; empty: none
        self.wake = threading.Event()  # wakes the thread
        self._limit = limit
        self._holds = holds
        self.step = min(_STEP, limit // 8)  # bytes that are written before the usual time
        self._rows: list[Piece] = []
        self._append: Callable[[Piece], None] = self._rows.append
        self._entered = 0
        self._settled = 0
        self._alarm = 0
        self._missing = 0  # dropped rows that no row has told yet
        self._why = ""

    @property
    def queued(self) -> int:
        """Bytes that wait."""
        return self._entered - self._settled

    @property
    def waiting(self) -> int:
        """Rows that wait, without those that the thread is writing."""
        return len(self._rows)

    # the loop

    def _enter(self, row: Piece) -> None:
        self._append(row)
        self._entered += bytes_of(row)
        if self._entered > self._alarm:
            self._ring()

    def _ring(self) -> None:
        """Wake the thread: it sleeps, or a step is full; otherwise a row costs one comparison."""
        # The loop appends, then looks at the alarm; the thread sets the alarm, then looks at the rows (`is_empty`).  So
        # the thread never sleeps while there are rows.
        queued = self._entered - self._settled
        if queued > self._limit:
            self._append = self._refuse
        if self._holds and queued > self._limit * 3 // 4 and not self.failure:
            self.is_behind = True
        self._alarm = self._entered + self.step
        self.wake.set()

    def _refuse(self, row: Piece) -> None:
        """In place of append: drop the row, unless there is room again."""
        if self._entered - self._settled <= self._limit * 3 // 4:
            self._append = self._rows.append
            self.tell_missing()
            self._append(row)
            return
        self._entered -= bytes_of(row)  # the caller counts it
        self._drop("the queue is full")

    def _drop(self, reason: str) -> None:
        self._append = self._refuse  # the next row that finds room tells the number
        self._why = self.failure or reason
        self._missing += 1
        self.rows_dropped += 1

    def _give_up(self, row: Piece) -> None:
        """In place of append, after `end`."""
        self._entered -= bytes_of(row)
        self.rows_dropped += 1

    def end(self) -> None:
        self.tell_missing()
        self._append = self._give_up

    def tell_missing(self) -> None:
        """Append a row with the number of dropped rows."""
        if self._missing:
            payload = string(self._why)
            row = _DROPPED.pack(_DROPPED.rest + len(payload), _DROPPED.code, 0, self.clock(), self._missing) + payload
            self._missing = 0
            self._rows.append(row)
            self._entered += len(row)

    # the thread

    def is_empty(self) -> bool:
        """Whether no row waits; then the next one wakes the thread."""
        if self._rows:
            return False
        self._alarm = 0
        return not self._rows

    def take(self) -> list[Piece]:
        """The oldest rows, of about `step` bytes."""
        rows = self._rows
        count, queued = len(rows), self.queued
        if queued > 2 * self.step:
            count = max(1, count * self.step // queued)
        taken = rows[:count]
        del rows[:count]
        return taken

    def settle(self, nbytes: int) -> None:
        """Rows of so many bytes are written, or dropped."""
        self._settled += nbytes

    def is_relieved(self) -> bool:
        """End `is_behind` if publishers may go on; returns whether it ended now."""
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
        return [b"".join(rows)]  # type: ignore[arg-type]  # mostly they are all bytes
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
