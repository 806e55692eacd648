"""A harness for the clients of a test: a running server, and connections without listener or HTTP.

They run over memory streams, over a pair of sockets of the operating system, or through a `ControlledPipe`, which takes
as many bytes as the test lets it, so that a test can stop and examine every state of a slow client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import trio
from trio.testing import memory_stream_pair

from gateway.auth.authenticator import Anonymous
from gateway.broker import Broker, Quotas, Session
from gateway.broker.core.counters import Counters
from gateway.broker.core.ports import Authenticator
from gateway.broker.core.work_limits import WORK_LIMITS, WorkLimits
from gateway.broker.model.identity import Credentials, Identity
from gateway.broker.model.patterns import Pattern
from gateway.broker.model.policy import Policies
from gateway.transports import Server, TransportOptions
from gateway.transports.accept.websocket import WebSocketLink
from gateway.transports.connection.connection import Connection
from gateway.transports.wire.link import Pipe, Remote, SocketPipe, TcpLink

from .peers import Peer, TcpWire, WebSocketWire, socket_streams
from .pipes import ControlledPipe, StreamPipe


class Slow:
    """An authenticator that takes its time."""

    def __init__(self, seconds: float, answer: str | None = "user") -> None:
        self._seconds = seconds
        self._answer = answer

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        await trio.sleep(self._seconds)
        return None if self._answer is None else Identity(self._answer)


@dataclass
class Harness:
    """A running server and its connections."""

    nursery: trio.Nursery
    authenticator: Authenticator = field(default_factory=Anonymous)
    options: TransportOptions = field(default_factory=TransportOptions)
    quotas: Quotas = field(default_factory=Quotas)
    policies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # pattern -> keys of `Policy`
    work_limits: WorkLimits = WORK_LIMITS
    address: str = ""  # of the clients that connect from now on; empty: a unix socket
    connections: list[Connection] = field(default_factory=list)
    _sockets: list[trio.SocketStream] = field(default_factory=list)

    def __post_init__(self) -> None:
        policies = Policies((Pattern(text), values) for text, values in self.policies.items())
        self.server = Server(self.authenticator, self.quotas, self.options, policies, work_limits=self.work_limits)
        self.nursery.start_soon(self.server.run)

    @property
    def broker(self) -> Broker:
        return self.server.broker

    @property
    def counters(self) -> Counters:
        return self.server.broker.counters

    def connect(self, kind: str, *, sockets: bool = False, address: str = "") -> Peer:
        """A new connection of that transport; over sockets of the system, or in memory."""
        self.address = address or self.address
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

    def connect_through(self, kind: str, valve: ControlledPipe) -> Peer:
        """A new connection; the test opens and shuts the pipe to its client."""
        self.serve(kind, valve)
        return self._peer(kind, valve.end)

    async def stalled(
        self, kind: str, destination: str = "", *, room: float = 0, ack: str = "auto", **headers: object
    ) -> tuple[Peer, ControlledPipe]:
        """A client that is logged in, and subscribed if a destination is given; its pipe takes `room` bytes more."""
        pipe = ControlledPipe()
        peer = self.connect_through(kind, pipe)
        await peer.connect(**headers)
        if destination:
            await peer.subscribe(destination, ack=ack)
        pipe.room = room
        return peer, pipe

    def _peer(self, kind: str, stream: trio.abc.Stream) -> Peer:
        return Peer(WebSocketWire(stream) if kind == "websocket" else TcpWire(stream))

    def door(self) -> Server:
        """The server that takes the next client."""
        return self.server

    def serve(self, kind: str, pipe: Pipe) -> Connection:
        server = self.door()
        remote = Remote(self.address)
        link = WebSocketLink(pipe, "test", b"", remote) if kind == "websocket" else TcpLink(pipe, "test", remote)
        slot = server.connection_limits.enter(self.address, lambda error: None)
        slot.comes_from(self.address)
        connection = Connection(server, link, slot)
        self.connections.append(connection)

        async def serve() -> None:
            await connection.serve()
            slot.leave()

        self.nursery.start_soon(serve)
        return connection

    async def counted(self) -> None:
        """All that has happened is in the counters."""

    def session_at(self, place: int = 0) -> Session:
        """The session of the connection that came at that place."""
        session = self.connections[place].session
        assert session is not None
        return self.broker.sessions[session.id]

    def close(self) -> None:
        """Leave no socket open."""
        for stream in self._sockets:
            stream.socket.close()

    async def session(self, kind: str, version: str = "1.2", *, sockets: bool = False, **headers: object) -> Peer:
        """A client that is connected and logged in."""
        peer = self.connect(kind, sockets=sockets)
        await peer.connect(version, **headers)
        return peer


MakeHarness = Callable[..., Harness]
"""A harness with other parts than the usual: authenticator, options, quotas, policies."""
