"""Local client: a STOMP client of this gateway in its own process, for what comes by HTTP.

    with closing(await gateway.connect_local(remote, peer)) as client:
        await client.perform("SEND", {"destination": "/queue/a"}, b"body")

It is a connection like any other, over a pipe in memory: its login, its rules, its limits, back-pressure, the drain and
the lists of sessions are those of a WebSocket with the same HTTP request.  So no rule is written twice, and none can be
forgotten here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import trio

from gateway.client.protocol import ClientProtocol
from gateway.codec import Frame, ProtocolError
from gateway.transports import Server
from gateway.transports.connection.connection import Connection
from gateway.transports.wire.link import Remote, TcpLink
from gateway.transports.wire.memory import MemoryPipe

_CONNECT = {"accept-version": "1.2", "host": "localhost", "heart-beat": "0,0"}


class SessionRefused(Exception):
    """The gateway has ended the session with an ERROR.

    Attributes:
        error: why, as the gateway knows it; None: the connection was closed without a word.
        receipt: the `receipt` of the frame that was refused; empty: it had none, or no frame was.
    """

    def __init__(self, error: ProtocolError | None, receipt: str = "") -> None:
        super().__init__("the connection was closed" if error is None else str(error))
        self.error = error
        self.receipt = receipt

    @property
    def detail(self) -> str:
        """The body of the ERROR."""
        return "" if self.error is None else self.error.detail


class LocalLink(TcpLink):
    """A pipe in memory that counts as a WebSocket for rules and authenticators: HTTP is what pages speak."""

    __slots__ = ()

    transport = "websocket"


class LocalClient:
    """One session."""

    def __init__(self, pipe: MemoryPipe, connection: Connection) -> None:
        self._far = pipe.far
        self._connection = connection
        self._protocol = ClientProtocol()
        self._frames: deque[Frame] = deque()
        self._count = 0

    async def connect(self) -> None:
        """Log in.  Raises SessionRefused."""
        self._far.feed(self._protocol.connect(_CONNECT))
        await self.receive()

    def send(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a frame.  An answer, and an ERROR, come by `receive`."""
        self._far.feed(self._protocol.encode(command, dict(headers), body))

    @property
    def has_ended(self) -> bool:
        """True if the gateway has ended the session."""
        return self._far.has_ended

    @property
    def session_id(self) -> str:
        """Empty: the session has ended."""
        session = self._connection.session
        return "" if session is None else session.id

    def close(self) -> None:
        """End the connection; the gateway does the rest by itself, as for a client that hangs up."""
        self._far.hang_up()

    async def perform(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a frame, and wait for its RECEIPT: what it asks for is done, and stored where it is to be.

        Raises SessionRefused: the gateway refuses it.
        """
        self._count += 1
        receipt = f"local-{self._count}"
        self.send(command, {**headers, "receipt": receipt}, body)
        await self.confirmed(receipt)

    async def confirmed(self, receipt: str) -> None:
        """Wait for a RECEIPT; frames that come before it stay for `receive`.  Raises SessionRefused."""
        held: list[Frame] = []
        while True:
            frame = await self.receive()
            if frame.command == "RECEIPT" and frame.headers["receipt-id"] == receipt:
                self._frames.extendleft(reversed(held))
                return
            held.append(frame)

    async def receive(self) -> Frame:
        """The next frame, not an ERROR.  Raises SessionRefused: the session has ended."""
        while not self._frames:
            data = await self._far.read()
            if not data:
                raise SessionRefused(self._connection.failure)
            self._frames.extend(self._protocol.receive(data))
        frame = self._frames.popleft()
        if frame.command == "ERROR":
            raise SessionRefused(self._connection.failure, frame.headers.get("receipt-id", ""))
        return frame

    def waiting(self) -> list[Frame]:
        """Frames that have come already; more may follow."""
        frames, self._frames = list(self._frames), deque()
        return frames


async def connect(server: Server, nursery: trio.Nursery, remote: Remote, peer: str) -> LocalClient:
    """A client that is logged in, to be closed.

    Args:
        nursery: of the gateway's connections.
        remote: the other end, as the HTTP server knows it, with the credentials of its request.
        peer: its address with the port, for lists and logs.

    Raises SessionRefused: the login is refused, or there is no room.
    """
    pipe = MemoryPipe()
    slot = server.connection_limits.enter(remote.address, lambda _: None)
    slot.comes_from(remote.address)
    connection = Connection(server, LocalLink(pipe, peer, remote), slot)

    async def serve() -> None:
        try:
            await connection.serve()
        finally:
            slot.leave()

    nursery.start_soon(serve)
    client = LocalClient(pipe, connection)
    try:
        await client.connect()
    except BaseException:
        client.close()
        raise
    return client
