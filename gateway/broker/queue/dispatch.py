"""Dispatch: what waits in a queue goes to the consumers that have room.

    an interest gets room, or messages  ->  its lane, first come first served, as far as anybody has room
    a group's token comes into lanes    ->  everybody, for any of them may want it
    a token is parked with its owner    ->  to the owner, when nothing older waits for it

A lane that a selector has to read for long is read in turns (`catch_up`); nobody gets anything past it meanwhile.

What happens on the way is marked, and acted upon when everything stands in its place again:

    mark           what happened                       set by                       consumed by
    changed        groups came free, or the exclusive  `Consumers.leave`, `.join`   `returns.restore`, which lists all
                   consumer is another one, or none                                 that have room again
    freed          the groups that came free by it     the same                     `returns.restore`, behind that:
                                                                                    their tokens enter the lanes
    token_entered  a token came into the lanes         `groups.settle`              `dispatch_all`, which begins anew;
                                                                                    until then `dispatch` gives nothing
    touched        a consumer has to be asked for      `Consumers.park`,            `dispatch`, behind the lane: each
                   what is parked with it              `give_parked`                interest for its own consumers

Who may have caused one of the last two ends with `go_on`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..model.message import Message
from . import fate, groups
from .rotation import ConsumerSet

if TYPE_CHECKING:
    from .queue import Queue
    from .subscription import Subscription


def dispatch_all(queue: Queue) -> None:
    """Give everybody what waits, also of groups that come free by it; those of higher priority first."""
    consumers = queue.consumers
    while True:
        consumers.token_entered = False
        for consumer_set in list(consumers.consumer_sets):
            dispatch(queue, consumer_set)
            if consumers.token_entered:
                break
        if not consumers.token_entered and (consumers.groups is None or not consumers.groups.touched):
            return


def dispatch(queue: Queue, consumer_set: ConsumerSet) -> None:
    """Give the consumers of an interest what waits for them, until a group comes free: then it is everybody's turn
    (`go_on`)."""
    ready_list = consumer_set.ready_list
    consumers = queue.consumers
    while True:
        while consumer_set.has_room() and not consumers.token_entered:
            message = consumers.first(ready_list)
            if message is None or (queue.storage is not None and queue.storage.holds_up(message)):
                break
            hand_out(queue, message, consumer_set)
        owners = [] if consumers.token_entered else consumers.take_touched(consumer_set)
        if ready_list.tired or not owners:
            break
        for owner in owners:
            give_parked(queue, owner)
    if ready_list.tired and consumer_set.rotation and not consumer_set.behind:
        consumer_set.behind = True
        queue.broker.scheduler.later(partial(catch_up, queue, consumer_set))
    if queue.storage is not None and consumer_set.has_room():
        queue.storage.refill(stuck=True)
    if len(queue.ready_lists) > 1:
        queue.tidy()


def go_on(queue: Queue) -> None:
    """Behind whatever may have freed a group: its token stands in the lanes now, where somebody may want it."""
    consumers = queue.consumers
    if consumers.token_entered or (consumers.groups is not None and consumers.groups.touched):
        dispatch_all(queue)


def catch_up(queue: Queue, consumer_set: ConsumerSet) -> None:
    """Read on in the lane of an interest that is behind, for one turn."""
    consumer_set.behind = False
    dispatch(queue, consumer_set)
    if not consumer_set.behind and queue.consumers.groups is not None:
        for consumer in list(consumer_set.rotation):
            give_parked(queue, consumer)
    go_on(queue)


def give_parked(queue: Queue, consumer: Subscription) -> None:
    """Give a consumer what is parked with it, unless something older waits for it."""
    consumer_set = consumer.consumer_set
    assert consumer_set is not None  # it has joined
    while (found := groups.next_parked(queue, consumer)) is not None and consumer.is_ready():
        earlier = queue.consumers.first(consumer_set.ready_list)
        if consumer_set.ready_list.tired:
            dispatch(queue, consumer_set)  # in turns
            return
        first = found[1] if earlier is None or found[1].order < earlier.order else earlier
        if queue.storage is not None and queue.storage.holds_up(first):
            queue.storage.hold(consumer)
            return
        if first is earlier:
            queue.consumers.touch(consumer)  # behind that one it is its turn
            return
        groups.give_parked(queue, consumer, *found)


def hand_out(queue: Queue, message: Message, consumer_set: ConsumerSet) -> None:
    """Give the first message of a lane to whose turn it is, or what is parked there and older; somebody has room."""
    consumers = queue.consumers
    if consumers.groups is None and not message.expires:  # the usual case
        consumer = consumers.next_of(consumer_set, message)
        consumer_set.ready_list.pop()
        queue.take(message, consumer)
        return
    if queue.has_expired(message):
        consumer_set.ready_list.pop()
        queue.remove(message)
        fate.expired(queue, message)
        group = consumers.group_of(message)
        if group is not None:
            groups.settle(queue, group)
        return
    consumer = consumers.next_of(consumer_set, message)
    parked = groups.next_parked(queue, consumer)
    if parked is not None and parked[1].order < message.order:
        if queue.storage is not None and queue.storage.holds_up(parked[1]):
            queue.storage.hold(consumer)  # and with it the message
        else:
            groups.give_parked(queue, consumer, *parked)
        return
    consumer_set.ready_list.pop()
    group = consumers.group_of(message)
    if group is not None:
        group.pop()  # the token is its first
    queue.take(message, consumer)
    if group is not None:
        groups.settle(queue, group)
