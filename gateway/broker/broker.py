"""The broker: who is connected, which destinations there are, and the way of a message between them.

One thread, no I/O, no clock.  All methods return at once; whatever they cause to be written lies in outboxes, and those
are listed in `dirty` until the transports flush them.

Memory.  `stored_octets` is what all kept messages cost: waiting, unacknowledged, in transactions.  From 3/4 of the
limit on, `pressed` tells the connections to stop reading those who publish; a SEND at the limit itself, which only a
session that must go on reading its ACKs can reach, is refused.  Nothing is dropped.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from gateway.codec import Frame, Version

from .counters import Counters
from .destinations import canonical, is_topic
from .errors import NotAllowed, SessionEnded, SlowConsumer
from .message import Message
from .outbound import Outbound
from .ports import Carrier
from .queue import Queue
from .quotas import Quotas
from .session import Session
from .subscription import Subscription
from .topic import Topic


class Broker:
    """The one core that all connections share.

    Attributes:
        quotas: the limits in force.
        counters: totals since the start.
        sessions: by id.
        destinations: canonical name -> queue or topic.
        dirty: outboxes with something to flush.  Always the same object.
        strained: outboxes over their high mark that the reader at work just filled; it empties the set.
        stored_octets: what kept messages cost.
        kept: what messages cost that were kept since the start; it only grows.
        waiting: messages in queues that nobody has.
        subscriptions: how many there are.
        on_pressure: called when `pressed` begins.
        on_relief: called when it ends.
    """

    def __init__(
        self,
        quotas: Quotas | None = None,
        *,
        on_pressure: Callable[[], None] = lambda: None,
        on_relief: Callable[[], None] = lambda: None,
    ) -> None:
        self.quotas = quotas or Quotas()
        self.counters = Counters()
        self.sessions: dict[str, Session] = {}
        self.destinations: dict[str, Queue | Topic] = {}
        self.dirty: deque[Outbound] = deque()
        self.strained: set[Outbound] = set()
        self.stored_octets = 0
        self.kept = 0
        self.waiting = 0
        self.subscriptions = 0
        self.pressed = False
        self.on_pressure = on_pressure
        self.on_relief = on_relief
        self._memory_high = self.quotas.memory_high
        self._number = 0
        self._slow: set[Session] = set()

    # sessions

    def open_session(
        self, version: Version, login: str, *, peer: str, transport: str, connected_at: float, carrier: Carrier
    ) -> Session:
        """A client has logged in."""
        session = Session(
            self,
            secrets.token_hex(8),
            version,
            login,
            peer=peer,
            transport=transport,
            connected_at=connected_at,
            carrier=carrier,
        )
        self.sessions[session.id] = session
        self.counters.sessions += 1
        return session

    def forget_session(self, session: Session) -> None:
        """A session has closed."""
        self.sessions.pop(session.id, None)
        self._slow.discard(session)

    def end_session(self, session_id: str, reason: str) -> bool:
        """End a session on an operator's word; False when there is none of that id."""
        session = self.sessions.get(session_id)
        if session is None:
            return False
        session.end(SessionEnded("session ended", reason))
        return True

    # messages

    def publish(self, frame: Frame, destination: str) -> None:
        """Route a message.

        Raises:
            NotAllowed: no such kind of destination, or a limit is reached.
        """
        if self.pressed:
            self.check_memory()
        if destination not in self.destinations:
            name = canonical(destination)
            if not is_topic(name):  # a topic that nobody subscribed comes not into being
                self._check_destinations(name)
        self.route(frame, destination)

    def route(self, frame: Frame, destination: str) -> None:
        """Route a message that was checked before: COMMIT must not fail half way."""
        target = self.destinations.get(destination)
        if target is None:
            target = self._find(destination)
        self._number += 1
        self.counters.published += 1
        if target is None:
            self.counters.unroutable += 1
            return
        target.accept(Message(self._number, frame.head, frame.body))

    def subscribe(self, subscription: Subscription) -> None:
        """Add a subscription to its destination, which comes into being with it.

        Raises:
            NotAllowed: no such kind of destination, or a limit is reached.
        """
        name = canonical(subscription.destination)
        self._check_destinations(name)
        target = self.destinations.get(name) or self._create(name)
        self.subscriptions += 1
        target.join(subscription)

    def _find(self, destination: str) -> Queue | Topic | None:
        """The destination of that name; a queue is made, a topic that nobody subscribed stays None."""
        name = canonical(destination)
        target = self.destinations.get(name)
        if target is None and not is_topic(name):
            target = self._create(name)
        return target

    def _create(self, name: str) -> Queue | Topic:
        target = Topic(self, name) if is_topic(name) else Queue(self, name)
        self.destinations[name] = target
        return target

    def _check_destinations(self, name: str) -> None:
        if name not in self.destinations:
            self._check_room(1)

    def _check_room(self, new: int) -> None:
        limit = self.quotas.max_destinations
        if len(self.destinations) + new > limit:
            raise NotAllowed("too many destinations", f"the server may have {limit} (max_destinations)")

    def check_new(self, destinations: Iterable[str]) -> None:
        """Refuse a COMMIT that would make more queues than there may be.

        Raises:
            NotAllowed: the limit would be exceeded.
        """
        names = {canonical(destination) for destination in destinations}
        new = [name for name in names if name not in self.destinations and not is_topic(name)]
        if new:
            self._check_room(len(new))

    def forget_if_idle(self, target: Queue | Topic) -> None:
        """Drop a destination that nobody subscribes and where nothing waits."""
        if target.is_idle:
            self.destinations.pop(target.name, None)

    # pressure

    def keep(self, octets: int) -> None:
        """Kept messages cost so much more."""
        self.stored_octets += octets
        self.kept += octets
        if self.stored_octets > self._memory_high and not self.pressed:
            self.pressed = True
            self.on_pressure()

    def release(self, octets: int) -> None:
        """Kept messages cost so much less."""
        self.stored_octets -= octets
        if self.pressed and self.stored_octets <= self._memory_high:
            self.pressed = False
            self.on_relief()

    def check_memory(self) -> None:
        """Refuse a SEND at the limit.

        Raises:
            NotAllowed: the limit is reached.
        """
        limit = self.quotas.memory_limit
        if self.stored_octets >= limit:
            raise NotAllowed("memory limit reached", f"kept messages cost {limit} octets (memory_limit)")

    def take_strained(self) -> set[Outbound]:
        """The outboxes over their high mark that were filled in this turn."""
        strained = self.strained
        if strained:
            self.strained = set()
        return strained

    def strain(self, outbound: Outbound) -> None:
        """An outbox is over its high mark: who fills it waits, or it is closed if it was waited for long enough."""
        if not outbound.excused:
            self.strained.add(outbound)
        elif outbound.size > outbound.limit:
            self.end_slow(outbound.session, f"more than {outbound.limit} octets (max_outbound) wait to be read")

    def end_slow(self, session: Session, why: str) -> None:
        """End a session whose client does not keep up; once, however often it is found out."""
        if session not in self._slow:
            self._slow.add(session)
            self.counters.slow_consumers += 1
            session.end(SlowConsumer("slow consumer", why))

    # lists for operators

    def session_rows(self, offset: int = 0, limit: int | None = None) -> list[dict[str, object]]:
        """Sessions, oldest first."""
        return [session.row() for session in islice(self.sessions.values(), offset, _end(offset, limit))]

    def destination_rows(self, offset: int = 0, limit: int | None = None) -> list[dict[str, object]]:
        """Destinations that are in use, oldest first."""
        rows: list[dict[str, object]] = []
        for target in islice(self.destinations.values(), offset, _end(offset, limit)):
            queue = target if isinstance(target, Queue) else None
            rows.append(
                {
                    "name": target.name,
                    "kind": "topic" if queue is None else "queue",
                    "subscriptions": len(target.subscriptions),
                    "waiting": 0 if queue is None else queue.waiting,
                    "unacknowledged": sum([len(each.ledger) for each in target.subscriptions if each.ledger]),
                    "octets": 0 if queue is None else queue.octets,
                }
            )
        return rows


def _end(offset: int, limit: int | None) -> int | None:
    return None if limit is None else offset + limit
