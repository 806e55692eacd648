"""Event log: the broker's events, in its own terms, for the recorder, which is the journal.

Fields that do not change between the rows of a session or subscription are encoded once, with its first row.  Times are
the recorder's nanoseconds: a message keeps when it was accepted, and a delivery when it went out, so that each row
tells how long it took.  That is not known of a message of an earlier process, nor of one that was retained, or kept in
a stream.

Rows of a message name the destination that it was sent to, as in its `accepted`, so that they can be added up.  Rows of
a subscription name what it consumes: a pattern, or the queue of a durable subscription, as operators see it.

Sums of rows.  For each SEND that was taken, one `accepted` for each destination.  For each MESSAGE that was put into an
outbox, one `delivered` or `redelivered`; but for the one that tells a browser of its end.  What a browser got was not
delivered to be consumed: its `delivery_count` is 0.  Each message in a queue, and each copy of one that was sent to a
topic and is to be acknowledged, or waits for a slow reader, ends with one of:

    acked
    delivered, in mode auto     if the connection ended before it was written, it comes once more, from the queue
    dropped                     or a newer one of its key came: `conflated`; or an operator has purged or deleted it, or
                                `moved` or `redriven` it: then it goes on under another number, without an `accepted`
    dead_lettered               it goes on in another queue, under another number, and has no `accepted` there
    expired                     if that is not followed by one of the last two, for the same message

The retained message of a topic is a copy, too, and may end as `expired` or `dropped`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from gateway.codec import ProtocolError

from ..errors import NotAllowed
from ..model.destinations import DURABLE, canonical
from ..model.message import Message
from ..model.options import AckMode
from ..model.patterns import has_wildcard
from .histogram import Histogram
from .ports import NullRecorder, Peer, Recorder, Value
from .work_limits import WORK_LIMITS, WorkLimits

SessionEvent = Literal["connected", "disconnected", "error", "heartbeat_missed", "tx_begun", "tx_aborted"]
Ending = Literal["expired", "dropped", "dead_lettered"]
"""Why a message ends without an ACK."""

# A time that is not known.
_UNKNOWN = -1


class Consumer(Protocol):
    """A subscription, as the event log sees it."""

    id: str | None  # as the client named it; None: not at all
    mode: AckMode
    peer: Peer
    names: bytes  # the fields that its rows have in common; empty: not known yet, or it differs with the message
    # its names for each destination that a message of it had, and for itself; None: not known yet
    names_by: dict[str, bytes] | None

    @property
    def source(self) -> str:
        """The canonical name, or pattern, that it consumes."""


class Unsettled(Protocol):
    """A delivery that its consumer has not settled."""

    message: Message
    at: int  # when it went out, in nanoseconds of the recorder; 0: not known


class EventLog:
    """The broker's side of the recorder."""

    def __init__(self, sessions: Mapping[str, Peer], recorder: Recorder, work_limits: WorkLimits = WORK_LIMITS) -> None:
        # events are recorded; False: the methods do nothing, and the hot path does not call them.  Of the instance,
        # because the hot path reads it: Python finds it faster there than in the class
        self.is_on = True
        self.transaction: str | None = None  # the one that is being carried out; None: none
        self.waited = Histogram()  # how long messages were on their way to their first delivery, to each receiver
        self.took = Histogram()  # how long deliveries were with a client until its ACK
        self._sessions = sessions
        self._recorder = recorder
        self._limits = work_limits
        self._destinations: dict[str, str] = {}  # as a SEND named it -> canonical

    @property
    def is_behind(self) -> bool:
        """True if publishers are to be held back."""
        return self._recorder.is_behind

    # messages

    def accepted(self, message: Message, destination: str, sender: str) -> None:
        """The broker took a message of a client.

        `destination`: canonical.  `sender`: id of its session, which may be gone.
        """
        recorder = self._recorder
        # It may have gone, where a message was delayed.
        session = self._sessions.get(sender)
        if session is not None:
            names = session.names or self._names_of_session(session)
        else:
            names = recorder.names_of_session(None, None, None, sender or None)
        message.at = now = recorder.clock()
        recorder.accepted(now, names, destination, message.number, message.head.headers, message.body, self.transaction)

    def came(self, message: Message) -> None:
        """A message of the broker's own came into being."""
        message.at = self._recorder.clock()

    def delivered(self, subscription: Consumer, message: Message, delivery: Unsettled | None = None) -> None:
        """A message went to a subscription; its count of attempts has that in it."""
        recorder = self._recorder
        names = subscription.names or self._names(subscription, message)
        now = recorder.clock()
        if delivery is not None:
            delivery.at = now
        at, number, size, count = message.at, message.number, len(message.body), message.attempts or 1
        waited = (now - at) // 1000 if at else _UNKNOWN  # `_since`, without the call: this is for each message
        # Of the first delivery alone: a further one would add the time at a consumer, and the back-off.
        if count == 1:
            if at:
                self.waited.add(waited)
            recorder.delivered(now, names, number, size, count, waited)
        else:
            recorder.record(
                "redelivered", now, names, message_id=number, size=size, delivery_count=count, queue_us=waited
            )

    def shown(self, subscription: Consumer, message: Message) -> None:
        """A browser got a message, which stays in the queue for a consumer."""
        names = subscription.names or self._names(subscription, message)
        self._recorder.delivered(self._recorder.clock(), names, message.number, len(message.body), 0, _UNKNOWN)

    def fanned_out(self, subscriptions: Collection[Consumer], message: Message) -> None:
        """A topic gave a message to all of these."""
        recorder = self._recorder
        # One look at the clock for all of them: a fan-out is the hottest loop.
        now, number, size = recorder.clock(), message.number, len(message.body)
        waited = _since(message.at, now)
        if message.at:
            self.waited.add(waited, len(subscriptions))
        for subscription in subscriptions:
            recorder.delivered(now, subscription.names or self._names(subscription, message), number, size, 1, waited)

    def acknowledged(self, subscription: Consumer, deliveries: Iterable[Unsettled]) -> None:
        """Deliveries were settled by ACK."""
        recorder = self._recorder
        now, own = recorder.clock(), subscription.names
        for delivery in deliveries:
            message, at = delivery.message, delivery.at
            names = own or self._names(subscription, message)
            took = (now - at) // 1000 if at else _UNKNOWN
            if at:
                self.took.add(took)
            recorder.acked(now, names, message.number, message.attempts, took, self.transaction)

    def rejected(self, subscription: Consumer, deliveries: Iterable[Unsettled], reason: str) -> None:
        """Deliveries were settled by NACK."""
        recorder = self._recorder
        now = recorder.clock()
        for delivery in deliveries:
            message = delivery.message
            recorder.record(
                "nacked",
                now,
                self._names(subscription, message),
                message_id=message.number,
                delivery_count=message.attempts,
                ack_us=_since(delivery.at, now),
                reason=reason or None,
                transaction=self.transaction,
            )

    def ended(self, event: Ending, name: str, message: Message, **columns: Value) -> None:
        """A message expired, was thrown away, or became a dead letter.

        `name`: of the queue, or topic, where it was.  `columns`: others that the event has: the reason, the headers of
        the dead letter.
        """
        recorder = self._recorder
        now = recorder.clock()
        recorder.record(
            event,
            now,
            recorder.names_of_destination(self._destination(name, message)),
            message_id=message.number,
            size=len(message.body),
            delivery_count=message.attempts,
            queue_us=_since(message.at, now),
            **columns,
        )

    def purged(self, name: str, rows: Sequence[int], why: str) -> None:
        """Messages were thrown away that only the store has: nothing is known of them but the numbers of their rows.

        That is the message's own, but in the queue of a durable subscription.
        """
        recorder = self._recorder
        now, names = recorder.clock(), recorder.names_of_destination(name)
        for row in rows:
            recorder.record("dropped", now, names, message_id=row, reason=why)

    def age_of(self, message: Message) -> float | None:
        """Seconds since a message was accepted; None: that is not known."""
        return (self._recorder.clock() - message.at) / 1e9 if message.at else None

    # sessions

    def tell(self, event: SessionEvent, session: Peer, **columns: Value) -> None:
        """An event of a session, with the columns that it has besides."""
        self._recorder.record(event, self._recorder.clock(), self._names_of_session(session), **columns)

    def committed(self, session: Peer, transaction: str) -> None:
        """COMMIT; what it held follows, until `transaction` is None again."""
        self.transaction = transaction
        names = self._names_of_session(session)
        self._recorder.record("tx_committed", self._recorder.clock(), names, transaction=transaction)

    def refused(self, transport: str, peer: str, login: str | None, error: ProtocolError) -> None:
        """A client got an ERROR instead of CONNECTED."""
        recorder = self._recorder
        recorder.record("error", recorder.clock(), recorder.names_of_session(transport, peer, login), reason=str(error))

    def subscribed(self, subscription: Consumer) -> None:
        """SUBSCRIBE."""
        # Messages that it got when it joined may have told it already.
        if subscription.names_by is None:
            self._begin(subscription)

    def unsubscribed(self, subscription: Consumer, reason: str | None = None) -> None:
        """UNSUBSCRIBE, or the session ended."""
        names = self._own_names(subscription)
        self._recorder.record("unsubscribed", self._recorder.clock(), names, reason=reason)

    # gauges

    def pending(self, subscription: Consumer, count: int, oldest: Unsettled | None) -> None:
        """A subscription has not acknowledged so many deliveries."""
        names, now = self._own_names(subscription), self._recorder.clock()
        age = _UNKNOWN if oldest is None else _since(oldest.at, now)
        self._recorder.record("gauge_subscription", now, names, pending=count, oldest_us=age)

    def waiting(self, destination: str, pending: int, depth: int, first: Message | None) -> None:
        """So many messages wait; so many are unacknowledged."""
        names, now = self._recorder.names_of_destination(destination), self._recorder.clock()
        age = _UNKNOWN if first is None else _since(first.at, now)
        self._recorder.record("gauge_destination", now, names, pending=pending, depth=depth, oldest_us=age)

    # names

    def _names_of_session(self, session: Peer) -> bytes:
        if not session.names:
            session.names = self._recorder.names_of_session(session.transport, session.peer, session.login, session.id)
        return session.names

    def _own_names(self, subscription: Consumer) -> bytes:
        """The names in the rows about a subscription itself."""
        names_by = subscription.names_by
        return (self._begin(subscription) if names_by is None else names_by)[""]

    def _names(self, subscription: Consumer, message: Message) -> bytes:
        """The names in the rows about a message that a subscription has."""
        if subscription.names:
            return subscription.names
        names_by = subscription.names_by
        if names_by is None:
            names_by = self._begin(subscription)
            if subscription.names:
                return subscription.names
        given = message.head.headers.get("destination", "")
        names = names_by.get(given)
        if names is None:
            if len(names_by) >= self._limits.recorded_names:
                own = names_by[""]
                names_by.clear()
                names_by[""] = own
            names = names_by[given] = self._encode(subscription, self._destination(subscription.source, message))
        return names

    def _begin(self, subscription: Consumer) -> dict[str, bytes]:
        """The first row of a subscription tells that it is there."""
        name = subscription.source
        own = self._encode(subscription, name)
        subscription.names_by = names_by = {"": own}
        # With one destination, no row needs a look at the message.
        if not _has_many(name):
            subscription.names = own
        self._recorder.record("subscribed", self._recorder.clock(), own)
        return names_by

    def _encode(self, subscription: Consumer, destination: str) -> bytes:
        names = self._names_of_session(subscription.peer)
        return self._recorder.names_of_subscription(names, subscription.id, subscription.mode.value, destination)

    def _destination(self, name: str, message: Message) -> str:
        """The canonical name of what a message was sent to."""
        if not _has_many(name):
            return name
        given = message.head.headers.get("destination", "")
        found = self._destinations.get(given)
        if found is None:
            try:
                found = canonical(given, multicast=True)
            except NotAllowed:  # the broker's own word, about a pattern
                return name
            if len(self._destinations) >= self._limits.recorded_destinations:
                self._destinations.clear()
            self._destinations[given] = found
        return found


class NullEventLog(EventLog):
    """Event log of a broker whose events are not recorded."""

    def __init__(self) -> None:
        super().__init__({}, NullRecorder())
        self.is_on = False

    def accepted(self, *_: Any, **__: Any) -> None:
        """Nothing is recorded, here and in all other methods."""

    came = delivered = shown = fanned_out = acknowledged = rejected = accepted
    ended = purged = tell = committed = refused = subscribed = unsubscribed = accepted


def _has_many(name: str) -> bool:
    """True if messages come there from several destinations, or from another one."""
    return name.startswith(DURABLE) or has_wildcard(name)


def _since(then: int, now: int) -> int:
    """Microseconds."""
    return (now - then) // 1000 if then else _UNKNOWN
