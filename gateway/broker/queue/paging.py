"""Paged messages: messages of a queue that do not fit into memory, so that it knows the numbers of their rows alone.

    too much waits     ->  new messages are paged: they go behind all others
    a consumer has room, and memory holds little  ->  the first rows are read, ahead of dispatch, and take their places

A message that is more urgent than all paged ones stays in memory; every other one stands behind them, so that
priorities and the order of arrival hold (`QueueStorage.takes` decides).  The numbers of rows that are gone with the
process are negative here.

Known weakness: a consumer that wants only few of the messages gets those within `search_bytes` of the front;
the rest comes when others have consumed.  And a message that expires far from the front, before those in front of it,
is found when it comes there.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection
from functools import partial
from itertools import chain
from typing import Protocol

from ..core.context import Context
from ..core.counters import Drop
from ..core.scheduler import Action, Timer
from ..core.storage import Storage
from ..model.changes import Stored
from ..model.message import LOWEST_PRIORITY, Message
from .page_index import PageIndex
from .subscription import Subscription
from .waiting import WaitingMessages

_PAUSE = 1.0  # seconds between two looks for what has expired, at least


class PagedQueue(Protocol):
    """The queue with the messages that are paged out (see `Queue`)."""

    name: str
    in_memory: WaitingMessages
    subscriptions: Collection[Subscription]

    def expire(self, message: Message) -> None: ...
    def arrive(self, found: list[Stored]) -> None: ...
    def look_for_room(self) -> None: ...


class PagedMessages:
    """The messages of one queue that are in the store alone; `count` has those that are being read, too.

    Args:
        leave: called with each row that is thrown away, negative where it is transient.
    """

    def __init__(self, context: Context, queue: PagedQueue, storage: Storage, leave: Callable[[int], None]) -> None:
        self._context = context
        self._limits = context.work_limits
        self.count = 0
        self.nbytes = 0
        self._queue = queue
        self._storage = storage
        self._leave_row = leave
        self._ranks: dict[int, PageIndex] = {}
        self._reading: dict[int, int] = {}  # row -> size
        self._reading_rank = 0
        self._date: Timer | None = None
        self._expiring: list[list[tuple[int, int]]] = []  # a list for each read
        self._leaving: list[tuple[PageIndex, Drop]] = []
        self._when_left: list[Action] = []
        self._due = math.inf

    def first_rows(self) -> list[int]:
        """The first row of what is being read, and of each priority: the oldest is among them."""
        found = [next(iter(self._reading), None), *[rows.first() for rows in self._ranks.values()]]
        return [abs(row) for row in found if row is not None]

    def all_rows(self, only: Collection[int] | None = None) -> tuple[array[int], array[int]]:
        """The rows in the order in which they are due, all or the given numbers; and what each costs."""
        if only is not None:
            # Numbers come from outside, where nothing is known of signs.
            signed = [row for number in sorted(only) for row in (number, -number) if self.has(row)]
            return array("q", signed), array("q", [self._size_of(row) or 0 for row in signed])
        rows, sizes = array("q", self._reading), array("q", self._reading.values())
        for _, each in sorted(self._ranks.items()):
            its_rows, its_sizes = each.all()
            rows.extend(its_rows)
            sizes.extend(its_sizes)
        return rows, sizes

    def has(self, row: int) -> bool:
        """True if a row stands here; it is negative where it is transient."""
        return self._size_of(row) is not None

    def _size_of(self, row: int) -> int | None:
        if row in self._reading:
            return self._reading[row]
        return next((size for rows in self._ranks.values() if (size := rows.size_of(row)) is not None), None)

    def claim(self, row: int) -> None:
        """A row leaves that another part, like a browser, has read by itself."""
        size = self._reading.pop(row, None)
        if size is None:
            size = next(size for rows in self._ranks.values() if (size := rows.remove(row)) is not None)
        self._count(-1, -size)

    def first_rank(self) -> int:
        """The rank of the most urgent; where there is none, one behind all others."""
        # What is being read counts: a less urgent message that went out now would overtake it.
        ranks = [rank for rank, rows in self._ranks.items() if len(rows)]
        return min([*ranks, self._reading_rank] if self._reading else ranks, default=LOWEST_PRIORITY + 1)

    def add(self, row: int, rank: int, size: int, expires: float = 0.0) -> None:
        """A row stands behind the others of its rank."""
        if rank not in self._ranks:
            self._ranks[rank] = PageIndex(self._limits.index_slack)
        self._ranks[rank].add(row, size, expires)
        self._count(1, size)
        if expires:
            self._look_at(expires)

    def _look_at(self, expires: float) -> None:
        # One timer for all rows, which may be millions.
        if expires < self._due:
            scheduler = self._context.scheduler
            scheduler.cancel(self._date)
            self._due = expires
            self._date = scheduler.at(expires, self._sweep)

    def _sweep(self) -> None:
        scheduler = self._context.scheduler
        now = scheduler.clock()
        gone, soonest = [], math.inf
        for rows in self._ranks.values():
            expired, next_one = rows.take_expired(now)
            gone += expired
            soonest = min(soonest, next_one)
        self._due = math.inf
        if gone:
            self._expiring.append(gone)
            self._storage.read([abs(row) for row, _ in gone], partial(self._expired, gone))
            soonest = min(soonest, now + _PAUSE)
        if soonest < math.inf:
            self._look_at(max(soonest, now + _PAUSE))

    def _expired(self, gone: list[tuple[int, int]], found: list[Stored]) -> None:
        """Expired messages were read, because their dead letters need them."""
        if all(each is not gone for each in self._expiring):
            return  # it was purged meanwhile
        self._expiring = [each for each in self._expiring if each is not gone]
        # All that were asked for, although `found` leaves out those that the store has lost.
        self._count(-len(gone), -sum([size for _, size in gone]))
        queue = self._queue
        for stored in found:
            message = self._storage.facts.message(stored)
            # `expire` takes a kept message, and releases what it costs.
            self._context.memory.keep(message.size)
            queue.expire(message)
        queue.look_for_room()
        self._context.destinations.forget_if_idle(queue)

    def close(self) -> None:
        """The queue goes."""
        self._context.scheduler.cancel(self._date)

    def _count(self, messages: int, nbytes: int) -> None:
        self.count += messages
        self.nbytes += nbytes
        self._context.waiting += messages
        self._storage.in_backlog += messages

    def refill(self, *, stuck: bool = False) -> None:
        """Read on, if there is little in memory, or a consumer is `stuck`: it wants none of the messages there."""
        queue = self._queue
        # One read at a time.  Without a consumer, the messages would only take up memory.
        if self._reading or not queue.subscriptions or not any(map(len, self._ranks.values())):
            return
        in_memory, limits = queue.in_memory, self._limits
        little = in_memory.count < limits.few_messages and in_memory.nbytes < limits.few_bytes
        if little or (stuck and in_memory.nbytes < limits.search_bytes and not self._context.memory.pressed):
            self._reading_rank = min([rank for rank, rows in self._ranks.items() if len(rows)])
            self._reading = dict(self._ranks[self._reading_rank].take(limits.page_messages, limits.page_bytes))
            self._storage.read(list(map(abs, self._reading)), partial(self._arrived, self._reading))

    def _arrived(self, reading: dict[int, int], found: list[Stored]) -> None:
        """Rows were read: they take their places in memory."""
        if self._reading is not reading:
            return  # it was purged meanwhile
        # Before `arrive`, which would else hold up less urgent messages for these (`first_rank`), and count them twice.
        self._reading = {}
        self._count(-len(reading), -sum(reading.values()))
        self._queue.arrive([each for each in found if _signed(each) in reading])  # others were claimed meanwhile
        self.refill()
        self._context.destinations.forget_if_idle(self._queue)  # all may have expired

    def take_all(self) -> list[int]:
        """Remove all of it, at the start of the process; in the order of the rows."""
        rows = [abs(row) for each in self._ranks.values() for row in each.all()[0]]
        self._count(-self.count, -self.nbytes)
        self._ranks = {}
        return sorted(rows)

    def purge(self, why: Drop, then: Action | None = None) -> None:
        """Throw all of it away; call `then` when the last of it has been given to the storage."""
        if then is not None:
            self._when_left.append(then)
        others = PageIndex(self._limits.index_slack)
        for row in chain(self._reading, [row for each in self._expiring for row, _ in each]):
            others.add(row, 0, 0.0)
        # A purge that is under way takes these, too.
        is_leaving = bool(self._leaving)
        self._leaving += [(rows, why) for rows in (others, *self._ranks.values())]
        self._count(-self.count, -self.nbytes)
        # By this `_arrived` and `_expired` know that their reads were purged.
        self._ranks, self._reading, self._expiring = {}, {}, []
        if not is_leaving:
            self._leave()

    def _leave(self) -> None:
        """Some of what was thrown away leaves the store."""
        most = self._limits.purges_per_turn
        while self._leaving and most:
            leaving, why = self._leaving[0]
            rows = leaving.take(most)
            most -= len(rows)
            self._context.records.purged(self._queue.name, [abs(row) for row, _ in rows], why)
            for row, _ in rows:
                self._leave_row(row)
            if not len(leaving):
                del self._leaving[0]
        if self._leaving:
            # One slice for each batch, so that the receipts of others need not wait for all of them.
            self._storage.when_written(self._storage.number, self._leave)
            return
        actions, self._when_left = self._when_left, []
        for action in actions:
            action()


def _signed(stored: Stored) -> int:
    """The number of a row, negative where it is transient."""
    return -stored.row.row if stored.row.transient else stored.row.row
