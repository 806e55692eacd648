"""Consumers of a queue that want the same messages, and how one of them is chosen.

Those with room stand in a rotation; each message goes to the first, who then goes to its end.  Who turns out to have no
room leaves the rotation and comes back by himself (`Subscription.offer`), so that a thousand busy consumers cost a
publisher nothing.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .ready import ReadyList

if TYPE_CHECKING:
    from .subscription import Subscription


class ConsumerSet:
    """The consumers of one priority with one selector, or none.

    Attributes:
        ready_list: what waits for them; interests that differ in priority alone share it.
        text: the selector's.
        priority: of two interests with room the one of higher priority gets the message.
        consumers: how many there are.
        rotation: those with room.
        behind: the lane is being read, in turns; the consumers get nothing past it.
    """

    __slots__ = ("behind", "consumers", "priority", "ready_list", "rotation", "text")

    def __init__(self, ready_list: ReadyList, text: str, priority: int) -> None:
        self.ready_list = ready_list
        self.text = text
        self.priority = priority
        self.consumers = 0
        self.rotation: deque[Subscription] = deque()
        self.behind = False

    def next(self) -> Subscription | None:
        """The consumer whose turn it is; None: nobody has room."""
        rotation = self.rotation
        while rotation:
            consumer = rotation[0]
            if consumer.has_room():
                rotation.rotate(-1)
                return consumer
            rotation.popleft()
            consumer.listed = False
        return None

    def next_but(self, avoid: int) -> Subscription | None:
        """The consumer whose turn it is, but not the one with the serial `avoid`."""
        for _ in range(len(self.rotation)):
            consumer = self.next()
            if consumer is None or consumer.serial != avoid:
                return consumer
        return None

    def has_room(self) -> bool:
        """Whether any of them has; who turns out to have none leaves the rotation."""
        rotation = self.rotation
        while rotation:
            if rotation[0].has_room():
                return True
            rotation.popleft().listed = False
        return False

    def list(self, consumer: Subscription) -> None:
        """A consumer may have room."""
        if not consumer.listed:
            self.rotation.append(consumer)
            consumer.listed = True

    def unlist(self, consumer: Subscription) -> None:
        """A consumer goes, or has no room."""
        if consumer.listed:
            self.rotation.remove(consumer)
            consumer.listed = False
