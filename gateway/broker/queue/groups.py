"""Message groups: the messages of one group go to one consumer, in order, as long as it is there.

Of a group only the first message that waits, its token, stands for the group: in the ready lists of the queue as long
as no consumer has the group, then in the list of its owner.  So a handover costs the same however much of a group
waits, and a busy owner holds up no other consumer.

Only so many groups are remembered without messages; one that is forgotten will get an owner anew.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

from ..core.context import Context
from ..model.message import Message
from .ready import ReadyList
from .subscription import Subscription

_COST = 500  # bytes that a group costs beside its name
_LOOKS = 16  # groups looked at for one that can be forgotten


class Owner:
    """A consumer that has groups.

    Attributes:
        tokens: of its groups with messages that wait.  A token that was replaced, or whose group has another owner,
            keeps its place until it comes to the front.
    """

    __slots__ = ("consumer", "groups", "tokens")

    def __init__(self, consumer: Subscription) -> None:
        self.consumer = consumer
        self.groups: dict[Group, None] = {}
        self.tokens = ReadyList()

    def wants(self, message: Message) -> bool:
        """True if its selector takes a message of one of its groups."""
        selector = self.consumer.options.selector
        # JMS 1.1, 3.8.1.2: unknown, which is None, is not True.
        return selector is None or selector(message.head.headers) is True


class Group:
    """A message group of a queue.

    Attributes:
        token: its first message, as it stands in the ready lists or with the owner; None: it is to be placed.
        owner: None: no consumer has the group.
    """

    __slots__ = ("_waiting", "name", "owner", "token")

    def __init__(self, name: str) -> None:
        self.name = name
        self.token: Message | None = None
        self.owner: Owner | None = None
        self._waiting: ReadyList | None = None  # only while a message waits: most groups are idle

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

    def messages(self) -> list[Message]:
        """All messages of it that wait, in the order in which they are due."""
        return self._waiting.messages() if self._waiting is not None else []

    def set_token(self, token: Message | None) -> None:
        """Let a message stand for the group; with an owner, in its list."""
        self.token = token
        if token is not None and self.owner is not None:
            self.owner.tokens.add(token)

    def set_owner(self, owner: Owner | None) -> None:
        """Let a consumer have the group, or none; the token is to be placed again."""
        if self.owner is not None:
            self.owner.groups.pop(self, None)
        if owner is not None:
            owner.groups[self] = None
        # The old token's place, in the ready lists or with the old owner, is void: dispatch passes over it.
        self.owner, self.token = owner, None

    def is_at_work(self) -> bool:
        """True if the owner has unacknowledged messages of it: it must not lose the group before they are settled."""
        # With another owner, a new message could be processed before these, which would break the order of the group.
        ledger = self.owner.consumer.ledger if self.owner is not None else None
        return ledger is not None and any(each.message.options.group == self.name for each in ledger.values())

    def tidy(self, most: int) -> None:
        """Forget messages that wait no longer, where a list has more than so many places."""
        for ready_list in (self._waiting, self.owner.tokens if self.owner is not None else None):
            if ready_list is not None and len(ready_list) > most:
                ready_list.compact()


class Groups:
    """The groups of one queue."""

    __slots__ = ("_context", "_groups", "_most", "_most_bytes", "_owners")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._most, self._most_bytes = context.work_limits.groups, context.work_limits.group_bytes
        self._groups: OrderedDict[str, Group] = OrderedDict()
        self._owners: dict[Subscription, Owner] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def of(self, name: str) -> Group:
        """The group of that name, which may be new."""
        group = self._groups.get(name)
        if group is None:
            if len(self._groups) >= self._most or self._context.group_bytes > self._most_bytes:
                self._forget_oldest()
            group = self._groups[name] = Group(name)
            self._context.group_bytes += _COST + len(name)
        else:
            # So the group that was silent longest stands first, and is forgotten first.
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
                group.set_owner(None)
                self.forget(group)
                break
            # Behind the others: the next call looks at others, and not at these again.
            self._groups.move_to_end(group.name)

    def forget(self, group: Group) -> None:
        """Forget a group without owner and messages."""
        # It may be forgotten already, and its name be a new group's: the account counts each group once.
        if self._groups.get(group.name) is group:
            del self._groups[group.name]
            self._context.group_bytes -= _COST + len(group.name)

    def end(self) -> None:
        """The queue goes."""
        # `Context.group_bytes` bounds the groups of all queues: what these cost is given back.
        for group in list(self):
            self.forget(group)

    # owners

    def owner_of(self, consumer: Subscription) -> Owner | None:
        """The consumer as an owner; None: it never had a group."""
        return self._owners.get(consumer)

    def taken(self, group: Group, message: Message, consumer: Subscription) -> None:
        """A consumer got a message: the group is its own; behind the group's last message it is free."""
        # JMSXGroupSeq:-1, as ActiveMQ has it: the group may go to another consumer.
        if message.options.closes_group:
            group.set_owner(None)
        elif group.owner is None:
            owner = self._owners.get(consumer)
            if owner is None:
                owner = self._owners[consumer] = Owner(consumer)
            group.set_owner(owner)

    def leave(self, consumer: Subscription) -> list[Group]:
        """A consumer goes, or may get nothing from now on; returns its groups, which are free."""
        owner = self._owners.pop(consumer, None)
        groups = list(owner.groups) if owner is not None else []
        for group in groups:
            group.set_owner(None)
        return groups

    def oldest_tokens(self) -> list[int]:
        """The number of the oldest message that stands with each owner."""
        # A message whose group has an owner stands in no ready list of the queue.
        found = [owner.tokens.oldest() for owner in self._owners.values()]
        return [message.number for message in found if message is not None]
