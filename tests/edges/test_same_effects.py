"""Random programs of clients, carried out by two gateways: one with its sockets, one with two edges.

After each step the clients of both have got the same bytes, and both brokers have the same in them.  So what
`tests/broker/models` shows of the broker holds through links.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import trio
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair

from gateway.auth.authenticator import Anonymous
from gateway.broker import Quotas
from gateway.broker.model.patterns import Pattern
from gateway.broker.model.policy import Policies, WhenFull
from gateway.edges.edge import EdgeServer
from gateway.edges.link import EdgeLink
from gateway.edges.pipe import MessagePipe
from gateway.edges.primary import PrimaryLink
from gateway.transports import Server, TransportOptions
from gateway.transports.connection.connection import Connection
from gateway.transports.wire.link import TcpLink
from tests.transports.peers import frame
from tests.transports.pipes import StreamPipe

_CLIENTS = 3
# Seconds of the test's clock in which all that a step causes has happened; nothing may wait for the counts of an edge,
# which go each second.
_SETTLE_TIME = 0.3
_OPTIONS = TransportOptions(close_linger=0, heartbeat_send=0, heartbeat_receive=0)
_POLICIES: dict[str, dict[str, Any]] = {
    "#": {"backoff": 0.0},
    "/queue/b": {"max_attempts": 1},
    "/queue/c": {"max_messages": 3, "when_full": WhenFull.DROP_OLDEST},
}
_DESTINATIONS = ["/queue/a", "/queue/b", "/queue/c", "/topic/a", "/topic/b"]
_SUBSCRIBED = [*_DESTINATIONS, "/topic/#", "/queue/dlq.b"]

# Operations: a kind, and what it needs.
_SEND = st.tuples(
    st.just("send"),
    st.sampled_from([*_DESTINATIONS, "/queue/a,/topic/a"]),
    st.sampled_from([0, 3, 3, 70_000]),
    st.booleans(),
    st.sampled_from(["", "", "", "t", "u"]),
    st.sampled_from(
        [{}, {}, {"priority": 9}, {"JMSXGroupID": "g"}, {"retain": "set"}, {"kind": "red"}, {"ttl": 600_000}]
    ),
    st.integers(1, 4),
)
_SUBSCRIBE = st.tuples(
    st.just("subscribe"),
    st.sampled_from("12"),
    st.sampled_from(_SUBSCRIBED),
    st.sampled_from(["auto", "client", "client-individual"]),
    st.sampled_from([{}, {}, {"prefetch_count": 1}, {"selector": "kind = 'red'"}, {"exclusive": "true"}]),
)
_SETTLE = st.tuples(
    st.sampled_from(["ack", "nack"]),
    st.integers(0, 5),
    st.sampled_from(["", "", "t"]),
    st.sampled_from([{}, {"requeue": "false"}, {"receipt": "r"}]),
)
_TRANSACTION = st.tuples(st.sampled_from(["begin", "begin", "commit", "abort"]), st.sampled_from("tu"))
_OTHER = st.sampled_from([("unsubscribe", "1"), ("unsubscribe", "2"), ("disconnect",), ("junk",), ("drop",)])
_STEP = st.tuples(
    st.integers(0, _CLIENTS - 1),
    st.lists(
        st.one_of(_SEND, _SEND, _SUBSCRIBE, _SUBSCRIBE, _SETTLE, _SETTLE, _TRANSACTION, _OTHER), min_size=1, max_size=4
    ),
)

Program: TypeAlias = list[tuple[int, list[tuple[Any, ...]]]]
"""Steps: a client, and what it does in one chunk."""


class Client:
    """A client of one world, on one connection."""

    def __init__(self, stream: trio.abc.Stream, version: str) -> None:
        self.version = version
        self.stream = stream
        self.got = b""
        self.has_ended = False

    async def read(self) -> None:
        """Read on until the end."""
        try:
            while data := await self.stream.receive_some():
                self.got += data
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self.has_ended = True

    @property
    def story(self) -> tuple[bytes, bool]:
        """All that it got, without what is random or the time of day, and whether that is all."""
        return re.sub(rb"\n(session|expires):[^\n]*", b"", self.got), self.has_ended

    def settling(self, command: str, place: int, **headers: Any) -> bytes:
        """An ACK or NACK of one of its last messages."""
        found = re.findall(rb"MESSAGE\n(.*?)\n\n", self.got, re.DOTALL)
        if not found:
            return b"\n"
        told = dict(line.split(b":", 1) for line in found[-1 - place % len(found)].split(b"\n"))
        if self.version == "1.2":
            return frame(command, id=told.get(b"ack", b"none").decode(), **headers)
        names = {"message_id": told[b"message-id"].decode(), "subscription": told[b"subscription"].decode()}
        return frame(command, **names, **headers)


class World:
    """A gateway, and clients of it.

    Args:
        edges: how many it has; its clients are at them in turn.
    """

    def __init__(self, nursery: trio.Nursery, edges: int) -> None:
        self._nursery = nursery
        policies = Policies((Pattern(text), values) for text, values in _POLICIES.items())
        self.server = Server(Anonymous(), Quotas(), _OPTIONS, policies)
        nursery.start_soon(self.server.run)
        self._doors = [self._edge(str(number)) for number in range(edges)] or [self.server]
        self.clients: list[Client | None] = [None] * _CLIENTS

    def _edge(self, name: str) -> Server:
        ours, theirs = memory_stream_pair()
        pipes = [MessagePipe(StreamPipe(theirs))]

        async def connect() -> MessagePipe:
            while not pipes:
                await trio.sleep_forever()
            return pipes.pop()

        edge = EdgeServer(EdgeLink(), connect, Anonymous(), Quotas(), _OPTIONS)
        self._nursery.start_soon(PrimaryLink(self.server, MessagePipe(StreamPipe(ours)), name).run)
        self._nursery.start_soon(edge.run)
        return edge

    async def do(self, number: int, operations: list[tuple[Any, ...]], version: str) -> None:
        """Let a client do something, all in one chunk, and wait for what it causes."""
        client = self.clients[number]
        opening = b""
        if client is None or client.has_ended:
            theirs, ours = memory_stream_pair()
            client = self.clients[number] = Client(theirs, version)
            server = self._doors[number % len(self._doors)]
            slot = server.connection_limits.enter("127.0.0.1", lambda error: None)
            self._nursery.start_soon(Connection(server, TcpLink(StreamPipe(ours), "test"), slot).serve)
            self._nursery.start_soon(client.read)
            opening = frame("CONNECT", accept_version=version, host="h")
        try:
            await client.stream.send_all(opening + b"".join([_octets(client, *each) for each in operations]))
            await trio.sleep(_SETTLE_TIME)
            if ("drop",) in operations:
                await client.stream.aclose()
                await trio.sleep(_SETTLE_TIME)
        except trio.BrokenResourceError:
            await trio.sleep(_SETTLE_TIME)

    def facts(self) -> dict[str, object]:
        """What the broker has, and what it has counted."""
        broker = self.server.broker
        counters = {name: getattr(broker.counters, name) for name in _COUNTED}
        waiting = {name: getattr(each, "waiting", 0) for name, each in broker.destinations.items()}
        sessions = sorted((len(each.subscriptions), len(each.transactions)) for each in broker.sessions.values())
        return {"used": broker.memory.used, "waiting": waiting, "sessions": sessions, **counters}


_COUNTED = (
    *("sessions", "frames_in", "published", "delivered", "redelivered", "unroutable", "acknowledged", "rejected"),
    *("dead_lettered", "drops", "failures"),
)


def _octets(client: Client, kind: str, *what: Any) -> bytes:
    if kind == "send":
        destination, size, asks, transaction, headers, count = what
        headers = headers | ({"transaction": transaction} if transaction else {})
        frames = [
            frame("SEND", bytes(size), destination=destination, **headers, **({"receipt": n} if asks else {}))
            for n in range(count)
        ]
        return b"".join(frames)
    if kind == "subscribe":
        id, destination, mode, headers = what
        return frame("SUBSCRIBE", id=id, destination=destination, ack=mode, **headers)
    if kind in ("ack", "nack"):
        place, transaction, headers = what
        return client.settling(kind.upper(), place, **headers, **({"transaction": transaction} if transaction else {}))
    if kind in ("begin", "commit", "abort"):
        return frame(kind.upper(), transaction=what[0], receipt=kind)
    if kind == "unsubscribe":
        return frame("UNSUBSCRIBE", id=what[0])
    if kind == "disconnect":
        return frame("DISCONNECT", receipt="end")
    return frame("JUNK") if kind == "junk" else b"\n"


async def _play(program: Program, versions: list[str]) -> None:
    async with trio.open_nursery() as nursery:
        alone, linked = World(nursery, 0), World(nursery, 2)
        for number, operations in program:
            for world in (alone, linked):
                await world.do(number, operations, versions[number])
            for one, other in zip(alone.clients, linked.clients, strict=True):
                assert one is None or other is None or one.story == other.story
            assert alone.facts() == linked.facts()
        nursery.cancel_scope.cancel()


@hypothesis_settings(max_examples=40)
@given(
    program=st.lists(_STEP, min_size=1, max_size=25),
    versions=st.lists(st.sampled_from(["1.2", "1.2", "1.1"]), min_size=_CLIENTS, max_size=_CLIENTS),
)
@example(  # a DISCONNECT that comes alone
    program=[(0, [("subscribe", "1", "/topic/a", "client", {})]), (0, [("begin", "t")]), (0, [("disconnect",)])],
    versions=["1.2", "1.2", "1.2"],
)
def test_links_change_nothing(program: Program, versions: list[str]) -> None:
    trio.run(_play, program, versions, clock=MockClock(autojump_threshold=0))
