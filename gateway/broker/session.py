"""A connected client: what its frames mean.

A session exists once CONNECTED is due and until the connection ends; there is no state before or between, so the state
machine is one table per version, command -> method.  What is not in the table is an error, and every error is an
exception: `fail`, called by the connection loop, is the one place that makes an ERROR frame of it.

A RECEIPT goes out when the frame was carried out without error (RCP-03); inside a transaction, when it was accepted
(RCP-06).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gateway.codec import V11, V12, VERSIONS, Frame, ProtocolError, Version, encoder

from .destinations import TEMPORARY, canonical, is_topic
from .errors import HeaderMissing, NotAllowed, error_frame
from .message import Message
from .outbound import Outbound
from .subscription import AckMode, Subscription
from .transactions import Transaction

if TYPE_CHECKING:
    from .broker import Broker
    from .ports import Carrier
    from .queue import Queue

_MODES = {mode.value: mode for mode in AckMode}

# What other brokers read as wildcards when it is a word of its own.  Not ours yet: to subscribe to a topic that is
# called so would be silence where messages are expected.
_WILDCARDS = frozenset(["*", "**", "#", ">"])
_WORDS = re.compile(r"[./]")


class Session:
    """One connected client.

    Attributes:
        id: unique; the `session` header of CONNECTED.
        login: the user's name.
        peer: address of the other end, for logs and lists.
        transport: `tcp` or `websocket`.
        connected_at: seconds since the epoch.
        frames_in: frames handled.
        outstanding: deliveries not yet settled.
        ended: the client sent DISCONNECT; whatever follows it is ignored (DSC-02).
    """

    __slots__ = (
        "_acknowledging",
        "_keys",
        "broker",
        "connected_at",
        "ended",
        "frames_in",
        "id",
        "login",
        "outbound",
        "outstanding",
        "peer",
        "subscriptions",
        "table",
        "transactions",
        "transport",
        "version",
    )

    def __init__(
        self,
        broker: Broker,
        session_id: str,
        version: Version,
        login: str,
        *,
        peer: str,
        transport: str,
        connected_at: float,
        carrier: Carrier,
    ) -> None:
        self.broker = broker
        self.id = session_id
        self.version = version
        self.login = login
        self.peer = peer
        self.transport = transport
        self.connected_at = connected_at
        self.outbound = Outbound(self, carrier, broker.quotas.max_outbound, broker.dirty)
        self.subscriptions: dict[str | tuple[str], Subscription] = {}
        self.transactions: dict[str, Transaction] = {}
        self.table = _TABLES[version.index]
        self.frames_in = 0
        self.outstanding = 0
        self.ended = False
        self._keys = 0
        self._acknowledging: dict[str, Subscription] = {}  # by key: what `ack` handles start with

    def handle(self, frame: Frame) -> None:
        """Carry out one frame.

        Raises:
            ProtocolError: it cannot be carried out; nothing of it was, and the session must end.
        """
        head = frame.head
        self.frames_in += 1
        self.broker.counters.frames_in += 1
        handler = self.table.get(head.command)
        if handler is None:
            known = " ".join(command for command in self.table if command not in ("CONNECT", "STOMP"))
            raise NotAllowed(
                "unknown command", f"{head.command[:40]!r} is no command of STOMP {self.version.name}: {known}"
            )
        handler(self, frame)
        receipt = head.headers.get("receipt")
        if receipt is not None:
            self.outbound.append(encoder.receipt(receipt, self.version))

    def fail(self, error: ProtocolError, frame: Frame | None = None) -> None:
        """Put the ERROR frame into the outbox (ERR-01 to ERR-03).  The connection must end behind it."""
        self.broker.counters.errors += 1
        self.depart()  # nothing goes out behind the ERROR (ERR-05)
        self.outbound.append(error_frame(error, frame, self.version))

    def end(self, error: ProtocolError) -> None:
        """End the session from outside: the connection does the rest, soon."""
        if self.outbound.carrier is not None:
            self.outbound.carrier.end(error)

    def close(self) -> None:
        """The connection is gone: open transactions are aborted, unacknowledged messages given back."""
        unsent = self.outbound.not_written()
        self.outbound.close()
        for _, message in unsent:
            self.broker.keep(message.size)
        self.depart(unsent)
        self.broker.forget_session(self)

    def depart(self, unsent: Iterable[tuple[Queue, Message]] = ()) -> None:
        """Leave the broker: abort transactions, end subscriptions, give back what was not settled.

        Everything is collected before any queue takes back, so that no queue dispatches one half before the other.
        """
        returned: dict[Queue, list[Message]] = {}
        for queue, message in unsent:
            returned.setdefault(queue, []).append(message)
        for transaction in self.transactions.values():
            self._abort(transaction, returned)
        self.transactions.clear()
        for subscription in self.subscriptions.values():
            self._leave(subscription, returned)
        self.subscriptions.clear()
        self._acknowledging.clear()
        _take_back(returned)

    # SEND

    def _on_send(self, frame: Frame) -> None:
        headers = frame.head.headers
        destination = headers.get("destination")
        if destination is None:
            raise HeaderMissing("SEND", "destination")
        if "reply-to" in headers and headers["reply-to"].startswith(TEMPORARY):
            raise NotAllowed(
                "temporary queues are not supported", "name a queue of your own in reply-to, and subscribe to it"
            )
        if "transaction" in headers:
            self._send_later(self._transaction(frame), frame, destination)
        else:
            self.broker.publish(frame, destination)

    def _send_later(self, transaction: Transaction, frame: Frame, destination: str) -> None:
        canonical(destination)
        self.broker.check_memory()
        self.broker.keep(transaction.add_send(frame))
        limit = self.broker.quotas.max_transaction_octets
        if sum([each.octets for each in self.transactions.values()]) > limit:
            raise NotAllowed(
                "transaction too large", f"open transactions hold more than {limit} octets (max_transaction_octets)"
            )

    # SUBSCRIBE, UNSUBSCRIBE

    def _on_subscribe(self, frame: Frame) -> None:
        headers = frame.headers
        destination = headers.get("destination")
        if destination is None:
            raise HeaderMissing("SUBSCRIBE", "destination")
        subscription_id = headers.get("id")
        if subscription_id is None and self.version.subscription_id:
            raise HeaderMissing("SUBSCRIBE", "id")
        mode = _MODES.get(headers.get("ack", "auto"))
        if mode is None or (mode is AckMode.INDIVIDUAL and not self.version.nack):
            raise NotAllowed(
                "unknown ack mode", f"{headers['ack'][:40]!r} is none of auto, client" + self._individual_if_known()
            )
        if "selector" in headers:
            raise NotAllowed("selectors are not supported", "remove the selector header and filter in the client")
        if is_topic(destination) and not _WILDCARDS.isdisjoint(_WORDS.split(destination)):
            raise NotAllowed("wildcards are not supported", f"{destination[:80]!r} must name one topic")
        name: str | tuple[str] = (destination,) if subscription_id is None else subscription_id
        if name in self.subscriptions:
            raise NotAllowed(
                "subscription id in use",
                f"this connection already has a subscription {(subscription_id or destination)[:80]!r}",
            )
        limit = self.broker.quotas.max_subscriptions
        if len(self.subscriptions) >= limit:
            raise NotAllowed("too many subscriptions", f"a session may have {limit} (max_subscriptions)")
        self._keys += 1
        subscription = Subscription(
            self, subscription_id, str(self._keys), destination, mode, self.broker.quotas.max_unacknowledged
        )
        self.broker.subscribe(subscription)
        self.subscriptions[name] = subscription
        if subscription.ledger is not None:
            self._acknowledging[subscription.key] = subscription

    def _individual_if_known(self) -> str:
        return ", client-individual" if self.version.nack else ""

    def _on_unsubscribe(self, frame: Frame) -> None:
        subscription = self.subscriptions.pop(self._subscription_named(frame))
        self._acknowledging.pop(subscription.key, None)
        returned: dict[Queue, list[Message]] = {}
        self._leave(subscription, returned)
        _take_back(returned)

    def _subscription_named(self, frame: Frame) -> str | tuple[str]:
        """The key of the subscription that an UNSUBSCRIBE means: by id, in 1.0 also by destination."""
        subscription_id = frame.headers.get("id")
        if subscription_id in self.subscriptions:
            return subscription_id
        destination = frame.headers.get("destination")
        if self.version.subscription_id or destination is None:
            if subscription_id is None:
                raise HeaderMissing("UNSUBSCRIBE", "id")
        elif subscription_id is None and (destination,) in self.subscriptions:
            return (destination,)
        shown = destination if subscription_id is None else subscription_id
        raise NotAllowed("unknown subscription", f"this connection has no subscription {str(shown)[:80]!r}")

    def _leave(self, subscription: Subscription, returned: dict[Queue, list[Message]]) -> None:
        """End a subscription; what its queue must take back goes into `returned`."""
        self.broker.subscriptions -= 1
        if subscription.topic is not None:
            subscription.topic.leave(subscription)
        else:
            queue = subscription.queue
            assert queue is not None  # no topic, so a queue
            returned.setdefault(queue, []).extend(queue.drop(subscription))

    # ACK, NACK

    def _on_ack(self, frame: Frame) -> None:
        self._settle(frame, acknowledged=True)

    def _on_nack(self, frame: Frame) -> None:
        self._settle(frame, acknowledged=False)

    def _settle(self, frame: Frame, *, acknowledged: bool) -> None:
        subscription, handle = self._delivery_named(frame)
        delivery = subscription.ledger.get(handle) if subscription is not None and subscription.ledger else None
        if subscription is None or delivery is None:
            raise NotAllowed(
                f"{frame.command} of an unknown message",
                f"no unacknowledged message of this connection is called {handle[:80]!r}",
            )
        if delivery.transaction is not None:
            raise NotAllowed(
                f"{frame.command} of a message that a transaction holds",
                f"{handle[:80]!r} was acknowledged or rejected in a transaction that is still open",
            )
        queue = subscription.queue
        assert queue is not None  # a ledger never stands without a queue
        deliveries = subscription.covered(delivery)
        if "transaction" in frame.headers:
            self._transaction(frame).add_settlement(deliveries, acknowledged)
        elif acknowledged:
            queue.acknowledge(deliveries)
        else:
            queue.reject(deliveries)

    def _delivery_named(self, frame: Frame) -> tuple[Subscription | None, str]:
        """The subscription and the ledger's key that an ACK or NACK names; each version has its own headers."""
        headers = frame.headers
        if self.version is V12:
            handle = headers.get("id")
            if handle is None:
                raise HeaderMissing(frame.command, "id")
            return self._acknowledging.get(handle.partition("-")[0]), handle
        message_id = headers.get("message-id")
        if message_id is None:
            raise HeaderMissing(frame.command, "message-id")
        if self.version is V11:
            subscription_id = headers.get("subscription")
            if subscription_id is None:
                raise HeaderMissing(frame.command, "subscription")
            return self.subscriptions.get(subscription_id), message_id
        return self._subscription_with(message_id), message_id

    def _subscription_with(self, message_id: str) -> Subscription | None:
        """Who has that message outstanding; of several (one topic twice), one that no transaction holds."""
        holding = [each for each in self._acknowledging.values() if each.ledger and message_id in each.ledger]
        free = [each for each in holding if each.ledger and each.ledger[message_id].transaction is None]
        return next(iter(free or holding), None)

    # BEGIN, COMMIT, ABORT

    def _transaction(self, frame: Frame) -> Transaction:
        """The open transaction that a frame names."""
        name = frame.headers.get("transaction")
        if name is None:
            raise HeaderMissing(frame.command, "transaction")
        transaction = self.transactions.get(name)
        if transaction is None:
            raise NotAllowed("unknown transaction", f"this connection has no open transaction {name[:80]!r}")
        return transaction

    def _on_begin(self, frame: Frame) -> None:
        name = frame.headers.get("transaction")
        if name is None:
            raise HeaderMissing("BEGIN", "transaction")
        if name in self.transactions:
            raise NotAllowed("transaction id in use", f"this connection already has a transaction {name[:80]!r}")
        limit = self.broker.quotas.max_transactions
        if len(self.transactions) >= limit:
            raise NotAllowed("too many transactions", f"a session may have {limit} open (max_transactions)")
        self.transactions[name] = Transaction()

    def _on_commit(self, frame: Frame) -> None:
        transaction = self._transaction(frame)
        self.broker.check_new(send.headers["destination"] for send in transaction.sends)
        del self.transactions[frame.headers["transaction"]]
        transaction.let_go()
        self.broker.release(transaction.octets)
        for send in transaction.sends:
            self.broker.route(send, send.headers["destination"])
        for deliveries, acknowledged in transaction.settlements:
            queue = deliveries[0].subscription.queue
            assert queue is not None  # a ledger never stands without a queue
            if acknowledged:
                queue.acknowledge(deliveries)
            else:
                queue.reject(deliveries)

    def _on_abort(self, frame: Frame) -> None:
        transaction = self._transaction(frame)
        del self.transactions[frame.headers["transaction"]]
        returned: dict[Queue, list[Message]] = {}
        self._abort(transaction, returned)
        _take_back(returned)

    def _abort(self, transaction: Transaction, returned: dict[Queue, list[Message]]) -> None:
        """Undo a transaction; what it held for subscriptions that are gone goes into `returned`."""
        self.broker.release(transaction.octets)
        for delivery in transaction.let_go():
            subscription = delivery.subscription
            if subscription.ended:
                assert subscription.queue is not None
                subscription.remove(delivery)
                returned.setdefault(subscription.queue, []).append(delivery.message)

    # the rest

    def _on_disconnect(self, frame: Frame) -> None:
        self.ended = True
        self.depart()  # nothing goes out behind the RECEIPT

    def _on_connect(self, frame: Frame) -> None:
        raise NotAllowed("already connected", "a connection has one CONNECT, at its start")

    def row(self) -> dict[str, object]:
        """The session as the admin API lists it."""
        return {
            "id": self.id,
            "login": self.login,
            "version": self.version.name,
            "transport": self.transport,
            "peer": self.peer,
            "connected_at": self.connected_at,
            "subscriptions": len(self.subscriptions),
            "unacknowledged": self.outstanding,
            "transactions": len(self.transactions),
            "pending_octets": self.outbound.size,
            "frames_in": self.frames_in,
        }


def _take_back(returned: dict[Queue, list[Message]]) -> None:
    for queue, messages in returned.items():
        queue.take_back(messages)


_Handler = Callable[[Session, Frame], None]

_COMMANDS: dict[str, _Handler] = {
    "SEND": Session._on_send,
    "SUBSCRIBE": Session._on_subscribe,
    "UNSUBSCRIBE": Session._on_unsubscribe,
    "ACK": Session._on_ack,
    "NACK": Session._on_nack,
    "BEGIN": Session._on_begin,
    "COMMIT": Session._on_commit,
    "ABORT": Session._on_abort,
    "DISCONNECT": Session._on_disconnect,
    "CONNECT": Session._on_connect,
    "STOMP": Session._on_connect,
}

# By version index: 1.0 has no NACK (NAK-04).
_TABLES = tuple(
    {command: handler for command, handler in _COMMANDS.items() if version.nack or command != "NACK"}
    for version in VERSIONS
)
