"""Message groups: the messages of one group go to one consumer, in order, as long as it is there.

Of a group only the first message that waits, its `token`, stands in the lanes of the queue.  Whoever takes it owns the
group; from then on the token is parked with the owner, and the rest follows one by one, as the owner has room.  When
the owner goes, the token returns to the lanes and chooses again.  So handing a group over costs the same however much
of it waits, and a busy owner stands in nobody's way.

Only so many groups are remembered without messages: the one that was silent longest goes first, and chooses again.  One
whose owner has unacknowledged messages of it stays.  What all groups of all queues cost stands in the broker's
`group_bytes`, beside the account of messages.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING

from ..model.message import Message
from .fate import expired
from .ready import ReadyList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..broker import Broker
    from .queue import Queue
    from .subscription import Subscription

# Groups of a queue; and bytes, for those of all queues.
MOST_GROUPS = 65_536
MOST_BYTES = 64 * 1024 * 1024
# Bytes that a group costs beside its name.
_COST = 500
# Groups looked at for one that can be forgotten.
_LOOKS = 16


class Group:
    """One group.

    Attributes:
        token: its first message, as it stands in the lanes or with the owner.
        owner: the consumer that has the group; None: nobody.
    """

    __slots__ = ("_ready_list", "name", "owner", "token")

    def __init__(self, name: str) -> None:
        self.name = name
        self.token: Message | None = None
        self.owner: Subscription | None = None
        self._ready_list: ReadyList | None = None  # only while something waits: most groups are idle

    def free(self) -> None:
        """The group is nobody's; its token is to be placed again."""
        if self.owner is not None and self.owner.groups is not None:
            self.owner.groups.pop(self, None)
        self.owner = self.token = None

    def is_empty(self) -> bool:
        """Nothing of it waits."""
        return self._ready_list is None or self.first() is None

    def add(self, message: Message) -> None:
        """A message of the group waits."""
        if self._ready_list is None:
            self._ready_list = ReadyList()
        self._ready_list.add(message)

    def first(self) -> Message | None:
        """The message that is due."""
        first = self._ready_list.first() if self._ready_list is not None else None
        if first is None:
            self._ready_list = None
        return first

    def pop(self) -> None:
        """Remove what `first` just gave."""
        assert self._ready_list is not None  # it gave something
        self._ready_list.pop()

    def tidy(self, most: int) -> None:
        """Forget those that wait no longer, where more than so many places are taken."""
        for ready_list in (self._ready_list, self.owner.parked if self.owner is not None else None):
            if ready_list is not None and len(ready_list) > most:
                ready_list.compact()

    def messages(self) -> list[Message]:
        """All that wait, in the order in which they are due."""
        return self._ready_list.messages() if self._ready_list is not None else []

    def is_for_owner(self, message: Message) -> bool:
        """Whether the owner wants a message; else it would wait for ever, and the group is anybody's again."""
        assert self.owner is not None
        selector = self.owner.options.selector
        return selector is None or selector(message.head.headers) is True


class Groups:
    """The groups of one queue.

    Attributes:
        touched: the consumers with whom something was parked just now.
    """

    __slots__ = ("_broker", "_groups", "touched")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.touched: dict[Subscription, None] = {}
        self._groups: OrderedDict[str, Group] = OrderedDict()

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def of(self, name: str) -> Group:
        """The group of that name, which may be new."""
        group = self._groups.get(name)
        if group is None:
            if len(self._groups) >= MOST_GROUPS or self._broker.group_bytes > MOST_BYTES:
                self._forget_oldest()
            group = self._groups[name] = Group(name)
            self._broker.group_bytes += _COST + len(name)
        else:
            self._groups.move_to_end(name)
        return group

    def find(self, message: Message) -> Group | None:
        """The group of a message; None: it has none, or the group is not known."""
        name = message.options.group
        return self._groups.get(name) if name is not None else None

    def _forget_oldest(self) -> None:
        """Forget the first that nothing waits for; where all have messages, they are bounded by these."""
        for group in list(islice(self._groups.values(), _LOOKS)):
            if group.first() is None and not _is_at_work(group):
                group.free()
                self.forget(group)
                break
            self._groups.move_to_end(group.name)

    def taken(self, message: Message, consumer: Subscription) -> None:
        """A consumer got a message: the group is its own, or, behind the last message, nobody's."""
        group = self.find(message)
        if group is None:
            return
        if message.options.closes_group:
            group.free()
        elif group.owner is None:
            group.owner, group.token = consumer, None
            if consumer.groups is None or consumer.parked is None:
                consumer.groups, consumer.parked = {}, ReadyList()
            consumer.groups[group] = None

    def forget(self, group: Group) -> None:
        """Nobody owns a group, and nothing waits for it."""
        if self._groups.get(group.name) is group:
            del self._groups[group.name]
            self._broker.group_bytes -= _COST + len(group.name)

    def end(self) -> None:
        """The queue goes."""
        for group in list(self._groups.values()):
            self.forget(group)


def _is_at_work(group: Group) -> bool:
    """Whether the owner has unacknowledged messages of a group: it must not lose the group before they are settled."""
    ledger = group.owner.ledger if group.owner is not None else None
    return ledger is not None and any(each.message.options.group == group.name for each in ledger.values())


def is_ready(group: Group, message: Message) -> bool:
    """Whether a new message can go straight to the owner of its group: the usual case, nothing waits."""
    owner = group.owner
    return (
        owner is not None
        and group.is_empty()
        and owner.is_ready()
        and owner.consumer_set is not None
        and not owner.consumer_set.behind
        and (owner.parked is None or owner.parked.first() is None)
        and group.is_for_owner(message)
    )


def pass_on(queue: Queue, group: Group, message: Message) -> None:
    """Give a message to the owner of its group, for whom nothing waits."""
    owner = group.owner
    assert owner is not None  # it is ready
    assert queue.consumers.groups is not None  # this is one of them
    queue.consumers.groups.taken(message, owner)
    queue.hand(message, owner)
    if group.owner is None:
        queue.consumers.forget_group(group)


def add(queue: Queue, group: Group, message: Message) -> None:
    """A message of a group waits."""
    group.add(message)
    queue.wait(message)
    settle(queue, group)


def settle(queue: Queue, group: Group) -> None:
    """Put a group's token where the group is waited for: with its owner, or in the lanes of all that may want it."""
    while (first := group.first()) is not None:
        if queue.has_expired(first):
            group.pop()
            queue.remove(first)
            expired(queue, first)
            continue
        if group.owner is not None and not group.is_for_owner(first):
            group.free()
        if first is not group.token:
            group.token = first
            if group.owner is None:
                queue.enter(first)
                queue.consumers.token_entered = True
            else:
                queue.consumers.park(first, group.owner)
        return
    group.token = None
    if group.owner is None:
        queue.consumers.forget_group(group)


def next_parked(queue: Queue, consumer: Subscription) -> tuple[Group, Message] | None:
    """The first message that is parked with a consumer, and its group."""
    parked = consumer.parked
    while parked is not None and (token := parked.first()) is not None:
        group = queue.consumers.group_of(token)
        if group is None or group.owner is not consumer or group.token is not token:
            parked.pop()
        elif not queue.has_expired(token):
            return group, token
        else:
            parked.pop()  # first of all: a dead letter may come back here, for the same consumer
            settle(queue, group)
    return None


def give_parked(queue: Queue, consumer: Subscription, group: Group, token: Message) -> None:
    """Give a consumer what `next_parked` found."""
    assert consumer.parked is not None  # it was found there
    consumer.parked.pop()
    group.pop()
    queue.take(token, consumer)
    settle(queue, group)
