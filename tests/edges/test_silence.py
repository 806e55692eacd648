"""An edge that says nothing: how long the primary waits, and what it does then."""

from __future__ import annotations

import socket
from pathlib import Path

import msgpack
import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from gateway.auth.authenticator import Anonymous
from gateway.broker import Quotas
from gateway.broker.model.identity import Identity
from gateway.codec import V12
from gateway.config.settings import Settings
from gateway.edges import primary
from gateway.edges.forms import EdgeLoad, ToEdge, ToPrimary, fields_of_login
from gateway.edges.link import EdgeLink
from gateway.edges.pipe import MessagePipe
from gateway.edges.primary import PrimaryLink
from gateway.edges.tls import EdgeFiles
from gateway.runtime.node_edges import Leash
from gateway.runtime.remote_edges import Connector
from gateway.transports import Server, TransportOptions
from gateway.transports.flow.connected import Login
from gateway.transports.wire.link import SocketPipe
from gateway.transports.wire.tls import TlsPipe
from tests.gateway_process import HOST
from tests.transports.pipes import StreamPipe

from .authority import Authority
from .pipes import pipe_pair

_LOGIN = Login(V12, (0, 0), "", Identity("user"), "127.0.0.1:50000", "tcp", "127.0.0.1", b"\0\n")


@pytest.mark.parametrize(
    ("speaks", "seconds"),
    [(True, primary.LONGEST_SILENCE), (False, primary.LONGEST_START)],
    ids=["one that has spoken", "one that starts"],
)
async def test_it_is_ended_before_its_sessions(speaks: bool, seconds: float, autojump_clock: MockClock) -> None:
    server = Server(Anonymous(), Quotas(), TransportOptions())
    ours, theirs = memory_stream_pair()
    ended: list[tuple[float, int]] = []

    async def end_process() -> None:
        ended.append((trio.current_time() - began, link.sessions))

    link, edge = (
        PrimaryLink(server, MessagePipe(StreamPipe(ours)), "1", end_process=end_process),
        MessagePipe(StreamPipe(theirs)),
    )
    began = trio.current_time()
    if speaks:
        edge.put(int(ToPrimary.OPEN), 1, fields_of_login(_LOGIN), False)
        await edge.drain()
    await link.run()
    # Else a client that it has would go on with messages that others have got meanwhile.
    assert ended == [(pytest.approx(seconds), int(speaks))]
    assert link.sessions == 0


async def test_an_edge_that_was_stopped_reads_first(mock_clock: MockClock) -> None:
    """What the primary said meanwhile is unread, when the time is over."""
    ours, _ = pipe_pair()
    link = EdgeLink()

    async def nothing() -> None:
        """There are no outboxes."""

    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.serve, MessagePipe(ours), nothing, dict, EdgeLoad, 5.0)
        await wait_all_tasks_blocked()
        ours.incoming += msgpack.packb((int(ToEdge.ALIVE),))  # no task of this process has run since it came
        mock_clock.jump(5.5)
        await wait_all_tasks_blocked()
        assert link.is_up
        ours.move()
        await wait_all_tasks_blocked()
        mock_clock.jump(4.5)
        await wait_all_tasks_blocked()
        assert link.is_up
        mock_clock.jump(1.5)
        await wait_all_tasks_blocked()
        assert not link.is_up


@pytest.mark.parametrize(
    ("speaks", "seconds"),
    [(True, primary.LONGEST_SILENCE), (False, primary.LONGEST_START)],
    ids=["one that has spoken", "one that starts"],
)
async def test_its_node_notices(speaks: bool, seconds: float, autojump_clock: MockClock) -> None:
    """The primary of a cluster may be on another machine, and ends no process."""
    ours, theirs = memory_stream_pair()
    leash, edge = Leash(MessagePipe(StreamPipe(ours)), "1", on_ready=lambda: None), MessagePipe(StreamPipe(theirs))
    began = trio.current_time()
    if speaks:
        edge.put(True)
        await edge.drain()
    await leash.run()
    assert (leash.is_silent, leash.is_up) == (True, speaks)
    assert trio.current_time() - began == pytest.approx(seconds)


async def test_an_edge_that_ends_is_not_silent(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    leash = Leash(MessagePipe(StreamPipe(ours)), "1", on_ready=lambda: None)
    await theirs.aclose()
    await leash.run()
    assert not leash.is_silent


async def test_a_silent_primary_gets_nothing_late(tmp_path: Path) -> None:
    """Clients have gone elsewhere by then: what the system still had for it would come behind what they send there."""
    authority = Authority(tmp_path)
    own = authority.files("primary")
    files = EdgeFiles(*[Path(str(own[name])) for name in ("edge_certificate", "edge_key", "edge_ca")])
    (listener,) = await trio.open_tcp_listeners(0, host=HOST)
    listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # the rest waits at the edge's end
    port = listener.socket.getsockname()[1]
    settings = Settings(edge_of=[f"{HOST}:{port}"], **authority.files("edge"))  # type: ignore[arg-type]
    pipes = []

    async def accept() -> None:
        pipe = TlsPipe(SocketPipe(await listener.accept()), files.context(of_primary=True))
        await pipe.handshake()
        pipes.append(pipe)

    async def nothing() -> None:
        pass

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept)
            theirs = await Connector(settings)()
        link = EdgeLink()
        while theirs.send():
            theirs.put(b"x" * 10_000)  # more than the other end has room for
        await link.serve(theirs, nothing, dict, EdgeLoad, longest_silence=0.05)
        nbytes = 0
        while data := await pipes[0].receive(1 << 20):
            nbytes += len(data)
        assert nbytes == 0
        await pipes[0].aclose()
        await listener.aclose()
