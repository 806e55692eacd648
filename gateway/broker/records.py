"""What is told to the recorder, which is the journal: one method for each thing that happens, in the broker's terms.

    broker.records is None     nobody records, and that is all that it costs
    else                       the row is made of what is at hand; nothing waits and nothing raises

What does not change between the rows of a session or subscription is encoded once, with its first row.  Times are the
recorder's nanoseconds: a message keeps when it was accepted, and a delivery when it went out, so that each row tells
how long it took.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.codec import ProtocolError

from .message import Delivery, Message
from .ports import Recorder

if TYPE_CHECKING:
    from .broker import Broker
    from .session import Session
    from .subscription import Subscription

# A time that is not known.
_UNKNOWN = -1


class Records:
    """The broker's side of the recorder.

    Attributes:
        transaction: the one that is being carried out; None: none.
    """

    def __init__(self, broker: Broker, recorder: Recorder) -> None:
        self.transaction: str | None = None
        self._broker = broker
        self._recorder = recorder

    @property
    def is_behind(self) -> bool:
        """Publishers are to be held back."""
        return self._recorder.is_behind

    # messages

    def accepted(self, message: Message, destination: str, sender: str) -> None:
        """The broker took a message of a client.

        Args:
            destination: canonical.
            sender: id of its session, which may be gone.
        """
        recorder = self._recorder
        session = self._broker.sessions.get(sender)
        names = b"" if session is None else self._names_of_session(session)
        message.at = now = recorder.clock()
        recorder.accepted(now, names, destination, message.number, message.head.headers, message.body, self.transaction)

    def came(self, message: Message) -> None:
        """A message of the broker's own came into being."""
        message.at = self._recorder.clock()

    def delivered(self, subscription: Subscription, message: Message, delivery: Delivery | None = None) -> None:
        """A message went to a subscription; its count of attempts has that in it."""
        recorder = self._recorder
        names = subscription.names or self._names(subscription)
        now = recorder.clock()
        if delivery is not None:
            delivery.at = now
        waited = _since(message.at, now)
        count = message.attempts or 1
        tell = recorder.delivered if count == 1 else recorder.redelivered
        tell(now, names, message.number, len(message.body), count, waited)

    def fanned_out(self, subscriptions: Iterable[Subscription], message: Message) -> None:
        """A topic gave a message to all of these."""
        recorder = self._recorder
        now, number, size = recorder.clock(), message.number, len(message.body)
        waited = _since(message.at, now)
        for subscription in subscriptions:
            recorder.delivered(now, subscription.names or self._names(subscription), number, size, 1, waited)

    def acknowledged(self, subscription: Subscription, deliveries: Iterable[Delivery]) -> None:
        """Deliveries were settled by ACK."""
        recorder = self._recorder
        now, names = recorder.clock(), subscription.names or self._names(subscription)
        for delivery in deliveries:
            message = delivery.message
            recorder.acked(now, names, message.number, message.attempts, _since(delivery.at, now), self.transaction)

    def rejected(self, subscription: Subscription, deliveries: Iterable[Delivery], reason: str) -> None:
        """Deliveries were settled by NACK."""
        recorder = self._recorder
        now, names = recorder.clock(), subscription.names or self._names(subscription)
        for delivery in deliveries:
            message, took = delivery.message, _since(delivery.at, now)
            recorder.nacked(now, names, message.number, message.attempts, took, reason or None, self.transaction)

    def expired(self, destination: str, message: Message) -> None:
        """The time of a message was over."""
        recorder = self._recorder
        now = recorder.clock()
        waited = _since(message.at, now)
        recorder.expired(now, destination, message.number, len(message.body), message.attempts, waited)

    def dead_lettered(self, destination: str, message: Message, why: str, headers: dict[str, str]) -> None:
        """A message became a dead letter with these headers."""
        recorder = self._recorder
        now = recorder.clock()
        waited = _since(message.at, now)
        recorder.dead_lettered(
            now, destination, message.number, len(message.body), message.attempts, waited, why, headers
        )

    def dropped(self, destination: str, message: Message, why: str) -> None:
        """A message was thrown away."""
        recorder = self._recorder
        now = recorder.clock()
        waited = _since(message.at, now)
        recorder.dropped(now, destination, message.number, len(message.body), message.attempts, waited, why)

    # sessions

    def begun(self, session: Session, transaction: str) -> None:
        """BEGIN."""
        self._recorder.tx_begun(self._recorder.clock(), self._names_of_session(session), transaction)

    def committed(self, session: Session, transaction: str) -> None:
        """COMMIT; what it held follows, until `transaction` is None again."""
        self.transaction = transaction
        self._recorder.tx_committed(self._recorder.clock(), self._names_of_session(session), transaction)

    def aborted(self, session: Session, transaction: str, reason: str | None = None) -> None:
        """ABORT, or the session ended before."""
        self._recorder.tx_aborted(self._recorder.clock(), self._names_of_session(session), transaction, reason)

    def subscribed(self, subscription: Subscription) -> None:
        """SUBSCRIBE."""
        if not subscription.names:
            self._names(subscription)

    def unsubscribed(self, subscription: Subscription, reason: str | None = None) -> None:
        """UNSUBSCRIBE, or the session ended."""
        names = subscription.names or self._names(subscription)
        self._recorder.unsubscribed(self._recorder.clock(), names, reason)

    def connected(self, session: Session) -> None:
        """A session began."""
        self._recorder.connected(self._recorder.clock(), self._names_of_session(session))

    def disconnected(self, session: Session, reason: str | None) -> None:
        """It ended."""
        self._recorder.disconnected(self._recorder.clock(), self._names_of_session(session), reason)

    def failed(self, session: Session, error: ProtocolError) -> None:
        """A client got an ERROR."""
        self._recorder.error(self._recorder.clock(), self._names_of_session(session), str(error))

    def silent(self, session: Session) -> None:
        """A client was silent for longer than agreed."""
        self._recorder.heartbeat_missed(self._recorder.clock(), self._names_of_session(session))

    def refused(self, transport: str, peer: str, login: str | None, error: ProtocolError) -> None:
        """A client got an ERROR instead of CONNECTED."""
        recorder = self._recorder
        recorder.error(recorder.clock(), recorder.names_of_session(transport, peer, login), str(error))

    # gauges

    def pending(self, subscription: Subscription, count: int, oldest: Delivery) -> None:
        """A subscription has not acknowledged so many deliveries."""
        names, now = subscription.names or self._names(subscription), self._recorder.clock()
        self._recorder.gauge_subscription(now, names, count, _since(oldest.at, now))

    def waiting(self, destination: str, pending: int, depth: int, first: Message | None) -> None:
        """So many messages wait; so many are unacknowledged."""
        now = self._recorder.clock()
        oldest = _UNKNOWN if first is None else _since(first.at, now)
        self._recorder.gauge_destination(now, destination, pending, depth, oldest)

    # names

    def _names_of_session(self, session: Session) -> bytes:
        if not session.names:
            session.names = self._recorder.names_of_session(session.transport, session.peer, session.login, session.id)
        return session.names

    def _names(self, subscription: Subscription) -> bytes:
        """Those of a subscription, with whose first row it is told that it is there."""
        target = subscription.topic or subscription.queue
        assert target is not None  # it has joined
        subscription.names = self._recorder.names_of_subscription(
            self._names_of_session(subscription.session), subscription.id, subscription.mode.value, target.name
        )
        self._recorder.subscribed(self._recorder.clock(), subscription.names)
        return subscription.names


def _since(then: int, now: int) -> int:
    """Microseconds."""
    return (now - then) // 1000 if then else _UNKNOWN
