"""A queue's side of the store: which of its messages have a row, and when one comes or goes.

durable message comes            a row, in the batch at hand
it is settled, for good          the row goes
it comes back after a failure    the row's facts are new
too much waits                   rows alone: the backlog
the process is killed            which messages were delivered, the store cannot know: when the next process starts,
                                 all that are there count as delivered once, and come with `redelivered:true`
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Protocol

from ..core.context import Context
from ..core.counters import Drop
from ..core.scheduler import Action
from ..core.storage import Storage
from ..model.changes import Container, Stored, StoredRow
from ..model.message import Message
from ..model.options import SendOptions
from ..model.policy import ClientArguments, Policy
from .consumers import Consumers
from .overflow import QueueLimits
from .paging import LEAST_IN_MEMORY, MOST_IN_MEMORY, PagedMessages, PagedQueue

ENDED = "ended"
"""The kind of a place that is no more as soon as nobody holds a row of it."""


class StoredQueue(PagedQueue, Protocol):
    """The queue that has rows in the store.

    Attributes:
        policy: its rules.
        limits: of what may wait.
    """

    policy: Policy
    limits: QueueLimits
    consumers: Consumers


class QueueStorage:
    """The rows of one queue.

    Attributes:
        rows: how many there are.
        transient: how many of them are gone with the process.
        paged: what is in the store alone; None: nothing is.

    Args:
        durable: True: all messages are stored; False: none; None: those that ask for it.
    """

    __slots__ = (
        "_context",
        "_durable",
        "_facts",
        "_goes_with_last",
        "_keyed",
        "_kind",
        "_place",
        "_queue",
        "_storage",
        "_suspect",
        "paged",
        "rows",
        "transient",
    )

    def __init__(self, context: Context, queue: StoredQueue, storage: Storage, durable: bool | None) -> None:
        self._context = context
        self.rows = 0
        self.transient = 0
        self.paged: PagedMessages | None = None
        self._goes_with_last = False  # the place, with its last row
        self._keyed: list[int] = []  # rows that replace each other, at the start of the process
        self._queue = queue
        self._storage = storage
        self._durable = durable
        self._place = 0
        self._kind = "queue"
        self._facts: dict[str, object] = {}
        # Rows up to this one were in the store when a process was killed: 0: none.
        self._suspect = 0

    def describe(self, facts: dict[str, object]) -> None:
        """The queue is a durable subscription's: the store keeps what it is, also while nothing waits."""
        self._kind, self._facts = "subscription", facts
        self._place = self._storage.place(self._kind, self._queue.name, json.dumps(facts))
        self._storage.await_place()

    def declare(self, arguments: ClientArguments) -> None:
        """A client's wishes for the queue: they hold as long as something of it is stored."""
        self._facts["hints"] = dataclasses.asdict(arguments)
        if self._place:
            self._describe()

    @property
    def arguments(self) -> ClientArguments | None:
        """A client's wishes, as the store kept them."""
        found = self._facts.get("hints")
        return ClientArguments(**found) if isinstance(found, dict) else None

    # messages come

    def takes(self, message: Message) -> bool:
        """Give a new message a row, if it is durable; True: it goes to the backlog, and that was all."""
        if self.is_durable(message.options):
            self._enter(message)
        if not self._is_too_much(message):
            return False
        if not message.row:
            self._enter(message, transient=True)
        self.paged = self.paged or PagedMessages(self._context, self._queue, self._storage)
        self.paged.add(message.row, message.rank, message.size, message.expires)
        if self._queue.consumers.has_room():
            self.paged.refill(stuck=True)  # for somebody who wants nothing of what is in memory
        return True

    def _is_too_much(self, message: Message) -> bool:
        """Whether a new message stands behind what fits into memory."""
        paged, in_memory = self.paged, self._queue.in_memory
        if paged is not None and paged.precedes(message):
            return message.options.conflation_key is None
        if in_memory.nbytes < MOST_IN_MEMORY and not (in_memory.nbytes >= LEAST_IN_MEMORY and self._is_memory_short()):
            return False
        # What is more urgent than the last one in memory stands there, too.
        has_key = message.options.conflation_key is not None
        return not has_key and self._may_page() and in_memory.ready_lists[0].is_behind(message)

    def _is_memory_short(self) -> bool:
        """Whether memory is short: long before publishers are held back."""
        return self._context.memory.used > self._context.quotas.memory_limit // 2

    def is_durable(self, options: SendOptions) -> bool:
        """Whether such a message outlives the process here."""
        durable = self._durable
        return options.persistent if durable is None else durable

    def _may_page(self) -> bool:
        """Whether there may be a backlog: nothing that waits may have to go, or be replaced."""
        queue = self._queue
        return self._durable is not False and queue.limits.keeps_all and not queue.policy.conflate_by

    def forget(self) -> None:
        """The queue goes; while somebody holds one of its rows, or they leave still, the place stays."""
        self._goes_with_last = True
        if self.paged is not None:
            self.paged.close()
        if self._place and not self.rows:
            self._storage.drop(self._place)
            self._place = 0

    def end(self) -> None:
        """The queue is no more; rows that somebody holds still are not to come back."""
        self._goes_with_last = True
        if self.rows:
            self._kind = ENDED
            self._describe()
        else:
            self.forget()

    def _enter(self, message: Message, *, row: int = 0, transient: bool = False) -> None:
        if not self._place:
            self._place = self._storage.place(self._kind, self._queue.name, json.dumps(self._facts))
        self.rows += 1
        self.transient += transient
        self._goes_with_last = False  # it may have been forgotten, and come back
        row = row or message.place
        self._storage.enter(self._place, message, row=row, transient=transient)

    # messages go

    def leave(self, message: Message) -> None:
        """A message is settled for good."""
        self._less(message.row)
        self._storage.leave(message)
        self._drop_place()

    def leave_row(self, row: int) -> None:
        """The same of one that is not in memory; the row is negative where it is transient."""
        self._less(row)
        self._storage.leave_row(row)
        self._drop_place()

    def _less(self, row: int) -> None:
        self.rows -= 1
        self.transient -= row < 0

    def _drop_place(self) -> None:
        """The place goes with its last row, if the queue has gone."""
        if self._goes_with_last and not self.rows:
            self.forget()

    def note(self, message: Message) -> None:
        """A message comes back."""
        self._storage.note(message)

    def holds_up(self, message: Message) -> bool:
        """True if a more urgent message is still to be read."""
        return self.paged is not None and self.paged.is_before(message.rank)

    def _describe(self) -> None:
        facts = json.dumps(self._facts | ({"suspect": self._suspect} if self._suspect else {}))
        self._storage.describe(Container(self._place, self._kind, self._queue.name, facts))

    def adopt(self, messages: Iterable[Message], storage: QueueStorage) -> None:
        """Messages of a queue that was forgotten meanwhile come back to its successor, and stand in its place now."""
        for message in messages:
            row = message.row
            if row:
                storage.leave(message)
                self._enter(message, row=abs(row), transient=row < 0)

    # the start of the process

    def recover(self, place: Container) -> None:
        """The store knows the queue from the last process."""
        facts = json.loads(place.facts)
        if not self._place:
            self._place, self._kind = place.number, place.kind
        self._facts = {name: value for name, value in facts.items() if name not in ("reach", "suspect")}
        self._suspect = max(self._suspect, facts.get("suspect", 0))
        self.paged = self.paged or PagedMessages(self._context, self._queue, self._storage)

    def suspect(self, row: int) -> None:
        """The last process was killed: all rows up to this one, which is the last, may have been delivered."""
        self._suspect = row
        self._describe()

    def has_place(self, number: int) -> bool:
        """Whether new rows of the queue go there; it may have others, from before it was forgotten once."""
        return self._place == number

    def adder(self) -> Callable[[StoredRow], None]:
        """Takes one row after the other that was found there."""
        paged = self.paged
        assert paged is not None  # it was made for them

        def add(row: StoredRow) -> None:
            self.rows += 1
            expires = 0.0
            if row.facts is not None:
                if '"key":' in row.facts:
                    self._keyed.append(row.row)
                    return
                if '"expires":' in row.facts:
                    expires = self._storage.facts.expires(row.facts)
            paged.add(row.row, row.rank, row.size, expires)

        return add

    def has_pages(self) -> bool:
        """Whether the queue can stay in the store alone; else some comes back by `take_all` and `Queue.arrive`."""
        return self._may_page() and not self._keyed

    def take_all(self) -> list[int]:
        """All rows, in order, which leave the backlog; where it is large, those that replace each other will do."""
        paged = self.paged
        assert paged is not None  # it was made for them
        rows, self._keyed = self._keyed, []
        if not self._may_page() or paged.nbytes < MOST_IN_MEMORY:
            rows = sorted(rows + paged.take_all())
        return rows

    def messages(self, found: Iterable[Stored]) -> Iterator[Message]:
        """Messages that were read."""
        for stored in found:
            message = self._storage.facts.message(stored)
            if not message.attempts and 0 < message.row <= self._suspect:
                message.attempts = 1
                self._storage.note(message)
            yield message

    # the backlog

    def refill(self, *, stuck: bool = False) -> None:
        """Read on, if there is a backlog and little in memory."""
        if self.paged is not None:
            self.paged.refill(stuck=stuck)

    def purge(self, why: Drop, then: Action | None = None) -> None:
        """The backlog is thrown away; see there."""
        if self.paged is not None:
            self._context.counters.drops[why] += self.paged.count
            self.paged.purge(why, then)

    def rows_of_backlog(self) -> list[int]:
        """What is in the store alone, in order."""
        return [] if self.paged is None else list(chain.from_iterable(self.paged.next_rows()))
