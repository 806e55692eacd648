"""Durable subscriptions of topics outlive their sessions, or are shared: each is a queue that a topic fills.

durable:true, persistent:true
    of RabbitMQ and Apollo: known by user, id and topic; several sessions share its messages
activemq.subscriptionName, durable-subscription-name
    of ActiveMQ and Artemis: known by user, client-id and name; the session that comes last has it, and ends the other
x-queue-name
    of RabbitMQ: known by that name; shared, and gone with its last consumer unless durable:true is said as well

Messages are filtered where the topic gives them; consumers are those of any queue.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple
from urllib.parse import quote

from .. import selectors
from ..core.context import Context
from ..core.ports import ANONYMOUS, Peer
from ..errors import NotAllowed, TakenOver
from ..model.changes import Container
from ..model.destinations import DURABLE, USER
from ..model.message import Message
from ..model.options import Selector, SubscribeOptions
from ..model.policy import QueueArguments
from ..queue.queue import Queue
from ..queue.subscription import ConsumedQueue, Subscription
from .topic import Topic


class SubscriptionName(NamedTuple):
    """The name of a durable or shared subscription."""

    text: str  # unique; the name of its queue, as operators see it
    lasts: bool  # it outlives its consumers
    single: bool = False  # one session at a time has it


def name_of(options: SubscribeOptions, peer: Peer, subscription_id: str | None, topic: str) -> SubscriptionName | None:
    """The name that a SUBSCRIBE, or UNSUBSCRIBE, gives; None: an ordinary subscription.

    Raises NotAllowed: it has no id to be known by, or is for a user destination without a login.
    """
    if not (options.durable or options.durable_name or options.queue_name):
        return None
    if topic.startswith(USER) and peer.login == ANONYMOUS:
        raise NotAllowed(
            "a durable subscription of a user needs a login",
            "without one, the next session is another user; send login in CONNECT",
        )
    ends_with_consumers = options.queue_arguments is not None and options.queue_arguments.auto_delete is True
    if options.durable_name and peer.login == ANONYMOUS and not peer.client_id:
        raise NotAllowed(
            "a durable subscription with a name needs a client-id",
            "without a login, another program with that name would be taken for this one; send client-id in CONNECT",
        )
    # JMS: one session at a time; the last one, for a broken connection may look alive for minutes.
    if options.durable_name:
        return SubscriptionName(joined(peer.login, peer.client_id, options.durable_name), True, single=True)
    if options.queue_name:
        return SubscriptionName(joined(options.queue_name), options.durable and not ends_with_consumers)
    if subscription_id is None:
        raise NotAllowed("a durable subscription needs an id", "the id and the topic are what it is known by")
    return SubscriptionName(joined(peer.login, "", subscription_id, topic), not ends_with_consumers)


def joined(*parts: str) -> str:
    """One name of several parts, which may hold any characters; no destination has it."""
    # Quoted: a login `a/b` must not make the name that another login, `a`, makes with a client-id.
    return DURABLE + "/".join([quote(part, safe="") for part in parts])


def _take_over(durable: DurableSubscription, by: Peer) -> None:
    """End the session that had a subscription which only one may have; both have one client-id, or none."""
    for peer in dict.fromkeys(consumer.peer for consumer in durable.queue.subscriptions):
        if peer is not by:
            peer.end(TakenOver(by.peer, "" if by.client_id else durable.name))


def _in_use(name: str, consumers: int) -> NotAllowed:
    return NotAllowed(
        "a durable subscription is in use",
        f"{consumers} consume {name[:80]!r}; they must end before it does, or gets another topic, selector or no-local",
    )


def _throw_away(queue: Queue, messages: list[Message]) -> Iterator[None]:
    """Throw away, in slices, the messages of a queue that has ended; the store knows the end already."""
    most = queue.context.work_limits.drops_per_turn
    for count, message in enumerate(messages):
        if count and count % most == 0:
            yield
        # Between two slices it may have gone in another way.
        if message.waits:
            queue.remove(message)
            queue.drop_message(message, "queue-gone")


class DurableSubscription:
    """A durable or shared subscription."""

    def __init__(self, name: str, topic: Topic, queue: Queue, *, lasts: bool, selector: str, no_local: bool) -> None:
        self.name = name  # unique; the text of its `SubscriptionName`
        self.topic = topic  # of the messages that it gets, or their pattern
        self.queue = queue  # where they wait
        self.lasts = lasts  # it outlives its consumers
        self.selector_text = selector
        self.selector: Selector | None = selectors.parse(selector) if selector else None
        self.no_local = no_local  # it does not get messages of the sessions that consume it
        queue.filled_by_topic = True
        queue.lasts = lasts

    def wants(self, message: Message, sender: str) -> bool:
        """True if a message of the topic is for it."""
        # It is only there because of messages that were given back.
        if not self.lasts and not self.queue.subscriptions:
            return False
        if self.no_local and any(each.peer.id == sender for each in self.queue.subscriptions):
            return False
        return self.selector is None or self.selector(message.head.headers) is True

    def is_same(self, name: SubscriptionName, topic: str, options: SubscribeOptions) -> bool:
        """True if a SUBSCRIBE means this one, and not a new one of its name."""
        asked = (topic, options.selector_text, options.no_local)
        # One that lasts also does for a SUBSCRIBE that does not ask for that.
        return asked == (self.topic.name, self.selector_text, self.no_local) and name.lasts <= self.lasts

    @property
    def facts(self) -> dict[str, object]:
        """The facts that the store keeps of it."""
        return {"topic": self.topic.name, "selector": self.selector_text, "no_local": self.no_local}


class DurableSubscriptions:
    """All durable and shared subscriptions, by name.

    `make_queue`: makes the queue of a new one, by its name and topic; True: it outlives its consumers.  `drop_queue`:
    takes it out of the registry.
    """

    def __init__(
        self, context: Context, make_queue: Callable[[str, Topic, bool], Queue], drop_queue: Callable[[str], object]
    ) -> None:
        self._context = context
        self._make_queue = make_queue
        self._drop_queue = drop_queue
        self._found: dict[str, DurableSubscription] = {}

    def __len__(self) -> int:
        return len(self._found)

    def get(self, name: str) -> DurableSubscription | None:
        """The subscription with that name."""
        return self._found.get(name)

    def of(self, queue: ConsumedQueue | None) -> DurableSubscription | None:
        """The subscription that a queue belongs to; None: it has none, or has ended."""
        found = self._found.get(queue.name) if queue is not None else None
        return found if found is not None and found.queue is queue else None

    def subscribe(self, name: SubscriptionName, topic: Topic, subscription: Subscription) -> bool:
        """Add a consumer; the first one makes the subscription.  True: it is new.

        Raises NotAllowed: others consume it with another topic or selector; or there are too many.
        """
        found = self._found.get(name.text)
        if found is not None and name.single:
            _take_over(found, subscription.peer)
        is_new = found is None or not found.is_same(name, topic.name, subscription.options)
        if found is None or is_new:
            try:
                found = self._begin(name, topic, subscription)
            except NotAllowed:
                # The topic may have been made for this SUBSCRIBE.
                self._context.destinations.forget_if_idle(topic)
                raise
        if name.single:
            # A session that is about to go keeps it till then, because the messages that it gives back come first.
            subscription.options = dataclasses.replace(subscription.options, exclusive=True)
        found.queue.join(subscription)
        return is_new

    def _begin(self, name: SubscriptionName, topic: Topic, subscription: Subscription) -> DurableSubscription:
        """Make a new one, which ends another one of its name."""
        # JMS, `createDurableSubscriber`: another topic or selector under a name makes a new subscription.
        options = subscription.options
        old = self._found.get(name.text)
        consumers = () if old is None else old.queue.subscriptions
        # Other sessions are no obstacle where only one may have it: `_take_over` has ended them.
        if any(not name.single or each.peer is subscription.peer for each in consumers):
            raise _in_use(name.text, len(consumers))
        limit = self._context.quotas.max_durable_subscriptions
        if len(self._found) - (old is not None) >= limit:
            raise NotAllowed(
                "too many durable subscriptions", f"the server may have {limit} (max_durable_subscriptions)"
            )
        if old is not None:
            self.forget(old, heir=topic)
        durable = self._make(name.text, topic, options.selector_text, options.no_local, lasts=name.lasts)
        queue, facts = durable.queue, durable.facts
        if options.queue_arguments is not None:
            # Not `auto_delete`: the name says whether the subscription lasts.
            arguments = dataclasses.replace(options.queue_arguments, auto_delete=None)
            queue.apply_arguments(arguments)
            facts |= arguments.stored()
        if queue.storage is not None:
            queue.storage.describe(facts)
        return durable

    def _make(self, name: str, topic: Topic, selector: str, no_local: bool, *, lasts: bool) -> DurableSubscription:
        queue = self._make_queue(name, topic, lasts)
        durable = DurableSubscription(name, topic, queue, lasts=lasts, selector=selector, no_local=no_local)
        # An idle queue would go by itself, and leave the subscription here.
        queue.on_retire = partial(self.forget, durable)
        self._found[name] = topic.durable_subscriptions[name] = durable
        return durable

    def end(self, name: str) -> None:
        """End a subscription, and the messages that wait for it.  Raises NotAllowed: it has a consumer."""
        durable = self._found.get(name)
        if durable is None:
            raise NotAllowed(
                "unknown durable subscription", f"there is no {name[:80]!r}, which is user, client-id and name"
            )
        if durable.queue.subscriptions:
            raise _in_use(name, len(durable.queue.subscriptions))
        self.forget(durable)

    def forget(self, durable: DurableSubscription, *, heir: Topic | None = None) -> None:
        """End a subscription; messages that its consumers have, or give back later, are thrown away then.

        `heir`: the topic of the one that takes its place at once.
        """
        durable.lasts = durable.queue.lasts = False
        name, topic, queue = durable.name, durable.topic, durable.queue
        if self._found.get(name) is not durable:
            return
        del self._found[name], topic.durable_subscriptions[name]
        self._drop_queue(name)
        self._context.scheduler.run(_throw_away(queue, queue.waiting_messages()))
        if queue.storage is not None:
            queue.storage.purge("queue-gone")
        queue.end()
        # Rows are left that sessions hold, or that go in later slices.
        if queue.storage is not None:
            queue.storage.end()
        if topic is not heir:
            self._context.destinations.forget_if_idle(topic)

    def restore(self, container: Container, topic_of: Callable[[str], Topic]) -> Queue:
        """Take over a subscription that the store holds."""
        facts = json.loads(container.facts)
        topic, selector = topic_of(facts["topic"]), facts["selector"]
        queue = self._make(container.name, topic, selector, facts["no_local"], lasts=True).queue
        if (arguments := QueueArguments.from_store(facts)) is not None:
            queue.apply_arguments(arguments)
        return queue
