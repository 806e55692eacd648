"""Storage of a queue: which of its messages have a row in the store, and when one comes or goes.

durable message comes            a row, in the batch at hand
it is settled, for good          the row goes
it comes back after a failure    the row's facts are new
too much waits                   rows alone: paged messages
the process is killed            all rows count as delivered once
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from ..core.context import Context
from ..core.counters import Drop
from ..core.scheduler import Action
from ..core.storage import Storage
from ..model.changes import Container, Stored, StoredRow
from ..model.message import Message
from ..model.options import SendOptions
from ..model.policy import Policy, QueueArguments, Visible
from .consumers import Consumers
from .overflow import QueueLimits
from .paging import PagedMessages, PagedQueue

ENDED = "ended"  # the kind of a container that ends as soon as none of its rows is held


class StoredQueue(PagedQueue, Protocol):
    """The queue that has rows in the store."""

    policy: Policy
    limits: QueueLimits
    consumers: Consumers

    def hide(self, message: Message) -> None: ...


class QueueStorage:
    """The rows of one queue.

    Attributes:
        rows, transient: how many there are; how many of them are gone with the process.
        paged: the messages in the store alone; None: there are none.

    Args:
        durable: True: all messages are stored; False: none; None: those that ask for it.
        unless_refused: True: of all, those are left out that ask not to be stored.
    """

    __slots__ = (
        *("_container", "_context", "_durable", "_facts", "_goes_with_last", "_hides_new", "_keyed", "_kind"),
        *("_least_in_memory", "_most_in_memory", "_queue", "_storage", "_suspect", "_unless_refused"),
        *("paged", "rows", "transient"),
    )

    def __init__(
        self,
        context: Context,
        queue: StoredQueue,
        storage: Storage,
        durable: bool | None,
        *,
        unless_refused: bool = False,
    ) -> None:
        self._context = context
        self._most_in_memory = context.work_limits.in_memory_bytes
        self._least_in_memory = context.work_limits.least_in_memory_bytes
        self.rows = 0
        self.transient = 0
        self.paged: PagedMessages | None = None
        self._goes_with_last = False  # the container, with its last row
        self._keyed: list[int] = []  # rows that replace each other, at the start of the process
        self._queue = queue
        self._storage = storage
        self._durable = durable
        self._unless_refused = unless_refused
        self._hides_new = queue.policy.visible is Visible.STORED
        self._container = 0
        self._kind = "queue"
        self._facts: dict[str, object] = {}
        self._suspect = 0  # rows up to this one were in the store when a process was killed; 0: none

    def describe(self, facts: dict[str, object]) -> None:
        """The queue is a durable subscription's: the store keeps these facts, also while nothing waits."""
        self._kind, self._facts = "subscription", facts
        self._container = self._storage.place(self._kind, self._queue.name, json.dumps(facts))
        self._storage.await_place()

    def keep_arguments(self, arguments: QueueArguments) -> None:
        """Keep a client's arguments of the queue: they hold as long as something of it is stored."""
        self._facts |= arguments.stored()
        if self._container:
            self._describe()

    @property
    def arguments(self) -> QueueArguments | None:
        """The arguments that `keep_arguments` kept."""
        return QueueArguments.from_store(self._facts)

    # messages come

    def keeps(self, options: SendOptions) -> bool:
        """True if a message with these options is durable here."""
        # The policy's word, if it has one, goes before the sender's.
        if options.persistent if self._durable is None else self._durable:
            return not self._unless_refused or options.persistent is not False
        return False

    def takes(self, message: Message) -> bool:
        """Give a new message a row, if it is durable; True: it is paged, and does not go to memory."""
        # As in `keeps`, without a call for each message.
        options = message.options
        if (options.persistent if self._durable is None else self._durable) and (
            not self._unless_refused or options.persistent is not False
        ):
            self._enter(message)
        if not self._is_too_much(message):
            # A paged one is read from the store anyway, and no consumer gets it before it is there.
            if self._hides_new and message.row > 0:
                self._queue.hide(message)
            return False
        # The store has it alone from now on, so it needs a row, which is gone with the process.
        if not message.row:
            self._enter(message, transient=True)
        paged = self._make_pages()
        paged.add(message.row, message.rank, message.size, message.expires)
        if self._queue.consumers.may_have_room():
            paged.refill(stuck=True)  # for a consumer that wants none of the messages in memory
        return True

    def _make_pages(self) -> PagedMessages:
        if self.paged is None:
            self.paged = PagedMessages(self._context, self._queue, self._storage, self.leave_row)
        return self.paged

    def _is_too_much(self, message: Message) -> bool:
        """True if a new message stands behind those that fit into memory."""
        paged, in_memory = self.paged, self._queue.in_memory
        # Behind a paged message none stays in memory: it would be consumed before that one.  But one with a key stays,
        # for a newer one of its key must find it there.
        if paged is not None and paged.first_rank() <= message.rank:
            return message.options.conflation_key is None
        nbytes, memory, half = in_memory.nbytes, self._context.memory, self._context.quotas.memory_limit // 2
        if nbytes < self._most_in_memory and (nbytes < self._least_in_memory or memory.used <= half):
            return False
        # A message that is more urgent than the last one in memory stands there, too.
        has_key = message.options.conflation_key is not None
        return not has_key and self._may_page() and in_memory.ready_lists[0].is_behind(message)

    def _may_page(self) -> bool:
        """True if messages may be paged: none that waits may have to go, or be replaced."""
        # Where the oldest may have to go, or messages replace each other, the queue's own limits bound its memory.
        queue = self._queue
        return self._durable is not False and queue.limits.keeps_all and not queue.policy.conflate_by

    def forget(self) -> None:
        """The queue goes, and its container with it, or with its last row."""
        self._goes_with_last = True
        if self.paged is not None:
            self.paged.close()
        # A session may hold a row, and give it back; to drop the container would remove that row.
        if self._container and not self.rows:
            self._storage.drop(self._container)
            self._container = 0

    def end(self) -> None:
        """The queue is no more; rows that sessions hold are not to come back."""
        # The next process drops a container of this kind with its rows: after a kill none of them comes back.
        if self.rows:
            self._goes_with_last, self._kind = True, ENDED
            self._describe()
        else:
            self.forget()

    def _enter(self, message: Message, *, row: int = 0, transient: bool = False) -> None:
        if not self._container:
            self._container = self._storage.place(self._kind, self._queue.name, json.dumps(self._facts))
        self.rows += 1
        self.transient += transient
        self._goes_with_last = False  # it may have been forgotten, and come back
        # Not its number: a topic gives copies of one message to several queues, and each needs a row of its own.
        row = row or message.place
        self._storage.enter(self._container, message, row=row, transient=transient)

    # messages go

    def leave(self, message: Message) -> None:
        """A message is settled for good."""
        row = message.row  # `Storage.leave` clears it
        self._storage.leave(message)
        self._count_out(row)

    def leave_row(self, row: int) -> None:
        """A message that is not in memory is settled for good; the row is negative where it is transient."""
        self._storage.leave_row(row)
        self._count_out(row)

    def _count_out(self, row: int) -> None:
        self.rows -= 1
        self.transient -= row < 0
        # The container goes with its last row, if the queue has gone.
        if self._goes_with_last and not self.rows:
            self.forget()

    def note(self, message: Message) -> None:
        """A message comes back."""
        self._storage.note(message)

    def holds_up(self, message: Message) -> bool:
        """True if a message must wait: a more urgent one is still to be read, or what is stored goes to no consumer."""
        if self._storage.is_suspended and self.rows:
            return True  # nor may those behind them overtake them
        return self.paged is not None and self.paged.first_rank() < message.rank

    def _describe(self) -> None:
        facts = json.dumps(self._facts | ({"suspect": self._suspect} if self._suspect else {}))
        self._storage.describe(Container(self._container, self._kind, self._queue.name, facts))

    def adopt(self, messages: Iterable[Message], storage: QueueStorage) -> None:
        """Messages of a queue that was forgotten meanwhile come back to its successor, and into its container."""
        for message in messages:
            row = message.row
            # Under the same number, for rows stand in order.
            if row:
                storage.leave(message)
                self._enter(message, row=abs(row), transient=row < 0)

    # the start of the process

    def recover(self, container: Container) -> None:
        """The store knows the queue from the last process."""
        facts = json.loads(container.facts)
        # A queue that was forgotten and came back may have several: the first takes new rows, the others lose theirs.
        if not self._container:
            self._container, self._kind = container.number, container.kind
        self._facts = {name: value for name, value in facts.items() if name not in ("reach", "suspect")}
        self._suspect = max(self._suspect, facts.get("suspect", 0))
        self._make_pages()

    def suspect(self, row: int) -> None:
        """The last process was killed: all rows up to this one, which is the last, may have been delivered."""
        self._suspect = row
        self._describe()

    def has_place(self, number: int) -> bool:
        """True if new rows of the queue go there."""
        return self._container == number

    def adder(self) -> Callable[[StoredRow], None]:
        """Takes one row after the other that was found there."""
        paged = self._make_pages()

        def add(row: StoredRow) -> None:
            self.rows += 1
            expires = 0.0
            if row.facts is not None:
                # Searched and not parsed, for there may be millions.  In a value JSON would escape the quotes.
                if '"key":' in row.facts:
                    self._keyed.append(row.row)
                    return
                if '"expires":' in row.facts:
                    expires = self._storage.facts.expires(row.facts)
            paged.add(row.row, row.rank, row.size, expires)

        return add

    def has_pages(self) -> bool:
        """True if the queue can stay in the store alone; else some rows come back by `take_all` and `Queue.arrive`."""
        return self._may_page() and not self._keyed

    def take_all(self) -> list[int]:
        """Take all paged rows, in order; where there are very many, only those that replace each other."""
        paged = self._make_pages()
        rows, self._keyed = self._keyed, []
        if not self._may_page() or paged.nbytes < self._most_in_memory:
            rows = sorted(rows + paged.take_all())
        return rows

    def messages(self, found: Iterable[Stored]) -> Iterator[Message]:
        """Messages that were read."""
        for stored in found:
            message = self._storage.facts.message(stored)
            # After a kill the store cannot tell which messages were delivered: all come with `redelivered:true`.
            if not message.attempts and 0 < message.row <= self._suspect:
                message.attempts = 1
                self._storage.note(message)
            yield message

    # paged messages

    def refill(self, *, stuck: bool = False) -> None:
        """Read on, if there are paged messages and few in memory."""
        if self.paged is not None:
            self.paged.refill(stuck=stuck)

    def purge(self, why: Drop, then: Action | None = None) -> None:
        """Throw the paged messages away, in slices; then call `then`."""
        if self.paged is not None:
            self._context.counters.drops[why] += self.paged.count
            self.paged.purge(why, then)

    def rows_of_backlog(self) -> list[int]:
        """The rows that are in the store alone, in order."""
        return [] if self.paged is None else list(map(abs, self.paged.all_rows()[0]))
