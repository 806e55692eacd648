"""The consumers of a queue: which of them gets a message.

group      a message of a group goes to the consumer that has the group
exclusive  where somebody is the exclusive consumer, all others stand by
interest   of those that want it, the ones of the highest priority with room, in turn
avoid      who gave it back by NACK gets it again only where nobody else can
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import NotAllowed
from ..model.message import Message
from .groups import Group, Groups
from .ready import ReadyList
from .rotation import ConsumerSet
from .subscription import Subscription

if TYPE_CHECKING:
    from ..broker import Broker

# Each message is offered to one after the other, until somebody with room wants it.
MOST_INTERESTS = 1_000


class Consumers:
    """The consumers of one queue.

    Attributes:
        all: in order of arrival.
        consumer_sets: by priority, highest first; of equal ones the one whose turn it is.
        groups: None as long as there was no message of a group.
        changed: groups came free, or the exclusive consumer is another one, or none: others may go on who could not.
        freed: the groups that became nobody's by that.
        token_entered: the first message of a group came into the lanes: it is to be dispatched.

    Who sets the last three, and who consumes them, stands in `dispatch`.
    """

    __slots__ = ("_broker", "_exclusive", "all", "changed", "consumer_sets", "freed", "groups", "token_entered")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.all: dict[Subscription, None] = {}
        self.consumer_sets: list[ConsumerSet] = []
        self.groups: Groups | None = None
        self.changed = False
        self.freed: list[Group] = []
        self.token_entered = False
        self._exclusive: Subscription | None = None

    # messages

    def choose(self, message: Message, refusing: set[ReadyList]) -> Subscription | None:
        """The consumer with room that gets a message which is not somebody's already; None: nobody.

        Args:
            refusing: gets the lanes of those who do not want it.
        """
        avoid = message.history.avoid if message.history is not None else 0
        consumer: Subscription | None = None
        for consumer_set in self._willing(message, refusing):
            consumer = consumer_set.next_but(avoid) if avoid else consumer_set.next()
            if consumer is not None:
                self._move_behind(consumer_set)
                return consumer
        if avoid:
            return next(filter(None, (consumer_set.next() for consumer_set in self._willing(message, refusing))), None)
        return None

    def _willing(self, message: Message, refusing: set[ReadyList]) -> Iterator[ConsumerSet]:
        """The interests with room that want a message, and for which nothing older may wait."""
        for consumer_set in self.consumer_sets:
            ready_list = consumer_set.ready_list
            if not consumer_set.rotation or consumer_set.behind or ready_list in refusing:
                continue
            # Nothing older waits for it in the lane: it has room and is not behind.
            if ready_list.selector is None or ready_list.selector(message.head.headers):
                yield consumer_set
            else:
                refusing.add(ready_list)

    def next_of(self, consumer_set: ConsumerSet, message: Message) -> Subscription:
        """The consumer who gets a message of an interest's lane; somebody there has room."""
        avoid = message.history.avoid if message.history is not None else 0
        consumer = self._next_but(avoid, consumer_set, message) if avoid else None
        consumer = consumer or consumer_set.next()
        assert consumer is not None  # the interest has room
        return consumer

    def _next_but(self, avoid: int, consumer_set: ConsumerSet, message: Message) -> Subscription | None:
        """The consumer who gets it, of any interest, but not the one with the serial `avoid`."""
        consumer = consumer_set.next_but(avoid)
        if consumer is not None:
            return consumer
        headers = message.head.headers
        for other in self.consumer_sets:
            selector = other.ready_list.selector
            if not other.rotation or other.behind or not (selector is None or selector(headers)):
                continue
            first = self.first(other.ready_list)  # none that is older, unless this is the middle of a hand-over
            if (first is None or first.order >= message.order) and (consumer := other.next_but(avoid)):
                return consumer
        return None

    def first(self, ready_list: ReadyList) -> Message | None:
        """The first message of a lane that is nobody's."""
        first = ready_list.first()
        if self.groups is not None:
            while first is not None and self._is_elsewhere(first):
                ready_list.pop()
                first = ready_list.first()
        return first

    def _is_elsewhere(self, message: Message) -> bool:
        """Whether a message is parked with the owner of its group, or waits behind the group's token."""
        assert self.groups is not None
        group = self.groups.find(message)
        return group is not None and (group.owner is not None or group.token is not message)

    def group(self, name: str) -> Group:
        """The group of that name, which may be new."""
        if self.groups is None:
            self.groups = Groups(self._broker)
        return self.groups.of(name)

    def group_of(self, message: Message) -> Group | None:
        """The group of a message."""
        return self.groups.find(message) if self.groups is not None else None

    def park(self, token: Message, owner: Subscription) -> None:
        """The first message of a group is for its owner."""
        assert self.groups is not None
        assert owner.parked is not None  # it came with the group
        owner.parked.add(token)
        self.touch(owner)

    def touch(self, owner: Subscription) -> None:
        """What is parked with a consumer is to be dispatched."""
        assert self.groups is not None
        self.groups.touched[owner] = None

    def take_touched(self, consumer_set: ConsumerSet) -> list[Subscription]:
        """The consumers of an interest with whom something was parked just now, and who may have room for it."""
        if self.groups is None or not self.groups.touched:
            return []
        found = [owner for owner in self.groups.touched if owner.consumer_set is consumer_set]
        for owner in found:
            del self.groups.touched[owner]
        return found

    def forget_group(self, group: Group) -> None:
        """Nobody has a group, and nothing waits for it."""
        assert self.groups is not None  # it came from there
        self.groups.forget(group)

    # consumers

    def join(self, subscription: Subscription, text: str, ready_lists: list[ReadyList]) -> None:
        """A new consumer.

        Args:
            text: of its selector; empty: it wants all.
            ready_lists: the queue's; a new selector adds one.

        Raises:
            NotAllowed: the queue's consumers differ in too many ways already.
        """
        consumer_set = self._consumer_set(subscription, text, ready_lists)
        consumer_set.consumers += 1
        subscription.consumer_set = consumer_set
        self.all[subscription] = None
        if self._exclusive is not None:
            subscription.stands_by = True
        elif subscription.options.exclusive:
            self._make_exclusive(subscription)

    def _consumer_set(self, subscription: Subscription, text: str, ready_lists: list[ReadyList]) -> ConsumerSet:
        """The interest with that selector and the subscription's priority."""
        priority = subscription.options.priority
        ready_list = None if text else ready_lists[0]
        for consumer_set in self.consumer_sets:
            if consumer_set.text == text:
                if consumer_set.priority == priority:
                    return consumer_set
                ready_list = consumer_set.ready_list
        if len(self.consumer_sets) >= MOST_INTERESTS:
            raise NotAllowed(
                "too many different consumers",
                f"those of a queue may have {MOST_INTERESTS} different selectors and priorities; use a topic for each",
            )
        if ready_list is None:
            ready_list = ready_lists[0].copy(subscription.options.selector, len(text))
            ready_lists.append(ready_list)
        consumer_set = ConsumerSet(ready_list, text, priority)
        self._insert(consumer_set)
        return consumer_set

    def _insert(self, consumer_set: ConsumerSet) -> None:
        """Behind all interests of the same or a higher priority."""
        place = sum(each.priority >= consumer_set.priority for each in self.consumer_sets)
        self.consumer_sets.insert(place, consumer_set)

    def _move_behind(self, consumer_set: ConsumerSet) -> None:
        """Behind the other interests of its priority, so that each has its turn."""
        if len(self.consumer_sets) > 1:
            self.consumer_sets.remove(consumer_set)
            self._insert(consumer_set)

    def list_ready(self) -> None:
        """All that have room, once it was another's turn alone."""
        for subscription in self.all:
            if subscription.consumer_set is not None and not subscription.listed and subscription.has_room():
                subscription.consumer_set.list(subscription)

    def _make_exclusive(self, subscription: Subscription | None) -> None:
        """One consumer gets everything, the others stand by; None: all are equal again."""
        self._exclusive = subscription
        for each in self.all:
            each.stands_by = subscription is not None and each is not subscription
            if each.stands_by:
                self._free_groups(each)
        self.changed = True

    def _free_groups(self, owner: Subscription) -> None:
        """The groups of a consumer are nobody's."""
        if owner.groups is None or self.groups is None:
            return
        freed = list(owner.groups)
        owner.groups = owner.parked = None
        self.groups.touched.pop(owner, None)
        for group in freed:
            group.free()
        self.freed += freed
        self.changed = True

    def leave(self, subscription: Subscription, ready_lists: list[ReadyList]) -> None:
        """A consumer goes."""
        del self.all[subscription]
        consumer_set = subscription.consumer_set
        assert consumer_set is not None  # it has joined
        consumer_set.unlist(subscription)
        consumer_set.consumers -= 1
        if not consumer_set.consumers:
            self.consumer_sets.remove(consumer_set)
            ready_list = consumer_set.ready_list
            if ready_list.selector is not None and all(
                each.ready_list is not ready_list for each in self.consumer_sets
            ):
                ready_lists.remove(ready_list)
        self._free_groups(subscription)
        if subscription is self._exclusive:
            self._make_exclusive(next((each for each in self.all if each.options.exclusive and not each.ended), None))
