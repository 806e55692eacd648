"""A queue's side of the store: which of its messages have a row, and what a crash must find there.

    durable message comes            a row, in the batch at hand
    it is settled, for good          the row goes
    it comes back after a failure    the row's facts are new
    too much waits                   rows alone: the backlog

A message that was delivered and not settled when the process was killed must come back marked as redelivered.  Most are
delivered in the batch that holds their row, and it says so.  For those that waited the place has a `reach`, written
ahead: whatever has a row up to there may have been delivered.  So a delivery costs the store nothing, and the price is
that after a crash those that were next to be delivered, about as many as consumers may prefetch, are marked, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from .backlog import MOST_IN_MEMORY, Backlog
from .batch import Place, Row, Stored
from .message import Message
from .options import Properties
from .storage import Storage

if TYPE_CHECKING:
    from .queue import Queue
    from .subscription import Subscription


class Shelf:
    """The rows of one queue.

    Attributes:
        rows: how many there are.
        transient: how many of them are gone with the process.
        backlog: what is in the store alone; None: nothing is.
        reach: up to that row, messages may have been delivered.

    Args:
        durable: True: all messages are stored; False: none; None: those that ask for it.
    """

    __slots__ = ("_durable", "_near", "_place", "_queue", "_storage", "backlog", "reach", "rows", "transient")

    def __init__(self, queue: Queue, storage: Storage, durable: bool | None) -> None:
        self.rows = 0
        self.transient = 0
        self.backlog: Backlog | None = None
        self.reach = self._near = 0
        self._queue = queue
        self._storage = storage
        self._durable = durable
        self._place = 0

    # messages come

    def takes(self, message: Message) -> bool:
        """Give a new message a row, if it is durable; True: it goes to the backlog, and that was all."""
        if self.is_durable(message.properties):
            self._enter(message)
        queue, backlog = self._queue, self.backlog
        if backlog is None:
            if queue.octets < MOST_IN_MEMORY or not self.has_pages():
                return False
            backlog = self.backlog = Backlog(queue, self._storage)
        elif queue.octets - backlog.octets < MOST_IN_MEMORY and not backlog.precedes(message):
            return False
        if not message.row:
            self._enter(message, transient=True)
        backlog.add(message.row, message.rank, message.size)
        return True

    def is_durable(self, properties: Properties) -> bool:
        """Whether such a message outlives the process here."""
        durable = self._durable
        return properties.persistent if durable is None else durable

    def has_pages(self) -> bool:
        """Whether there may be a backlog: nothing that waits may have to go, or be replaced."""
        queue = self._queue
        return queue.limits.keeps_all and not queue.policy.conflate_by

    def check(self, properties: Properties) -> None:
        """Refuse a durable message while the store cannot take it.

        Raises:
            NotAllowed: the store has failed.
        """
        if self._storage.failure and self.is_durable(properties):
            self._storage.check()

    def forget(self) -> None:
        """The queue goes; while an open transaction holds one of its rows, the place stays, until the next start."""
        if self._place and not self.rows:
            self._storage.drop(self._place)
            self._place = 0

    def _enter(self, message: Message, *, transient: bool = False) -> None:
        if not self._place:
            self._place = self._storage.place("queue", self._queue.name)
        self.rows += 1
        self.transient += transient
        self._storage.enter(self._place, message, row=message.place, transient=transient)

    # messages go

    def leave(self, message: Message) -> None:
        """A message is settled for good."""
        self.rows -= 1
        self._storage.leave(message)

    def note(self, message: Message) -> None:
        """A message comes back."""
        self._storage.note(message)

    def taken(self, message: Message, consumer: Subscription) -> None:
        """A message that waited is delivered."""
        if message.row > self._near and not self._storage.is_new(message):
            self._move_on(message.row, consumer)

    def _move_on(self, row: int, consumer: Subscription) -> None:
        ahead = consumer.prefetch
        self.reach, self._near = row + 2 * ahead, row + ahead
        facts = json.dumps({"reach": self.reach})
        self._storage.describe(Place(self._place, "queue", self._queue.name, facts))

    def welcomes(self, subscription: Subscription) -> bool:
        """A consumer has come; False: it is listed later, once the store knows that messages may be delivered."""
        first = self._first_row()
        if first is None or first <= self._near:
            return True
        self._move_on(first, subscription)
        self._storage.soon(partial(self._list, subscription))
        return False

    def _list(self, subscription: Subscription) -> None:
        if not subscription.ended:
            self._queue.enlist(subscription)

    def _first_row(self) -> int | None:
        """The first row that is in the store already, of what waits."""
        first = self._queue.lanes[0].first()
        if first is not None and first.row and not self._storage.is_new(first):
            return first.row
        return self.backlog.first_row() if self.backlog is not None else None

    # the start of the process

    def recover(self, place: Place, *, clean: bool) -> None:
        """The store knows the queue from the last process.

        Args:
            clean: that one has told all it knew; else what it may have delivered is marked.
        """
        self._place = place.number
        self.backlog = self.backlog or Backlog(self._queue, self._storage)
        if not clean:
            self.backlog.suspect = max(self.backlog.suspect, json.loads(place.facts).get("reach", 0))

    def adder(self) -> Callable[[Row], None]:
        """Takes one row after the other that was found there."""
        backlog = self.backlog
        assert backlog is not None  # it was made for them

        def add(row: Row) -> None:
            self.rows += 1
            backlog.add(row.row, row.rank, row.size)

        return add

    def take_all(self) -> list[int]:
        """All rows of the backlog, in order, which is no more: they come by `place`."""
        assert self.backlog is not None  # it was made for them
        return sorted(self.backlog.purge())

    def place(self, found: Iterable[Stored]) -> None:
        """Messages that were read take their places."""
        assert self.backlog is not None  # they stood there
        self.backlog.place(found)

    # the backlog

    def refill(self, *, stuck: bool = False) -> None:
        """Read on, if there is a backlog and little in memory."""
        if self.backlog is not None:
            self.backlog.refill(stuck=stuck)

    def purge(self) -> None:
        """The backlog is thrown away."""
        if self.backlog is not None:
            for row in self.backlog.purge():
                self.rows -= 1
                self._storage.leave_row(row)
