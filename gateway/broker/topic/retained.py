"""Retained messages: the last value of a topic, for later subscribers.

A SEND with `retain:set` replaces what its topic keeps, `retain:remove` takes it away; both are routed as well.  A new
subscriber gets what the name, or pattern, covers, marked `retained:true`.
"""

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
from .topic import Topic, wants

KIND = "retained"
"""The kind of their container in the store."""


class RetainedMessage(NamedTuple):
    """The message that a topic retains, the date of its end, and what the store has of it."""

    name: str
    message: Message
    date: Timer | None
    stored: Message | None


class Retained:
    """The retained messages of all topics; `stored`: how many of them outlive the process."""

    def __init__(self, context: Context, policies: Policies) -> None:
        self._context = context
        self._policies = policies
        self._kept: NameTree[RetainedMessage] = NameTree()
        self.stored = 0

    def __len__(self) -> int:
        return len(self._kept)

    def check(self, names: Iterable[str]) -> None:
        """Refuse what cannot be retained.  Raises NotAllowed: one of the names is no topic that lasts."""
        for name in names:
            if not name.startswith((TOPIC, DIRECT, FANOUT)):
                what = "a temporary destination" if name.startswith((REPLY_QUEUE, REPLY_TOPIC)) else repr(name[:80])
                raise NotAllowed("retain is for topics", f"{what} is none that all can subscribe to")

    def check_room(self, names: Iterable[str]) -> None:
        """Refuse what would be too many.  Raises NotAllowed: so many more cannot be retained."""
        # A name that retains a message already needs no more room.
        new = sum([self._kept.get(name) is None for name in names])
        limit = self._context.quotas.max_retained
        if new and len(self._kept) + new > limit:
            raise NotAllowed("too many retained messages", f"the server may keep {limit} (max_retained)")

    def keep(self, name: str, message: Message) -> None:
        """Keep a message that says `retain:set`; one that says `retain:remove` ends the kept one."""
        # First: a new value has the room of the one that it replaces.
        self.forget(name)
        context = self._context
        if message.options.retain is not Retain.SET:
            return
        # Others came while it was delayed, or in a transaction.
        if len(self._kept) >= context.quotas.max_retained:
            context.counters.drops["max-retained"] += 1
            context.records.ended("dropped", name, message, reason="too many retained messages")
            return
        stored = None
        if context.storage is not None and self._policies.is_durable(name, persistent=message.options.persistent):
            # An object and a row of its own: the topic's stream may store the message under its number.
            stored = Message(message.number, message.head, message.body, message.options)
            stored.expires = message.expires
            storage = context.storage
            seq = _seq(message)
            # All topics share one container: the row itself must name its topic.
            extra = {"name": name} if seq is None else {"name": name, "seq": seq}
            storage.enter(storage.pool(KIND), stored, row=context.next_number(), extra=extra)
        self._add(name, message, stored)

    def _add(self, name: str, message: Message, stored: Message | None) -> None:
        context = self._context
        # A copy, for the message that is routed has no such header.
        head = Head.of(message.head.command, {**message.head.headers, "retained": "true"})
        head.derived = _seq(message)
        copy = Message(message.number, head, message.body, message.options)
        copy.expires = message.expires
        date = context.scheduler.at(copy.expires, partial(self._expire, name)) if copy.expires else None
        self._kept.add(name, RetainedMessage(name, copy, date, stored))
        self.stored += stored is not None
        context.memory.keep(copy.size)

    def restore(self, found: Stored) -> None:
        """Take over a message that the store holds."""
        storage = self._context.storage
        assert storage is not None  # it holds it
        message, extra = storage.facts.read(found)
        message.head.derived = extra.get("seq")
        self._add(extra["name"], message, message)

    def forget(self, name: str) -> None:
        """End what a topic retains."""
        kept = self._kept.get(name)
        if kept is not None:
            self._kept.remove(name)
            self._context.scheduler.cancel(kept.date)
            self._context.memory.release(kept.message.size)
            if kept.stored is not None and self._context.storage is not None:
                self._context.storage.leave(kept.stored)
                self.stored -= 1

    def _expire(self, name: str) -> None:
        kept = self._kept.get(name)
        assert kept is not None  # its date goes with it
        self.forget(name)
        self._context.counters.expired += 1
        self._context.records.ended("expired", name, kept.message)

    def show(self, name: str, subscription: Subscription, topic: Topic) -> None:
        """Give a new subscriber what is kept for the name or pattern it subscribed to, as fast as it reads."""
        kept = self._kept.matching(name) if len(self._kept) else ()
        if kept:
            reader = RetainedReader(self._context, self, subscription, topic, [each.name for each in kept])
            subscription.reader = reader
            self._context.when_all_seen(reader.start)

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


class RetainedReader:
    """The rest of the retained messages that a new subscriber is to get."""

    def __init__(
        self, context: Context, retained: Retained, subscription: Subscription, topic: Topic, names: list[str]
    ) -> None:
        self._context = context
        self._retained = retained
        self._subscription = subscription
        self._topic = topic
        # Names alone: a value that was replaced meanwhile must not be kept for a client that does not read.
        self._names = deque(names)
        # What is published from now on, or held back by the topic, comes to the subscriber live, and would come twice.
        self._last = topic.first_unseen or context.next_number()
        self._is_started = False

    def start(self) -> None:
        """Give what there is, from now on: all up to here may be seen."""
        self._is_started = True
        self.offer()

    def offer(self) -> None:
        """Go on: there may be room in the outbox."""
        subscription = self._subscription
        outbox = subscription.outbox
        now, most = self._context.scheduler.clock(), self._context.work_limits.retained_looks
        for _ in range(most):
            # The subscription may have gone since the last turn (`end`).
            if subscription.reader is not self or outbox.closed or not self._is_started:
                return
            if not self._names:
                self.end()
                return
            if outbox.size >= subscription.window:
                outbox.starved[self] = None
                return
            # The subscription asks again when it has acknowledged something.
            if subscription.queue is not None and subscription.queue.waiting >= most:
                return
            kept = self._retained.find(self._names.popleft())
            if kept is None or kept.message.number >= self._last or kept.message.has_expired(now):
                continue
            # The sender is not kept, so that `no-local` leaves out none of these.
            if wants(subscription, kept.message, ""):
                self._topic.give(subscription, kept.message)
        self._context.scheduler.later(self.offer)

    def end(self) -> None:
        """Stop: the subscription goes, or has all of it."""
        self._subscription.reader = None
        self._subscription.outbox.starved.pop(self, None)
