"""Retained messages: the last value of a topic, for those who subscribe later.

A SEND with `retain:set` replaces what its topic keeps, `retain:remove` takes it away; both are routed like any other
message besides.  Who subscribes gets the retained messages of all topics that the name, or pattern, covers, marked
`retained:true`.  They count as kept memory, and there may be only so many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gateway.codec import Head

from ..core.scheduler import Timer
from ..errors import NotAllowed
from ..model.changes import Stored
from ..model.destinations import DIRECT, FANOUT, REPLY_QUEUE, REPLY_TOPIC, TOPIC
from ..model.message import Message
from ..model.options import Retain
from ..model.trie import NameTree

if TYPE_CHECKING:
    from ..broker import Broker
    from ..queue.subscription import Subscription
    from .topic import Topic

# Messages that are looked at in one turn: about 2 ms.
READS_PER_TURN = 2_000

KIND = "retained"
"""The place in the store."""


class RetainedMessage(NamedTuple):
    """What a topic keeps, the date of its end, and what stands for it in the store."""

    name: str
    message: Message
    date: Timer | None
    stored: Message | None


class Retained:
    """The retained messages of all topics.

    Attributes:
        stored: how many of them outlive the process.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._kept: NameTree[RetainedMessage] = NameTree()
        self.stored = 0

    def __len__(self) -> int:
        return len(self._kept)

    def check(self, names: Iterable[str]) -> None:
        """Refuse what cannot be retained.

        Raises:
            NotAllowed: one of the names is no topic that lasts.
        """
        for name in names:
            if not name.startswith((TOPIC, DIRECT, FANOUT)):
                what = "a temporary destination" if name.startswith((REPLY_QUEUE, REPLY_TOPIC)) else repr(name[:80])
                raise NotAllowed("retain is for topics", f"{what} is none that all can subscribe to")

    def check_room(self, names: Iterable[str]) -> None:
        """Refuse what would be too many.

        Raises:
            NotAllowed: so many more cannot be retained.
        """
        new = sum([self._kept.get(name) is None for name in names])
        limit = self._broker.quotas.max_retained
        if new and len(self._kept) + new > limit:
            raise NotAllowed("too many retained messages", f"the server may keep {limit} (max_retained)")

    def keep(self, name: str, message: Message) -> None:
        """A message with a wish comes to its topic."""
        self.forget(name)
        broker = self._broker
        if message.options.retain is not Retain.SET:
            return
        if len(self._kept) >= broker.quotas.max_retained:  # others came while it was delayed, or in a transaction
            broker.counters.drops["max-retained"] += 1
            if broker.records is not None:
                broker.records.dropped(name, message, "too many retained messages")
            return
        stored = None
        if broker.storage is not None and broker.router.is_durable(name, message.options):
            stored = Message(message.number, message.head, message.body, message.options)
            stored.expires = message.expires
            storage = broker.storage
            storage.enter(storage.pool(KIND), stored, row=broker.next_number(), extra=_extra(name, message))
        self._add(name, message, stored)

    def _add(self, name: str, message: Message, stored: Message | None) -> None:
        broker = self._broker
        head = Head.of(message.head.command, {**message.head.headers, "retained": "true"})
        head.derived = _seq(message)
        copy = Message(message.number, head, message.body, message.options)
        copy.expires = message.expires
        date = broker.scheduler.at(copy.expires, partial(self._expire, name)) if copy.expires else None
        self._kept.add(name, RetainedMessage(name, copy, date, stored))
        self.stored += stored is not None
        broker.keep(copy.size)

    def restore(self, found: Stored) -> None:
        """What the store holds from the last process."""
        storage = self._broker.storage
        assert storage is not None  # it holds it
        message, extra = storage.facts.read(found)
        message.head.derived = extra.get("seq")
        self._add(extra["name"], message, message)

    def forget(self, name: str) -> None:
        """A topic keeps nothing any more."""
        kept = self._kept.get(name)
        if kept is not None:
            self._kept.remove(name)
            self._broker.scheduler.cancel(kept.date)
            self._broker.release(kept.message.size)
            if kept.stored is not None and self._broker.storage is not None:
                self._broker.storage.leave(kept.stored)
                self.stored -= 1

    def _expire(self, name: str) -> None:
        message = self.of(name)
        assert message is not None  # its date goes with it
        self.forget(name)
        self._broker.counters.expired += 1
        if self._broker.records is not None:
            self._broker.records.expired(name, message)

    def show(self, name: str, subscription: Subscription, topic: Topic) -> None:
        """Give a new subscriber what is kept for the name or pattern it subscribed to, as fast as it reads."""
        if len(self._kept):
            kept = self._kept.matching(name)
            if kept:
                reader = RetainedReader(self._broker, subscription, topic, [each.name for each in kept])
                subscription.reader = reader
                reader.offer()

    def of(self, name: str) -> Message | None:
        """What a topic keeps."""
        kept = self._kept.get(name)
        return None if kept is None else kept.message

    def every(self) -> list[RetainedMessage]:
        """What all topics keep, in the order in which these came."""
        return list(self._kept.values())

    def find(self, name: str) -> RetainedMessage | None:
        """What a topic keeps, and what belongs to it."""
        return self._kept.get(name)


def _seq(message: Message) -> int | None:
    """Its number in the log of its topic; None: that has none."""
    seq = message.head.derived
    return seq if isinstance(seq, int) else None


def _extra(name: str, message: Message) -> dict[str, object]:
    """What the store keeps beside the message."""
    seq = _seq(message)
    return {"name": name} if seq is None else {"name": name, "seq": seq}


class RetainedReader:
    """What is left of the retained messages that a new subscriber is to get.

    What is published meanwhile comes before it.  Names alone are remembered: a value that was replaced meanwhile, by
    one that came the other way, must not be kept for somebody who does not read.
    """

    __slots__ = ("_broker", "_kept", "_last", "_subscription", "_topic")

    def __init__(self, broker: Broker, subscription: Subscription, topic: Topic, kept: list[str]) -> None:
        self._broker = broker
        self._subscription = subscription
        self._topic = topic
        self._kept = deque(kept)
        self._last = broker.next_number()

    def offer(self) -> None:
        """Go on: there may be room in the outbox."""
        subscription = self._subscription
        outbox = subscription.outbox
        now = self._broker.scheduler.clock()
        for _ in range(READS_PER_TURN):
            if subscription.reader is not self or outbox.closed:
                return
            if not self._kept:
                self.end()
                return
            if outbox.size >= subscription.window:
                outbox.starved[self] = None
                return
            if subscription.queue is not None and subscription.queue.waiting >= READS_PER_TURN:
                return  # the subscription asks again when it has acknowledged something
            name = self._kept.popleft()
            message = self._broker.router.retained.of(name)
            if message is not None and message.number < self._last and not 0 < message.expires <= now:
                self._topic.show(subscription, message, name)
        self._broker.scheduler.later(self.offer)

    def end(self) -> None:
        """The subscription goes, or has all of it."""
        self._subscription.reader = None
        self._subscription.outbox.starved.pop(self, None)
