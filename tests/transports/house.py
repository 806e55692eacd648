"""A house for the clients of a test: a hub with its wheel turning, and connections without listener or HTTP.

They run over memory streams, over a pair of sockets of the operating system, or through a `Valve`: a pipe that takes as
many bytes as the test lets it, so that every state of a slow client can be held still and looked at.  Each of them may
carry TLS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import trio
from trio.testing import memory_stream_pair

from gateway.auth.authenticator import Anonymous
from gateway.broker import Broker, Quotas
from gateway.broker.core.counters import Counters
from gateway.broker.core.ports import Authenticator
from gateway.broker.model.identity import Credentials, Identity
from gateway.broker.model.patterns import Pattern
from gateway.broker.model.policy import Policies
from gateway.transports import Server, TransportOptions
from gateway.transports.accept.websocket import WebSocketLink
from gateway.transports.connection.connection import Connection
from gateway.transports.wire.link import BrokenLink, Buffers, Pipe, Remote, SocketPipe, StreamPipe, TcpLink
from gateway.transports.wire.tls import HandshakeError, TlsPipe

from . import papers
from .peers import Peer, TcpWire, WebSocketWire, socket_streams


class Valve:
    """A pipe whose other end takes as many bytes as the test lets it: `Pipe` for the server, `end` for the client.

    Attributes:
        room: bytes that it still takes.
        written: what it took and the client did not read yet.
        broken: writing fails.
        eof: the server has said that nothing more comes.
        closed: the server has closed it.
    """

    def __init__(self, room: float = math.inf) -> None:
        self.room = room
        self.written = bytearray()
        self.broken = self.eof = self.closed = False
        self.end = ValveEnd(self)
        self._incoming = bytearray()
        self._ended = False
        self._moved = trio.lowlevel.ParkingLot()

    async def receive(self, size: int) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._incoming:
            if self._ended:
                return b""
            await self._moved.park()
        data = bytes(self._incoming[:size])
        del self._incoming[:size]
        return data

    def send_nowait(self, buffers: Buffers) -> int:
        if self.broken:
            raise BrokenLink("broken")
        data = b"".join(buffers)
        taken = int(min(self.room, len(data)))
        self.written += data[:taken]
        self.room -= taken
        self._moved.unpark_all()
        return taken

    async def send_some(self, buffers: Buffers) -> int:
        await trio.lowlevel.checkpoint()
        while not self.room and not self.broken:
            await self._moved.park()
        return self.send_nowait(buffers)

    def peer_has_gone(self) -> bool:
        return self._ended

    def has_bytes(self) -> bool:
        return bool(self._incoming) or self._ended

    async def send_eof(self) -> None:
        self.eof = True
        self._moved.unpark_all()

    async def aclose(self) -> None:
        self.eof = self.closed = True
        self._moved.unpark_all()

    # the client's hands

    def open(self, nbytes: float = math.inf) -> None:
        """Take so many bytes more."""
        self.room += nbytes
        self._moved.unpark_all()

    def push(self, data: bytes) -> None:
        """Bytes for the server."""
        self._incoming += data
        self._moved.unpark_all()

    def hang_up(self, *, broken: bool = True) -> None:
        """The client's end of the stream; a broken one takes nothing any more."""
        self._ended, self.broken = True, broken
        self._moved.unpark_all()

    async def pull(self) -> bytes:
        """What the server has written."""
        await trio.lowlevel.checkpoint()
        while not self.written:
            if self.eof:
                return b""
            await self._moved.park()
        data = bytes(self.written)
        self.written.clear()
        return data


class ValveEnd(trio.abc.Stream):
    """The client's end of a valve, as a stream."""

    def __init__(self, valve: Valve) -> None:
        self._valve = valve

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self._valve.push(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._valve.pull()

    async def aclose(self) -> None:
        self._valve.hang_up()
        await trio.lowlevel.checkpoint()


class Slow:
    """An authenticator that takes its time."""

    def __init__(self, seconds: float, answer: str | None = "user") -> None:
        self._seconds = seconds
        self._answer = answer

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        await trio.sleep(self._seconds)
        return None if self._answer is None else Identity(self._answer)


@dataclass
class House:
    """A hub with all that runs beside it.

    Attributes:
        policies: pattern -> keys of `Policy`.
        secured: all connections carry TLS.
        address: where clients come from that visit from now on; empty: by a unix socket.
    """

    nursery: trio.Nursery
    authenticator: Authenticator = field(default_factory=Anonymous)
    options: TransportOptions = field(default_factory=TransportOptions)
    quotas: Quotas = field(default_factory=Quotas)
    policies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    secured: bool = False
    address: str = ""
    connections: list[Connection] = field(default_factory=list)
    _sockets: list[trio.SocketStream] = field(default_factory=list)

    def __post_init__(self) -> None:
        policies = Policies((Pattern(text), values) for text, values in self.policies.items())
        self.server = Server(self.authenticator, self.quotas, self.options, policies)
        self.nursery.start_soon(self.server.run)

    @property
    def broker(self) -> Broker:
        return self.server.broker

    @property
    def counters(self) -> Counters:
        return self.server.broker.counters

    def visit(self, kind: str, *, sockets: bool = False) -> Peer:
        """A new connection of that transport; over sockets of the system, or in memory."""
        theirs: trio.abc.Stream
        pipe: Pipe
        if sockets:
            theirs, ours = socket_streams()
            self._sockets.append(theirs)
            pipe = SocketPipe(ours)
        else:
            theirs, end = memory_stream_pair()
            pipe = StreamPipe(end)
        self.serve(kind, pipe)
        return self._peer(kind, theirs)

    def visit_through(self, kind: str, valve: Valve) -> Peer:
        """A new connection whose way out the test opens and shuts."""
        self.serve(kind, valve)
        return self._peer(kind, valve.end)

    def _peer(self, kind: str, stream: trio.abc.Stream) -> Peer:
        if self.secured:
            stream = trio.SSLStream(stream, papers.of_clients(), server_hostname=papers.HOST)
        return Peer(WebSocketWire(stream) if kind == "websocket" else TcpWire(stream))

    def serve(self, kind: str, pipe: Pipe) -> Connection:
        secured = TlsPipe(pipe, papers.of_server()) if self.secured else None
        pipe = secured or pipe
        remote = Remote(self.address)
        link = WebSocketLink(pipe, "test", b"", remote) if kind == "websocket" else TcpLink(pipe, "test", remote)
        connection = Connection(self.server, link)
        self.connections.append(connection)

        async def serve() -> None:
            if secured is not None:
                with suppress(HandshakeError):
                    await secured.handshake()
            await connection.serve()

        self.nursery.start_soon(serve)
        return connection

    def close(self) -> None:
        """Leave no socket open."""
        for stream in self._sockets:
            stream.socket.close()

    async def session(self, kind: str, version: str = "1.2", *, sockets: bool = False, **headers: object) -> Peer:
        """A visitor who is connected."""
        peer = self.visit(kind, sockets=sockets)
        await peer.connect(version, **headers)
        return peer
