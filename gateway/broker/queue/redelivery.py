"""What comes back to a queue: after NACK, with a consumer that leaves, from a socket that broke.

Each message returns to its old place, so that it goes before all that arrived after it.  Two cases:

nothing else changed   one after the other is given to a consumer with room, or waits: nobody with room misses anything
                       older, for that holds between any two calls
a consumer has left    others may go on who could not before, with what waited all the while: so all that comes back
                       takes its place first, and then everything is dispatched in order.  Groups do the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..model.message import Delivery, Message
from . import arrivals, dispatch, fate, groups

if TYPE_CHECKING:
    from .queue import Queue
    from .subscription import Subscription

Returned: TypeAlias = "dict[Queue, list[Message]]"
"""What is to come back, and to which queue."""


def reject(queue: Queue, deliveries: Iterable[Delivery], *, requeue: bool = True, reason: str = "") -> None:
    """Deliveries, all of one subscription, come back by NACK: to another consumer if there is one, else to the same.

    Args:
        requeue: False: they are dead letters.
        reason: the client's.
    """
    subscription = settle(deliveries)
    if queue.broker.records is not None:
        queue.broker.records.rejected(subscription, deliveries, reason)
    again = []
    for delivery in deliveries:
        queue.broker.counters.rejected += 1
        queue.note(delivery.message)
        if fate.rejected(queue, delivery.message, subscription.serial, requeue=requeue, reason=reason):
            again.append(delivery.message)
    take_back(queue, again)
    subscription.offer()


def settle(deliveries: Iterable[Delivery]) -> Subscription:
    """Deliveries leave the ledger of their subscription."""
    for delivery in deliveries:
        subscription = delivery.subscription
        subscription.remove(delivery)
    return subscription


def give_back(queue: Queue, subscription: Subscription, *, lost: bool) -> list[Message]:
    """What a consumer did not settle, that goes; see `Queue.drop`."""
    ledger = subscription.ledger
    if not ledger:
        return []
    free = [delivery for delivery in ledger.values() if delivery.transaction is None]
    for delivery in free:
        subscription.remove(delivery)
    messages = [delivery.message for delivery in free]
    if lost and messages:
        fate.mark_lost(queue, messages[0])
    return messages


def take_back(queue: Queue, messages: Iterable[Message]) -> None:
    """Messages come back, to their places; a queue forgotten meanwhile returns with them."""
    broker = queue.broker
    home = broker.home_of(queue)
    if home is None:
        for message in messages:
            if not fate.was_last_attempt(queue, message):
                fate.drop(queue, message, "queue-gone")
        queue.purge()
        broker.forget_if_idle(queue)
        return
    if home is not queue and home.storage is not None and queue.storage is not None:
        messages = list(messages)
        home.storage.adopt(messages, queue.storage)
    again = []
    for message in messages:
        home.note(message)
        if not fate.was_last_attempt(home, message):
            again.append(message)
    restore(home, sorted(again, key=lambda message: message.order))
    if home.abandoned and not home.subscriptions:
        home.purge()
    broker.forget_if_idle(home)


def take_back_all(returned: Returned) -> None:
    """What was collected comes back, queue by queue, now that all are gone that go together."""
    for queue, messages in returned.items():
        take_back(queue, messages)


def restore(queue: Queue, messages: Sequence[Message] = ()) -> None:
    """Messages come back, in order, and those go on who can since a consumer left."""
    consumers = queue.consumers
    changed, consumers.changed = consumers.changed, False
    if not changed and not any(arrivals.is_grouped(queue, message) for message in messages):
        for message in messages:
            if arrivals.is_due(queue, message):
                arrivals.offer(queue, message)
        return
    if changed:
        consumers.list_ready()
        freed, consumers.freed = consumers.freed, []
        for group in freed:
            groups.settle(queue, group)
    for message in messages:
        if not arrivals.is_due(queue, message):
            continue
        if arrivals.is_grouped(queue, message):
            groups.add(queue, consumers.group(message.options.group or ""), message)
        else:
            queue.stand(message)
    dispatch.dispatch_all(queue)
