"""An async STOMP client for Trio and asyncio (AnyIO), over TCP, TLS, WebSocket or a unix socket.

session, subscriptions    what is said, unconfirmed and unread, over all connections; no I/O
streams                   bytes, over each kind of transport
connection                one connection after the other, the session's bytes on a stream
messages                  messages, subscriptions, transactions
asynchronous              `connect`, and the client
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anyio

from .address import read_address
from .connection import KeptConnection, Options, Passcode
from .messages import Body, ClientTransaction, Message, OnGap, Subscription, encoded, sending
from .session import REPLIES, ClientOperation
from .subscriptions import AUTO, ReceivedMessage, SubscriptionState

_INDIVIDUAL = "client-individual"
# Destinations whose messages are copies, so that nothing is lost to others when one is not acknowledged.
_COPIES = ("/topic/", "/exchange/", "/user/", "/session/", "/temp-", "/presence/")


class AsyncClient:
    """One session with a server, over all reconnects.  `connect` makes it."""

    def __init__(self, options: Options) -> None:
        self._connection = KeptConnection(options)
        self._most = options.max_unread
        self._answers = SubscriptionState(REPLIES, REPLIES, AUTO, 1, {}, None)

    @property
    def server(self) -> str:
        """The header `server` of CONNECTED, or ""."""
        return self._connection.session.protocol.server

    @property
    def version(self) -> str:
        """The version of STOMP that the present connection has."""
        return self._connection.session.protocol.version.name

    @property
    def is_connected(self) -> bool:
        """False while it reconnects, and when it has given up."""
        return self._connection.session.is_open

    @property
    def fault(self) -> str:
        """Why it is not connected, while it reconnects; else ""."""
        return self._connection.fault

    @property
    def unread(self) -> int:
        """Bytes of the messages that wait for the program."""
        return self._connection.session.unread

    async def send(
        self,
        destination: str,
        body: Body = b"",
        headers: Mapping[str, str] | None = None,
        *,
        receipt: bool = True,
    ) -> None:
        """Send a message and wait for its RECEIPT, over reconnects too.

        It gets a `dedup-id`, unless it has one: if it is sent twice, the gateway takes it once.

        Args:
            receipt: False does not wait; if the connection is lost then, so may be the message.

        Raises:
            ServerError: the server refuses it.
            TimedOut: there is no RECEIPT in time; the server has the message or not.
            ConnectionLost: there is no connection any more.
        """
        if receipt:
            operation = ClientOperation((sending(self._connection, destination, body, headers),), survives=True)
        else:
            frame = ("SEND", {"destination": destination, **(headers or {})}, encoded(body))
            operation = ClientOperation((frame,), is_receipted=False)
        await self._connection.perform(operation, "confirm SEND" if receipt else "take SEND")

    def subscribe(
        self,
        destination: str,
        *,
        prefetch: int = 10,
        ack: str = "",
        selector: str = "",
        resume: str = "",
        from_seq: int | None = None,
        headers: Mapping[str, str] | None = None,
        on_gap: OnGap | None = None,
    ) -> Subscription:
        """Messages of a destination, over reconnects too.

        Args:
            prefetch: messages that may be unacknowledged, at least 1; without effect in mode auto.
            ack: auto, client or client-individual; "": auto for topics and the like without `resume`, else
                client-individual.
            selector: a condition on headers.
            resume: a name under which the gateway keeps the position in the topic's stream.
            from_seq: the number in the topic's stream to begin with; 0: the first, -1: the next.
            headers: more of SUBSCRIBE.
            on_gap: called with the message behind a gap, before it is delivered.
        """
        if prefetch < 1:
            raise ValueError(f"prefetch is {prefetch}, and at least one message must be allowed")
        more = dict(headers or {})
        more |= {name: value for name, value in (("selector", selector), ("resume", resume)) if value}
        if not ack:
            ack = AUTO if destination.startswith(_COPIES) and not resume else _INDIVIDUAL
        name = self._connection.session.name()
        name = more.pop("id", name)
        state = SubscriptionState(name, destination, ack, prefetch, more, from_seq)
        return Subscription(state, self._connection, on_gap)

    async def request(
        self,
        destination: str,
        body: Body = b"",
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float = 10.0,  # noqa: ASYNC109 - the question expires with it
    ) -> Message:
        """Send a message with `reply-to`, and wait for the answer.

        Raises:
            TimedOut: there is no answer in time.
            NoAnswer: with the header `mandatory:true`: no consumer is there, or they reject the question.
            ConnectionLost: the connection was lost, and with it the answer; the question may be asked again.
            ServerError: the server refuses the question.
        """
        name = self._connection.session.name()
        own = {"reply-to": REPLIES, "correlation-id": name, "expiration": str(math.ceil(timeout * 1000))}
        frame = ("SEND", {"destination": destination, **own, **(headers or {})}, encoded(body))
        operation = ClientOperation((frame,), question=frame[1]["correlation-id"])
        await self._connection.perform(operation, f"answer at {destination}", timeout)
        assert operation.answer is not None
        return Message(ReceivedMessage(operation.answer, self._answers, 0), self._connection)

    def transaction(self) -> ClientTransaction:
        """`async with client.transaction() as work`: SENDs and ACKs that happen together, or not at all."""
        return ClientTransaction(self._connection, self._most)


@asynccontextmanager
async def connect(
    url: str,
    *,
    login: str = "",
    passcode: Passcode = "",
    vhost: str = "",
    headers: Mapping[str, str] | None = None,
    ca: str = "",
    cert: str = "",
    key: str = "",
    heartbeat: float = 10.0,
    timeout: float = 60.0,  # noqa: ASYNC109 - of each operation
    connect_timeout: float = 10.0,
    reconnect_for: float = math.inf,
    max_pause: float = 30.0,
    max_unread: int = 16 * 1024**2,
    close_timeout: float = 5.0,
) -> AsyncIterator[AsyncClient]:
    """A client for the time of the block.  All times are in seconds.

    Args:
        url: stomp://user@host:61613, stomps://, ws://host:15674/ws, wss:// or unix:/path.
        login: the user, if the URL has none.
        passcode: the secret, or a function, which may be async, that gives one for each connection: a token.
        vhost: the header `host` of CONNECT; RabbitMQ wants "/".  "": the host of the URL.
        headers: more of CONNECT, like `client-id`.
        ca: a file of certificates to trust instead of the system's; `cert`, `key`: files of the client certificate.
        heartbeat: the interval that is offered in both directions; 0: none.
        timeout: the longest wait for a RECEIPT, or for a full socket.
        connect_timeout: of the TCP, TLS and WebSocket handshakes, and again of the answer to CONNECT.
        reconnect_for: the longest outage; 0: no reconnect.
        max_pause: the longest pause between attempts.
        max_unread: bytes of messages that may wait for the program; the server holds back the rest.
        close_timeout: the longest wait for the end of the session.

    Raises:
        ConnectionLost, ServerError: the first connection failed.
        ValueError: the URL names no server.
    """
    tls = (ca, cert, key)
    times = (heartbeat, timeout, connect_timeout, reconnect_for, max_pause)
    options = Options(read_address(url), login, passcode, vhost, headers or {}, *tls, *times, max_unread)
    client = AsyncClient(options)
    connection = client._connection
    stream = await connection.open()
    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.keep, stream)
        try:
            yield client
        except BaseException as error:  # noqa: BLE001 - raised below: a task group would make a group of it
            failure = error
        with anyio.move_on_after(close_timeout, shield=True):
            await connection.finish()
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
