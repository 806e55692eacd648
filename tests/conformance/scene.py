"""Scene of a test: one version, one transport, a gateway or a broker, and the peers it has opened."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping
from typing import Literal

from tests.broker.client import Scene as Broker
from tests.gateway_process import HOST, GatewayProcess

from .core import Core
from .links import ALL_SUBPROTOCOLS, TEXT, Tcp, WebSocket
from .wire import Frame, Headers, Link, Peer, Value, octets, pairs

End = Literal["disconnect", "close", "reset"]


class Scene:
    """The stage of one test; the fixture `stomp` makes it and takes it down."""

    _numbers = itertools.count(1)

    def __init__(self, server: GatewayProcess | Broker, version: str, transport: str) -> None:
        self.server = server
        self.version = version
        self.transport = transport
        self.peers: list[Peer] = []

    # -- names

    def queue(self) -> str:
        return f"/queue/conformance-{uuid.uuid4().hex}"

    def topic(self) -> str:
        return f"/topic/conformance-{uuid.uuid4().hex}"

    # -- connections

    def open(
        self,
        transport: str | None = None,
        version: str | None = None,
        subprotocols: tuple[str, ...] = ALL_SUBPROTOCOLS,
        opcode: int = TEXT,
    ) -> Peer:
        """A connection on which no STOMP was spoken yet."""
        link: Link
        if isinstance(self.server, Broker):
            link = Core(self.server)
        elif (transport or self.transport) == "tcp":
            link = Tcp(HOST, self.server.tcp_port)
        else:
            link = WebSocket(self.server.ws_url, subprotocols, opcode)
        peer = Peer(link, version or self.version)
        self.peers.append(peer)
        return peer

    def opening(self, version: str | None = None, **headers: Value) -> dict[Value, Value]:
        """The headers of CONNECT; underscores of the names given stand for hyphens."""
        version = version or self.version
        first: dict[Value, Value] = {} if version == "1.0" else {"accept-version": version, "host": "localhost"}
        return first | {name.replace("_", "-"): value for name, value in headers.items()}

    def greet(self, peer: Peer, headers: Headers, command: str = "CONNECT") -> Peer:
        """CONNECT on an open connection, and wait for CONNECTED."""
        peer.send(command, headers)
        peer.connected = peer.take("CONNECTED")
        return peer

    def connect(self, transport: str | None = None, version: str | None = None, **headers: Value) -> Peer:
        peer = self.open(transport, version)
        return self.greet(peer, self.opening(version, **headers))

    def opening_octets(self, **headers: Value) -> bytes:
        return octets("CONNECT", self.opening(**headers))

    # -- steps

    def watch(self, destination: str, **options: str) -> Peer:
        """An independent subscriber, to see what really was delivered."""
        watcher = self.connect(**options)
        watcher.subscribe(destination)
        return watcher

    def holder(self, destination: str, *bodies: bytes, ack: str = "client") -> tuple[Peer, list[Frame]]:
        """A consumer of the queue that holds these messages unacknowledged."""
        self.connect().put(destination, *bodies)
        consumer = self.connect()
        consumer.subscribe(destination, ack=ack)
        return consumer, consumer.messages(len(bodies))

    def left_in(self, queue: str, transport: str | None = None) -> list[bytes]:
        consumer = self.connect(transport)
        consumer.subscribe(queue)
        bodies = consumer.seen(queue)
        self.end(consumer, "disconnect")
        return bodies

    def end(self, peer: Peer, how: End) -> None:
        """End the connection, and wait until the gateway has drawn all conclusions from it.

        The peer first takes a message of a queue of its own without acknowledging it; when somebody else gets it,
        the session is over.
        """
        token = self.queue()
        peer.subscribe(token, id=f"token-{next(self._numbers)}", ack="client")
        peer.put(token, b"token")
        peer.take("MESSAGE", "destination", token)
        if how == "disconnect":
            peer.request("DISCONNECT")
            peer.ends()
        elif how == "close":
            peer.link.close()
        else:
            peer.link.reset()
        successor = self.connect()
        successor.subscribe(token)
        assert successor.message().body == b"token"

    def sent(self, headers: Headers = (), body: bytes = b"x", to: str | None = None, over: str | None = None) -> Frame:
        """The MESSAGE that becomes of a SEND, as a consumer of version `to` gets it `over` a transport."""
        queue = self.queue()
        consumer = self.watch(queue, **_given(version=to, transport=over))
        producer = self.connect()
        producer.publish(queue, body, headers)
        return consumer.message()

    def refuses(self, command: str, headers: Headers, body: bytes = b"") -> Frame:
        """A fresh session is ended by this frame, without a RECEIPT for it; other sessions live."""
        peer = self.connect()
        peer.send(command, [*pairs(headers), ("receipt", "refused")], body)
        error = peer.refusal()
        self.is_well()
        return error

    def is_well(self) -> None:
        """A new session gets its work done."""
        peer, queue = self.connect(), self.queue()
        peer.subscribe(queue)
        assert peer.seen(queue) == []
        peer.link.close()

    def close(self) -> None:
        for peer in self.peers:
            peer.link.close()

    def faults(self) -> list[str]:
        return [fault for peer in self.peers for fault in peer.faults]


def _given(**options: str | None) -> Mapping[str, str]:
    return {name: value for name, value in options.items() if value is not None}
