"""A queue: messages wait until consumed, each goes to one consumer.

    accept -> (a consumer with room) -> deliver -> ledger -> acknowledge
       '----> lanes ------^                          '-----> reject, take_back: to its old place in the lanes

Consumers that want the same messages form a `ConsumerSet` and read one `ReadyList`; nearly always there is one of
each.  Who gets a message is up to `Consumers`.  What holds at each moment between two calls: no consumer with room
wants a message that waits.  (An interest that is `behind` is the exception; its lane is being read, in turns.)

Of a message group only the first message stands in the lanes, or with the consumer that has the group (see `groups`).

What becomes of messages that are not consumed (limits, expiry, failures) is in `fate`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from ..core.scheduler import Timer
from ..model.message import Delivery, Message
from ..model.policy import ClientArguments, Policy
from . import arrivals, dispatch, fate, groups, redelivery
from .browser import Browser
from .consumers import Consumers
from .durable import QueueStorage
from .overflow import QueueLimits, forget_latest, limits_of, remember_latest
from .ready import ReadyList
from .subscription import Subscription

if TYPE_CHECKING:
    from ..broker import Broker
    from ..topic.durable_subscriptions import DurableSubscription

# What a message costs in each lane but the first, and how little of that is not worth counting.
_PLACE, _LITTLE = 8, 64 * 1024
# Places of a lane that may be taken by messages that have gone, beside twice as many as wait.
SLACK = 16


class Queue:
    """A queue of the broker, or the private one of a topic's subscription.

    Attributes:
        name: canonical.
        policy: its rules.
        nbytes: what the messages cost that nobody has.
        waiting: how many they are.
        resting: messages that come back later, after a failure, and when.
        consumers: who gets what waits.
        browsers: those who read what waits, or comes, without consuming it.
        private: belongs to one subscription; it vanishes with it.
        ready_lists: what waits; the first holds all of it, the others what a selector may want.
        ready_bytes: what the others cost, as it was last counted.
        abandoned: the last consumer has left, or was stopped, and by its policy the queue goes with it.
        unused: the date of the queue's end, unless somebody subscribes.
        full: publishers are held back until there is room.
        ages: the messages that wait, by age, where the oldest may have to go; None: none did.
        expiry: by time; None as long as no message of this queue could expire.
        latest: the waiting message of each conflation key; None as long as there was none.
        storage: its rows in the store; None: nothing here outlives the process.
        feed: the durable subscription that fills it; None: whoever sends to its name.
        of_client: the keys of its policy that a client's arguments set.
    """

    __slots__ = (
        "abandoned",
        "ages",
        "broker",
        "browsers",
        "consumers",
        "expiry",
        "feed",
        "full",
        "latest",
        "limits",
        "name",
        "nbytes",
        "of_client",
        "policy",
        "private",
        "ready_bytes",
        "ready_lists",
        "resting",
        "storage",
        "unused",
        "waiting",
    )

    def __init__(self, broker: Broker, name: str, policy: Policy, *, limits: QueueLimits | None = None) -> None:
        self.broker = broker
        self.name = name
        self.policy = policy
        self.nbytes = 0
        self.waiting = 0
        self.resting: dict[Message, Timer] = {}
        self.consumers = Consumers(broker)
        self.browsers: dict[Subscription, Browser] = {}
        self.private = limits is not None
        self.limits = limits or limits_of(policy)
        self.ready_lists = [ReadyList()]
        self.ready_bytes = 0
        self.full = False
        self.abandoned = False
        self.unused: Timer | None = None
        self.expiry: fate.LazyHeap | None = None
        self.ages: fate.LazyHeap | None = None
        self.latest: dict[str, Message] | None = None
        self.storage: QueueStorage | None = None
        self.feed: DurableSubscription | None = None
        self.of_client: tuple[str, ...] = ()

    @property
    def subscriptions(self) -> dict[Subscription, None]:
        """The consumers."""
        return self.consumers.all

    @property
    def stored(self) -> int:
        """How many messages outlive the process."""
        return 0 if self.storage is None else self.storage.rows - self.storage.transient

    @property
    def is_idle(self) -> bool:
        """Nobody subscribes and nothing waits; a private queue is not the broker's to drop, nor one that lasts."""
        lasts = self.private or (self.feed is not None and self.feed.lasts)
        return not (self.subscriptions or self.waiting or self.resting or self.browsers or lasts)

    # messages in

    def accept(self, message: Message) -> None:
        """Take a new message: to a consumer with room, else to its place among those that wait."""
        broker = self.broker
        self.abandoned = False
        if self.policy.time_to_live and not message.expires:
            message.expires = broker.scheduler.clock() + self.policy.time_to_live
        is_held = False
        if self.storage is not None:
            if self.storage.takes(message):
                arrivals.came(self, message)  # it waits behind all that is in memory
                return
            is_held = self.storage.is_holding
        consumer_sets = self.consumers.consumer_sets
        options = message.options
        is_plain = options.is_plain
        if is_held or message.expires or not is_plain or self.limits.conflate_by:
            broker.keep(message.size)
            arrivals.put(self, message)
        elif len(consumer_sets) != 1 or consumer_sets[0].ready_list.selector is not None:
            broker.keep(message.size)
            arrivals.offer(self, message)
        elif (consumer := consumer_sets[0].next()) is not None:
            if consumer.ledger is not None:
                broker.keep(message.size)
            self._deliver(message, consumer)
        else:
            broker.keep(message.size)
            self.stand(message)
        if message.waits and self.limits.any:
            self.limits.apply(self, message)
        if self.browsers and not self.has_expired(message):
            for browser in list(self.browsers.values()):
                browser.follow(message)

    def stand(self, message: Message, refusing: Container[ReadyList] = ()) -> None:
        """A message waits, in the lanes of all that may want it."""
        self.enter(message, refusing)
        self.wait(message)

    def enter(self, message: Message, refusing: Container[ReadyList] = ()) -> None:
        """Into the lanes of all that may want it."""
        for ready_list in self.ready_lists:
            if ready_list not in refusing:
                ready_list.add(message)
        if len(self.ready_lists) > 1 and not self.waiting % 1024:
            self.weigh()

    def weigh(self) -> None:
        """Count what the lanes of selectors cost: many of them on a deep queue are as good as more messages."""
        data = _PLACE * sum([len(ready_list) for ready_list in self.ready_lists[1:]])
        data = data if data > _LITTLE else 0
        if data > self.ready_bytes:
            self.broker.keep(data - self.ready_bytes)
        else:
            self.broker.release(self.ready_bytes - data)
        self.ready_bytes = data

    def wait(self, message: Message) -> None:
        """A message waits; where, the caller sees to."""
        message.waits = True
        self.nbytes += message.size
        self.waiting += 1
        self.broker.waiting += 1
        if message.expires:
            fate.watch(self, message)
        if self.limits.drops_oldest:
            fate.remember_age(self, message)
        if self.conflates(message):
            remember_latest(self, message)

    # messages out

    def withdraw(self, message: Message) -> None:
        """A message waits no longer, and nobody got it.  It still counts as kept."""
        self.remove(message)
        group = self.consumers.group_of(message)
        if group is not None:
            groups.settle(self, group)
            arrivals.serve(self, group)
            group.tidy(2 * self.present + SLACK)
        self.tidy()

    def remove(self, message: Message) -> None:
        """A message waits no longer: for its group, the caller sees to it."""
        message.waits = False
        self.nbytes -= message.size
        self.waiting -= 1
        self.broker.waiting -= 1
        if self.latest:
            forget_latest(self, message)
        if self.storage is not None:
            self.storage.refill()
        if self.expiry is not None:
            self.expiry.tidy(self.present)
        if self.ages is not None:
            self.ages.tidy(self.present)
        if self.browsers:
            for browser in self.browsers.values():
                browser.tidy(2 * self.present + SLACK)
        if self.full:
            self.look_for_room()

    def look_for_room(self) -> None:
        """Let those go on who were held back, if there is room."""
        if self.full and not self.limits.reached(self):
            self.full = False
            self.broker.on_room()

    @property
    def present(self) -> int:
        """Messages that wait in memory."""
        paged = self.storage.paged if self.storage is not None else None
        return self.waiting - (paged.count if paged is not None else 0)

    def tidy(self) -> None:
        """Let no lane keep much that has gone."""
        most = 2 * self.present + SLACK
        for ready_list in self.ready_lists:
            if len(ready_list) > most:
                ready_list.compact()
        if self.ready_bytes > _PLACE * most * len(self.ready_lists):
            self.weigh()

    def waiting_messages(self) -> list[Message]:
        """All that wait, in the order in which they are due."""
        found = self.ready_lists[0].messages()
        if self.consumers.groups is not None:
            found += [message for group in self.consumers.groups for message in group.messages()]
            found = sorted(dict.fromkeys(found), key=lambda message: message.order)
        return found

    def conflates(self, message: Message) -> bool:
        """Whether a message may be replaced by a newer one."""
        return bool(self.limits.conflate_by) or message.options.conflation_key is not None

    def has_expired(self, message: Message) -> bool:
        """Whether a message's time is over."""
        return 0 < message.expires <= self.broker.scheduler.clock()

    def _deliver(self, message: Message, consumer: Subscription) -> None:
        counters = self.broker.counters
        counters.delivered += 1
        if message.attempts:
            counters.redelivered += 1
        consumer.deliver(message)

    def hand(self, message: Message, consumer: Subscription) -> None:
        """Give a message that is kept, and did not wait, to a consumer."""
        if consumer.ledger is None:
            self.broker.release(message.size)
        if message.row and self.storage is not None:
            self.storage.delivered(message)
        self._deliver(message, consumer)

    def let_go(self, message: Message) -> None:
        """A message that is kept is settled for good, whatever became of it."""
        self.broker.release(message.size)
        if message.row:
            self.leave(message)

    def leave(self, message: Message) -> None:
        """A message with a row is settled for good."""
        assert self.storage is not None  # it gave the row
        self.storage.leave(message)

    def note(self, message: Message) -> None:
        """What is known of a message has changed."""
        if message.row and self.storage is not None:
            self.storage.note(message)

    def take(self, message: Message, consumer: Subscription) -> None:
        """Give a message that waits to a consumer."""
        self.remove(message)
        if self.consumers.groups is not None:
            self.consumers.groups.taken(message, consumer)
        self.hand(message, consumer)

    # consumers

    def join(self, subscription: Subscription) -> None:
        """A new consumer; what waits is dispatched at once."""
        subscription.queue = self
        self.abandoned = False
        fate.used(self)
        filtered = self.private or self.feed is not None  # by the topic
        self.consumers.join(subscription, "" if filtered else subscription.options.selector_text, self.ready_lists)
        self.weigh()
        redelivery.restore(self)
        self.enlist(subscription)

    def declare(self, hints: ClientArguments) -> None:
        """A client's wishes for the queue, which it comes into being with."""
        before, self.policy = self.policy, hints.applied_to(self.policy)
        self.of_client = tuple(before.changes_of(self.policy))
        self.limits = limits_of(self.policy)
        fate.unused(self)  # nobody subscribes yet, and its end may have another date now

    def browse(self, subscription: Subscription) -> None:
        """A new browser: it reads what waits, and consumes nothing."""
        Browser(self, subscription).offer()

    def enlist(self, subscription: Subscription) -> None:
        """A consumer may have room again."""
        consumer_set = subscription.consumer_set
        assert consumer_set is not None  # it has joined
        consumer_set.list(subscription)
        dispatch.dispatch(self, consumer_set)
        if subscription.parked is not None:
            dispatch.give_parked(self, subscription)
        dispatch.go_on(self)

    def stopped(self) -> None:
        """Consumers have gone, or were stopped: with the last of them the queue goes, unless something comes yet."""
        if self.policy.auto_delete and not self.private and all(each.ended for each in self.subscriptions):
            self.abandoned = True

    def drop(self, subscription: Subscription, *, lost: bool = False) -> list[Message]:
        """A consumer goes.

        Args:
            lost: it did not say so: the message it was probably at work on, its oldest, has failed.

        Returns:
            What it did not settle, for `take_back`, once all that go together have gone.  Deliveries that an open
            transaction holds are not among it; they stay with the transaction.
        """
        was_stopped, subscription.ended = subscription.ended, True
        subscription.outbox.starved.pop(subscription, None)
        if subscription not in self.subscriptions:
            browser = self.browsers.pop(subscription, None)
            if browser is not None:
                subscription.outbox.starved.pop(browser, None)
            return []
        self.consumers.leave(subscription, self.ready_lists)
        self.weigh()
        if not was_stopped:
            self.stopped()
        if not self.subscriptions and not self.private:
            fate.unused(self)
        return redelivery.give_back(self, subscription, lost=lost)

    # deliveries come back

    def acknowledge(self, deliveries: Iterable[Delivery]) -> None:
        """Deliveries, all of one subscription, are settled for good."""
        subscription = redelivery.settle(deliveries)
        broker = self.broker
        if broker.records is not None:
            broker.records.acknowledged(subscription, deliveries)
        for delivery in deliveries:
            broker.counters.acknowledged += 1
            broker.release(delivery.size)
            if delivery.message.row:
                self.leave(delivery.message)
        subscription.offer()

    def take_back(self, messages: Iterable[Message]) -> None:
        """Messages come back, to their places; a queue forgotten meanwhile returns with them."""
        redelivery.take_back(self, messages)

    def purge(self) -> None:
        """Throw away what waits: the queue goes, or nobody uses it."""
        for message in self.waiting_messages():
            self.remove(message)
            fate.drop(self, message, "queue-gone")
        if self.storage is not None:
            self.storage.purge("queue-gone")
        for group in list(self.consumers.groups or ()):
            groups.settle(self, group)
        self.tidy()
