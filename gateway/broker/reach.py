"""How far a queue's messages may have been delivered, as the store knows it: what a crash leaves in doubt is marked.

A message that was delivered, and not settled when the process was killed, must come back marked as redelivered.  Most
are delivered in the batch that brings their row into the store, and the row says so.  For those that waited, the queue
writes ahead: up to that row, messages may have been delivered.  So a delivery costs the store nothing, and the price is
that after a crash those are marked, too, which were next.

A consumer that comes where messages wait gets the first of them once that is written, and not a moment before.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from .message import Message
from .storage import Storage

if TYPE_CHECKING:
    from .queue import Queue

# Messages that are next, where consumers may have any number.
_MANY = 5_000


class Reach:
    """What one queue has written of it.

    Attributes:
        row: up to there.
        suspect: up to there, messages may have been delivered before the last process was killed.
    """

    __slots__ = ("_batch", "_near", "_queue", "_storage", "row", "suspect")

    def __init__(self, queue: Queue, storage: Storage) -> None:
        self.row = 0
        self.suspect = 0
        self._near = 0
        self._batch = 0
        self._queue = queue
        self._storage = storage

    def recover(self, facts: dict[str, int], *, clean: bool) -> bool:
        """What the store knows from the last process; True: that is to be written again.

        Args:
            clean: that one has told all it knew.
        """
        self.row = max(self.row, facts.get("reach", 0))
        suspect = max(self.suspect, facts.get("suspect", 0), 0 if clean else self.row)
        changed, self.suspect = suspect > facts.get("suspect", 0), suspect
        return changed

    @property
    def facts(self) -> dict[str, int]:
        """What the store is to know."""
        return {name: row for name, row in (("reach", self.row), ("suspect", self.suspect)) if row}

    @property
    def is_written(self) -> bool:
        """The store knows it."""
        return self._batch <= self._storage.committed

    @property
    def is_needed(self) -> bool:
        """Something waits whose row is in the store already: it does not say whether it was delivered."""
        if self._queue.has_backlog:
            return True
        return any(each.row > 0 and not self._storage.is_new(each) for each in self._next(self._count()))

    def is_near(self, message: Message) -> bool:
        """Whether a message that is delivered is so far behind that it is time to move on."""
        return message.row > self._near and not self._storage.is_new(message)

    def move_on(self, beyond: int = 0) -> bool:
        """Move on to what is next; False: it is as it was.

        Args:
            beyond: a row that is delivered now.
        """
        count = self._count()
        first = [each.place for each in self._next(count // 2)]
        rest = [each.place for each in self._next(count)]
        behind = [] if len(rest) >= count else self._queue_rows(count - len(rest))
        self._near = max([beyond, self._near, *first])
        reach = max([self._near, self.row, *rest, *behind])
        if reach == self.row:
            return False
        self.row = reach
        self._batch = self._storage.number
        return True

    def _count(self) -> int:
        counts = [each.prefetch if each.ledger is not None else _MANY for each in self._queue.subscriptions]
        return min(2 * sum(counts), _MANY)

    def _next(self, count: int) -> list[Message]:
        lane = self._queue.lanes[0]
        return list(islice(lane, count))

    def _queue_rows(self, count: int) -> list[int]:
        shelf = self._queue.shelf
        backlog = shelf.backlog if shelf is not None else None
        return [] if backlog is None else list(islice(chain.from_iterable(backlog.next_rows(count)), count))
