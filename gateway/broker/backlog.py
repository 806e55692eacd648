"""What waits in a queue beyond what fits into memory: rows of the store, of which the queue knows the numbers.

    too much waits     ->  new messages go to the end of the backlog
    a consumer has room, and memory holds little  ->  the first rows are read, ahead of dispatch, and take their places

So the memory holds the front of the queue, and a message of the backlog costs 16 octets.  What is more urgent than all
of the backlog stays in memory; everything else stands behind it, so that priorities and the order of arrival hold.

A queue whose oldest messages may have to go, or whose messages replace each other, has no backlog: its own limits bound
it.  Messages that are not durable have a row in the backlog, too, which is gone with the process.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .message import Message

if TYPE_CHECKING:
    from .batch import Stored
    from .queue import Queue
    from .storage import Storage

# Octets of messages that wait in memory before the backlog begins.
MOST_IN_MEMORY = 16 * 1024 * 1024
# Fewer messages than this wait in memory, and costing less than so many octets: read on.
_LOW, _LOW_OCTETS = 1_000, 1024 * 1024
# Rows of one read.
_PAGE, _PAGE_OCTETS = 1_000, 2 * 1024 * 1024
# Entries of an array that were read, before it is cut.
_SLACK = 65_536


class _Rows:
    """Rows of one priority, in order, with their sizes."""

    __slots__ = ("_first", "_rows", "_sizes")

    def __init__(self) -> None:
        self._rows = array("q")
        self._sizes = array("q")
        self._first = 0

    def __len__(self) -> int:
        return len(self._rows) - self._first

    def add(self, row: int, size: int) -> None:
        """One more, behind the others."""
        self._rows.append(row)
        self._sizes.append(size)

    def take(self, count: int, octets: int) -> list[tuple[int, int]]:
        """Remove the first: so many at most, one at least, and no more once they cost so many octets."""
        taken = []
        while count > 0 and octets > 0 and len(self):
            row, size = self._rows[self._first], self._sizes[self._first]
            self._first += 1
            taken.append((row, size))
            count -= 1
            octets -= size
        if self._first > _SLACK and self._first > len(self):
            del self._rows[: self._first], self._sizes[: self._first]
            self._first = 0
        return taken

    def first(self) -> int:
        """The number of the first."""
        return self._rows[self._first]

    def rows(self) -> list[int]:
        """The numbers of all."""
        return self._rows[self._first :].tolist()


class Backlog:
    """The backlog of one queue.

    Attributes:
        count: messages in it, also those that are being read.
        octets: what they would cost in memory.
        suspect: up to that row, messages may have been delivered before the last process was killed.
    """

    __slots__ = ("_queue", "_ranks", "_reading", "_reading_rank", "_storage", "count", "octets", "suspect")

    def __init__(self, queue: Queue, storage: Storage) -> None:
        self.count = 0
        self.octets = 0
        self.suspect = 0
        self._queue = queue
        self._storage = storage
        self._ranks: dict[int, _Rows] = {}
        self._reading: dict[int, int] = {}  # row -> size
        self._reading_rank = 0

    def first_row(self) -> int | None:
        """The row that is read next."""
        ranks = [rank for rank, rows in self._ranks.items() if len(rows)]
        return self._ranks[min(ranks)].first() if ranks else None

    def precedes(self, message: Message) -> bool:
        """Whether something in it is due before a new message."""
        if self._reading and self._reading_rank <= message.rank:
            return True
        return any(rank <= message.rank and len(rows) for rank, rows in self._ranks.items())

    def add(self, row: int, rank: int, size: int) -> None:
        """A row stands behind the others of its rank."""
        rows = self._ranks.get(rank)
        if rows is None:
            rows = self._ranks[rank] = _Rows()
        rows.add(row, size)
        self.count += 1
        self.octets += size
        queue = self._queue
        queue.octets += size
        queue.waiting += 1
        queue.broker.waiting += 1

    def _remove(self, size: int) -> None:
        self.count -= 1
        self.octets -= size
        queue = self._queue
        queue.octets -= size
        queue.waiting -= 1
        queue.broker.waiting -= 1

    def refill(self, *, stuck: bool = False) -> None:
        """Read on, if there is little in memory.

        Args:
            stuck: somebody has room, and wants nothing of what is in memory.
        """
        queue = self._queue
        little = queue.waiting - self.count < _LOW and queue.octets - self.octets < _LOW_OCTETS
        may = little or (stuck and not queue.broker.pressed)
        if self._reading or not may or not queue.subscriptions or not self.count:
            return
        rank = min(rank for rank, rows in self._ranks.items() if len(rows))
        self._reading_rank = rank
        self._reading = dict(self._ranks[rank].take(_PAGE, _PAGE_OCTETS))
        self._storage.read(list(self._reading), self._arrived)

    def _arrived(self, found: list[Stored]) -> None:
        """Rows were read: they take their places."""
        reading = self._reading
        if not reading:
            return  # it was purged meanwhile
        self._reading = {}
        for size in reading.values():
            self._remove(size)
        self.place(found)
        self.refill()

    def place(self, found: Iterable[Stored]) -> None:
        """Messages that were read take their places in memory."""
        queue = self._queue
        for stored in found:
            message = self._storage.facts.message(stored)
            if message.row <= self.suspect and not message.attempts:
                message.attempts = 1
            queue.broker.keep(message.size)
            queue.put(message)

    def purge(self) -> list[int]:
        """Forget all of it; the rows that are no more."""
        rows = [row for each in self._ranks.values() for row in each.rows()] + list(self._reading)
        sizes = self.octets
        queue = self._queue
        queue.waiting -= self.count
        queue.broker.waiting -= self.count
        queue.octets -= sizes
        self.count = self.octets = 0
        self._ranks, self._reading = {}, {}
        return rows
