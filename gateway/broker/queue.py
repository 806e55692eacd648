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
from typing import TYPE_CHECKING

from .message import Delivery, Message
from .subscription import Subscription

if TYPE_CHECKING:
    from .broker import Broker


class Queue:
    """A queue of the broker, or the private one of a topic subscription.

    Attributes:
        name: canonical.
        octets: what the messages cost that nobody has.
        subscriptions: the consumers.
        private: belongs to one subscription; it vanishes with it.
    """

    __slots__ = ("_broker", "_fresh", "_returned", "_rotation", "name", "octets", "private", "subscriptions")

    def __init__(self, broker: Broker, name: str, *, private: bool = False) -> None:
        self.name = name
        self.octets = 0
        self.subscriptions: dict[Subscription, None] = {}
        self.private = private
        self._broker = broker
        # Messages that nobody has: those that never were away, in order of arrival, and a heap of those that came back,
        # by number.  The next one is the older of both, so coming back costs a logarithm, however many wait.
        self._fresh: deque[Message] = deque()
        self._returned: list[tuple[int, Message]] = []
        self._rotation: deque[Subscription] = deque()

    @property
    def waiting(self) -> int:
        """Messages that nobody has."""
        return len(self._fresh) + len(self._returned)

    @property
    def is_idle(self) -> bool:
        """Nobody subscribes and nothing waits; a private queue is not the broker's to drop."""
        return not self.subscriptions and not self.waiting and not self.private

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
        self._fresh.append(message)
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
            if consumer.serial != message.avoid:
                return consumer
            second_choice = consumer
        return second_choice

    def _dispatch(self) -> None:
        """Give waiting messages to the consumers with room."""
        broker = self._broker
        fresh, returned = self._fresh, self._returned
        while self._rotation and (fresh or returned):
            comes_back = bool(returned) and (not fresh or returned[0][0] < fresh[0].number)
            message = returned[0][1] if comes_back else fresh[0]
            consumer = self._next(message)
            if consumer is None:
                break
            if comes_back:
                heapq.heappop(returned)
            else:
                fresh.popleft()
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
            delivery.message.avoid = subscription.serial
            messages.append(delivery.message)
        self.take_back(messages)
        subscription.offer()

    def _settle(self, deliveries: Iterable[Delivery]) -> Subscription:
        for delivery in deliveries:
            subscription = delivery.subscription
            subscription.remove(delivery)
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
            subscription.remove(delivery)
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
        for message in messages:
            self._broker.release(message.size)
        self._broker.release(self.octets)
        self._broker.waiting -= self.waiting
        self.octets = 0
        self._fresh.clear()
        self._returned.clear()

    def _insert(self, messages: list[Message]) -> None:
        for message in messages:
            self.octets += message.size
            heapq.heappush(self._returned, (message.number, message))
        self._broker.waiting += len(messages)
