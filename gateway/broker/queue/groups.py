"""Message groups: the messages of one group go to one consumer, in order, as long as it is there.

Of a group only the first message that waits, its `token`, stands in the ready lists of the queue.  The consumer that
takes it owns the group; from then on the token is parked with the owner, and the rest follows one by one, as the owner
has room.  When the owner goes, the token returns to the ready lists, and the group gets another owner.  So to hand a
group over costs the same however much of it waits, and a busy owner holds up no other consumer.

Only so many groups are remembered without messages: the one that was silent longest goes first, and will get an owner
anew.  A group stays while its owner has unacknowledged messages of it.  The cost of all groups of all queues is in
`Context.group_bytes`, beside the account of messages.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import islice

from ..core.context import Context
from ..model.message import Message
from .ready import ReadyList
from .subscription import Subscription

# Groups of a queue; and bytes, for those of all queues.
MOST_GROUPS = 65_536
MOST_BYTES = 64 * 1024 * 1024
# Bytes that a group costs beside its name.
_COST = 500
# Groups looked at for one that can be forgotten.
_LOOKS = 16


class Group:
    """A message group of a queue.

    Attributes:
        token: its first message, as it stands in the ready lists or with the owner.
        owner: the consumer that has the group; None: none has.
    """

    __slots__ = ("_waiting", "name", "owner", "token")

    def __init__(self, name: str) -> None:
        self.name = name
        self.token: Message | None = None
        self.owner: Subscription | None = None
        self._waiting: ReadyList | None = None  # only while a message waits: most groups are idle

    def is_empty(self) -> bool:
        """True if no message of it waits."""
        return self._waiting is None or self.first() is None

    def add(self, message: Message) -> None:
        """Add a message that waits."""
        if self._waiting is None:
            self._waiting = ReadyList()
        self._waiting.add(message)

    def first(self) -> Message | None:
        """The message that is due."""
        first = self._waiting.first() if self._waiting is not None else None
        if first is None:
            self._waiting = None
        return first

    def pop(self) -> None:
        """Remove the message that `first` just gave."""
        assert self._waiting is not None  # it gave something
        self._waiting.pop()

    def tidy(self, most: int) -> None:
        """Forget messages that wait no longer, where more than so many places are taken."""
        if self._waiting is not None and len(self._waiting) > most:
            self._waiting.compact()

    def messages(self) -> list[Message]:
        """All messages of it that wait, in the order in which they are due."""
        return self._waiting.messages() if self._waiting is not None else []

    def stand(self, token: Message | None) -> None:
        """Note which message stands for the group; None: none of it waits."""
        self.token = token

    def own(self, owner: Subscription | None) -> None:
        """Note the owner; the token is to be placed again."""
        self.owner, self.token = owner, None

    def is_for_owner(self, message: Message) -> bool:
        """True if the owner wants a message; else it would wait for ever, and the group needs another owner."""
        assert self.owner is not None
        selector = self.owner.options.selector
        return selector is None or selector(message.head.headers) is True

    def is_at_work(self) -> bool:
        """True if the owner has unacknowledged messages of it: it must not lose the group before they are settled."""
        ledger = self.owner.ledger if self.owner is not None else None
        return ledger is not None and any(each.message.options.group == self.name for each in ledger.values())


class _Owned:
    """The groups of one consumer, and the tokens of those with messages that wait."""

    __slots__ = ("groups", "parked")

    def __init__(self) -> None:
        self.groups: dict[Group, None] = {}
        self.parked = ReadyList()


class Groups:
    """The groups of one queue.

    Attributes:
        touched: the consumers with which a token was parked just now: each is to be asked for it.
    """

    __slots__ = ("_context", "_groups", "_owned", "touched")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._groups: OrderedDict[str, Group] = OrderedDict()
        self._owned: dict[Subscription, _Owned] = {}
        self.touched: dict[Subscription, None] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def of(self, name: str) -> Group:
        """The group of that name, which may be new."""
        group = self._groups.get(name)
        if group is None:
            if len(self._groups) >= MOST_GROUPS or self._context.group_bytes > MOST_BYTES:
                self._forget_oldest()
            group = self._groups[name] = Group(name)
            self._context.group_bytes += _COST + len(name)
        else:
            self._groups.move_to_end(name)
        return group

    def find(self, message: Message) -> Group | None:
        """The group of a message; None: it has none, or the group is not known."""
        name = message.options.group
        return self._groups.get(name) if name is not None else None

    def _forget_oldest(self) -> None:
        """Forget the first for which no message waits; where all have messages, they are bounded by these."""
        for group in list(islice(self._groups.values(), _LOOKS)):
            if group.first() is None and not group.is_at_work():
                self.free(group)
                self.forget(group)
                break
            self._groups.move_to_end(group.name)

    def forget(self, group: Group) -> None:
        """Forget a group without owner and messages."""
        if self._groups.get(group.name) is group:
            del self._groups[group.name]
            self._context.group_bytes -= _COST + len(group.name)

    def end(self) -> None:
        """The queue goes."""
        for group in list(self._groups.values()):
            self.forget(group)

    # owners

    def taken(self, message: Message, consumer: Subscription) -> None:
        """A consumer got a message: the group is its own; behind the group's last message it is free."""
        group = self.find(message)
        if group is None:
            return
        if message.options.closes_group:
            self.free(group)
        elif group.owner is None:
            group.own(consumer)
            self._owned.setdefault(consumer, _Owned()).groups[group] = None

    def free(self, group: Group) -> None:
        """Take a group from its owner; its token is to be placed again."""
        owned = self._owned.get(group.owner) if group.owner is not None else None
        if owned is not None:
            owned.groups.pop(group, None)
        group.own(None)

    def free_all(self, owner: Subscription) -> list[Group]:
        """Take all groups from a consumer; returns them."""
        owned = self._owned.pop(owner, None)
        self.touched.pop(owner, None)
        if owned is None:
            return []
        for group in owned.groups:
            group.own(None)
        return list(owned.groups)

    # tokens that wait for their owner

    def park(self, token: Message, owner: Subscription) -> None:
        """Park the token of a group with its owner."""
        self._owned[owner].parked.add(token)
        self.touch(owner)

    def touch(self, owner: Subscription) -> None:
        """Have a consumer asked for what is parked with it."""
        self.touched[owner] = None

    def parked(self, consumer: Subscription) -> ReadyList | None:
        """The tokens that are parked with a consumer; None: it never had a group."""
        owned = self._owned.get(consumer)
        return None if owned is None else owned.parked

    def take_touched(self, consumers: Mapping[Subscription, object], of: object) -> list[Subscription]:
        """The touched consumers of one set, each of which is to be asked now.

        Args:
            consumers: each with its set.
            of: the set.
        """
        found = [owner for owner in self.touched if consumers.get(owner) is of]
        for owner in found:
            del self.touched[owner]
        return found

    def oldest_parked(self) -> list[int]:
        """The number of the oldest message that is parked with each consumer."""
        found = [owned.parked.oldest() for owned in self._owned.values()]
        return [message.number for message in found if message is not None]

    def tidy(self, group: Group, most: int) -> None:
        """Forget messages of a group that wait no longer, where more than so many places are taken."""
        group.tidy(most)
        parked = self.parked(group.owner) if group.owner is not None else None
        if parked is not None and len(parked) > most:
            parked.compact()
