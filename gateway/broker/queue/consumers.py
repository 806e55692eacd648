"""Consumers of a queue: which of them gets a message.

    exclusive   where one consumer is exclusive, all others stand by
    set         of those that want the message, the ones of the highest priority with room, in turn
    avoid       a consumer that gave it back by NACK gets it again only where no other can take it
    group       a message of a group goes to the consumer that has the group (see `groups` and `dispatch`)

Consumers of one priority with one selector, or none, form a `ConsumerSet`.  Those with room stand in its rotation; each
message goes to the first, which then goes to its end.  A consumer that turns out to have no room leaves the rotation
and comes back by itself (`Subscription.offer`), so that a thousand busy consumers cost a publisher nothing.
"""

from collections import deque
from collections.abc import Iterator

from ..errors import NotAllowed
from ..model.message import Message
from .ready import ReadyList
from .subscription import Subscription


class ConsumerSet:
    """The consumers of one priority with one selector, or none.

    Attributes:
        ready_list: the messages that wait for them; sets that differ in priority alone share it.
        rotation: those with room.
        owed: those that own message groups, and may have to get the token of one (see `dispatch`).
        behind: the ready list is being read, in turns; the consumers get nothing past it.
    """

    __slots__ = ("behind", "consumers", "owed", "priority", "ready_list", "rotation", "text")

    def __init__(self, ready_list: ReadyList, text: str, priority: int) -> None:
        self.ready_list = ready_list
        self.text = text
        self.priority = priority
        self.consumers = 0
        self.rotation: deque[Subscription] = deque()
        self.owed: dict[Subscription, None] = {}
        self.behind = False

    def next(self) -> Subscription | None:
        """The next consumer in turn; None: none has room."""
        rotation = self.rotation
        while rotation:
            consumer = rotation[0]
            if consumer.has_room():
                # To the end: the next message goes to another consumer, so that all get about as many.
                rotation.rotate(-1)
                return consumer
            # A full consumer is looked at once: it leaves, and comes back by `Subscription.offer` when it has room.
            rotation.popleft().set_listed(False)
        return None

    def next_but(self, avoid: int) -> Subscription | None:
        """The next consumer in turn but the one with the serial `avoid`; None: no other has room."""
        # Once around: the consumer to avoid stays in the rotation, and its turn passes.
        for _ in range(len(self.rotation)):
            consumer = self.next()
            if consumer is None or consumer.serial != avoid:
                return consumer
        return None

    def has_room(self) -> bool:
        """True if any consumer of the set has room; one that turns out to have none leaves the rotation."""
        rotation = self.rotation
        while rotation:
            if rotation[0].has_room():
                return True
            rotation.popleft().set_listed(False)
        return False

    def list(self, consumer: Subscription) -> None:
        """A consumer may have room."""
        # Never twice: it would have two turns, and a place would be left when it goes.
        if not consumer.listed:
            self.rotation.append(consumer)
            consumer.set_listed(True)

    def unlist(self, consumer: Subscription) -> None:
        """A consumer goes, or has no room."""
        if consumer.listed:
            self.rotation.remove(consumer)
            consumer.set_listed(False)

    def set_behind(self, behind: bool) -> None:
        """The ready list will be read on in another turn, or has been read."""
        self.behind = behind


class Consumers:
    """The consumers of one queue."""

    __slots__ = ("_exclusive", "_most_sets", "all", "sets")

    def __init__(self, most_sets: int) -> None:
        self.all: dict[Subscription, ConsumerSet] = {}  # in order of arrival
        self.sets: list[ConsumerSet] = []  # highest priority first; of equal ones, the next in turn first
        self._exclusive: Subscription | None = None
        self._most_sets = most_sets

    # a new message

    def choose(self, message: Message, refusing: set[ReadyList]) -> Subscription | None:
        """The consumer with room that gets a message; the ready lists that do not want it are added to `refusing`."""
        avoid = message.history.avoid if message.history is not None else 0
        for consumer_set in self._willing(message, refusing):
            consumer = consumer_set.next_but(avoid) if avoid else consumer_set.next()
            if consumer is not None:
                self._move_behind(consumer_set)
                return consumer
        # No other consumer can take it: the one that gave it back gets it again, so that it does not wait for ever.
        if avoid:
            return next(filter(None, (consumer_set.next() for consumer_set in self._willing(message, refusing))), None)
        return None

    def _willing(self, message: Message, refusing: set[ReadyList]) -> Iterator[ConsumerSet]:
        """The sets with room that want a message, and for which no older message may wait."""
        for consumer_set in self.sets:
            ready_list = consumer_set.ready_list
            if not consumer_set.rotation or consumer_set.behind or ready_list in refusing:
                continue
            # A set with room that is not behind has nothing in its list that is older than a new message.
            if ready_list.selector is None or ready_list.selector(message.head.headers):
                yield consumer_set
            else:
                refusing.add(ready_list)

    def may_have_room(self) -> bool:
        """True if any consumer may have room."""
        return any(consumer_set.rotation for consumer_set in self.sets)

    def is_ready(self, consumer: Subscription) -> bool:
        """True if a consumer stands in its rotation and has room; if it has not, it leaves the rotation."""
        if not consumer.listed:
            return False
        if consumer.has_room():
            return True
        self.all[consumer].unlist(consumer)
        return False

    # consumers come and go

    def join(self, subscription: Subscription, text: str, ready_lists: list[ReadyList]) -> bool:
        """Add a consumer; True: it is the exclusive one from now on, and the others stand by.

        Args:
            text: of its selector, which adds a ready list if it is new; empty: it wants all.

        Raises:
            NotAllowed: the queue's consumers differ in too many ways already.
        """
        consumer_set = self._set_of(subscription, text, ready_lists)
        consumer_set.consumers += 1
        self.all[subscription] = consumer_set
        if self._exclusive is not None:
            subscription.set_standing_by(True)
        elif subscription.options.exclusive:
            self._make_exclusive(subscription)
            return True
        return False

    def _set_of(self, subscription: Subscription, text: str, ready_lists: list[ReadyList]) -> ConsumerSet:
        """The set with that selector and the subscription's priority."""
        priority = subscription.options.priority
        # A consumer without a selector wants all that waits, which is the first list of every queue.
        ready_list = None if text else ready_lists[0]
        for consumer_set in self.sets:
            if consumer_set.text == text:
                if consumer_set.priority == priority:
                    return consumer_set
                ready_list = consumer_set.ready_list
        # Before anything is changed, so that nothing has to be undone.
        if len(self.sets) >= self._most_sets:
            raise NotAllowed(
                "too many different consumers",
                f"those of a queue may have {self._most_sets} different selectors and priorities; use a topic for each",
            )
        if ready_list is None:
            ready_list = ready_lists[0].copy(subscription.options.selector, len(text))
            # From now on each new message enters this list as well.
            ready_lists.append(ready_list)
        consumer_set = ConsumerSet(ready_list, text, priority)
        self._insert(consumer_set)
        return consumer_set

    def _insert(self, consumer_set: ConsumerSet) -> None:
        """Insert a set behind all sets of the same or a higher priority."""
        index = sum(each.priority >= consumer_set.priority for each in self.sets)
        self.sets.insert(index, consumer_set)

    def _move_behind(self, consumer_set: ConsumerSet) -> None:
        """Move a set behind the other sets of its priority, so that each has its turn."""
        if len(self.sets) > 1:
            self.sets.remove(consumer_set)
            self._insert(consumer_set)

    def list_ready(self) -> None:
        """Put all that have room into their rotations; a consumer that stands by has none."""
        for subscription, consumer_set in self.all.items():
            if subscription.has_room():
                consumer_set.list(subscription)

    def _make_exclusive(self, subscription: Subscription | None) -> None:
        """One consumer gets everything, the others stand by; None: all are equal again."""
        self._exclusive = subscription
        for each in self.all:
            # They leave their rotations when it is their turn, for they have no room.
            each.set_standing_by(subscription is not None and each is not subscription)

    def leave(self, subscription: Subscription, ready_lists: list[ReadyList]) -> bool:
        """Take out a consumer; True: another one is the exclusive one now, or none."""
        consumer_set = self.all.pop(subscription)
        # At once: a consumer that is gone must not be given a message.
        consumer_set.unlist(subscription)
        consumer_set.consumers -= 1
        if not consumer_set.consumers:
            self.sets.remove(consumer_set)
            ready_list = consumer_set.ready_list
            # Sets that differ in priority alone share a list: it goes with the last of them.
            if ready_list.selector is not None and all(each.ready_list is not ready_list for each in self.sets):
                ready_lists.remove(ready_list)
        if subscription is not self._exclusive:
            return False
        # Of the exclusive consumers that wait, the one that came first takes over; one that is leaving does not.
        self._make_exclusive(next((each for each in self.all if each.options.exclusive and not each.ended), None))
        return True
