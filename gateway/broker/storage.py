"""The broker's side of the store: what changes for good is gathered here, and receipts wait here until it is written.

    a message comes to a durable place   ->  batch 8      the committer takes batch 8 and writes it, in its own thread,
    it is settled                        ->  batch 8      while batch 9 gathers; when it is done, `written(8)` lets the
    its RECEIPT                          ->  parked: 8    receipts go that were parked for it

Nothing here waits for the disk, and routing does not either.  What came and went within one batch is never written.
Because all that one frame changes is in one batch, and a batch is one transaction of the store, a COMMIT is whole or
has not happened.

A message is durable if its sender says so (`persistent:true`) or the policy of its destination does.  A message that is
not may still have a row, for a while, when memory is short: it is transient, and gone with the process.

When the store fails, nothing is lost here: the batch is written again until it succeeds.  Meanwhile `failure` says why,
and new durable messages are refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .batch import CHANGE, Batch, Content, Place, Row, Stored
from .errors import NotAllowed

if TYPE_CHECKING:
    from .facts import Facts
    from .message import Message

# What may wait to be written before publishers are held back: a slow disk must not fill the memory.
MOST_WAITING = 32 * 1024 * 1024


class Storage:
    """What the broker has to write, and what waits for it.

    Attributes:
        changes: how many there were; whoever caused one must wait before he says that it is done.
        number: of the batch that gathers now.
        committed: of the last batch that is written.
        failure: why the last attempt to write failed; empty: it did not.
        octets: what waits to be written costs, nearly.

    Args:
        facts: turns what is known of a message into text and back.
        busy: asks for a call of `take`; called when there is something to write, or to read.
        on_relief: called when `is_behind` ends.
        on_state: called when `failure` is another.
    """

    def __init__(
        self,
        facts: Facts,
        *,
        busy: Callable[[], None] = lambda: None,
        on_relief: Callable[[], None] = lambda: None,
        on_state: Callable[[], None] = lambda: None,
    ) -> None:
        self.changes = 0
        self.committed = 0
        self.failure = ""
        self.octets = 0
        self.facts = facts
        self._next_place = 1
        self._busy = busy
        self._on_relief = on_relief
        self._on_state = on_state
        self._batch = Batch(1)
        self._under_way: Batch | None = None
        self._new: dict[int, tuple[int, Message, bool]] = {}
        self._noted: dict[int, Message] = {}
        self._asked = False
        self._waiting: list[Callable[[], None]] = []
        self._parked: deque[tuple[int, Callable[[], None]]] = deque()
        self._reads: deque[tuple[Sequence[int], Callable[[list[Stored]], None]]] = deque()

    @property
    def number(self) -> int:
        """Of the batch that gathers now."""
        return self._batch.number

    @property
    def is_behind(self) -> bool:
        """More waits to be written than should: who publishes is held back."""
        return self.octets > MOST_WAITING

    @property
    def unwritten(self) -> bool:
        """Something is still to be written."""
        return self._under_way is not None or bool(self._batch or self._new or self._noted)

    def check(self) -> None:
        """Refuse a durable message while the store cannot take it.

        Raises:
            NotAllowed: the store has failed.
        """
        if self.failure:
            raise NotAllowed("the store cannot be written", f"durable messages are refused for now: {self.failure}")

    # places

    def places_from(self, number: int) -> None:
        """New places are numbered from there on."""
        self._next_place = number

    def place(self, kind: str, name: str, facts: str = "{}") -> int:
        """The number of a new place."""
        number = self._next_place
        self._next_place += 1
        self.describe(Place(number, kind, name, facts))
        return number

    def describe(self, place: Place) -> None:
        """The facts of a place are new."""
        self._batch.places[place.number] = place
        self._change(0)

    def drop(self, place: int) -> None:
        """A place is no more, and all its rows."""
        self._new = {row: entry for row, entry in self._new.items() if entry[0] != place}
        if self._batch.places.pop(place, None) is None or place < self._next_place:
            self._batch.dropped.append(place)
        self._change(0)

    # messages

    def enter(self, place: int, message: Message, *, row: int, transient: bool = False) -> None:
        """A message stands in a place; from now on it has a row."""
        message.row = row
        self._new[row] = (place, message, transient)
        if transient:
            self._count(message.size)
        else:
            self._change(message.size)

    def leave(self, message: Message) -> None:
        """A message with a row is settled for good, whatever became of it."""
        row, message.row = message.row, 0
        if row in self._new:
            del self._new[row]
            self._change(-message.size - CHANGE)
        else:
            self.leave_row(row)

    def leave_row(self, row: int) -> None:
        """The same of a message that is not in memory."""
        self._noted.pop(row, None)
        if self._new.pop(row, None) is None:
            self._batch.gone.append(row)
        self._change(0)

    def note(self, message: Message) -> None:
        """What is known of a message with a row has changed: attempts, failures, its place among the others."""
        if message.row not in self._new:
            self._noted[message.row] = message
            self._change(0)

    def is_new(self, message: Message) -> bool:
        """Its row is written together with whatever happens to it now."""
        return message.row in self._new

    def saw(self, digest: bytes, until: float) -> None:
        """A de-duplication id counts until then, seconds since the epoch."""
        self._batch.seen[digest] = until
        self._change(0)

    def _change(self, octets: int) -> None:
        self.changes += 1
        self._count(octets)

    def _count(self, octets: int) -> None:
        self.octets += octets + CHANGE
        self._batch.octets += octets + CHANGE
        if not self._asked:
            self._asked = True
            self._busy()

    # the committer

    def take(self) -> Batch | None:
        """What is to be written now; None: nothing.  The last batch must have been `written`."""
        if self._under_way is not None:
            return self._under_way  # once more, for it failed
        self._asked = False
        batch = self._batch
        for row, (place, message, transient) in self._new.items():
            content = message.number
            batch.rows[row] = Row(
                row, place, content, message.rank, message.size, transient, self.facts.of(message, row)
            )
            if content not in batch.contents:
                batch.contents[content] = Content(message.head.headers, message.body)
        for row, message in self._noted.items():
            batch.facts[row] = self.facts.of(message, row) or "{}"
        self._new, self._noted = {}, {}
        self._batch = Batch(batch.number + 1)
        if not batch:
            self._settle(batch)
            return None
        self._under_way = batch
        return batch

    def written(self) -> None:
        """The batch that was taken is in the store."""
        batch, self._under_way = self._under_way, None
        assert batch is not None  # it was taken
        self.works()
        self._settle(batch)
        self._go_on()

    def works(self) -> None:
        """The store does what it should."""
        if self.failure:
            self.failure = ""
            self._on_state()

    def _settle(self, batch: Batch) -> None:
        """Nothing of a batch is left to be written."""
        self.committed = batch.number
        behind = self.is_behind
        self.octets -= batch.octets
        while self._parked and self._parked[0][0] <= batch.number:
            self._parked.popleft()[1]()
        if behind and not self.is_behind:
            self._on_relief()

    def failed(self, reason: str) -> None:
        """The batch that was taken could not be written; it is to be taken again."""
        self.failure = reason
        self._on_state()
        self._go_on()

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()

    # what waits for it

    def when_written(self, number: int, action: Callable[[], None]) -> None:
        """Do something once that batch is in the store; in order."""
        self._parked.append((number, action))

    def soon(self, action: Callable[[], None]) -> None:
        """Do something once all that is gathered now is in the store, or cannot be written."""
        self._waiting.append(action)

    # reading

    def read(self, rows: Sequence[int], action: Callable[[list[Stored]], None]) -> None:
        """Read rows back, behind all that is gathered now; `action` gets them in that order, soon."""
        self._reads.append((rows, action))
        if not self._asked:
            self._asked = True
            self._busy()

    def take_reads(self) -> list[tuple[Sequence[int], Callable[[list[Stored]], None]]]:
        """What is to be read now, behind the batch that was taken last."""
        reads, self._reads = list(self._reads), deque()
        return reads
