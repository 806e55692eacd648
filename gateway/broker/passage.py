"""The way of messages that an operator moves: from a queue to another destination, if there is room.

Nothing that waits there has to go for them, and nobody is cut off because of them: a queue that is full takes none, and
of those who subscribe to a topic the slowest is waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.codec import Head

from . import destinations as names
from .errors import NotAllowed
from .message import Message
from .options import PERSISTENT, PLAIN, Properties
from .outbound import Outbound
from .queue import Queue
from .sending import Sending

if TYPE_CHECKING:
    from .broker import Broker


class Passage:
    """The way of messages from a queue to another destination."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._slow: set[Outbound] = set()

    def check(self, name: str, message: Message) -> None:
        """Whether a message finds room there.

        Raises:
            NotAllowed: it does not.
        """
        broker = self._broker
        reason = broker.memory_is_full
        if reason:
            raise NotAllowed("memory limit reached", reason)
        target = broker.directory.find(name)
        if isinstance(target, Queue):
            if target.limits.reached(target):
                raise NotAllowed("the queue is full", _fullness(target))
        elif names.is_topic(name):
            self._check_topic(name)
        elif name.startswith(names.HIDDEN) or broker.directory.is_gone(name):
            raise NotAllowed("nobody can read it there", f"{name[:80]!r} is no more")
        sending = Sending([(name, message.head)], message.body, _properties(message), "", message.expires)
        broker.router.check([sending])

    def _check_topic(self, name: str) -> None:
        directory = self._broker.directory
        if directory.find(name) is None and not directory.patterns.match(name) and not directory.keeps_log(name):
            raise NotAllowed("nobody subscribes", f"nobody subscribes to {name[:80]!r}, so the message would be lost")

    def carry(self, queue: Queue, message: Message, target: str, head: Head, why: str) -> None:
        """A message that is kept, and waits no longer, goes there."""
        broker = self._broker
        properties, body, expires = _properties(message), message.body, message.expires
        queue.let_go(message)
        broker.counters.moved += 1
        if broker.records is not None:
            broker.records.dropped(queue.name, message, why)
        strained = broker.strained.copy()
        broker.deposit(target, head, body, properties, expires)
        # Whoever is read next did not publish there.
        self._slow |= broker.strained - strained
        broker.strained.intersection_update(strained)

    def strained(self) -> str:
        """Who does not read what came there, as a sentence; empty: all do."""
        self._slow = {each for each in self._slow if each.size > each.relief and not each.closed}
        if not self._slow:
            return ""
        session = next(iter(self._slow)).session
        return f"session {session.id} ({session.login[:80]}) does not read what it subscribed to"


def _properties(message: Message) -> Properties:
    """What the SEND asked for, as far as it is still to come."""
    old = message.properties
    properties = Properties(
        priority=old.priority,
        group=old.group,
        closes_group=old.closes_group,
        conflation_key=old.conflation_key,
        persistent=old.persistent or message.row > 0,
    )
    return next((each for each in (PLAIN, PERSISTENT) if each == properties), properties)


def _fullness(queue: Queue) -> str:
    limits = queue.limits
    if 0 < limits.max_messages <= queue.waiting:
        return f"{queue.waiting} messages wait in {queue.name[:80]!r}, {limits.max_messages} may (max_messages)"
    return f"{queue.octets} octets wait in {queue.name[:80]!r}, {limits.max_octets} may (max_octets)"
