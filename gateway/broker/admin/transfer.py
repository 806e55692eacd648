"""The way of messages that an operator moves: from a queue to another destination, if there is room.

Nothing that waits there has to go for them, and nobody is cut off because of them: a queue that is full takes none, be
it a durable subscription's, and of those who subscribe to a topic the slowest is waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.codec import Head

from ..core.outbox import Outbox
from ..errors import NotAllowed
from ..model import destinations as names
from ..model.message import Message, PreparedSend
from ..model.options import PERSISTENT, PLAIN, SendOptions
from ..queue.overflow import QueueLimits, limits_of
from ..queue.queue import Queue
from ..queue.subscription import Subscription
from ..topic.topic import Topic

if TYPE_CHECKING:
    from ..broker import Broker


class Transfer:
    """The way of messages from a queue to another destination."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._slow: set[Outbox] = set()
        self._behind: dict[Subscription, Queue] = {}

    def check(self, name: str, message: Message) -> None:
        """Whether a message finds room there.

        Raises:
            NotAllowed: it does not.
        """
        broker = self._broker
        reason = broker.memory.is_full
        if reason:
            raise NotAllowed("memory limit reached", reason)
        target = broker.registry.find(name)
        if isinstance(target, Queue):
            _check_queue(target, message)
        elif names.is_topic(name):
            self._check_topic(name, message)
        elif name.startswith(names.HIDDEN) or broker.registry.is_gone(name):
            raise NotAllowed("nobody can read it there", f"{name[:80]!r} is no more")
        else:
            _check_size(limits_of(broker.router.policies.find(name)), 0, name, message)
        sending = PreparedSend([(name, message.head)], message.body, _properties(message), "", message.expires)
        broker.router.check([sending])

    def _check_topic(self, name: str, message: Message) -> None:
        topics = self._topics(name)
        if not topics and not self._broker.registry.keeps_log(name):
            raise NotAllowed("nobody subscribes", f"nobody subscribes to {name[:80]!r}, so the message would be lost")
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
        """A message that is kept, and waits no longer, goes there."""
        broker = self._broker
        options, body, expires = _properties(message), message.body, message.expires
        queue.let_go(message)
        broker.counters.moved += 1
        if broker.records is not None:
            broker.records.dropped(queue.name, message, why)
        strained = broker.context.slow_consumers.strained.copy()
        broker.deposit(target, head, body, options, expires)
        # Whoever is read next did not publish there.
        self._slow |= broker.context.slow_consumers.strained - strained
        broker.context.slow_consumers.strained.intersection_update(strained)
        if names.is_topic(target):
            for topic in self._topics(target):
                self._behind |= {each: own for each, own in topic.queued.items() if _is_half_full(own)}

    def strained(self) -> str:
        """Who does not read what came there, as a sentence; empty: all do."""
        self._slow = {each for each in self._slow if each.size > each.relief and not each.closed}
        self._behind = {each: own for each, own in self._behind.items() if not each.ended and _is_half_full(own)}
        sessions = [*[each.peer for each in self._slow], *[each.peer for each in self._behind]]
        if not sessions:
            return ""
        session = sessions[0]
        return f"session {session.id} ({session.login[:80]}) does not read or acknowledge what it subscribed to"


def _properties(message: Message) -> SendOptions:
    """What the SEND asked for, as far as it is still to come."""
    old = message.options
    options = SendOptions(
        priority=old.priority,
        group=old.group,
        closes_group=old.closes_group,
        conflation_key=old.conflation_key,
        persistent=old.persistent or message.row > 0,
    )
    return next((each for each in (PLAIN, PERSISTENT) if each == options), options)


def _check_queue(queue: Queue, message: Message) -> None:
    """Refuse what finds no room in a queue.

    Raises:
        NotAllowed: it is full, or would be so full that something had to go.
    """
    if queue.limits.reached(queue.waiting, queue.nbytes):
        raise NotAllowed("the queue is full", _fullness(queue))
    _check_size(queue.limits, queue.nbytes, queue.name, message)


def _check_size(limits: QueueLimits, nbytes: int, name: str, message: Message) -> None:
    """The same of a queue in which so many bytes wait; it may not be there yet."""
    size = message.size + len(name.encode())  # where it goes its destination is another, and may be so much longer
    if not limits.keeps_all and 0 < limits.max_octets < nbytes + size:
        raise NotAllowed(
            "no room in the queue",
            f"the message costs {size} octets, {nbytes} wait in {name[:80]!r}, {limits.max_octets} may (max_octets)",
        )


def _is_half_full(queue: Queue) -> bool:
    """Whether as much again could cost a subscriber messages, or its connection."""
    limits = queue.limits
    return 0 < limits.max_messages < 2 * queue.waiting or 0 < limits.max_octets < 2 * queue.nbytes


def _fullness(queue: Queue) -> str:
    limits = queue.limits
    if 0 < limits.max_messages <= queue.waiting:
        return f"{queue.waiting} messages wait in {queue.name[:80]!r}, {limits.max_messages} may (max_messages)"
    return f"{queue.nbytes} octets wait in {queue.name[:80]!r}, {limits.max_octets} may (max_octets)"
