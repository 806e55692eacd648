"""A topic: every current subscriber gets a copy, nothing is kept.

The fan-out is the hottest loop of the broker, so it does nothing but append two references per receiver: the message is
encoded once per version, and the outbox's `append` is written out in place.  Whoever must acknowledge gets a private
queue instead, which brings window, ledger and redelivery with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.codec import VERSIONS, encoder

from .message import Message
from .queue import Queue
from .subscription import Subscription

if TYPE_CHECKING:
    from .broker import Broker


class Topic:
    """A topic with at least one subscriber."""

    __slots__ = ("_acknowledging", "_auto", "_broker", "name")

    def __init__(self, broker: Broker, name: str) -> None:
        self.name = name
        self._broker = broker
        self._auto: tuple[dict[Subscription, None], ...] = tuple({} for _ in VERSIONS)
        self._acknowledging: dict[Subscription, None] = {}

    @property
    def subscriptions(self) -> list[Subscription]:
        """All subscribers."""
        return [subscription for group in (*self._auto, self._acknowledging) for subscription in group]

    @property
    def is_idle(self) -> bool:
        """Nobody subscribes."""
        return not self._acknowledging and not any(self._auto)

    def accept(self, message: Message) -> None:
        """Copy a message to everybody."""
        broker = self._broker
        for version in VERSIONS:
            group = self._auto[version.index]
            if not group:
                continue
            shared = encoder.message(message.head, message.id, message.body, version)
            size = len(shared)
            broker.counters.delivered += len(group)
            for subscription in group:
                outbound = subscription.outbound
                parts = outbound.parts
                if not parts:
                    outbound.dirty.append(outbound)
                prefix = subscription.prefix
                parts.append(prefix)
                parts.append(shared)
                outbound.size += len(prefix) + size
                if outbound.size > outbound.high:
                    broker.strain(outbound)
        for subscription in self._acknowledging:
            self._accept_privately(subscription, message)

    def _accept_privately(self, subscription: Subscription, message: Message) -> None:
        queue = subscription.queue
        assert queue is not None  # given at join
        queue.accept(Message(message.number, message.head, message.body))
        if queue.octets > subscription.outbound.limit:
            limit = subscription.outbound.limit
            self._broker.end_slow(
                subscription.session,
                f"more than {limit} octets (max_outbound) of {self.name[:80]!r} wait for an acknowledgement",
            )

    def join(self, subscription: Subscription) -> None:
        """A new subscriber."""
        subscription.topic = self
        if subscription.ledger is None:
            self._auto[subscription.version.index][subscription] = None
        else:
            self._acknowledging[subscription] = None
            Queue(self._broker, self.name, private=True).join(subscription)

    def leave(self, subscription: Subscription) -> None:
        """A subscriber goes; the last one takes the topic with it."""
        subscription.topic = None
        if subscription.ledger is None:
            del self._auto[subscription.version.index][subscription]
        else:
            del self._acknowledging[subscription]
            queue = subscription.queue
            assert queue is not None  # given at join
            queue.take_back(queue.drop(subscription))
        self._broker.forget_if_idle(self)
