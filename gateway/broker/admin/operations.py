"""Operations on messages that wait: purge, move and redrive.

A message is only moved if there is room: no message that waits at the target is dropped for it, and no subscriber is
disconnected.  A message that a consumer got meanwhile stays with it.

A moved message is a new message at its destination: with another message-id, behind all messages that wait there of its
priority, and with no failures so far.  Headers, body, priority, group and time to live are those it had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from gateway.codec import Head

from ..core.outbox import Outbox
from ..errors import NotAllowed
from ..model import destinations as names
from ..model.message import DEAD_LETTER, Message, PreparedSend
from ..model.options import Selector, SendOptions, shared
from ..model.patterns import has_wildcard
from ..queue.overflow import QueueLimits, limits_of
from ..queue.queue import Queue
from ..queue.subscription import Subscription
from ..topic.topic import Topic
from .scan import QueueScan, ScanPosition

if TYPE_CHECKING:
    from ..broker import Broker
    from ..core.counters import Drop

# Seconds to wait for a subscriber of the target that does not read.
_PATIENCE = 10.0
# Headers of a dead letter that its message did not have.
_OF_A_DEAD_LETTER = frozenset(
    ["dlq-reason", "dlq-source", "dlq-attempts", "dlq-first-at", "original-destination", "reason"]
)


@dataclass
class Outcome:
    """The result of an operation."""

    done: int = 0  # how many messages
    # ids that do not wait there: a consumer has them, or they have gone, or never existed
    missing: list[str] = field(default_factory=list)
    # id and sentence of messages that stay where they are, the first ones (`listed_refusals`)
    refused: list[tuple[str, str]] = field(default_factory=list)
    refusals: int = 0  # how many stay
    stopped: str = ""  # why it ended early; empty: it did not


class Operation(Protocol):
    """What is done to each message."""

    stops: bool  # a refusal ends the operation, because all others would be refused, too
    is_purge: bool  # it drops messages, which is always possible

    def check(self, queue: Queue, message: Message) -> None:
        """Check if it can be done.  Raises NotAllowed: it cannot; the message stays."""

    def carry_out(self, queue: Queue, message: Message) -> None:
        """Do it, to a message that was taken out of its queue and still counts as kept."""

    def strained(self) -> str:
        """Why it must pause; empty: it need not."""


class RunningOperation:
    """An operation on messages of a queue, at work.

    Args:
        wanted: number of each message -> its id as the operator gave it; None: all messages.
        selector: of these, the ones that it selects; None: all.
        limit: most messages; None: any number.
        then: gets the outcome, once the store has all changes.
    """

    def __init__(
        self,
        queue: Queue,
        operation: Operation,
        then: Callable[[Outcome], None],
        *,
        wanted: dict[int, str] | None = None,
        selector: Selector | None = None,
        limit: int | None = None,
    ) -> None:
        self.outcome = Outcome()  # so far
        self._queue = queue
        self._context = queue.context
        self._operation = operation
        self._then: Callable[[Outcome], None] | None = then
        self._left = None if wanted is None else dict(wanted)
        self._selector = selector
        self._limit = limit
        self._patience = 0.0  # when waiting for subscribers ends; 0: it does not wait
        self._is_over = False
        paged = queue.storage.paged if queue.storage is not None else None
        # Messages that only the store has need not be read to be dropped.
        self._is_leaving = operation.is_purge and wanted is None and selector is None and paged is not None
        self._scan = QueueScan(queue, self, only=wanted, paged=not self._is_leaving)
        if self._is_leaving and paged is not None and queue.storage is not None:
            self.outcome.done += paged.count
            queue.storage.purge("purged", self._left_the_store)

    @property
    def done(self) -> int:
        """How many messages, so far."""
        return self.outcome.done

    def cancel(self) -> None:
        """End it without a callback; changes so far stay."""
        self._then = None
        self._scan.cancel()

    # for the scan, see `ScanVisitor`

    @property
    def needs_pause(self) -> bool:
        """True while a subscriber of the target does not read; after some seconds the operation stops instead."""
        why = self._operation.strained()
        if not why or self.outcome.stopped:
            self._patience = 0.0
            return False
        now = self._context.scheduler.clock()
        # Set by the first of several waits in a row, so that they end: a subscriber that hangs would hold it for ever.
        self._patience = self._patience or now + _PATIENCE
        if now >= self._patience:
            self.outcome.stopped = why
        return not self.outcome.stopped

    def visit(self, message: Message, where: ScanPosition) -> bool:
        outcome, queue = self.outcome, self._queue
        # `needs_pause`, which the scan asks between two visits, may have ended the patience.
        if outcome.stopped or (self._limit is not None and outcome.done >= self._limit):
            return False
        if self._selector is not None and not self._selector(message.head.headers):
            return True
        # Before the message is taken out: one that is refused never left its place.
        try:
            self._operation.check(queue, message)
        except NotAllowed as error:
            if self._operation.stops:
                outcome.stopped = error.detail
                return False
            self._refuse(message, error.detail)
            return self._looks_for_more()
        self._tick_off(message)
        # Out of its queue and elsewhere in one step, and so in one batch of the store: after a kill it is in one of the
        # two places, never in none and never in both.
        self._withdraw(message, where)
        self._operation.carry_out(queue, message)
        outcome.done += 1
        return self._looks_for_more()

    def _looks_for_more(self) -> bool:
        """True if other messages may be wanted; in the queue of a durable subscription one id may be there twice."""
        return self._left is None or bool(self._left) or self._queue.filled_by_topic

    def _tick_off(self, message: Message) -> None:
        if self._left is not None:
            self._left.pop(message.number, None)

    def _refuse(self, message: Message, why: str) -> None:
        self._tick_off(message)
        self.outcome.refusals += 1
        if len(self.outcome.refused) < self._context.work_limits.listed_refusals:
            self.outcome.refused.append((message.id.decode(), why))

    def _withdraw(self, message: Message, where: ScanPosition) -> None:
        """Take a message out of its queue; it still counts as kept."""
        queue = self._queue
        if where is ScanPosition.RESTING:
            queue.take_resting(message)
        elif where is ScanPosition.BACKLOG:
            assert queue.storage is not None  # it has the backlog
            assert queue.storage.paged is not None
            queue.storage.paged.claim(message.row)
            # Only what is in memory is in its account, and `carry_out` takes it out of that.
            self._context.memory.keep(message.size)
        else:
            queue.take_out(message)

    def turn_over(self) -> None:
        """Dispatch the next messages of groups: not before, because they may be wanted, too."""
        self._queue.close_gaps()

    def over(self) -> None:
        self._is_over = True
        self.outcome.missing += [] if self._left is None else self._left.values()
        self._tell()

    # the store

    def _left_the_store(self) -> None:
        self._is_leaving = False
        self._tell()

    def _tell(self) -> None:
        """Call back once the store has all changes."""
        if self._is_over and not self._is_leaving:
            if self._context.storage is None:
                self._end()
            else:
                self._context.storage.when_all_written(self._end)

    def _end(self) -> None:
        if self._then is not None:
            self._then(self.outcome)


class Transfer:
    """Takes messages from a queue to another destination, if there is room."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._slow: set[Outbox] = set()
        self._behind: dict[Subscription, Queue] = {}

    def check(self, name: str, message: Message) -> None:
        """Check if a message finds room there.  Raises NotAllowed: it does not."""
        broker = self._broker
        # `deposit` passes this limit, as dead letters must find room; an operator's move need not.
        reason = broker.memory.is_full
        if reason:
            raise NotAllowed("memory limit reached", reason)
        target = broker.registry.find(name)
        if isinstance(target, Queue):
            _check_queue(target, message)
        elif names.is_topic(name):
            self._check_topic(name, message)
        # Made anew, the queue of a user, a function or a subscription that has gone might never be read.
        elif name.startswith(names.HIDDEN) or broker.registry.is_gone(name):
            raise NotAllowed("no such destination", f"{name[:80]!r} does not exist any more")
        else:
            _check_size(limits_of(broker.router.policies.find(name)), 0, name, message)
        # As the router checks a SEND: how many destinations there may be, and whether the store works.
        sending = PreparedSend([(name, message.head)], message.body, _properties(message), "", message.expires)
        broker.router.check([sending])

    def _check_topic(self, name: str, message: Message) -> None:
        topics = self._topics(name)
        # A SEND without subscribers is no error; but to move messages is not to lose them.
        if not topics and not self._broker.registry.keeps_stream(name):
            raise NotAllowed("no subscriber", f"{name[:80]!r} has no subscriber, so the message would be lost")
        for topic in topics:
            for durable in topic.durable_subscriptions.values():
                if durable.wants(message, ""):
                    _check_queue(durable.queue, message)

    def _topics(self, name: str) -> list[Topic]:
        """The topic, and the patterns that match its name."""
        registry = self._broker.registry
        topic = registry.find(name)
        return [*registry.patterns.match(name), *([topic] if isinstance(topic, Topic) else [])]

    def carry(self, queue: Queue, message: Message, target: str, head: Head, why: str) -> None:
        """Send a message there that was taken out of its queue and still counts as kept."""
        broker = self._broker
        options, body, expires = _properties(message), message.body, message.expires
        unseen = queue.hides(message)
        # First out of the account of memory and the store: the new message takes the same room once more.
        queue.let_go(message)
        broker.counters.moved += 1
        broker.records.ended("dropped", queue.name, message, reason=why)
        slow_consumers = broker.context.slow_consumers
        strained = slow_consumers.strained.copy()
        broker.deposit(target, head, body, options, expires, unseen=unseen)
        self._slow |= slow_consumers.take_since(strained)
        # Subscribers that must acknowledge have private queues; full ones would cost them messages, or the connection.
        if names.is_topic(target):
            for topic in self._topics(target):
                self._behind |= {each: own for each, own in topic.queued.items() if _is_half_full(own)}

    def strained(self) -> str:
        """The subscriber that does not read, in a sentence; empty: all read."""
        # Those that have caught up or gone hold up nothing any more.
        self._slow = {each for each in self._slow if each.size > each.relief and not each.closed}
        self._behind = {each: own for each, own in self._behind.items() if not each.ended and _is_half_full(own)}
        sessions = [*[each.peer for each in self._slow], *[each.peer for each in self._behind]]
        if not sessions:
            return ""
        session = sessions[0]
        return f"session {session.id} ({session.login[:80]}) does not read or acknowledge what it subscribed to"


def _properties(message: Message) -> SendOptions:
    """The options of the SEND that still apply."""
    old = message.options
    # Not the delay, the transaction, the dedup-id or `retain`: these were for its first way.
    return shared(
        SendOptions(
            priority=old.priority,
            group=old.group,
            closes_group=old.closes_group,
            conflation_key=old.conflation_key,
            # Also one that only the policy of its queue had stored: a move must not make it less safe.
            persistent=old.persistent or message.row > 0,
        )
    )


def _check_queue(queue: Queue, message: Message) -> None:
    """Refuse a message that finds no room, or only in place of another.  Raises NotAllowed: it is so."""
    # Whatever `when_full` says: no message that waits is dropped for one that an operator moves.
    if queue.limits.reached(queue.waiting, queue.nbytes):
        raise NotAllowed("the queue is full", _fullness(queue))
    _check_size(queue.limits, queue.nbytes, queue.name, message)


def _check_size(limits: QueueLimits, nbytes: int, name: str, message: Message) -> None:
    """Refuse a message that is too large for a queue in which so many bytes wait.  Raises NotAllowed: it is."""
    size = message.size + len(name.encode())  # with another destination it may be so much longer
    if not limits.keeps_all and 0 < limits.max_bytes < nbytes + size:
        raise NotAllowed(
            "no room in the queue",
            f"the message costs {size} bytes, {nbytes} wait in {name[:80]!r}, and max_bytes is {limits.max_bytes}",
        )


def _is_half_full(queue: Queue) -> bool:
    """True if as much again could cost a subscriber messages, or its connection."""
    limits = queue.limits
    return 0 < limits.max_messages < 2 * queue.waiting or 0 < limits.max_bytes < 2 * queue.nbytes


def _fullness(queue: Queue) -> str:
    limits = queue.limits
    if 0 < limits.max_messages <= queue.waiting:
        return f"{queue.waiting} messages wait in {queue.name[:80]!r}, and max_messages is {limits.max_messages}"
    return f"{queue.nbytes} bytes wait in {queue.name[:80]!r}, and max_bytes is {limits.max_bytes}"


class PurgeMessages:
    """Drops messages.  `why`: for the records."""

    stops = False
    is_purge = True

    def __init__(self, why: Drop) -> None:
        self._why = why

    def check(self, queue: Queue, message: Message) -> None:
        """It is always possible."""

    def carry_out(self, queue: Queue, message: Message) -> None:
        queue.drop_message(message, self._why)

    def strained(self) -> str:
        """No subscriber gets anything."""
        return ""


class MoveMessages:
    """Moves messages to another destination.  `target`: canonical."""

    stops = True  # all go to the same target, which has no room for the next one either
    is_purge = False

    def __init__(self, broker: Broker, target: str) -> None:
        self._target = target
        self._transfer = Transfer(broker)
        self.strained = self._transfer.strained

    def check(self, queue: Queue, message: Message) -> None:
        self._transfer.check(self._target, message)

    def carry_out(self, queue: Queue, message: Message) -> None:
        old = message.head
        head = Head.of("SEND", old.headers | {"destination": self._target})
        # It stays a dead letter, which can be sent back from there.
        if old.derived is DEAD_LETTER:
            head.derived = DEAD_LETTER
        self._transfer.carry(queue, message, self._target, head, "moved")


class RedriveMessages:
    """Sends dead letters back to where they came from."""

    stops = False  # each goes back to where it came from, and another one may find room there
    is_purge = False

    def __init__(self, broker: Broker) -> None:
        self._transfer = Transfer(broker)
        self.strained = self._transfer.strained

    def check(self, queue: Queue, message: Message) -> None:
        if message.head.derived is not DEAD_LETTER:
            raise NotAllowed(
                "no dead letter", "it is no dead letter of this server, so its source is not known; move it instead"
            )
        target = _source_of(message)
        # It would only go behind all others of the queue in which it is, and seem to be dealt with.
        if target == queue.name:
            raise NotAllowed("a dead letter of this queue", f"it died in {target[:80]!r}, where it is now; move it")
        self._transfer.check(target, message)

    def carry_out(self, queue: Queue, message: Message) -> None:
        target = _source_of(message)
        headers = {name: value for name, value in message.head.headers.items() if name not in _OF_A_DEAD_LETTER}
        headers["destination"] = _name_for(target, message.head.headers["original-destination"])
        self._transfer.carry(queue, message, target, Head.of("SEND", headers), "redriven")


class RedrivePlan:
    """Where the dead letters of a queue would go: a look at the first 10,000 of them, which moves none.

    Attributes:
        targets: how many go to each destination, by canonical name, the first 100; `others`: how many go elsewhere.
        is_complete: it has looked at all.
        refused: id and sentence of messages that would stay, the first ones; `refusals`: how many.

    Known weakness: room is looked for as if each were the only one.
    """

    needs_pause = False  # nothing is sent

    def __init__(self, queue: Queue, redrive: RedriveMessages, then: Callable[[RedrivePlan], None]) -> None:
        self.targets: dict[str, int] = {}
        self.refused: list[tuple[str, str]] = []
        self.refusals = self.others = 0
        self.is_complete = True
        self._looked = 0
        self._limits = queue.context.work_limits
        self._queue = queue
        self._redrive = redrive
        self._then = then
        self._scan = QueueScan(queue, self)

    def cancel(self) -> None:
        """The result is not needed any more."""
        self._scan.cancel()

    def visit(self, message: Message, where: ScanPosition) -> bool:
        if self._looked >= self._limits.previewed_letters:
            self.is_complete = False
            return False
        self._looked += 1
        try:
            self._redrive.check(self._queue, message)
        except NotAllowed as error:
            self.refusals += 1
            if len(self.refused) < self._limits.listed_refusals:
                self.refused.append((message.id.decode(), error.detail))
        else:
            target = _source_of(message)
            if target in self.targets or len(self.targets) < self._limits.listed_targets:
                self.targets[target] = self.targets.get(target, 0) + 1
            else:
                self.others += 1
        return True

    def turn_over(self) -> None:
        """For the scan: nothing has changed."""

    def over(self) -> None:
        self._then(self)


def _source_of(message: Message) -> str:
    """The target of a dead letter: the queue that it comes from; of a pattern, the destination of the SEND."""
    headers = message.head.headers
    source = headers["dlq-source"]
    # Nothing can be sent to a pattern; what died at its subscriber came by a SEND to one topic.
    return names.canonical(headers["original-destination"], multicast=True) if has_wildcard(source) else source


def _name_for(target: str, original: str) -> str:
    """The `destination` for its consumers: as the SEND named it, unless that was another queue."""
    if not target.startswith(names.QUEUE):
        return original
    try:
        return original if names.canonical(original) == target else target
    except NotAllowed:
        return target
