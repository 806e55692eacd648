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
and new durable messages are refused.  They are, too, when its disk has little room left; then all else is written, so
that consuming makes room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import NotAllowed
from ..model.changes import CHANGE, Batch, Container, Payload, Stored, StoredRow

if TYPE_CHECKING:
    from ..model.message import Message
    from .metadata import Metadata

# What may wait to be written before publishers are held back: a slow disk must not fill the memory.
MOST_WAITING = 32 * 1024 * 1024


Read = tuple[Sequence[int], Callable[[list[Stored]], None]]

# A reason, and what of it clients are told.
_NOTHING = ("", "")


class Storage:
    """What the broker has to write, and what waits for it.

    Attributes:
        changes: how many there were; whoever caused one must wait before he says that it is done.
        number: of the batch that gathers now.
        committed: of the last batch that is written.
        failure: why durable messages are refused: the last attempt to write failed, or room is short; empty: they are
            not.
        is_failing: the last attempt to write failed.
        nbytes: what waits to be written costs, nearly.
        entered: messages that got a row since the start; it only grows.
        in_backlog: messages that wait in the store alone, of all queues.

    Args:
        facts: turns what is known of a message into text and back.
        busy: asks for a call of `take`; called when there is something to write, or to read.
        on_relief: called when `is_behind` ends, or `is_short`.
        on_state: called when `failure` is another.
    """

    def __init__(
        self,
        facts: Metadata,
        *,
        busy: Callable[[], None] = lambda: None,
        on_relief: Callable[[], None] = lambda: None,
        on_state: Callable[[], None] = lambda: None,
    ) -> None:
        self.changes = 0
        self.committed = 0
        self.failure = ""
        self.is_failing = False
        self.nbytes = 0
        self.in_backlog = 0
        self.entered = 0
        self.facts = facts
        self._failed = self._short = _NOTHING
        self._next_place = 1
        self._busy = busy
        self._on_relief = on_relief
        self._on_state = on_state
        self._batch = Batch(1)
        self._under_way: Batch | None = None
        self._new: dict[int, tuple[int, Message, bool, Mapping[str, object] | None]] = {}
        self._pools: dict[str, int] = {}
        self._fresh: set[int] = set()  # places of which nothing is written so far
        self._noted: dict[int, Message] = {}
        self._asked = False
        self._parked: dict[int, list[Callable[[], None]]] = {}
        self._careful: dict[int, list[Callable[[], None]]] = {}
        self._reads: list[tuple[int, Read]] = []

    @property
    def number(self) -> int:
        """Of the batch that gathers now."""
        return self._batch.number

    @property
    def is_behind(self) -> bool:
        """More waits to be written than should: who publishes is held back."""
        return self.nbytes > MOST_WAITING

    @property
    def unwritten(self) -> bool:
        """Something is still to be written."""
        return self._has_changed()

    def check(self) -> None:
        """Refuse a durable message while the store cannot take it.

        Raises:
            NotAllowed: the store has failed, or room is short.
        """
        if self.failure:
            _, told = self._failed if self.is_failing else self._short
            raise NotAllowed("the store cannot be written", f"durable messages are refused for now: {told}")

    # places

    def places_from(self, number: int) -> None:
        """New places are numbered from there on."""
        self._next_place = number

    def place(self, kind: str, name: str, facts: str = "{}") -> int:
        """The number of a new place."""
        number = self._next_place
        self._next_place += 1
        self._fresh.add(number)
        self.describe(Container(number, kind, name, facts))
        return number

    def describe(self, place: Container) -> None:
        """The facts of a place are new.  Nobody waits for that alone."""
        self._batch.places[place.number] = place
        self._count(0)

    def await_place(self) -> None:
        """What was said of a place is what somebody asked for: it counts as a change."""
        self._change(0)

    def drop(self, place: int) -> None:
        """A place is no more, nor what the store holds of it; nothing of it is new."""
        self._batch.places.pop(place, None)
        if place in self._fresh:
            self._fresh.discard(place)
        else:
            self._batch.dropped.append(place)
        self._change(0)

    # messages

    def pool(self, kind: str) -> int:
        """The one place of a kind that is no destination's."""
        if kind not in self._pools:
            self._pools[kind] = self.place(kind, kind)
        return self._pools[kind]

    def restore_pool(self, place: Container) -> None:
        """The store holds such a place from the last process."""
        self._pools[place.kind] = place.number

    def enter(
        self,
        place: int,
        message: Message,
        *,
        row: int,
        transient: bool = False,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """A message stands in a place; from now on it has a row.

        Args:
            transient: it is gone with the process.
            extra: what is to be kept of it beside what `Metadata` tells.
        """
        message.row = -row if transient else row
        self.entered += 1
        self._new[row] = (place, message, transient, extra)
        if transient:
            self._count(message.size)
        else:
            self._change(message.size)

    def leave(self, message: Message) -> None:
        """A message with a row is settled for good, whatever became of it."""
        row, message.row = message.row, 0
        if abs(row) in self._new:
            del self._new[abs(row)]
            self._count(-message.size - CHANGE)
            self.changes += row > 0
        else:
            self.leave_row(row)

    def leave_row(self, row: int) -> None:
        """The same of a message that is not in memory; one that is transient has a negative row."""
        self._noted.pop(abs(row), None)
        new = self._new.pop(abs(row), None)
        if new is None:
            self._batch.gone.append(abs(row))
            self._count(0)
        else:
            self._count(-new[1].size - 2 * CHANGE)
        self.changes += row > 0

    def note(self, message: Message) -> None:
        """What is known of a message with a row has changed: attempts, failures, its place among the others."""
        if abs(message.row) not in self._new and message.row > 0:
            self._noted[message.row] = message
            self._change(0)

    def is_new(self, message: Message) -> bool:
        """Its row is written together with whatever happens to it now."""
        return abs(message.row) in self._new

    def saw(self, digest: bytes, until: float) -> None:
        """A de-duplication id counts until then, seconds since the epoch."""
        self._batch.seen[digest] = until
        self._change(0)

    def _change(self, nbytes: int) -> None:
        self.changes += 1
        self._count(nbytes)

    def _count(self, nbytes: int) -> None:
        self.nbytes += nbytes + CHANGE
        self._batch.nbytes += nbytes + CHANGE
        self._ask()

    # the committer

    def take(self) -> Batch | None:
        """What is to be written now; None: nothing.  The last batch must have been `written`."""
        if self._under_way is not None:
            return self._under_way  # once more, for it failed
        self._asked = False
        batch = self._batch
        for row, (place, message, transient, extra) in self._new.items():
            content, facts = message.number, self.facts.of(message, row, extra)
            batch.rows[row] = StoredRow(row, place, content, message.rank, message.size, transient, facts)
            if content not in batch.contents:
                batch.contents[content] = Payload(message.head.headers, message.body)
        for row, message in self._noted.items():
            batch.facts[row] = self.facts.of(message, row) or "{}"
        self._new, self._noted, self._fresh = {}, {}, set()
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

    def works(self) -> None:
        """The store does what it should."""
        if self.is_failing:
            self.is_failing, self._failed = False, _NOTHING
            self._refuse()

    def _settle(self, batch: Batch) -> None:
        """Nothing of a batch is left to be written."""
        self.committed = batch.number
        behind = self.is_behind
        self.nbytes -= batch.nbytes
        for action in self._parked.pop(batch.number, ()):
            action()
        for action in self._careful.pop(batch.number, ()):
            action()
        if behind and not self.is_behind:
            self._on_relief()

    def failed(self, reason: str, told: str | None = None) -> None:
        """The batch that was taken could not be written; it is to be taken again.

        Args:
            told: what clients read of it; None: the reason names nothing of the server's inside.
        """
        self.is_failing, self._failed = True, (reason, reason if told is None else told)
        self._refuse()
        for number in list(self._careful):
            for action in self._careful.pop(number):
                action()

    @property
    def is_short(self) -> bool:
        """There is little room for messages."""
        return self._short is not _NOTHING

    def run_short(self, reason: str, told: str) -> None:
        """There is little room for messages; what clients read of that is `told`."""
        self._short = reason, told
        self._refuse()

    def has_room(self) -> None:
        """There is room for messages."""
        if self.is_short:
            self._short = _NOTHING
            self._refuse()
            self._on_relief()

    def _refuse(self) -> None:
        """Refuse durable messages, or take them again."""
        self.failure = self._failed[0] or self._short[0]
        self._on_state()

    # what waits for it

    def when_written(self, number: int, action: Callable[[], None]) -> None:
        """Do something once that batch, which is not yet, is in the store."""
        self._parked.setdefault(number, []).append(action)

    @property
    def last_changed(self) -> int:
        """The batch with which all that was changed so far is in the store; not above `committed` if it is there."""
        if self._batch or self._new or self._noted:
            return self.number
        return self.committed if self._under_way is None else self._under_way.number

    def when_all_written(self, action: Callable[[], None]) -> None:
        """Do something once all that was changed so far is in the store; at once, if it is."""
        batch = self.last_changed
        if batch > self.committed:
            self.when_written(batch, action)
        else:
            action()

    def when_settled(self, action: Callable[[], None], batch: int | None = None) -> None:
        """Do something once a batch, the one that is gathered now, is in the store, or cannot be written for now."""
        self._careful.setdefault(self.number if batch is None else batch, []).append(action)

    # reading

    def read(self, rows: Sequence[int], action: Callable[[list[Stored]], None]) -> None:
        """Read rows back, once they are in the store; `action` gets them in that order, soon."""
        self._reads.append((self._needed(rows), (rows, action)))
        self._ask()

    def _needed(self, rows: Sequence[int]) -> int:
        """The batch that must be written before rows can be read."""
        if any(row in self._new for row in rows):
            return self.number
        batch = self._under_way
        if batch is not None and any(row in batch.rows for row in rows):
            return batch.number
        return self.committed

    def take_reads(self) -> list[Read]:
        """What is to be read now: all that was asked for before the last batch that is written."""
        ready = [read for number, read in self._reads if number <= self.committed]
        self._reads = [each for each in self._reads if each[0] > self.committed]
        return ready

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._busy()

    def _has_changed(self) -> bool:
        return bool(self._batch or self._new or self._noted or self._under_way)
