"""Storage: the broker's side of the store.  It gathers the changes to write, and parks receipts until they are written.

    a message comes to a container       ->  batch 8      the committer takes batch 8 and writes it, in its own thread,
    it is settled                        ->  batch 8      while batch 9 gathers; when it is done, `written(8)` lets the
    its RECEIPT                          ->  parked: 8    receipts go that were parked for it

Nothing here waits for the disk, and routing does not either; what a COMMIT sends is routed, and unseen until its batch
is written (`unseen`).  A message that came and went within one batch is never written.  All changes of one frame are in
one batch, and a batch is one transaction of the store: so a COMMIT is whole or has not happened.

A message is durable if its sender says so (`persistent:true`) or the policy of its destination does.  A message that is
not may still have a row, for a while, when memory is short: it is transient, and gone with the process.

When the store fails, nothing is lost here: the batch is written again until it succeeds.  Meanwhile `failure` says why,
and new durable messages are refused.  They are refused as well when the disk has little room left; all else is then
written, so that consuming makes room.  A failure that may pass by itself, as an election in a cluster does, is first
waited for: `holds_back` then, and receipts stay parked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import NotStored
from ..model.changes import CHANGE, Batch, Container, Payload, Stored, StoredRow
from .work_limits import WORK_LIMITS, WorkLimits

if TYPE_CHECKING:
    from ..model.message import Message
    from .metadata import Metadata

Read = tuple[Sequence[int], Callable[[list[Stored]], None]]

# A reason, and the part of it that clients are told.
_NOTHING = ("", "")


class Storage:
    """The changes that the broker has to write, and the actions that wait for them.

    Args:
        facts: turns the facts of a message into text and back.
        busy: asks for a call of `take`; called when there is something to write, or to read.
        on_relief: called when `holds_back` ends, or `is_short`.
        on_state: called when `failure` is another.
    """

    def __init__(
        self,
        facts: Metadata,
        *,
        busy: Callable[[], None] = lambda: None,
        on_relief: Callable[[], None] = lambda: None,
        on_state: Callable[[], None] = lambda: None,
        work_limits: WorkLimits = WORK_LIMITS,
    ) -> None:
        self.changes = 0  # how many there were; the session that caused one must wait before its RECEIPT goes out
        self.committed = 0  # of the last batch that is written
        # why durable messages are refused: the last attempt to write failed, or room is short; empty: they are not
        self.failure = ""
        self.is_failing = False  # the last attempt to write failed
        self.is_waiting = False  # the last attempt to write failed, and the next one may be better
        self.is_suspended = False  # consumers get no stored message: another node of the cluster may be primary
        self.nbytes = 0  # cost of all that waits to be written, nearly
        self.in_backlog = 0  # paged messages of all queues: they wait in the store alone
        self.entered = 0  # messages that got a row since the start; it only grows
        self.facts = facts
        self._failed = self._short = self._suspended = _NOTHING
        self._next_container = 1
        self._busy = busy
        self._on_relief = on_relief
        self._on_state = on_state
        self._most_waiting = work_limits.unwritten_bytes
        self._batch = Batch(1)
        self._under_way: Batch | None = None
        self._new: dict[int, tuple[int, Message, bool, Mapping[str, object] | None]] = {}
        self._pools: dict[str, int] = {}
        self._fresh: set[int] = set()  # containers of which nothing is written so far
        self._noted: dict[int, Message] = {}
        self._asked = False
        self._parked: dict[int, list[Callable[[], None]]] = {}
        self._careful: dict[int, list[Callable[[], None]]] = {}
        self._reads: list[tuple[int, Read]] = []

    @property
    def number(self) -> int:
        """Number of the batch that gathers now."""
        return self._batch.number

    @property
    def is_behind(self) -> bool:
        """True if more waits to be written than should."""
        return self.nbytes > self._most_waiting

    @property
    def holds_back(self) -> bool:
        """True if publishers of what is stored are held back."""
        return self.is_behind or self.is_waiting or (self.is_suspended and self._suspended is _NOTHING)

    @property
    def unwritten(self) -> bool:
        """True if anything is still to be written."""
        return bool(self._batch or self._new or self._noted or self._under_way)

    def check(self) -> None:
        """Refuse a durable message while the store cannot take it.

        Raises NotStored: the store has failed, or room is short.
        """
        if self.failure:
            # A failure goes before short room, as in `_refuse`.
            _, told = next(each for each in (self._failed, self._suspended, self._short) if each is not _NOTHING)
            raise NotStored(told)

    # containers

    def places_from(self, number: int) -> None:
        """New containers are numbered from there on."""
        self._next_container = number

    def place(self, kind: str, name: str, facts: str = "{}") -> int:
        """Make a new container, and return its number."""
        number = self._next_container
        self._next_container += 1
        # The store does not know it: if it is dropped before it is written, nothing is to be deleted.
        self._fresh.add(number)
        self.describe(Container(number, kind, name, facts))
        return number

    def describe(self, container: Container) -> None:
        """The facts of a container are new.  No RECEIPT waits for that alone."""
        # By number: of several descriptions in one batch only the last is written.
        self._batch.places[container.number] = container
        self._count(0)

    def await_place(self) -> None:
        """The facts of a container are what a client asked for: they count as a change, for which its RECEIPT waits."""
        self._change(0)

    def drop(self, container: int) -> None:
        """A container is no more, with all that the store holds of it; none of its messages is unwritten."""
        self._batch.places.pop(container, None)
        # Never written, so nothing is to be deleted; else the store deletes the container with all its rows.
        if container in self._fresh:
            self._fresh.discard(container)
        else:
            self._batch.dropped.append(container)
        self._change(0)

    # messages

    def pool(self, kind: str) -> int:
        """The one container of a kind that belongs to no destination."""
        if kind not in self._pools:
            self._pools[kind] = self.place(kind, kind)
        return self._pools[kind]

    def restore_pool(self, container: Container) -> None:
        """Take over such a container, which the store holds from the last process."""
        self._pools[container.kind] = container.number

    def enter(
        self,
        container: int,
        message: Message,
        *,
        row: int,
        transient: bool = False,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """A message stands in a container; from now on it has a row.

        `transient`: it is gone with the process.  `extra`: facts to keep beside those that `Metadata` tells.
        """
        # The sign tells at once, everywhere, whether the message outlives the process.
        message.row = -row if transient else row
        self.entered += 1
        # Not encoded before `take`: most messages are settled before that and are never written.
        self._new[row] = (container, message, transient, extra)
        # No RECEIPT has to wait for a message that is gone with the process anyway.
        if transient:
            self._count(message.size)
        else:
            self._change(message.size)

    def leave(self, message: Message) -> None:
        """A message with a row is settled for good: its row goes."""
        # The row is taken from the message first, so that it cannot be settled twice.
        row, message.row = message.row, 0
        self.leave_row(row)

    def leave_row(self, row: int) -> None:
        """A message that is not in memory is settled for good; the row is negative where it is transient."""
        # A row that goes needs no new facts.
        self._noted.pop(abs(row), None)
        new = self._new.pop(abs(row), None)
        if new is None:
            self._batch.gone.append(abs(row))
            self._count(0)
        else:
            # It came and went in this batch, and nothing is written: the account gives back what `enter` put there (one
            # CHANGE, and the one that `_count` adds now).
            self._count(-new[1].size - 2 * CHANGE)
        # Settling a durable message is a change for which a RECEIPT waits, even if the batch does not hold it.
        self.changes += row > 0

    def note(self, message: Message) -> None:
        """The facts of a message with a row have changed: attempts, failures, its place among the others."""
        # A new row is written with the facts of that moment, and a transient one need not be right after a restart.
        if abs(message.row) not in self._new and message.row > 0:
            self._noted[message.row] = message
            self._change(0)

    def saw(self, digest: bytes, until: float) -> None:
        """A de-duplication id counts until then, seconds since the epoch."""
        self._batch.seen[digest] = until
        self._change(0)

    def _change(self, nbytes: int) -> None:
        self.changes += 1
        self._count(nbytes)

    def _count(self, nbytes: int) -> None:
        self.nbytes += nbytes + CHANGE
        # The batch keeps its own share, which `_settle` takes off as a whole.
        self._batch.nbytes += nbytes + CHANGE
        self._ask()

    # the committer

    def take(self) -> Batch | None:
        """The batch to write now; None: nothing.  The last batch must have been `written`."""
        if self._under_way is not None:
            return self._under_way  # once more: it could not be written
        # Changes from now on belong to the next batch, and ask again.
        self._asked = False
        batch = self._batch
        for row, (container, message, transient, extra) in self._new.items():
            # A message has one content for all its copies: a copy in each of many queues writes its body once.
            content, facts = message.number, self.facts.of(message, row, extra)
            batch.rows[row] = StoredRow(row, container, content, message.rank, message.size, transient, facts)
            if content not in batch.contents:
                batch.contents[content] = Payload(message.head.headers, message.body)
        # Encoded now and not at `note`: only the last of several changes is written.
        for row, message in self._noted.items():
            batch.facts[row] = self.facts.of(message, row) or "{}"
        self._new, self._noted, self._fresh = {}, {}, set()
        self._batch = Batch(batch.number + 1)
        # All that came has gone again: the batch counts as written, so that its receipts go out.
        if not batch:
            self._settle(batch)
            return None
        # Kept until `written`: if the store fails, this very batch is written again, before any later one.
        self._under_way = batch
        return batch

    def written(self) -> None:
        """The batch that was taken is in the store."""
        batch, self._under_way = self._under_way, None
        assert batch is not None  # it was taken
        # Before the receipts go out: a client that reads one may publish at once, and must not be refused.
        self.works()
        self._settle(batch)

    def works(self) -> None:
        """The store works, or works again."""
        if self.is_failing:
            self.is_failing, self._failed = False, _NOTHING
            self._refuse()
        self._wait_no_more()

    def _settle(self, batch: Batch) -> None:
        """Nothing of a batch is left to be written."""
        self.committed = batch.number
        # Compared before and after, so that `on_relief` is called once, at the change.
        behind = self.is_behind
        self.nbytes -= batch.nbytes
        # RCP-03: a RECEIPT goes out when its frame was carried out, which for a durable change is now.
        for action in self._parked.pop(batch.number, ()):
            action()
        for action in self._careful.pop(batch.number, ()):
            action()
        if behind and not self.is_behind:
            self._on_relief()

    def wait(self) -> None:
        """The batch that was taken could not be written yet: it is to be taken again, and nothing more may come."""
        self.is_waiting = True

    def _wait_no_more(self) -> None:
        if self.is_waiting:
            self.is_waiting = False
            self._on_relief()

    def failed(self, reason: str, told: str | None = None) -> None:
        """The batch that was taken could not be written; it is to be taken again.

        `told`: the reason as clients read it; None: the whole of it, which then names nothing inside the server.
        """
        self.is_failing, self._failed = True, (reason, reason if told is None else told)
        self._refuse()
        self._wait_no_more()
        # These wait for either end.  The receipts stay parked: their frames are not carried out before the store has
        # them.
        for number in list(self._careful):
            for action in self._careful.pop(number):
                action()

    @property
    def is_short(self) -> bool:
        """True if there is little room for messages."""
        return self._short is not _NOTHING

    def run_short(self, reason: str, told: str) -> None:
        """There is little room for messages; clients read `told` as the reason."""
        self._short = reason, told
        self._refuse()

    def room_came(self) -> None:
        """There is room for messages."""
        if self.is_short:
            self._short = _NOTHING
            self._refuse()
            self._on_relief()

    def suspend(self) -> None:
        """Give consumers no stored messages, and hold their publishers back: another node of a cluster may soon go on
        with them.
        """
        self.is_suspended = True

    def refuse(self, reason: str, told: str) -> None:
        """It has been suspended for long: refuse durable messages.  `told`: the reason as clients read it."""
        self._suspended = reason, told
        self._refuse()
        self._on_relief()

    def resume(self) -> None:
        """Take durable messages again; queues are to be dispatched behind this."""
        self.is_suspended, self._suspended = False, _NOTHING
        self._refuse()
        self._on_relief()

    def _refuse(self) -> None:
        """Refuse durable messages, or take them again."""
        self.failure = self._failed[0] or self._suspended[0] or self._short[0]
        self._on_state()

    # actions that wait for it

    def when_written(self, number: int, action: Callable[[], None]) -> None:
        """Do something once that batch, which is not yet, is in the store."""
        self._parked.setdefault(number, []).append(action)

    def when_gathered(self, action: Callable[[], None]) -> None:
        """Do something once the batch that gathers now is in the store, or has come to nothing."""
        self.when_written(self.number, action)
        self._ask()  # the committer does not look at an empty batch by itself

    @property
    def last_changed(self) -> int:
        """The batch with which all that was changed so far is in the store; not above `committed` if it is there."""
        # Anything in the batch that gathers may be of this frame; else all is in the one under way, or written.
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
        # A row that is not written yet cannot be read: the read waits for its batch.
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
        """The reads that are due: their rows are in the store."""
        ready = [read for number, read in self._reads if number <= self.committed]
        self._reads = [each for each in self._reads if each[0] > self.committed]
        return ready

    def _ask(self) -> None:
        # One call of `busy` for each batch is enough: the committer takes all that is there then.
        if not self._asked:
            self._asked = True
            self._busy()
