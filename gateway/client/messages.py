"""Messages, subscriptions and transactions of the async client, as a program sees them.

async for message in client.subscribe("/queue/work"):
    async with message:     # leaving acknowledges, an exception rejects, a cancellation does neither
        ...
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.lowlevel import checkpoint

from .connection import KeptConnection
from .errors import StompError
from .session import ClientOperation, Command
from .subscriptions import ReceivedMessage, SubscriptionState

log = logging.getLogger("gateway.client")

Body = bytes | str
OnGap = Callable[["Message"], Awaitable[None] | None]

_LONGEST_REASON = 200


def encoded(body: Body) -> bytes:
    return body.encode() if isinstance(body, str) else body


class Message:
    """A message of a subscription, or an answer.

    Attributes:
        headers: of the MESSAGE; of repeated headers the first.
        body: its bytes.
    """

    def __init__(self, delivery: ReceivedMessage, connection: KeptConnection) -> None:
        self.headers = delivery.frame.headers
        self.body = delivery.frame.body
        self.delivery = delivery
        self._connection = connection

    @property
    def text(self) -> str:
        """The body, read as UTF-8.  Raises UnicodeDecodeError."""
        return self.body.decode()

    def json(self) -> Any:
        """The body, read as JSON.  Raises ValueError."""
        return json.loads(self.body)

    @property
    def destination(self) -> str:
        return self.headers.get("destination", "")

    @property
    def id(self) -> str:
        """The header `message-id`."""
        return self.headers.get("message-id", "")

    @property
    def is_redelivered(self) -> bool:
        """True if a consumer may have had it before."""
        return self.headers.get("redelivered") == "true"

    @property
    def seq(self) -> int | None:
        """Its number in the topic's stream; None: it has none."""
        number = self.headers.get("seq", "")
        return int(number) if number.isdecimal() else None

    @property
    def is_lost(self) -> bool:
        """True if its connection has ended: the server delivers it again, and an ACK has no effect."""
        return self._connection.session.is_lost(self.delivery)

    async def ack(self) -> None:
        """Acknowledge; without effect for a message that is settled or lost."""
        self._connection.session.ack(self.delivery)
        self._connection.flush()

    async def nack(self, *, requeue: bool | None = None, reason: str = "") -> None:
        """Reject; without effect for a message that is settled or lost.

        `requeue`: False makes a dead letter; None leaves it to the server.  `reason`: for the dead letter.
        """
        headers = {} if requeue is None else {"requeue": "true" if requeue else "false"}
        if reason:
            headers["reason"] = " ".join(reason.split())[:_LONGEST_REASON]
        self._connection.session.nack(self.delivery, headers)
        self._connection.flush()

    async def in_progress(self) -> None:
        """Ask a gateway for more time than its policy `ack_timeout` gives; without effect at other servers."""
        self._connection.session.in_progress(self.delivery)
        self._connection.flush()

    async def reply(self, body: Body = b"", headers: Mapping[str, str] | None = None) -> None:
        """Answer to `reply-to`, and wait for the RECEIPT.  Raises ValueError: there is no such header."""
        if "reply-to" not in self.headers:
            raise ValueError(f"the message {self.id} has no header reply-to")
        known = {name: self.headers[name] for name in ("correlation-id",) if name in self.headers}
        frame = sending(self._connection, self.headers["reply-to"], body, {**known, **(headers or {})})
        await self._connection.perform(ClientOperation((frame,), survives=True), "confirm SEND")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.ack()
        elif isinstance(error, Exception):
            await self.nack(reason=f"{type(error).__name__}: {error}")

    def __repr__(self) -> str:
        return f"<Message {self.id} of {self.destination}, {len(self.body)} bytes>"  # bodies are the users' data


def sending(connection: KeptConnection, destination: str, body: Body, headers: Mapping[str, str] | None) -> Command:
    """A SEND that may be sent twice: the gateway knows it by its `dedup-id`."""
    own = {"destination": destination, "dedup-id": connection.session.name(), **(headers or {})}
    return "SEND", own, encoded(body)


class Subscription:
    """Messages of a destination, for one or several tasks: `async for message in subscription`.

    It begins with `async with` or with the first message, and ends with `async with` or with the client.
    """

    def __init__(self, state: SubscriptionState, connection: KeptConnection, on_gap: OnGap | None) -> None:
        self._state = state
        self._connection = connection
        self._on_gap = on_gap
        self._changed = anyio.Event()
        self._is_begun = self._is_ended = False
        state.watch(self._wake)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def __aenter__(self) -> Self:
        """Begin, and wait until the server has confirmed it.  Raises ServerError: it refuses; TimedOut."""
        self._begin()
        with anyio.move_on_after(self._connection.timeout):
            while not self._state.is_confirmed:
                self._check()
                await self._changed.wait()
        if not self._state.is_confirmed:
            self._end()
            self._check()
            raise self._connection.late("confirm SUBSCRIBE")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unsubscribe; the server has its unacknowledged messages again."""
        operation = self._end()
        if operation is not None and error is None:
            try:
                await self._connection.wait_for(operation, "confirm UNSUBSCRIBE")
            except StompError as failure:
                log.info("the subscription to %s has ended: %s", self._state.destination, failure)

    def _begin(self) -> None:
        if not self._is_begun:
            self._connection.check()
            self._is_begun = True
            self._connection.session.subscribe(self._state)
            self._connection.flush()

    def _end(self) -> ClientOperation | None:
        self._is_ended = True
        operation = self._connection.session.unsubscribe(self._state)
        self._connection.flush()
        self._connection.taken()
        self._wake()
        return operation

    def _check(self) -> None:
        if (error := self._state.error) is not None:
            raise type(error)(str(error))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """The next message.  Raises ServerError: the server refuses the subscription; ConnectionLost: for good."""
        self._begin()
        await checkpoint()
        while True:
            if not (unread := self._state.unread):
                self._check()
                if self._is_ended:
                    raise StopAsyncIteration
                await self._changed.wait()
            elif unread[0].gap:
                await self._tell(unread[0])
            else:
                delivery = self._connection.session.next_of(self._state)
                self._connection.taken()
                return Message(delivery, self._connection)

    async def _tell(self, delivery: ReceivedMessage) -> None:
        """Tell of a gap, once, before the message behind it."""
        delivery.tell_gap()
        if delivery.is_nothing_else:
            self._connection.session.next_of(self._state)
            self._connection.session.ack(delivery)
            self._connection.flush()
        if self._on_gap is None:
            log.warning("messages of %s are gone from its stream", self._state.destination)
        elif inspect.isawaitable(waiting := self._on_gap(Message(delivery, self._connection))):
            await waiting


class ClientTransaction:
    """SENDs and ACKs that the server carries out together, when the block is left without an exception.

    The client holds them until then; an exception discards them.
    """

    def __init__(self, connection: KeptConnection, most: int) -> None:
        self._connection = connection
        self._most = most  # bytes that it may hold
        self._size = 0
        self._frames: list[Command] = []
        self._acks: list[Message] = []

    async def send(self, destination: str, body: Body = b"", headers: Mapping[str, str] | None = None) -> None:
        """Raises ValueError: the transaction is too large for the client."""
        frame = sending(self._connection, destination, body, headers)
        self._size += len(frame[2])
        if self._size > self._most:
            raise ValueError(f"the transaction has more than {self._most} bytes: divide it")
        self._frames.append(frame)

    async def ack(self, message: Message) -> None:
        """Acknowledge the message together with the rest; leaving its own block does no more then."""
        self._acks.append(message)

    async def __aenter__(self) -> Self:
        self._connection.check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises ServerError: the server refuses it; ConnectionLost, TimedOut: it may have carried it out."""
        if error is not None or not (self._frames or self._acks):
            return
        name = self._connection.session.name()
        acks = self._connection.session.acks_of([each.delivery for each in self._acks], name)
        held = {"transaction": name}
        sends: list[Command] = [(command, {**headers, **held}, body) for command, headers, body in self._frames]
        frames: list[Command] = [("BEGIN", held, b""), *sends, *acks, ("COMMIT", held, b"")]
        # With an ACK it must not be sent twice: its message is delivered again, and then comes a new transaction.
        await self._connection.perform(ClientOperation(tuple(frames), survives=not acks), "confirm COMMIT")
