"""Offsets: how far clients have read topics.  A client that comes back under a name of its own goes on there.

An offset stands behind the last message before which all are acknowledged.  It belongs to the user, the client-id and
the name that SUBSCRIBE gives as `resume`.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Protocol

from ..core.context import Context
from ..core.outbox import Feeder
from ..core.ports import Peer
from ..core.scheduler import Timer
from ..errors import NotAllowed
from ..model.changes import Container
from ..queue.queue import Queue
from ..queue.subscription import Subscription
from .durable_subscriptions import joined
from .topic import Topic

KIND = "cursor"
"""The kind of its container in the store."""

# Seconds between two looks at the position of an offset where there is no store.
_LONG_PAUSE = 60.0
# Seconds after which an unused offset goes, where the topic's policy has no `idle_timeout`.
_LONGEST = 30 * 86_400.0


class StreamPosition(Feeder, Protocol):
    """The reader that gives the holder of an offset what it missed."""

    position: int


class Offset:
    """The offset of one client in one topic, or in those of a pattern.

    Attributes:
        gaps: number of a message that tells of a gap -> that of one which is gone.  Until the client acknowledges the
            first, it is told again.
        reader: gives the holder the messages that it missed; `holder.reader` is it as long as it does.
    """

    __slots__ = ("container", "date", "gaps", "holder", "name", "position", "reader", "timeout", "topic")

    def __init__(self, name: str, topic: str, position: int, timeout: float) -> None:
        self.name = name  # unique
        self.topic = topic  # the name, or pattern, that is read
        self.position = position  # the number of the last message that is done
        self.timeout = timeout or _LONGEST  # seconds until that
        self.holder: Subscription | None = None  # the subscription that reads; None: none does
        self.reader: StreamPosition | None = None
        self.gaps: dict[int, int] = {}
        self.container = 0  # in the store; 0: none
        self.date: Timer | None = None  # of the next look, or of its end

    @property
    def facts(self) -> str:
        """The facts that the store keeps of it."""
        return json.dumps({"topic": self.topic, "position": self.position, "timeout": self.timeout})


class Offsets:
    """The offsets of all clients, by name."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._found: dict[str, Offset] = {}
        self._held: dict[Subscription, Offset] = {}

    def __len__(self) -> int:
        return len(self._found)

    def find(self, subscription: Subscription, topic: str) -> Offset | None:
        """The offset that a SUBSCRIBE means, moved to its position of now."""
        offset = self._found.get(_name_of(subscription))
        if offset is None or offset.topic != topic:
            return None
        # Another session may still read by it: what that one has acknowledged must not come again.
        self._move(offset)
        return offset

    def hold(self, subscription: Subscription, topic: Topic, reader: StreamPosition) -> None:
        """A subscription reads under its name, from where its reader is.  Raises NotAllowed: there are too many."""
        name = _name_of(subscription)
        offset = self._found.get(name)
        limit = self._context.quotas.max_durable_subscriptions
        if offset is None and len(self._found) >= limit and not self._forget_idle():
            raise NotAllowed(
                "too many names to resume by",
                f"the server may remember {limit} (max_durable_subscriptions); one goes with an UNSUBSCRIBE that names "
                "it, or with the idle_timeout of its topic",
            )
        # Under the same name, another topic begins anew.
        if offset is None or offset.topic != topic.name:
            if offset is not None:
                self.forget(offset)
            offset = self._found[name] = Offset(name, topic.name, reader.position, topic.policy.idle_timeout)
            storage = self._context.storage
            if storage is not None:
                offset.container = storage.place(KIND, name, offset.facts)
                # The client relies on its name from the RECEIPT on.
                storage.await_place()
        # The session that comes last has it; the one before goes on reading, and moves it no longer.
        self._let_go(offset)
        offset.holder, offset.reader = subscription, reader
        self._held[subscription] = offset
        self._look_later(offset)

    def of(self, subscription: Subscription) -> Offset | None:
        """The offset that a subscription moves; None: it moves none."""
        return self._held.get(subscription)

    def _let_go(self, offset: Offset) -> None:
        """Have the holder of an offset move it no longer."""
        if offset.holder is not None:
            del self._held[offset.holder]
            offset.holder = None

    def end(self, peer: Peer, name: str) -> None:
        """Forget a name.  Raises NotAllowed: it is not known."""
        offset = self._found.get(joined(peer.login, peer.client_id, name))
        if offset is None:
            raise NotAllowed("unknown name", f"there is no {name[:80]!r} of this user and client-id to resume by")
        self.forget(offset)

    def leave(self, subscription: Subscription) -> None:
        """Leave the offset of a subscription that goes, and still has what it did not acknowledge."""
        offset = self._held.get(subscription)
        if offset is None:
            return
        self._move(offset)
        self._let_go(offset)
        offset.reader = None
        # The unused ones stand in the order of their leaving.
        self._found[offset.name] = self._found.pop(offset.name)
        self._end_later(offset)

    def every(self) -> list[Offset]:
        """All offsets; the unused ones in the order in which their holders left."""
        return list(self._found.values())

    def get(self, name: str) -> Offset | None:
        """The offset with that whole name."""
        return self._found.get(name)

    def forget(self, offset: Offset) -> None:
        """Forget an offset; its holder goes on reading."""
        self._context.scheduler.cancel(offset.date)
        del self._found[offset.name]
        self._let_go(offset)
        storage = self._context.storage
        if offset.container and storage is not None:
            storage.drop(offset.container)

    def restore(self, container: Container) -> None:
        """Take over an offset that the store holds."""
        facts = json.loads(container.facts)
        offset = Offset(container.name, facts["topic"], facts["position"], facts["timeout"])
        offset.container = container.number
        # The system's clock may have been set back.
        self._context.last_number = max(self._context.last_number, offset.position)
        self._found[container.name] = offset
        self._end_later(offset)

    def _forget_idle(self) -> bool:
        """Forget the offset that was unused for the longest time; False: all are in use."""
        idle = next((offset for offset in self._found.values() if offset.holder is None), None)
        if idle is not None:
            self.forget(idle)
        return idle is not None

    def _move(self, offset: Offset) -> None:
        """Move an offset to its position of now."""
        # Not with each ACK, so that it costs a message nothing; after a kill the last seconds come again.
        position = self._position(offset)
        storage = self._context.storage
        if position > offset.position:
            offset.position = position
            if storage is not None:
                storage.describe(Container(offset.container, KIND, offset.name, offset.facts))

    def _position(self, offset: Offset) -> int:
        holder = offset.holder
        queue = holder.queue if holder is not None else None
        # A rejected message that rests until its back-off is over stands in none of the lists below: the offset stays.
        if holder is None or holder.ledger is None or not isinstance(queue, Queue) or queue.resting:
            return offset.position
        reader = offset.reader
        last = reader.position if reader is not None else 0
        # The reader is done: the position is that of the last message which subscribers' queues got.
        if holder.topic is not None and holder.reader is not reader:
            last = max(last, holder.topic.last)
        # All that is not acknowledged: at the client, and in the private queue behind it.
        open_ones = [delivery.message.number for delivery in holder.ledger.values()]
        open_ones += [message.number for message in queue.in_memory.ready_lists[0] if message.waits]
        if offset.gaps:
            offset.gaps = {number: offset.gaps[number] for number in open_ones if number in offset.gaps}
            open_ones += offset.gaps.values()
        return min([last, *[number - 1 for number in open_ones]])

    def _look(self, offset: Offset) -> None:
        self._move(offset)
        self._look_later(offset)

    def _look_later(self, offset: Offset) -> None:
        context = self._context
        pause = _LONG_PAUSE if context.storage is None else context.work_limits.offset_pause
        self._later(offset, pause, self._look)

    def _end_later(self, offset: Offset) -> None:
        self._later(offset, offset.timeout, self.forget)

    def _later(self, offset: Offset, seconds: float, action: Callable[[Offset], None]) -> None:
        scheduler = self._context.scheduler
        scheduler.cancel(offset.date)
        offset.date = scheduler.at(scheduler.clock() + seconds, partial(action, offset))


def _name_of(subscription: Subscription) -> str:
    peer = subscription.peer
    return joined(peer.login, peer.client_id, subscription.options.resume)
