"""How far a queue's messages may have been delivered, as the store knows it: what a crash leaves in doubt is marked.

A message that was delivered, and not settled when the process was killed, must come back marked as redelivered.  Most
are delivered in the batch that brings their row into the store, and the row says so.  For those that waited, the queue
writes ahead: up to that row, messages may have been delivered.  So a delivery costs the store nothing, and the price is
that after a crash those are marked, too, which were next.

What is next, the lane tells where messages go out in the order of their rows.  Where they do not, because of groups,
selectors or priorities, the queue writes ahead up to the last row it has: then all that waited is marked after a crash.

What waited longer goes to nobody before that is written; as it is written well ahead, only the first consumer that
comes where messages wait notices, or one that is faster than the disk.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from ..core.storage import Storage
from ..model.message import Message

if TYPE_CHECKING:
    from .queue import Queue

# Messages that are next, where consumers may have any number.
_MANY = 5_000


class DeliveryMark:
    """What one queue has written of it.

    Attributes:
        row: up to there, once all that is gathered is in the store.
        written: up to there, as the store knows it.
        suspect: up to there, messages may have been delivered before the last process was killed.
    """

    __slots__ = ("_highest", "_near", "_queue", "_ranks", "_storage", "row", "suspect", "written")

    def __init__(self, queue: Queue, storage: Storage) -> None:
        self.row = 0
        self.written = 0
        self.suspect = 0
        self._near = 0
        self._highest = 0
        self._ranks = 0  # a bit for each that the queue ever had
        self._queue = queue
        self._storage = storage

    def recover(self, facts: dict[str, int], *, clean: bool) -> bool:
        """What the store knows from the last process; True: that is to be written again.

        Args:
            clean: that one has told all it knew.
        """
        self.row = self.written = max(self.row, facts.get("reach", 0))
        suspect = max(self.suspect, facts.get("suspect", 0), 0 if clean else self.row)
        changed, self.suspect = suspect > facts.get("suspect", 0), suspect
        return changed

    @property
    def facts(self) -> dict[str, int]:
        """What the store is to know."""
        return {name: row for name, row in (("reach", self.row), ("suspect", self.suspect)) if row}

    def note(self, row: int, rank: int) -> None:
        """The queue has a row more."""
        self._highest = max(self._highest, row)
        self._ranks |= 1 << rank

    def holds(self, message: Message) -> bool:
        """Whether a message must not be delivered yet; of one that was delivered once the store knows already."""
        if message.attempts or message.row <= self.written:
            return False
        return not (self._storage.is_new(message) or self._storage.is_failing)

    def is_near(self, message: Message) -> bool:
        """Whether a message that is delivered is so far behind that it is time to move on."""
        return message.row > self._near and not (message.attempts or self._storage.is_new(message))

    def move_on(self, beyond: int) -> bool:
        """Move on to what is next; False: it is as it was.

        Args:
            beyond: a row that is, or is to be, delivered now.
        """
        if self._is_in_order():
            count = self._count()
            rows = [each.place for each in islice(self._queue.ready_lists[0], count)]
            rows += self._rows_of_backlog(count - len(rows))
            near, reach = max([beyond, *rows[: count // 2]]), max([beyond, *rows])
        else:
            near, reach = (beyond + self._highest) // 2, self._highest
        self._near = max(self._near, near)
        if reach <= self.row:
            return False
        self.row = reach
        return True

    def _is_in_order(self) -> bool:
        """Whether messages are delivered in the order of their rows, nearly."""
        queue = self._queue
        is_one_rank = not self._ranks & (self._ranks - 1)
        return is_one_rank and len(queue.ready_lists) == 1 and queue.consumers.groups is None

    def _count(self) -> int:
        counts = [each.prefetch if each.ledger is not None else _MANY for each in self._queue.subscriptions]
        return min(2 * sum(counts), _MANY)

    def _rows_of_backlog(self, count: int) -> list[int]:
        storage = self._queue.storage
        if count <= 0 or storage is None or storage.paged is None:
            return []
        return list(islice(chain.from_iterable(storage.paged.next_rows(count)), count))
