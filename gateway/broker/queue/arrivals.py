"""A message comes to a queue, or comes back: it is somebody's at once, or has its place among those that wait.

    has it a place at all?      not if it has expired, or a newer one of its key waits
    has it a group?             to the owner of the group, else behind what waits of the group
    is it held up?              by something more urgent that is still to be read, or by what is to be written
    does anybody want it?       to a consumer with room, else into the lanes

`Queue.accept` has a short way for messages that ask for none of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.message import Message
from . import dispatch, fate, groups
from .groups import Group
from .overflow import conflate
from .ready import ReadyList

if TYPE_CHECKING:
    from .queue import Queue


def put(queue: Queue, message: Message) -> None:
    """Take a message that is kept already: to a consumer with room, else to its place."""
    if not is_due(queue, message):
        return
    if not is_grouped(queue, message):
        offer(queue, message)
        return
    group = queue.consumers.group(message.options.group or "")
    if groups.is_ready(group, message) and not (queue.storage is not None and queue.storage.is_holding):
        groups.pass_on(queue, group, message)
    else:
        groups.add(queue, group, message)
        serve(queue, group)


def came(queue: Queue, message: Message) -> None:
    """A message came into the backlog."""
    if queue.limits.any:
        queue.limits.apply(queue, message)
    for browser in list(queue.browsers.values()):
        browser.follow(message)


def is_due(queue: Queue, message: Message) -> bool:
    """Whether a message that is kept has a place here: it has not expired, and no newer one of its key waits."""
    if queue.has_expired(message):
        fate.expired(queue, message)
        return False
    return not queue.conflates(message) or conflate(queue, message)


def is_grouped(queue: Queue, message: Message) -> bool:
    """Whether a message goes by its group; where there is but one consumer it need not."""
    return message.options.group is not None and not queue.private


def serve(queue: Queue, group: Group) -> None:
    """Whoever has room, and may have the first message of a group, gets it."""
    if group.owner is not None:
        dispatch.give_parked(queue, group.owner)
    dispatch.go_on(queue)


def offer(queue: Queue, message: Message) -> None:
    """A message without a group: to a consumer with room, else to its place."""
    refusing: set[ReadyList] = set()
    is_anybody_there = bool(queue.consumers.consumer_sets)
    if is_anybody_there and queue.storage is not None and queue.storage.holds_up(message):
        queue.stand(message)
        return
    consumer = queue.consumers.choose(message, refusing) if is_anybody_there else None
    if consumer is not None:
        queue.hand(message, consumer)
    else:
        queue.stand(message, refusing)
