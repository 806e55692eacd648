"""Session of the async client without I/O: it outlives connections, and knows what the server has not confirmed.

    submit --> waiting --> sent --> RECEIPT: done
                  ^          |
                  +----------+  the connection is lost: operations that may be sent twice go back, others fail

An operation is some frames that go together, the last one with a receipt: a SEND with its `dedup-id`, a SUBSCRIBE, a
whole transaction.  After CONNECTED come the subscriptions, then what is waiting, in its order.

**Refusals.**  An ERROR ends the connection.  The gateway names the refused frame by `receipt-id`, and only this
operation fails.  RabbitMQ and ActiveMQ may not name it.  Then operations go one by one until all are done, and one that
is refused twice while it is alone fails.

**Limits.**  `outgoing` bytes are limited here: operations wait behind that.  Unread messages are counted in `unread`;
the caller reads no more bytes while there are too many.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gateway.codec import Frame, ProtocolError

from .errors import FINAL, PASSING, ConnectionLost, NoAnswer, ServerError, StompError, refusal
from .protocol import ClientProtocol, handle_of
from .subscriptions import AUTO, ReceivedMessage, SubscriptionState, is_activemq

REPLIES = "/temp-queue/replies"
_MOST_OUTGOING = 1024**2  # bytes that wait for the socket; more memory would only hide that it is slow
_PROOFS = 2

Command = tuple[str, dict[str, str], bytes]
"""Command, headers and body of a frame that is encoded when the version is known."""


def _nothing() -> None:
    return None


@dataclass(eq=False)
class ClientOperation:
    """Frames that go together.

    `survives`: it is sent again after a loss.  `is_receipted`: it is done at the RECEIPT of its last frame; otherwise
    when it is encoded, or, with a `question`, at its answer.
    """

    frames: tuple[Command, ...]
    survives: bool = False
    is_receipted: bool = True
    question: str = ""  # the correlation-id that its answer has
    subscription: SubscriptionState | None = None  # that the frame begins
    is_done: bool = False
    answer: Frame | None = None
    error: StompError | None = None
    refusals: int = 0  # anonymous ERRORs while it was alone
    _wake: Callable[[], None] = field(default=_nothing, repr=False)

    def finish(self, error: StompError | None = None) -> None:
        self.is_done, self.error = True, error
        self._wake()

    def watch(self, wake: Callable[[], None]) -> None:
        """Call this when it is done."""
        self._wake = wake
        if self.is_done:
            wake()


class ClientSession:
    """The client's side, over all connections.

    Attributes:
        protocol: of the present connection.
        is_open: CONNECTED has come, and no ERROR.
        ended: the reason of the connection's end, told by the server or in its bytes; None: there was none.
        is_final: another connection would not succeed.
        retry_after: seconds until the server wants the next connection; 0: it does not say.
        confirmed: RECEIPTs so far.
        unread: bytes of deliveries that the program has not taken.
    """

    def __init__(self, server: str) -> None:
        self.protocol = ClientProtocol()
        self.is_open = False
        self.ended: StompError | None = None
        self.is_final = False
        self.retry_after = 0.0
        self.confirmed = 0
        self.unread = 0
        self._server = server  # for sentences
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._connection = 0
        self._prefix = secrets.token_hex(8)
        self._count = 0
        self._waiting: deque[ClientOperation] = deque()
        self._sent: dict[str, ClientOperation] = {}
        self._questions: dict[str, ClientOperation] = {}
        self._subscriptions: dict[str, SubscriptionState] = {}
        self._refused = ""  # the receipt that the ERROR names
        self._is_doubtful = False  # an anonymous ERROR has come: the next connection begins one by one
        self._one_by_one = 0  # operations left of those that go one by one
        self._takes_replies = False  # the subscription of REPLIES is there

    # The connection.

    def begin(self, headers: Mapping[str, str]) -> None:
        """Begin a connection with CONNECT."""
        self.protocol = ClientProtocol()
        self._connection += 1
        self.ended, self.retry_after, self._refused = None, 0.0, ""
        self._takes_replies = False
        self._outgoing, self._outgoing_bytes = [], 0
        self._write(self.protocol.connect(headers))

    def receive(self, data: bytes) -> None:
        """Take bytes of the server; `ended` says whether the connection goes on."""
        try:
            for frame in self.protocol.receive(data):
                if self.ended is None:
                    self._handle(frame)
        except ProtocolError as error:
            self._end(ServerError(f"{self._server} sent what is no frame: {error}: {error.detail}"))

    def take(self) -> list[bytes]:
        """The bytes to send, a frame each; empty: none."""
        frames, self._outgoing, self._outgoing_bytes = self._outgoing, [], 0
        self._pump()
        return frames

    def beat(self) -> None:
        """Send a heart-beat, unless other bytes go out."""
        if self.is_open and not self._outgoing:
            self._write(b"\n")

    def lost(self, error: StompError) -> None:
        """The connection has ended; an ERROR that has come before says more than `error`."""
        error = self.ended or error
        self.is_open = False
        sent = list(self._sent.values())
        self._blame(sent, error)
        kept = [each for each in sent if each.survives and not each.is_done]
        for each in [*sent, *self._questions.values()]:
            if not each.survives and not each.is_done and each.subscription is None:
                each.finish(ConnectionLost(f"{error}; the server may have carried out the {each.frames[-1][0]}"))
        self._sent.clear()
        self._questions.clear()
        # Each SUBSCRIBE is made anew for the next connection.
        self._waiting = deque([each for each in (*kept, *self._waiting) if each.subscription is None])
        for state in self._subscriptions.values():
            self.unread -= state.lost()
            state.changed()

    def fail(self, error: StompError) -> None:
        """There will be no connection any more: all that waits fails."""
        self.is_open, self.is_final = False, True
        pending = [*self._waiting, *self._sent.values(), *self._questions.values()]
        self._waiting.clear()
        self._sent.clear()
        self._questions.clear()
        for each in pending:
            each.finish(error)
        for state in self._subscriptions.values():
            state.error = error
            state.changed()
        self._subscriptions.clear()

    # Operations.

    def name(self) -> str:
        """A name that no other client and no other operation has."""
        self._count += 1
        return f"{self._prefix}-{self._count}"

    def submit(self, operation: ClientOperation) -> None:
        self._waiting.append(operation)
        self._pump()

    def withdraw(self, operation: ClientOperation) -> None:
        """Forget an operation; if it was sent, the server may carry it out."""
        if operation in self._waiting:
            self._waiting.remove(operation)
        for table in (self._sent, self._questions):
            for key in [key for key, each in table.items() if each is operation]:
                del table[key]
        self._pump()

    def subscribe(self, state: SubscriptionState) -> None:
        self._subscriptions[state.name] = state
        if self.is_open:
            self.submit(self._subscribing(state))

    def unsubscribe(self, state: SubscriptionState) -> ClientOperation | None:
        """End a subscription; its unread messages are the server's again, as far as they need an ACK.

        Returns UNSUBSCRIBE, or None: the server has no such subscription.
        """
        if self._subscriptions.pop(state.name, None) is None:
            return None
        self.unread -= sum([each.size for each in state.unread])
        state.unread.clear()
        if not self.is_open:
            return None
        operation = ClientOperation((("UNSUBSCRIBE", {"id": state.name}, b""),))
        self.submit(operation)
        return operation

    def next_of(self, state: SubscriptionState) -> ReceivedMessage:
        """Take the oldest unread delivery; there must be one."""
        delivery = state.unread.popleft()
        self.unread -= delivery.size
        return delivery

    def is_lost(self, delivery: ReceivedMessage) -> bool:
        """True if the connection of the delivery has ended: the server delivers it again."""
        return delivery.connection != self._connection or not self.is_open

    def ack(self, delivery: ReceivedMessage) -> None:
        """Acknowledge, unless that is done, not needed, or too late."""
        if self._settles(delivery):
            self._write(self.protocol.acks(delivery.subscription.name, [handle_of(delivery.frame)]))

    def nack(self, delivery: ReceivedMessage, headers: Mapping[str, str]) -> None:
        """Reject, unless the message is settled, needs no ACK, or it is too late."""
        if self._settles(delivery):
            self._write(self.protocol.nack(delivery.subscription.name, handle_of(delivery.frame), headers))

    def in_progress(self, delivery: ReceivedMessage) -> None:
        """Ask for more time, unless the message is settled, needs no ACK, or it is too late.

        Only at a gateway: to another server the frame is an ACK.
        """
        state = delivery.subscription
        if state.is_ours and state.ack != AUTO and not (delivery.is_settled or self.is_lost(delivery)):
            naming = self.protocol.naming(state.name, handle_of(delivery.frame))
            self._write(self.protocol.encode("ACK", {**naming, "in-progress": "true"}))

    def acks_of(self, deliveries: Iterable[ReceivedMessage], transaction: str) -> list[Command]:
        """The ACKs of a transaction.

        Raises ConnectionLost: the server delivers one of the messages again, so nothing of it may be carried out.
        """
        deliveries = list(deliveries)
        if any(self.is_lost(each) for each in deliveries):
            raise ConnectionLost(f"the connection to {self._server} that delivered the message has ended")
        naming = self.protocol.naming
        return [
            ("ACK", {**naming(each.subscription.name, handle_of(each.frame)), "transaction": transaction}, b"")
            for each in deliveries
            if self._settles(each)
        ]

    def _settles(self, delivery: ReceivedMessage) -> bool:
        return delivery.settle() and delivery.subscription.ack != AUTO and not self.is_lost(delivery)

    def _subscribing(self, state: SubscriptionState) -> ClientOperation:
        headers = state.headers(self.protocol.server)
        return ClientOperation((("SUBSCRIBE", headers, b""),), subscription=state)

    def _pump(self) -> None:
        """Encode what is waiting, as far as it may go out now."""
        while (
            self.is_open
            and self._waiting
            and self._outgoing_bytes < _MOST_OUTGOING
            and not (self._one_by_one and self._sent)
        ):
            self._send(self._waiting.popleft())

    def _send(self, operation: ClientOperation) -> None:
        frames = list(operation.frames)
        receipt = ""
        if operation.question:
            self._questions[operation.question] = operation
            if not self._takes_replies and is_activemq(self.protocol.server):
                # Others subscribe the sender of `reply-to` by themselves, and RabbitMQ refuses this SUBSCRIBE.
                frames.insert(0, ("SUBSCRIBE", {"id": REPLIES, "destination": REPLIES, "ack": AUTO}, b""))
            self._takes_replies = True
        elif operation.is_receipted:
            self._count += 1
            receipt = f"r{self._count}"
            command, headers, body = frames[-1]
            frames[-1] = command, {**headers, "receipt": receipt}, body
            self._sent[receipt] = operation
        for command, headers, body in frames:
            self._write(self.protocol.encode(command, headers, body))
        if not receipt and not operation.question:
            self._done(operation)

    def _done(self, operation: ClientOperation, error: StompError | None = None) -> None:
        self._one_by_one = max(0, self._one_by_one - 1)
        operation.finish(error)

    def _write(self, data: bytes) -> None:
        self._outgoing.append(data)
        self._outgoing_bytes += len(data)

    # Frames of the server.

    def _handle(self, frame: Frame) -> None:
        command = frame.head.command
        if command == "MESSAGE" and self.is_open:
            self._deliver(frame)
        elif command == "RECEIPT" and self.is_open:
            self._confirm(frame.headers.get("receipt-id", ""))
        elif command == "ERROR":
            self._refuse(frame)
        elif command == "CONNECTED" and not self.is_open:
            self._open()
        elif not self.is_open:
            self.is_final = True
            self._end(ServerError(f"{self._server} answered CONNECT with {command[:40]}"))

    def _open(self) -> None:
        self.is_open = True
        self._waiting.extendleft([self._subscribing(each) for each in reversed(self._subscriptions.values())])
        self._one_by_one = len(self._waiting) if self._is_doubtful else 0
        self._is_doubtful = False
        self._pump()

    def _deliver(self, frame: Frame) -> None:
        headers = frame.headers
        name = headers.get("subscription", "")
        if (state := self._subscriptions.get(name)) is not None:
            self.unread += state.put(frame, self._connection).size
            state.changed()
        elif name == REPLIES and (asked := self._questions.pop(headers.get("correlation-id", ""), None)) is not None:
            asked.answer = frame
            # With `mandatory:true` the gateway answers itself, where no consumer can.
            self._done(asked, NoAnswer(frame.body.decode(errors="replace")) if "reply-error" in headers else None)

    def _confirm(self, receipt: str) -> None:
        operation = self._sent.pop(receipt, None)
        if operation is None:
            return  # it was withdrawn
        self.confirmed += 1
        self._done(operation)
        if (state := operation.subscription) is not None:
            state.is_confirmed = True
            state.changed()
        self._pump()

    def _refuse(self, frame: Frame) -> None:
        error = refusal(frame, self._server)
        said = frame.headers.get("message", "")
        wait = frame.headers.get("retry-after", "")
        self.retry_after = int(wait[:9]) / 1000 if wait.isdecimal() else 0.0
        self._refused = frame.headers.get("receipt-id", "")
        if isinstance(error, ServerError):
            # Without a session the server means the login, which will not be another one next time.
            self.is_final = said in FINAL or (not self.is_open and said not in PASSING)
            if said in PASSING:
                error = ConnectionLost(str(error))
        self._end(error)

    def _end(self, error: StompError) -> None:
        self.ended = error
        self.is_open = False

    def _blame(self, sent: Iterable[ClientOperation], error: StompError) -> None:
        """Find the operation that the server has refused, and let it fail."""
        if not isinstance(error, ServerError):
            return
        sent = [each for each in sent if not each.is_done]
        culprit = self._sent.get(self._refused)
        if culprit is None and sent:
            self._is_doubtful = True
            if len(sent) == 1:
                sent[0].refusals += 1
                culprit = sent[0] if sent[0].refusals >= _PROOFS else None
        if culprit is None:
            return
        if (state := culprit.subscription) is not None:
            self._subscriptions.pop(state.name, None)
            state.error = error
            state.changed()
        self._done(culprit, error)
