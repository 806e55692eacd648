"""Message groups: the messages of one group go to one consumer, in order, as long as it is there.

Of a group only the first message that waits, its `token`, stands in the lanes of the queue.  Whoever takes it owns the
group; from then on the token is parked with the owner, and the rest follows one by one, as the owner has room.  When
the owner goes, the token returns to the lanes and chooses again.  So handing a group over costs the same however much
of it waits, and a busy owner stands in nobody's way.

Only so many groups are remembered without messages: the one that was silent longest goes first, and chooses again.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING

from .fate import expired
from .lane import Lane
from .message import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .queue import Queue
    from .subscription import Subscription

# Per queue.  Each costs about 500 octets beside its name.
MOST_GROUPS = 65_536
# Groups looked at for one that can be forgotten.
_LOOKS = 64


class Group:
    """One group.

    Attributes:
        token: its first message, as it stands in the lanes or with the owner.
        owner: the consumer that has the group; None: nobody.
    """

    __slots__ = ("_lane", "name", "owner", "token")

    def __init__(self, name: str) -> None:
        self.name = name
        self.token: Message | None = None
        self.owner: Subscription | None = None
        self._lane: Lane | None = None  # only while something waits: most groups are idle

    def add(self, message: Message) -> None:
        """A message of the group waits."""
        if self._lane is None:
            self._lane = Lane()
        self._lane.add(message)

    def first(self) -> Message | None:
        """The message that is due."""
        first = self._lane.first() if self._lane is not None else None
        if first is None:
            self._lane = None
        return first

    def pop(self) -> None:
        """Remove what `first` just gave."""
        assert self._lane is not None  # it gave something
        self._lane.pop()

    def tidy(self, slack: int) -> None:
        """Forget those that wait no longer, if they are more than so many."""
        if self._lane is not None and len(self._lane) > slack:
            self._lane.compact()

    def messages(self) -> list[Message]:
        """All that wait, in the order in which they are due."""
        return self._lane.messages() if self._lane is not None else []

    def is_for_owner(self, message: Message) -> bool:
        """Whether the owner wants a message; else it would wait for ever, and the group is anybody's again."""
        assert self.owner is not None
        selector = self.owner.options.selector
        return selector is None or selector(message.head.headers)


class Groups:
    """The groups of one queue."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: OrderedDict[str, Group] = OrderedDict()

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def of(self, name: str) -> Group:
        """The group of that name, which may be new."""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name)
            if len(self._groups) > MOST_GROUPS:
                self._forget_oldest()
        else:
            self._groups.move_to_end(name)
        return group

    def find(self, message: Message) -> Group | None:
        """The group of a message; None: it has none, or the group is not known."""
        name = message.properties.group
        return self._groups.get(name) if name is not None else None

    def _forget_oldest(self) -> None:
        """Forget the first that nothing waits for; where all have messages, they are bounded by these."""
        some = islice(self._groups.values(), _LOOKS)
        oldest = next((group for group in some if group.first() is None), None)
        if oldest is not None:
            del self._groups[oldest.name]

    def taken(self, message: Message, consumer: Subscription) -> None:
        """A consumer got a message: the group is its own, or, behind the last message, nobody's."""
        group = self.find(message)
        if group is None:
            return
        if message.properties.closes_group:
            group.owner = group.token = None
        elif group.owner is None:
            group.owner, group.token = consumer, None
            if consumer.parked is None:
                consumer.parked = Lane()

    def forget(self, group: Group) -> None:
        """Nobody owns a group, and nothing waits for it."""
        self._groups.pop(group.name, None)

    def of_owner(self, consumer: Subscription) -> list[Group]:
        """The groups that a consumer has."""
        return [group for group in self._groups.values() if group.owner is consumer]


def settle(queue: Queue, group: Group) -> None:
    """Give out what a group has, as far as anybody has room, and leave its token where the rest is waited for."""
    while (first := group.first()) is not None:
        if queue.has_expired(first):
            group.pop()
            queue.remove(first)
            expired(queue, first)
            continue
        owner = group.owner
        if owner is not None and not group.is_for_owner(first):
            owner = group.owner = group.token = None
        if owner is not None:
            assert owner.parked is not None  # it came with the group
            if first is group.token:
                return
            if not owner.is_ready() or owner.parked.first() is not None:
                group.token = first
                owner.parked.add(first)
                return
            consumer = owner
        else:
            refusing: set[Lane] = set()
            chosen = queue.consumers.choose(first, refusing)
            if chosen is None:
                if first is not group.token:
                    group.token = first
                    queue.enter(first, refusing)
                return
            consumer = chosen
        group.pop()
        queue.take(first, consumer)
    group.token = None
    if group.owner is None:
        queue.consumers.forget_group(group)


def unpark(queue: Queue, consumer: Subscription) -> None:
    """Give a consumer what it has groups for, and what is due before that."""
    interest = consumer.interest
    assert interest is not None  # it has joined
    while consumer.parked is not None and consumer.is_ready():
        token = consumer.parked.first()
        if token is None:
            break
        earlier = queue.consumers.first(interest.lane)
        if earlier is not None and earlier.order < token.order:
            queue.hand_out(earlier, interest)
            continue
        consumer.parked.pop()
        group = queue.consumers.group_of(token)
        if group is None or group.token is not token or group.owner is not consumer:
            continue  # it has another place by now
        group.token = None
        if not queue.has_expired(token):
            group.pop()
            queue.take(token, consumer)
        settle(queue, group)
