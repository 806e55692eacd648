"""What an operator does to messages that wait: throws them away, moves them, sends dead letters back.

Each message is taken out of its queue and put elsewhere in one step, and so in one batch of the store: after a kill it
stands in one of both places, never in none and never in both.  Whether it finds room is looked at before.  A message
that somebody got meanwhile is left to him.

What an operator moves is a new message at its destination: with another message-id, behind all that waits there of its
priority, and with no failures so far.  Headers, body, priority, group and time to live are those it had.  In the
records the old one is `dropped`, with the reason `moved` or `redriven`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from gateway.codec import Head

from ..errors import NotAllowed
from ..model import destinations as names
from ..model.message import DEAD_LETTER, Message
from ..model.options import Selector
from ..model.patterns import has_wildcard
from ..queue.queue import Queue
from .scan import QueueScan, ScanPosition
from .transfer import Transfer

if TYPE_CHECKING:
    from ..broker import Broker
    from ..core.counters import Drop

MOST_REFUSED = 1_000
"""Refusals that are told one by one."""
# Seconds that a subscriber of a topic is waited for who does not read what is moved there.
_PATIENCE = 10.0
# What a dead letter has beside the headers that its message had.
_OF_A_DEAD_LETTER = frozenset(
    ["dlq-reason", "dlq-source", "dlq-attempts", "dlq-first-at", "original-destination", "reason"]
)


@dataclass
class Outcome:
    """What was done.

    Attributes:
        done: messages.
        missing: ids that do not wait there: somebody has them, or they have gone, or never were.
        refused: id and sentence of those that stay where they are, the first `MOST_REFUSED`.
        refusals: how many these are.
        stopped: why it ended before its time; empty: it did not.
    """

    done: int = 0
    missing: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    refusals: int = 0
    stopped: str = ""


class Operation(Protocol):
    """What is done to each message.

    Attributes:
        stops: a refusal ends it: it would be the same for all others.
        is_purge: it is the same for all messages, and can always be done.
    """

    stops: bool
    is_purge: bool

    def check(self, queue: Queue, message: Message) -> None:
        """Whether it can be done.

        Raises:
            NotAllowed: it cannot; the message stays.
        """
        ...

    def carry_out(self, queue: Queue, message: Message) -> None:
        """Do it to a message that is kept, and waits no longer."""
        ...

    def strained(self) -> str:
        """Why it must pause; empty: it need not."""
        ...


class RunningOperation:
    """One deed, done to all messages of a queue that are meant.

    Attributes:
        outcome: so far.

    Args:
        wanted: number of each message that is meant -> its id as the operator gave it; None: all.
        selector: of these, those that it takes; None: all.
        limit: so many at most; None: any number.
        then: gets the outcome, once the store has what was changed.
    """

    def __init__(
        self,
        queue: Queue,
        deed: Operation,
        then: Callable[[Outcome], None],
        *,
        wanted: dict[int, str] | None = None,
        selector: Selector | None = None,
        limit: int | None = None,
    ) -> None:
        self.outcome = Outcome()
        self._queue = queue
        self._context = queue.context
        self._deed = deed
        self._then: Callable[[Outcome], None] | None = then
        self._left = None if wanted is None else dict(wanted)
        self._selector = selector
        self._limit = limit
        self._patience = 0.0  # the date when it ends; 0: nobody is waited for
        self._is_over = False
        paged = queue.storage.paged if queue.storage is not None else None
        # All that only the store has need not be read to be thrown away.
        self._is_leaving = deed.is_purge and wanted is None and selector is None and paged is not None
        self._walk = QueueScan(queue, self, only=wanted, paged=not self._is_leaving)
        if self._is_leaving and paged is not None and queue.storage is not None:
            self.outcome.done += paged.count
            queue.storage.purge("purged", self._left_the_store)

    @property
    def done(self) -> int:
        """Messages, so far."""
        return self.outcome.done

    def cancel(self) -> None:
        """Nothing more is done, and nobody is told; what was done stays done."""
        self._then = None
        self._walk.cancel()

    # the walk

    @property
    def needs_pause(self) -> bool:
        """See `Visitor`; those who do not read what they are sent are waited for, but not for ever."""
        why = self._deed.strained()
        if not why or self.outcome.stopped:
            self._patience = 0.0
            return False
        now = self._context.scheduler.clock()
        self._patience = self._patience or now + _PATIENCE
        if now >= self._patience:
            self.outcome.stopped = why
        return not self.outcome.stopped

    def visit(self, message: Message, where: ScanPosition) -> bool:
        """See `Visitor`."""
        outcome, queue = self.outcome, self._queue
        if outcome.stopped or (self._limit is not None and outcome.done >= self._limit):
            return False
        if self._selector is not None and not self._selector(message.head.headers):
            return True
        try:
            self._deed.check(queue, message)
        except NotAllowed as error:
            if self._deed.stops:
                outcome.stopped = error.detail
                return False
            self._refuse(message, error.detail)
            return self._looks_for_more()
        self._tick_off(message)
        self._withdraw(message, where)
        self._deed.carry_out(queue, message)
        outcome.done += 1
        return self._looks_for_more()

    def _looks_for_more(self) -> bool:
        """Whether others may be meant, too; in the queue of a durable subscription one id may be there twice."""
        return self._left is None or bool(self._left) or self._queue.filled_by_topic

    def _tick_off(self, message: Message) -> None:
        if self._left is not None:
            self._left.pop(message.number, None)

    def _refuse(self, message: Message, why: str) -> None:
        self._tick_off(message)
        self.outcome.refusals += 1
        if len(self.outcome.refused) < MOST_REFUSED:
            self.outcome.refused.append((message.id.decode(), why))

    def _withdraw(self, message: Message, where: ScanPosition) -> None:
        """A message waits no longer, wherever it did; it still counts as kept."""
        queue = self._queue
        if where is ScanPosition.RESTING:
            queue.take_resting(message)
        elif where is ScanPosition.BACKLOG:
            assert queue.storage is not None  # it has the backlog
            assert queue.storage.paged is not None
            queue.storage.paged.claim(message.row)
            self._context.memory.keep(message.size)
        else:
            queue.take_out(message)

    def turn_over(self) -> None:
        """See `Visitor`: what is next of a group may go to somebody now, and not while it may be meant, too."""
        self._queue.close_gaps()

    def over(self) -> None:
        """See `Visitor`."""
        self._is_over = True
        self.outcome.missing += [] if self._left is None else self._left.values()
        self._tell()

    # the store

    def _left_the_store(self) -> None:
        self._is_leaving = False
        self._tell()

    def _tell(self) -> None:
        """Tell of the outcome once the store has all of it."""
        if self._is_over and not self._is_leaving:
            if self._context.storage is None:
                self._end()
            else:
                self._context.storage.when_all_written(self._end)

    def _end(self) -> None:
        if self._then is not None:
            self._then(self.outcome)


class PurgeMessages:
    """The messages are thrown away.

    Args:
        why: for the records.
    """

    stops = False
    is_purge = True

    def __init__(self, why: Drop) -> None:
        self._why = why

    def check(self, queue: Queue, message: Message) -> None:
        """That can always be done."""

    def carry_out(self, queue: Queue, message: Message) -> None:
        """See `Operation`."""
        queue.drop_message(message, self._why)

    def strained(self) -> str:
        """Nobody gets anything."""
        return ""


class MoveMessages:
    """The messages go to another destination.

    Args:
        target: canonical.
    """

    stops = True
    is_purge = False

    def __init__(self, broker: Broker, target: str) -> None:
        self._target = target
        self._passage = Transfer(broker)

    def check(self, queue: Queue, message: Message) -> None:
        """See `Operation`."""
        self._passage.check(self._target, message)

    def carry_out(self, queue: Queue, message: Message) -> None:
        """See `Operation`."""
        old = message.head
        head = Head.of("SEND", old.headers | {"destination": self._target})
        if old.derived is DEAD_LETTER:
            head.derived = DEAD_LETTER
        self._passage.carry(queue, message, self._target, head, "moved")

    def strained(self) -> str:
        """See `Operation`."""
        return self._passage.strained()


class RedriveMessages:
    """The dead letters go back to where they could not be consumed."""

    stops = False
    is_purge = False

    def __init__(self, broker: Broker) -> None:
        self._passage = Transfer(broker)

    def check(self, queue: Queue, message: Message) -> None:
        """See `Operation`."""
        if message.head.derived is not DEAD_LETTER:
            raise NotAllowed(
                "no dead letter", "it is no dead letter of this server, so nobody knows where it came from; move it"
            )
        target = _source_of(message)
        if target == queue.name:
            raise NotAllowed("a dead letter of this queue", f"it died in {target[:80]!r}, where it is now; move it")
        self._passage.check(target, message)

    def carry_out(self, queue: Queue, message: Message) -> None:
        """See `Operation`."""
        target = _source_of(message)
        headers = {name: value for name, value in message.head.headers.items() if name not in _OF_A_DEAD_LETTER}
        headers["destination"] = _name_for(target, message.head.headers["original-destination"])
        self._passage.carry(queue, message, target, Head.of("SEND", headers), "redriven")

    def strained(self) -> str:
        """See `Operation`."""
        return self._passage.strained()


def _source_of(message: Message) -> str:
    """Where a dead letter goes back to: the queue that it died in; of a pattern, what the SEND named."""
    headers = message.head.headers
    source = headers["dlq-source"]
    return names.canonical(headers["original-destination"], multicast=True) if has_wildcard(source) else source


def _name_for(target: str, original: str) -> str:
    """The destination that its consumers read: as the SEND named it, unless that was another queue."""
    if not target.startswith(names.QUEUE):
        return original
    try:
        return original if names.canonical(original) == target else target
    except NotAllowed:
        return target
