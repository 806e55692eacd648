"""Dispatch: which consumer gets which message, and when.

    a message comes           ->  to a consumer with room, else to its place among those that wait (`place`)
    a consumer gets room      ->  the messages of its set's ready list, first come first served (`enlist`)
    messages come back        ->  to their old places, then everything is dispatched in order (`restore`)

A message group is scheduled by its first message, the token (see `groups`).  Between any two calls:

    the token of a group that     stands in                  and is handed out by
    no consumer has               the ready lists            whichever set has room; all are asked (`_ask_all`)
    a consumer has                that owner's tokens        the owner's set: the owner is in `ConsumerSet.owed` as
                                                             soon as it may get the token

A consumer gets the tokens of its groups and the messages of its ready list in one order.  A ready list that a selector
has to read for long is read in turns (`_catch_up`); its consumers get nothing past it meanwhile.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from ..core.context import Context
from ..core.unseen import Unseen
from ..model.message import Message
from .consumers import Consumers, ConsumerSet
from .groups import Group, Groups
from .ready import ReadyList
from .subscription import Subscription
from .waiting import WaitingMessages


class Outlet(Protocol):
    """The part of the queue that dispatch uses (see `Queue`)."""

    def hand(self, message: Message, consumer: Subscription) -> None: ...
    def remove(self, message: Message) -> None: ...
    def expire(self, message: Message) -> None: ...
    def has_expired(self, message: Message) -> bool: ...
    def is_due(self, message: Message) -> bool: ...
    def holds_up(self, message: Message) -> bool: ...
    def read_on(self) -> None: ...


class Dispatcher:
    """Gives the messages of one queue to its consumers.

    Attributes:
        groups: None as long as there was no message of a group.
        unseen: the messages that stand in no list, because no client may see them yet; None: there are none.

    Args:
        outlet: the queue, which carries it out.
        by_group: False: the queue has one consumer, and messages of groups are like others.
    """

    __slots__ = ("_ask_all", "_by_group", "_consumers", "_context", "_outlet", "_waiting", "groups", "unseen")

    def __init__(
        self, context: Context, waiting: WaitingMessages, consumers: Consumers, outlet: Outlet, *, by_group: bool
    ) -> None:
        self.groups: Groups | None = None
        self.unseen: Unseen[Message] | None = None
        self._context = context
        self._waiting = waiting
        self._consumers = consumers
        self._outlet = outlet
        self._by_group = by_group
        # The token of a group has come into the ready lists, or consumers stand by no longer: any set may want it.
        self._ask_all = False

    # a message comes

    def place(self, message: Message) -> None:
        """Give a kept message to a consumer with room, else to its place; one that is unseen has none."""
        if self.unseen is not None and self.hides(message):
            self.unseen.hold(message, message)
            self._waiting.count_in(message)
            return
        if self._by_group and message.options.group is not None:
            self._place_of_group(message, message.options.group)
        else:
            self.place_by_itself(message)
        self._go_on()

    def place_by_itself(self, message: Message) -> None:
        """Give a kept message without a group to a consumer with room, else to its place."""
        refusing: set[ReadyList] = set()
        consumer = None
        # Held up, it waits: a more urgent message is still in the store, and would come behind this one.
        if self._consumers.sets and not self._outlet.holds_up(message):
            # `choose` adds the lists that do not want it to `refusing`, so that no selector is asked a second time.
            consumer = self._consumers.choose(message, refusing)
        if consumer is not None:
            self._outlet.hand(message, consumer)
        else:
            self._waiting.add(message, refusing)

    def _place_of_group(self, message: Message, name: str) -> None:
        """Give a kept message of a group to the owner of the group, else to its place behind others of the group."""
        groups = self._groups()
        group = groups.of(name)
        owner = group.owner
        if owner is None or not self._is_next(message, group) or self._outlet.holds_up(message):
            self._add(group, message)
            # The message may be the token, and its owner have room.
            if group.owner is not None and (consumer_set := self._consumers.all[group.owner.consumer]).owed:
                self._dispatch(consumer_set)
            return
        # A message that closes its group frees it here; the group is then forgotten, for no message of it waits.
        groups.taken(group, message, owner.consumer)
        self._outlet.hand(message, owner.consumer)
        if group.owner is None:
            groups.forget(group)

    def _groups(self) -> Groups:
        if self.groups is None:
            self.groups = Groups(self._context)
        return self.groups

    def _is_next(self, message: Message, group: Group) -> bool:
        """True if a new message can go straight to the owner of its group: the usual case, no other one waits."""
        owner = group.owner
        return (
            owner is not None
            and group.first() is None
            and self._consumers.is_ready(owner.consumer)
            # Nothing older may wait for the owner: neither in the list of its set, nor of another of its groups.
            and not self._consumers.all[owner.consumer].behind
            and owner.tokens.first() is None
            and owner.wants(message)
        )

    def _add(self, group: Group, message: Message) -> None:
        """A message of a group waits."""
        group.add(message)
        self._waiting.count_in(message)
        self._settle(group)

    def hide(self, message: Message, on_seen: Callable[[], None]) -> None:
        """Give no consumer a message, which comes next, nor those behind it, before the store has the batch at hand.

        `on_seen`: called then; it calls `show`.
        """
        if self.unseen is None:
            self.unseen = Unseen(self._context, on_seen)
        self.unseen.begin(message.number)

    def hides(self, message: Message) -> bool:
        """True if a message is not shown: it is unseen, or came behind one that is not shown."""
        return self.unseen is not None and self.unseen.hides(message.number)

    def is_unseen(self, message: Message) -> bool:
        """True if a message is unseen, and does not only stand behind others that are shown in turns."""
        return self.unseen is not None and self.unseen.is_unseen(message.number)

    def show(self, most: int) -> list[Message]:
        """Give messages to consumers, or their places, that may be seen now; at most so many."""
        unseen = self.unseen
        assert unseen is not None  # it has called
        shown = list(unseen.seen(most))
        if not unseen.first:
            self.unseen = None
        for message in shown:
            # It has expired meanwhile, or went at a limit, or for a newer one of its key.
            if not message.waits:
                continue
            if self._by_group and message.options.group is not None:
                group = self._groups().of(message.options.group)
                group.add(message)
                self._settle(group)
            else:
                self._waiting.enter(message)
        self.dispatch_all()
        return shown

    # a consumer has room

    def enlist(self, subscription: Subscription) -> None:
        """A consumer may have room again."""
        consumer_set = self._consumers.all[subscription]
        consumer_set.list(subscription)
        owner = self.groups.owner_of(subscription) if self.groups is not None else None
        if owner is not None and len(owner.tokens):
            consumer_set.owed[subscription] = None
        self._dispatch(consumer_set)
        self._go_on()

    def dispatch_all(self) -> None:
        """Give all consumers what waits for them, those of higher priority first."""
        self._ask_all = True
        self._go_on()

    def _go_on(self) -> None:
        """Dispatch to all sets, if any may want what came meanwhile."""
        while self._ask_all:
            self._ask_all = False
            # A copy of the list: sets may come, go and change places while messages are handed out.
            for consumer_set in list(self._consumers.sets):
                self._dispatch(consumer_set)
                # A set that had its turn may want the token that has just come, so that all begin anew.
                if self._ask_all:
                    break

    def _dispatch(self, consumer_set: ConsumerSet) -> None:
        """Give the consumers of a set the messages that wait for them, until all sets are to be asked (`_go_on`)."""
        ready_list = consumer_set.ready_list
        while consumer_set.has_room() and not self._ask_all:
            message = self._first(ready_list)
            if message is None or self._outlet.holds_up(message):
                # Whether an older message waits is not known before the list is read, and that takes several turns.
                if consumer_set.owed and not ready_list.tired:
                    self._hand_out_tokens(consumer_set)
                break
            self._hand_out(message, consumer_set)
        # The set is `behind` until its list is read to the end.  Meanwhile a new message that it wants waits in the
        # list, so that it cannot overtake an older one there.
        if ready_list.tired and consumer_set.rotation and not consumer_set.behind:
            consumer_set.set_behind(True)
            self._context.scheduler.later(partial(self._catch_up, consumer_set))
        if consumer_set.has_room():
            # No message in memory is for this set: one in the store may be.
            self._outlet.read_on()
        else:
            # The owners come back by `enlist`.
            consumer_set.owed.clear()
        # A message that one list gave out keeps its places in the others until these are tidied.
        if len(self._waiting.ready_lists) > 1:
            self._waiting.tidy()

    def _catch_up(self, consumer_set: ConsumerSet) -> None:
        """Read on in the ready list of a set that is behind, for one turn."""
        consumer_set.set_behind(False)
        self._dispatch(consumer_set)
        self._go_on()

    def _first(self, ready_list: ReadyList) -> Message | None:
        """The first message of a ready list that does not stand elsewhere."""
        first = ready_list.first()
        if self.groups is not None:
            # The place is void: the group got its owner from another set's list, or has an older token now.
            while first is not None and (group := self.groups.find(first)) is not None:
                if group.owner is None and group.token is first:
                    break
                ready_list.pop()
                first = ready_list.first()
        return first

    # handing out

    def _hand_out(self, message: Message, consumer_set: ConsumerSet) -> None:
        """Give the first message of a ready list to the next consumer in turn, or an older token of that consumer.

        A consumer of the set has room.
        """
        if self.groups is None and not message.expires:  # the usual case
            consumer = self._next_of(consumer_set, message)
            consumer_set.ready_list.pop()
            self._take(message, consumer)
            return
        if self._outlet.has_expired(message):
            consumer_set.ready_list.pop()
            if (group := self.group_of(message)) is None:
                self._expire(message)
            else:
                self._settle(group)
            return
        consumer = self._next_of(consumer_set, message)
        token = self._token_of(consumer)
        if token is not None and token.order < message.order:
            self._take(token, consumer)
        else:
            consumer_set.ready_list.pop()
            self._take(message, consumer)

    def _hand_out_tokens(self, consumer_set: ConsumerSet) -> None:
        """Give the owners of groups the tokens that wait for them: the ready list of their set has nothing older."""
        for consumer in list(consumer_set.owed):
            while self._consumers.is_ready(consumer) and (token := self._token_of(consumer)) is not None:
                if self._outlet.holds_up(token):
                    break  # the consumer is asked again in `dispatch_all`
                self._take(token, consumer)
                if self._ask_all:
                    return
            else:
                consumer_set.owed.pop(consumer, None)

    def _take(self, message: Message, consumer: Subscription) -> None:
        """Give a message that waits to a consumer."""
        self._outlet.remove(message)
        group = self.group_of(message)
        if group is None:
            self._outlet.hand(message, consumer)
            return
        assert self.groups is not None  # it is one of them
        self.groups.taken(group, message, consumer)
        self._outlet.hand(message, consumer)
        self._settle(group)

    def _expire(self, message: Message) -> None:
        # It leaves the counts first: its dead letter may come back to this very queue.
        self._outlet.remove(message)
        self._outlet.expire(message)

    def _next_of(self, consumer_set: ConsumerSet, message: Message) -> Subscription:
        """The consumer that gets a message of a set's ready list; a consumer there has room."""
        avoid = message.history.avoid if message.history is not None else 0
        consumer = self._next_but(avoid, consumer_set, message) if avoid else None
        consumer = consumer or consumer_set.next()
        assert consumer is not None  # the set has room
        return consumer

    def _next_but(self, avoid: int, consumer_set: ConsumerSet, message: Message) -> Subscription | None:
        """The consumer that gets it, of any set, but not the one with the serial `avoid`."""
        consumer = consumer_set.next_but(avoid)
        if consumer is not None:
            return consumer
        headers = message.head.headers
        for other in self._consumers.sets:
            selector = other.ready_list.selector
            # A set that is behind gets nothing past the place up to which its list is read.
            if not other.rotation or other.behind or not (selector is None or selector(headers)):
                continue
            first = self._first(other.ready_list)  # none that is older, unless this is the middle of a hand-over
            if (first is None or first.order >= message.order) and (consumer := other.next_but(avoid)):
                self._ask_all = self.groups is not None  # the next token of the group stands with another set
                return consumer
        return None

    # groups

    def group_of(self, message: Message) -> Group | None:
        """The group of a message; None: it has none."""
        return self.groups.find(message) if self.groups is not None else None

    def _settle(self, group: Group) -> None:
        """Place a group's token where the group is waited for: in the ready lists, or with its owner."""
        assert self.groups is not None  # it is one of them
        while (first := group.first()) is not None and self._outlet.has_expired(first):
            self._expire(first)
        if first is None:
            # A group with an owner is kept: its next message must go to the same consumer.
            group.set_token(None)
            if group.owner is None:
                self.groups.forget(group)
            return
        # A message that the owner's selector refuses would block its group for ever: the group needs another owner.
        if group.owner is not None and not group.owner.wants(first):
            group.set_owner(None)
        # A token enters once.  The place of an earlier one is void, and is passed over when it comes to the front.
        if first is group.token:
            return
        group.set_token(first)
        if group.owner is None:
            self._waiting.enter(first)
            self._ask_all = True
        else:
            consumer = group.owner.consumer
            self._consumers.all[consumer].owed[consumer] = None

    def _token_of(self, consumer: Subscription) -> Message | None:
        """The first token of a consumer's groups."""
        owner = self.groups.owner_of(consumer) if self.groups is not None else None
        while owner is not None and (token := owner.tokens.first()) is not None:
            group = self.group_of(token)
            # The place is void: the group has another owner, or another token.
            if group is None or group.owner is not owner or group.token is not token:
                owner.tokens.pop()
            elif not self._outlet.has_expired(token):
                return token
            else:
                self._settle(group)
        return None

    # a message goes otherwise

    def withdraw(self, message: Message) -> None:
        """A message waits no longer, and no consumer got it."""
        self.take_out(message)
        self._go_on()
        self._waiting.tidy()

    def replace(self, message: Message) -> None:
        """A message waits no longer, and a newer one of its key is placed next."""
        # Nothing may go out before that: it would overtake the newer one, which takes this place.
        self.take_out(message)
        self._waiting.tidy()

    def take_out(self, message: Message) -> None:
        """One of many messages waits no longer; `close_gaps` must follow before the end of the turn."""
        self._outlet.remove(message)
        group = self.group_of(message)
        if group is not None:
            self._settle(group)
            group.tidy(self._waiting.most_places())

    def close_gaps(self) -> None:
        """Let the groups go on of which `take_out` took messages."""
        self._go_on()
        self._waiting.shed()
        self._waiting.tidy()

    def oldest(self) -> list[int]:
        """The numbers of the messages in memory among which the oldest is."""
        first = self._waiting.ready_lists[0].oldest()
        numbers = [message.number for message in ([] if first is None else [first]) + self.unseen_messages()[:1]]
        return numbers if self.groups is None else numbers + self.groups.oldest_tokens()

    def waiting_messages(self) -> list[Message]:
        """All messages that wait in memory and may be seen, in the order in which they are due."""
        found = self._waiting.ready_lists[0].messages()
        if self.groups is not None:
            found += [message for group in self.groups for message in group.messages()]
            # A token stands in the ready list and in its group.
            found = sorted(dict.fromkeys(found), key=lambda message: message.order)
        return found

    def unseen_messages(self) -> list[Message]:
        """All messages that wait in memory and are unseen, in the order of arrival."""
        return [] if self.unseen is None else [message for *_, message in self.unseen.held if message.waits]

    def settle_groups(self) -> None:
        """Forget the groups without an owner, after all waiting messages were removed."""
        for group in list(self.groups or ()):
            self._settle(group)

    # consumers come and go

    def join(self, subscription: Subscription, text: str) -> None:
        """Add a consumer, with the text of its selector (empty: it wants all messages); `enlist` follows."""
        if self._consumers.join(subscription, text, self._waiting.ready_lists):
            # It is the exclusive one: groups of the others are free.
            for each in [each for each in self._consumers.all if each.stands_by]:
                self._free_groups_of(each)
        self._waiting.weigh()

    def leave(self, subscription: Subscription) -> None:
        """Take out a consumer; `restore` follows."""
        consumer_set = self._consumers.all[subscription]
        if self._consumers.leave(subscription, self._waiting.ready_lists):
            # Consumers that stood by were taken out of their rotations; those with room return.
            self._consumers.list_ready()
            self._ask_all = True
        consumer_set.owed.pop(subscription, None)
        self._free_groups_of(subscription)
        self._waiting.weigh()

    def _free_groups_of(self, owner: Subscription) -> None:
        """Take all groups from a consumer: their tokens go into the ready lists."""
        for group in self.groups.leave(owner) if self.groups is not None else ():
            self._settle(group)

    def free_idle_groups(self, owners: Iterable[Subscription]) -> None:
        """Take those groups from consumers of which they have no message; `restore` follows."""
        for owner in map(self.groups.owner_of, owners) if self.groups is not None else ():
            for group in [] if owner is None else [each for each in owner.groups if not each.is_at_work()]:
                group.set_owner(None)
                self._settle(group)

    def restore(self, messages: Sequence[Message]) -> None:
        """Take messages back, in order, and let those consumers go on that can since another one left.

        If no group came free, and no message has a group, one message after the other is placed: no consumer with room
        misses an older one.  Else all take their places first, and then everything is dispatched in order.
        """
        due = (message for message in messages if self._outlet.is_due(message))
        if not self._ask_all and not (self._by_group and any(message.options.group for message in messages)):
            for message in due:
                self.place_by_itself(message)
            self._go_on()
            return
        for message in due:
            name = message.options.group if self._by_group else None
            # Only to its place: to give it out at once would overtake the messages that are still to come back.
            if name is None:
                self._waiting.add(message)
            else:
                self._add(self._groups().of(name), message)
        self.dispatch_all()

    def end(self) -> None:
        """The queue goes."""
        if self.groups is not None:
            self.groups.end()
