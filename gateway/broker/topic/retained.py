"""Retained messages: the last value of a topic, for later subscribers.

A SEND with `retain:set` replaces what its topic keeps, `retain:remove` takes it away; both are routed like any other
message besides.  A new subscriber gets the retained messages of all topics that the name, or pattern, covers, marked
`retained:true`.  They count as kept memory, and there may be only so many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from gateway.codec import Head

from ..core.context import Context
from ..core.scheduler import Timer
from ..errors import NotAllowed
from ..model.changes import Stored
from ..model.destinations import DIRECT, FANOUT, REPLY_QUEUE, REPLY_TOPIC, TOPIC
from ..model.message import Message
from ..model.options import Retain
from ..model.policy import Policies
from ..model.trie import NameTree
from ..queue.subscription import Subscription
from .topic import Topic

# Messages that are looked at in one turn: about 2 ms.
READS_PER_TURN = 2_000

KIND = "retained"
"""The place in the store."""


class RetainedMessage(NamedTuple):
    """The message that a topic retains, the date of its end, and its row in the store."""

    name: str
    message: Message
    date: Timer | None
    stored: Message | None


class Retained:
    """The retained messages of all topics.

    Attributes:
        stored: how many of them outlive the process.
    """

    def __init__(self, context: Context, policies: Policies) -> None:
        self._context = context
        self._policies = policies
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
        limit = self._context.quotas.max_retained
        if new and len(self._kept) + new > limit:
            raise NotAllowed("too many retained messages", f"the server may keep {limit} (max_retained)")

    def keep(self, name: str, message: Message) -> None:
        """Keep a message that says `retain:set`; one that says `retain:remove` ends the kept one."""
        self.forget(name)
        context = self._context
        if message.options.retain is not Retain.SET:
            return
        if len(self._kept) >= context.quotas.max_retained:  # others came while it was delayed, or in a transaction
            context.counters.drops["max-retained"] += 1
            context.records.ended("dropped", name, message, reason="too many retained messages")
            return
        stored = None
        if context.storage is not None and self._policies.is_durable(name, persistent=message.options.persistent):
            stored = Message(message.number, message.head, message.body, message.options)
            stored.expires = message.expires
            storage = context.storage
            storage.enter(storage.pool(KIND), stored, row=context.next_number(), extra=_extra(name, message))
        self._add(name, message, stored)

    def _add(self, name: str, message: Message, stored: Message | None) -> None:
        context = self._context
        head = Head.of(message.head.command, {**message.head.headers, "retained": "true"})
        head.derived = _seq(message)
        copy = Message(message.number, head, message.body, message.options)
        copy.expires = message.expires
        date = context.scheduler.at(copy.expires, partial(self._expire, name)) if copy.expires else None
        self._kept.add(name, RetainedMessage(name, copy, date, stored))
        self.stored += stored is not None
        context.memory.keep(copy.size)

    def restore(self, found: Stored) -> None:
        """Take over a message that the store holds from the last process."""
        storage = self._context.storage
        assert storage is not None  # it holds it
        message, extra = storage.facts.read(found)
        message.head.derived = extra.get("seq")
        self._add(extra["name"], message, message)

    def forget(self, name: str) -> None:
        """A topic keeps nothing any more."""
        kept = self._kept.get(name)
        if kept is not None:
            self._kept.remove(name)
            self._context.scheduler.cancel(kept.date)
            self._context.memory.release(kept.message.size)
            if kept.stored is not None and self._context.storage is not None:
                self._context.storage.leave(kept.stored)
                self.stored -= 1

    def _expire(self, name: str) -> None:
        message = self.of(name)
        assert message is not None  # its date goes with it
        self.forget(name)
        self._context.counters.expired += 1
        self._context.records.ended("expired", name, message)

    def show(self, name: str, subscription: Subscription, topic: Topic) -> None:
        """Give a new subscriber what is kept for the name or pattern it subscribed to, as fast as it reads."""
        if len(self._kept):
            kept = self._kept.matching(name)
            if kept:
                reader = RetainedReader(self._context, self, subscription, topic, [each.name for each in kept])
                subscription.reader = reader
                reader.offer()

    def of(self, name: str) -> Message | None:
        """The message that a topic retains."""
        kept = self._kept.get(name)
        return None if kept is None else kept.message

    def every(self) -> list[RetainedMessage]:
        """The messages that topics retain, in the order in which they came."""
        return list(self._kept.values())

    def find(self, name: str) -> RetainedMessage | None:
        """The message that a topic retains, with its date and its row."""
        return self._kept.get(name)


def _seq(message: Message) -> int | None:
    """The number of a message in the stream of its topic; None: the topic has no stream."""
    seq = message.head.derived
    return seq if isinstance(seq, int) else None


def _extra(name: str, message: Message) -> dict[str, object]:
    """The facts that the store keeps beside the message."""
    seq = _seq(message)
    return {"name": name} if seq is None else {"name": name, "seq": seq}


class RetainedReader:
    """The rest of the retained messages that a new subscriber is to get.

    What is published meanwhile comes before it.  Names alone are remembered: a value that was replaced meanwhile, by
    one that came the other way, must not be kept for a client that does not read.
    """

    __slots__ = ("_context", "_kept", "_last", "_retained", "_subscription", "_topic")

    def __init__(
        self, context: Context, retained: Retained, subscription: Subscription, topic: Topic, names: list[str]
    ) -> None:
        self._context = context
        self._retained = retained
        self._subscription = subscription
        self._topic = topic
        self._kept = deque(names)
        self._last = context.next_number()

    def offer(self) -> None:
        """Go on: there may be room in the outbox."""
        subscription = self._subscription
        outbox = subscription.outbox
        now = self._context.scheduler.clock()
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
            message = self._retained.of(name)
            if message is not None and message.number < self._last and not 0 < message.expires <= now:
                self._topic.show(subscription, message, name)
        self._context.scheduler.later(self.offer)

    def end(self) -> None:
        """The subscription goes, or has all of it."""
        self._subscription.reader = None
        self._subscription.outbox.starved.pop(self, None)
