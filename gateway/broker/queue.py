"""A queue: messages wait until consumed, each goes to one consumer.

Consumers with room stand in a rotation; each message goes to the first, who then goes to its end.  Who turns out to
have no room leaves the rotation and comes back by himself (`Subscription.offer`), so that a thousand busy consumers
cost a publisher nothing.

    accept -> (a consumer with room) -> deliver -> ledger -> acknowledge
       '----> waiting ------^                        '-----> give_back: to the front of waiting, in the old order

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
        self._take_back(messages, gone=subscription.ended)
        subscription.offer()

    def _settle(self, deliveries: Iterable[Delivery]) -> Subscription:
        for delivery in deliveries:
            subscription = delivery.subscription
            assert subscription.ledger is not None  # deliveries exist only where there is a ledger
            del subscription.ledger[delivery.handle]
        return subscription

    def leave(self, subscription: Subscription, unsent: Iterable[Message] = ()) -> None:
        """A consumer goes; what it did not settle, and what was never sent to it, comes back in the old order.

        Deliveries that an open transaction holds stay with the transaction.
        """
        del self.subscriptions[subscription]
        if subscription.listed:
            self._rotation.remove(subscription)
            subscription.listed = False
        subscription.ended = True
        messages = []
        for delivery in list((subscription.ledger or {}).values()):
            if delivery.transaction is None:
                assert subscription.ledger is not None
                del subscription.ledger[delivery.handle]
                messages.append(delivery.message)
        for message in unsent:
            message.attempts -= 1
            self._broker.keep(message.size)
            messages.append(message)
        self._take_back(messages, gone=True)

    def take_back(self, delivery: Delivery) -> None:
        """A delivery comes back that a transaction held for a subscription that is gone."""
        self._settle([delivery])
        self._take_back([delivery.message], gone=True)

    def _take_back(self, messages: list[Message], *, gone: bool) -> None:
        """Messages come back; a private queue whose subscription is gone has nobody left to give them to."""
        if self.private and gone:
            for message in [*messages, *self.waiting]:
                self._broker.release(message.size)
            self._broker.waiting -= len(self.waiting)
            self.waiting.clear()
            return
        self._give_back(messages)
        self._dispatch()
        self._broker.forget_if_idle(self)

    def _give_back(self, messages: list[Message]) -> None:
        """Put messages to the front, in order of arrival among those that are there."""
        if not messages:
            return
        messages.sort(key=_number)
        self.octets += sum([message.size for message in messages])
        waiting = self.waiting
        self._broker.waiting += len(messages)
        last = messages[-1].number
        # Only those returned before can be older than these; all else in front is younger.
        older: list[Message] = []
        while waiting and waiting[0].number < last:
            older.append(waiting.popleft())
        waiting.extendleft(reversed(list(heapq.merge(older, messages, key=_number)) if older else messages))
