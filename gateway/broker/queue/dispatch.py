"""Dispatch: which consumer gets which message, and when.

    a message comes           ->  to a consumer with room, else to its place among those that wait (`place`)
    a consumer gets room      ->  the messages of its set's ready list, first come first served (`enlist`)
    messages come back        ->  to their old places, then everything is dispatched in order (`restore`)

Of a message group only the first message, its token, stands in the ready lists (see `groups`):

    the token enters the ready lists   ->  all sets are dispatched, for any of them may want it
    it is parked with the owner        ->  the owner gets it when no older message waits for that consumer

A ready list that a selector has to read for long is read in turns (`_catch_up`); its consumers get nothing past it
meanwhile.  What frees a group amid a dispatch is noted (`_token_entered`, `Groups.touched`) and acted upon behind it
(`_go_on`); what a consumer that came or left has changed (`_changed`, `_freed`), in `restore`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from ..core.context import Context
from ..model.message import Message
from .consumers import Consumers, ConsumerSet
from .groups import Group, Groups
from .ready import ReadyList
from .subscription import Subscription
from .waiting import WaitingMessages


class Outlet(Protocol):
    """The part of the queue that dispatch uses."""

    def hand(self, message: Message, consumer: Subscription) -> None:
        """Give a kept message, which does not wait, to a consumer."""
        ...

    def remove(self, message: Message) -> None:
        """A message waits no longer."""
        ...

    def expire(self, message: Message) -> None:
        """The time of a kept message, which does not wait, is over."""
        ...

    def has_expired(self, message: Message) -> bool:
        """True if the time of a message is over."""
        ...

    def is_due(self, message: Message) -> bool:
        """True if a kept message has a place here; if not, it is gone."""
        ...

    def group_name_of(self, message: Message) -> str | None:
        """The group by which a message is given out; None: by none."""
        ...

    def holds_up(self, message: Message) -> bool:
        """True if a message must wait for a more urgent one that is still to be read from the store."""
        ...

    def read_on(self) -> None:
        """A consumer has room, and wants none of the messages in memory: read further ones from the store."""
        ...


class Dispatcher:
    """Gives the messages of one queue to its consumers.

    Attributes:
        groups: None as long as there was no message of a group.

    Args:
        outlet: the queue, which carries it out.
    """

    __slots__ = (
        "_changed",
        "_consumers",
        "_context",
        "_freed",
        "_held_up",
        "_outlet",
        "_thinned",
        "_token_entered",
        "_waiting",
        "groups",
    )

    def __init__(self, context: Context, waiting: WaitingMessages, consumers: Consumers, outlet: Outlet) -> None:
        self.groups: Groups | None = None
        self._context = context
        self._waiting = waiting
        self._consumers = consumers
        self._outlet = outlet
        self._changed = False  # groups came free, or the exclusive consumer is another one, or none
        self._freed: list[Group] = []  # the groups that came free by it
        self._token_entered = False  # the first message of a group came into the ready lists
        self._thinned: dict[Group, None] = {}  # groups of which messages were taken out
        self._held_up: dict[Subscription, None] = {}  # parked tokens of theirs are held up

    # a message comes

    def place(self, message: Message) -> None:
        """Give a kept message without a group to a consumer with room, else to its place."""
        outlet = self._outlet
        refusing: set[ReadyList] = set()
        has_consumers = bool(self._consumers.sets)
        # A more urgent message is still in the store.  To give this one out first would break the order of priorities.
        if has_consumers and outlet.holds_up(message):
            self._waiting.add(message)
            return
        # `choose` adds the lists that do not want it to `refusing`, so that no selector is asked a second time.
        consumer = self._consumers.choose(message, refusing) if has_consumers else None
        if consumer is not None:
            outlet.hand(message, consumer)
        else:
            self._waiting.add(message, refusing)

    def place_of_group(self, message: Message, name: str) -> None:
        """Give a kept message of a group to the owner of the group, else to its place behind others of the group."""
        group = self._group(name)
        groups = self.groups
        assert groups is not None  # it is one of them
        if self._is_ready(group, message) and not self._outlet.holds_up(message):
            owner = group.owner
            assert owner is not None  # it is ready
            # A message that closes its group frees it here; the group is then forgotten, for no message of it waits.
            groups.taken(message, owner)
            self._outlet.hand(message, owner)
            if group.owner is None:
                groups.forget(group)
        else:
            self._add(group, message)
            self._serve(group)

    def _group(self, name: str) -> Group:
        """The group of that name, which may be new."""
        if self.groups is None:
            self.groups = Groups(self._context)
        return self.groups.of(name)

    def _is_ready(self, group: Group, message: Message) -> bool:
        """True if a new message can go straight to the owner of its group: the usual case, no other one waits."""
        owner = group.owner
        if owner is None or not group.is_empty() or not self._consumers.is_ready(owner):
            return False
        assert self.groups is not None
        # Nothing older may wait for the owner: neither in the list of its set, nor parked with it.
        parked = self.groups.parked(owner)
        return (
            not self._consumers.all[owner].behind
            and (parked is None or parked.first() is None)
            and group.is_for_owner(message)
        )

    def _add(self, group: Group, message: Message) -> None:
        """A message of a group waits."""
        group.add(message)
        self._waiting.count_in(message)
        self._settle(group)

    def _serve(self, group: Group) -> None:
        """Give the first message of a group to a consumer that has room and may have it."""
        if group.owner is not None:
            self._give_parked(group.owner)
        self._go_on()

    # a consumer has room

    def enlist(self, subscription: Subscription) -> None:
        """A consumer may have room again."""
        consumer_set = self._consumers.all[subscription]
        consumer_set.list(subscription)
        self._dispatch(consumer_set)
        if self.groups is not None and self.groups.parked(subscription) is not None:
            self._give_parked(subscription)
        self._go_on()

    def dispatch_all(self) -> None:
        """Give all consumers what waits, also of groups that come free by it; those of higher priority first."""
        while True:
            self._token_entered = False
            # A copy of the list: sets may come, go and change places while messages are handed out.
            for consumer_set in list(self._consumers.sets):
                self._dispatch(consumer_set)
                # A set that had its turn may want the token, so that all begin anew, in the order of priority.
                if self._token_entered:
                    break
            if not self._token_entered and (self.groups is None or not self.groups.touched):
                return

    def _dispatch(self, consumer_set: ConsumerSet) -> None:
        """Give the consumers of a set the messages that wait for them, until a group comes free.

        Then all sets have their turn (`_go_on`).
        """
        ready_list = consumer_set.ready_list
        while True:
            # A token that has just entered may be older than the next message here: then all sets begin anew.
            while consumer_set.has_room() and not self._token_entered:
                message = self._first(ready_list)
                if message is None or self._outlet.holds_up(message):
                    break
                self._hand_out(message, consumer_set)
            owners = [] if self._token_entered else self._touched_of(consumer_set)
            if ready_list.tired or not owners:
                break
            # Behind the ready list: `_give_parked` lets an older message of the list go first.
            for owner in owners:
                self._give_parked(owner)
        # The set is `behind` until its list is read to the end.  Meanwhile a new message that it wants waits in the
        # list, so that it cannot overtake an older one there.
        if ready_list.tired and consumer_set.rotation and not consumer_set.behind:
            consumer_set.read_on_later(is_behind=True)
            self._context.scheduler.later(partial(self._catch_up, consumer_set))
        # Room is left, so no message in memory is for this set: one in the store may be.
        if consumer_set.has_room():
            self._outlet.read_on()
        # A message that one list gave out keeps its places in the others until these are tidied.
        if len(self._waiting.ready_lists) > 1:
            self._waiting.tidy()

    def _touched_of(self, consumer_set: ConsumerSet) -> list[Subscription]:
        """The consumers of a set that are to be asked for what is parked with them."""
        if self.groups is None or not self.groups.touched:
            return []
        return self.groups.take_touched(self._consumers.all, consumer_set)

    def _go_on(self) -> None:
        """Dispatch to all sets if a group came free: its token stands in the ready lists now, where any may want it."""
        if self._token_entered or (self.groups is not None and self.groups.touched):
            self.dispatch_all()

    def _catch_up(self, consumer_set: ConsumerSet) -> None:
        """Read on in the ready list of a set that is behind, for one turn."""
        consumer_set.read_on_later(is_behind=False)
        self._dispatch(consumer_set)
        # Parked messages waited for the reading, because the list could have held an older one.
        if not consumer_set.behind and self.groups is not None:
            for consumer in list(consumer_set.rotation):
                self._give_parked(consumer)
        self._go_on()

    def resume(self) -> None:
        """Messages were read from the store: dispatch the messages that were held up by them."""
        # Taken before the dispatch, which may hold up some of them again.
        held_up, self._held_up = self._held_up, {}
        self.dispatch_all()
        for consumer in held_up:
            # A consumer that left meanwhile has no set any more.
            if not consumer.ended:
                self._give_parked(consumer)
        self._go_on()

    def _first(self, ready_list: ReadyList) -> Message | None:
        """The first message of a ready list that is not parked elsewhere."""
        first = ready_list.first()
        if self.groups is not None:
            # The group got its owner from another set's list: the owner has the token, and its place here is void.
            while first is not None and self._is_elsewhere(first):
                ready_list.pop()
                first = ready_list.first()
        return first

    def _is_elsewhere(self, message: Message) -> bool:
        """True if a message is parked with the owner of its group, or waits behind the group's token."""
        group = self.group_of(message)
        return group is not None and (group.owner is not None or group.token is not message)

    # handing out

    def _hand_out(self, message: Message, consumer_set: ConsumerSet) -> None:
        """Give the first message of a ready list to the next consumer in turn, or an older one that it has parked.

        A consumer of the set has room.
        """
        if self.groups is None and not message.expires:  # the usual case
            consumer = self._next_of(consumer_set, message)
            consumer_set.ready_list.pop()
            self._take(message, consumer)
            return
        # It leaves the list and the counts first: its dead letter may come back to this very queue.
        if self._outlet.has_expired(message):
            consumer_set.ready_list.pop()
            self._outlet.remove(message)
            self._outlet.expire(message)
            group = self.group_of(message)
            if group is not None:
                self._settle(group)
            return
        consumer = self._next_of(consumer_set, message)
        parked = self._next_parked(consumer)
        # A consumer gets messages of its groups and all others in one order, so that the older one goes first.
        if parked is not None and parked[1].order < message.order:
            if self._outlet.holds_up(parked[1]):
                self._held_up[consumer] = None  # the message is held up as well: it is not due before this one
            else:
                self._take_parked(consumer, *parked)
            return
        consumer_set.ready_list.pop()
        group = self.group_of(message)
        if group is not None:
            group.pop()  # the token is its first
        self._take(message, consumer)
        if group is not None:
            self._settle(group)

    def _take(self, message: Message, consumer: Subscription) -> None:
        """Give a message that waits to a consumer."""
        self._outlet.remove(message)
        if self.groups is not None:
            self.groups.taken(message, consumer)
        self._outlet.hand(message, consumer)

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
                return consumer
        return None

    # groups

    def group_of(self, message: Message) -> Group | None:
        """The group of a message; None: it has none."""
        return self.groups.find(message) if self.groups is not None else None

    def _settle(self, group: Group) -> None:
        """Put a group's token where the group is waited for: with its owner, or into the ready lists."""
        groups = self.groups
        assert groups is not None  # this is one of them
        while (first := group.first()) is not None:
            if self._outlet.has_expired(first):
                group.pop()
                self._outlet.remove(first)
                self._outlet.expire(first)
                continue
            # A message that the owner's selector refuses would block its group for ever: the group needs another owner.
            if group.owner is not None and not group.is_for_owner(first):
                groups.free(group)
            # A token enters once.  The place of an earlier one is void, and is passed over when it comes to the front.
            if first is not group.token:
                group.stand(first)
                if group.owner is None:
                    self._waiting.enter(first)
                    self._token_entered = True
                else:
                    groups.park(first, group.owner)
            return
        # No message of the group waits.  A group with an owner is kept: its next message must go to the same consumer.
        group.stand(None)
        if group.owner is None:
            groups.forget(group)

    def _next_parked(self, consumer: Subscription) -> tuple[Group, Message] | None:
        """The first message that is parked with a consumer, and its group."""
        parked = self.groups.parked(consumer) if self.groups is not None else None
        while parked is not None and (token := parked.first()) is not None:
            group = self.group_of(token)
            # The place is void: the group has another owner, or another token.
            if group is None or group.owner is not consumer or group.token is not token:
                parked.pop()
            elif not self._outlet.has_expired(token):
                return group, token
            else:
                parked.pop()  # first of all: a dead letter may come back here, for the same consumer
                self._settle(group)
        return None

    def _give_parked(self, consumer: Subscription) -> None:
        """Give a consumer what is parked with it, unless an older message waits for it."""
        while (found := self._next_parked(consumer)) is not None and self._consumers.is_ready(consumer):
            consumer_set = self._consumers.all[consumer]
            earlier = self._first(consumer_set.ready_list)
            # Whether an older message waits is not known before the list is read, and that takes several turns.
            if consumer_set.ready_list.tired:
                self._dispatch(consumer_set)  # in turns
                return
            first = found[1] if earlier is None or found[1].order < earlier.order else earlier
            if self._outlet.holds_up(first):
                self._held_up[consumer] = None
                return
            if first is earlier:
                assert self.groups is not None
                self.groups.touch(consumer)  # its turn comes behind that message
                return
            self._take_parked(consumer, *found)

    def _take_parked(self, consumer: Subscription, group: Group, token: Message) -> None:
        """Give a consumer the token that `_next_parked` found."""
        parked = self.groups.parked(consumer) if self.groups is not None else None
        assert parked is not None  # it was found there
        parked.pop()
        group.pop()
        self._take(token, consumer)
        self._settle(group)

    # a message goes otherwise

    def withdraw(self, message: Message) -> None:
        """A message waits no longer, and no consumer got it."""
        self._outlet.remove(message)
        group = self.group_of(message)
        if group is not None:
            self._settle(group)
            self._serve(group)
            assert self.groups is not None
            self.groups.tidy(group, self._waiting.most_places())
        self._waiting.tidy()

    def take_out(self, message: Message) -> None:
        """One of many messages waits no longer; `close_gaps` must follow before the end of the turn."""
        self._outlet.remove(message)
        group = self.group_of(message)
        if group is not None:
            # The group is not settled yet: its next message may be the next one to be taken out.
            self._thinned[group] = None

    def close_gaps(self) -> None:
        """Let the groups go on of which `take_out` took messages."""
        found, self._thinned = self._thinned, {}
        # All groups get their tokens before any is served, because serving one dispatches to all consumers.
        for group in found:
            self._settle(group)
            group.tidy(self._waiting.most_places())
        for group in found:
            self._serve(group)
        self._waiting.shed()
        self._waiting.tidy()

    def waiting_messages(self) -> list[Message]:
        """All messages that wait in memory, in the order in which they are due."""
        found = self._waiting.ready_lists[0].messages()
        if self.groups is not None:
            found += [message for group in self.groups for message in group.messages()]
            # A token stands in the ready list and in its group.
            found = sorted(dict.fromkeys(found), key=lambda message: message.order)
        return found

    def settle_groups(self) -> None:
        """Forget the groups without an owner, after all waiting messages were removed."""
        for group in list(self.groups or ()):
            self._settle(group)

    # consumers come and go

    def join(self, subscription: Subscription, text: str) -> None:
        """Add a consumer, with the text of its selector (empty: it wants all messages)."""
        if self._consumers.join(subscription, text, self._waiting.ready_lists):
            self._free_those_standing_by()
        self._waiting.weigh()

    def leave(self, subscription: Subscription) -> None:
        """Take out a consumer."""
        is_changed = self._consumers.leave(subscription, self._waiting.ready_lists)
        # Its groups need other owners.  `restore` gives them out, together with the messages that come back from it.
        self._free(subscription)
        if is_changed:
            self._free_those_standing_by()
        self._waiting.weigh()

    def _free_those_standing_by(self) -> None:
        """Another consumer is the exclusive one, or none: groups of the others are free."""
        for each in self._consumers.standing_by():
            self._free(each)
        self._changed = True

    def _free(self, owner: Subscription) -> None:
        if self.groups is not None and (freed := self.groups.free_all(owner)):
            self._freed += freed
            self._changed = True

    def restore(self, messages: Sequence[Message] = ()) -> None:
        """Take messages back, in order, and let those consumers go on that can since another one left.

        If no consumer came or left, and no message has a group, one message after the other is placed: no consumer with
        room misses an older one.  Else all take their places first, and then everything is dispatched in order.
        """
        outlet = self._outlet
        changed, self._changed = self._changed, False
        # No consumer came or left, so those with room want nothing that waits: each message can be placed by itself.
        if not changed and all(outlet.group_name_of(message) is None for message in messages):
            for message in messages:
                if outlet.is_due(message):
                    self.place(message)
            return
        if changed:
            # Consumers that stood by were taken out of their rotations; those with room return.
            self._consumers.list_ready()
            freed, self._freed = self._freed, []
            # Free groups enter the ready lists first; an older message that comes back then replaces the token.
            for group in freed:
                self._settle(group)
        for message in messages:
            if not outlet.is_due(message):
                continue
            name = outlet.group_name_of(message)
            # Only to its place: to give it out at once would overtake the messages that are still to come back.
            if name is None:
                self._waiting.add(message)
            else:
                self._add(self._group(name), message)
        self.dispatch_all()

    def end(self) -> None:
        """The queue goes."""
        if self.groups is not None:
            self.groups.end()
