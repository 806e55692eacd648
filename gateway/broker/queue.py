"""A queue: messages wait until consumed, each goes to one consumer.

Consumers with room stand in a rotation; each message goes to the first, who then goes to its end.  Who turns out to
have no room leaves the rotation and comes back by himself (`Subscription.offer`), so that a thousand busy consumers
cost a publisher nothing.

    accept -> (a consumer with room) -> deliver -> ledger -> acknowledge
       '----> waiting ------^                        '-----> take_back: to the front of waiting, in the old order

What holds at each moment between two calls: if messages wait, no consumer in the rotation has room.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from .message import Delivery, Message
from .subscription import Subscription

if TYPE_CHECKING:
    from .broker import Broker

_number = attrgetter("number")


class Queue:
    """A queue of the broker, or the private one of a topic subscription.

    Attributes:
        name: canonical.
        waiting: messages that nobody has, oldest first.
        octets: what `waiting` costs.
        subscriptions: the consumers.
        private: belongs to one subscription; it vanishes with it.
    """

    __slots__ = ("_broker", "_rotation", "name", "octets", "private", "subscriptions", "waiting")

    def __init__(self, broker: Broker, name: str, *, private: bool = False) -> None:
        self.name = name
        self.waiting: deque[Message] = deque()
        self.octets = 0
        self.subscriptions: dict[Subscription, None] = {}
        self.private = private
        self._broker = broker
        self._rotation: deque[Subscription] = deque()

    def accept(self, message: Message) -> None:
        """Take a new message: to a consumer with room, else to the end of those waiting."""
        if self._rotation:
            consumer = self._next(message)
            if consumer is not None:
                self._broker.counters.delivered += 1
                if consumer.ledger is not None:
                    self._broker.keep(message.size)
                consumer.deliver(message)
                return
        size = message.size
        self.waiting.append(message)
        self.octets += size
        self._broker.waiting += 1
        self._broker.keep(size)

    def _next(self, message: Message) -> Subscription | None:
        """The consumer whose turn it is; not the one that just gave the message back, if there is another."""
        rotation = self._rotation
        second_choice = None
        for _ in range(len(rotation)):
            consumer = rotation[0]
            if not consumer.has_room():
                rotation.popleft()
                consumer.listed = False
                continue
            rotation.rotate(-1)
            if consumer is not message.avoid:
                return consumer
            second_choice = consumer
        return second_choice

    def _dispatch(self) -> None:
        """Give waiting messages to the consumers with room."""
        waiting = self.waiting
        broker = self._broker
        while waiting and self._rotation:
            consumer = self._next(waiting[0])
            if consumer is None:
                break
            message = waiting.popleft()
            size = message.size
            self.octets -= size
            broker.waiting -= 1
            broker.counters.delivered += 1
            if message.attempts:
                broker.counters.redelivered += 1
            if consumer.ledger is None:
                broker.release(size)
            consumer.deliver(message)

    def join(self, subscription: Subscription) -> None:
        """A new consumer; what waits is dispatched at once."""
        self.subscriptions[subscription] = None
        subscription.queue = self
        self.enlist(subscription)

    def enlist(self, subscription: Subscription) -> None:
        """A consumer may have room again."""
        self._rotation.append(subscription)
        subscription.listed = True
        if self.waiting:
            self._dispatch()

    def acknowledge(self, deliveries: Iterable[Delivery]) -> None:
        """Deliveries, all of one subscription, are settled for good."""
        subscription = self._settle(deliveries)
        for delivery in deliveries:
            self._broker.counters.acknowledged += 1
            self._broker.release(delivery.message.size)
        subscription.offer()

    def reject(self, deliveries: Iterable[Delivery]) -> None:
        """Deliveries come back by NACK: to another consumer if there is one, else to the same."""
        subscription = self._settle(deliveries)
        messages = []
        for delivery in deliveries:
            self._broker.counters.rejected += 1
            delivery.message.avoid = subscription
            messages.append(delivery.message)
        self.take_back(messages)
        subscription.offer()

    def _settle(self, deliveries: Iterable[Delivery]) -> Subscription:
        for delivery in deliveries:
            subscription = delivery.subscription
            assert subscription.ledger is not None  # deliveries exist only where there is a ledger
            del subscription.ledger[delivery.handle]
        return subscription

    def drop(self, subscription: Subscription) -> list[Message]:
        """A consumer goes.

        Returns:
            What it did not settle, for `take_back`, once all that go together have gone.  Deliveries that an open
            transaction holds are not among it; they stay with the transaction.
        """
        del self.subscriptions[subscription]
        if subscription.listed:
            self._rotation.remove(subscription)
            subscription.listed = False
        subscription.ended = True
        ledger = subscription.ledger
        if not ledger:
            return []
        free = [delivery for delivery in ledger.values() if delivery.transaction is None]
        for delivery in free:
            del ledger[delivery.handle]
        return [delivery.message for delivery in free]

    def take_back(self, messages: list[Message]) -> None:
        """Messages come back, to the front, in order of arrival; a queue forgotten meanwhile returns with them."""
        if self.private and not self.subscriptions:
            self._discard(messages)
            return
        home = self if self.private else self._broker.destinations.setdefault(self.name, self)
        assert isinstance(home, Queue)  # names of queues and topics differ
        home._insert(messages)
        home._dispatch()
        self._broker.forget_if_idle(home)

    def _discard(self, messages: list[Message]) -> None:
        """A private queue whose subscription is gone has nobody left to give anything to."""
        for message in [*messages, *self.waiting]:
            self._broker.release(message.size)
        self._broker.waiting -= len(self.waiting)
        self.waiting.clear()

    def _insert(self, messages: list[Message]) -> None:
        if not messages:
            return
        messages.sort(key=_number)
        self.octets += sum([message.size for message in messages])
        self._broker.waiting += len(messages)
        waiting = self.waiting
        last = messages[-1].number
        # Only those returned before can be older than these; all else in front is younger.
        older: list[Message] = []
        while waiting and waiting[0].number < last:
            older.append(waiting.popleft())
        waiting.extendleft(reversed(list(heapq.merge(older, messages, key=_number)) if older else messages))
