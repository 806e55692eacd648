"""Unlucky clients cost nobody else anything (SES-04): the slow, the vanished, those who never read or never connect."""

from __future__ import annotations

import resource
from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio

from gateway.config.settings import KIB

from .peers import CONNECT, PING, TEXT, UPGRADE, Peer, WebSocketWire, frame, read_all, vanish, ws
from .shared_gateway import OpenGateway, SharedGateway

pytestmark = pytest.mark.requirement("SES-04")
requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize

Mischief = Callable[[SharedGateway, Peer], Awaitable[None]]


class TestSlow:
    async def test_slow_readers(self, shared_gateway: OpenGateway, kind: str) -> None:
        """They read little at a time, but they read: nobody is cut, and nothing is lost."""
        async with shared_gateway(slow_consumer_timeout=5.0) as here:
            peer, publisher = await here.session(kind), await here.session(kind)
            await peer.subscribe("/topic/a")

            async def publish() -> None:
                for number in range(300):
                    await publisher.publish("/topic/a", b"%05d" % number + b"x" * 5000)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish)
                for number in range(300):
                    assert (await peer.frame("MESSAGE")).body[:5] == b"%05d" % number
                    if number % 50 == 0:
                        await here.bystanders_talk()
            for each in (peer, publisher):
                await each.aclose()


class TestVanished:
    async def nothing(self, here: SharedGateway, peer: Peer) -> None:
        """Not a word."""

    async def half_connect(self, here: SharedGateway, peer: Peer) -> None:
        await peer.send(CONNECT[:20])

    async def connected(self, here: SharedGateway, peer: Peer) -> None:
        await peer.connect()

    async def unread(self, here: SharedGateway, peer: Peer) -> None:
        await peer.send(CONNECT)
        for number in range(20):
            await peer.send_frame("SEND", destination="/topic/a", receipt=number)

    async def half_a_frame(self, here: SharedGateway, peer: Peer) -> None:
        await peer.connect()
        await peer.send(b"SEND\ndestination:/queue/a\ncontent-length:100\n\nhalf")

    async def open_transaction(self, here: SharedGateway, peer: Peer) -> None:
        await peer.connect()
        await peer.send_frame("BEGIN", transaction="t")
        await peer.publish("/queue/a", b"never", transaction="t")

    async def in_error(self, here: SharedGateway, peer: Peer) -> None:
        await peer.connect()
        await peer.send(b"HELLO\n\n\0")

    @requirement("LNG-01", "TXN-08", "WST-10")
    @parametrize(
        "stage", ["nothing", "half_connect", "connected", "unread", "half_a_frame", "open_transaction", "in_error"]
    )
    async def test_with_a_reset(self, shared_gateway: OpenGateway, kind: str, stage: str) -> None:
        mischief: Mischief = getattr(self, stage)
        async with shared_gateway() as here:
            for _ in range(5):
                peer = await here.dial(kind)
                await mischief(here, peer)
                assert isinstance(peer.wire.stream, trio.SocketStream)
                vanish(peer.wire.stream)
                await here.bystanders_talk()
            await here.gone()
            assert here.gateway.broker.context.waiting == 0
            assert here.gateway.broker.memory.used == 0

    async def test_while_messages_are_written_to_it(self, shared_gateway: OpenGateway, kind: str) -> None:
        async with shared_gateway(max_outbound=1024 * KIB) as here:
            peer, publisher = await here.session(kind), await here.session(kind)
            await peer.subscribe("/topic/a")
            assert isinstance(peer.wire.stream, trio.SocketStream)
            for number in range(40):
                await publisher.publish("/topic/a", b"x" * 60 * KIB)
                if number == 20:
                    vanish(peer.wire.stream)
            await publisher.settled()
            await here.bystanders_talk()
            await publisher.aclose()


class TestNeverReads:
    async def test_one_of_several_subscribers(self, shared_gateway: OpenGateway, kind: str) -> None:
        """The others get everything, in order."""
        async with shared_gateway() as here:
            peer, reader, publisher = [await here.session(kind) for _ in range(3)]
            await peer.subscribe("/topic/a")
            await reader.subscribe("/topic/a")
            async with trio.open_nursery() as nursery:

                async def publish() -> None:
                    for number in range(300):
                        await publisher.publish("/topic/a", b"%05d" % number + b"x" * 32 * KIB)

                nursery.start_soon(publish)
                with trio.fail_after(20):
                    for number in range(300):
                        assert (await reader.frame("MESSAGE")).body[:5] == b"%05d" % number
                await here.bystanders_talk()
            for each in (peer, reader, publisher):
                await each.aclose()

    async def test_its_own_receipts(self, shared_gateway: OpenGateway, kind: str) -> None:
        """Whoever floods us with what must be answered, and reads no answer, fills a bounded outbox and is then
        cut."""
        async with shared_gateway() as here:
            peer = await here.session(kind)
            batch = b"".join([frame("SEND", destination="/topic/a", receipt="r" * 900) for _ in range(50)])

            async def flood() -> None:
                try:
                    for _ in range(2000):
                        await peer.send(batch)
                except trio.BrokenResourceError:
                    return

            async with trio.open_nursery() as nursery:
                nursery.start_soon(flood)
                with trio.fail_after(20):
                    while here.others:
                        sessions = here.gateway.broker.sessions.values()
                        assert all(session.outbox.size < 300 * KIB for session in sessions)
                        await here.bystanders_talk()
                nursery.cancel_scope.cancel()
            await peer.aclose()

    async def test_pings(self, shared_gateway: OpenGateway) -> None:
        """Pongs that nobody reads do not pile up."""
        async with shared_gateway() as here:
            peer = await here.session("websocket")
            batch = ws(PING, b"x" * 125) * 100

            async def flood() -> None:
                for _ in range(300):
                    await peer.websocket.stream.send_all(batch)

            with trio.move_on_after(3):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(flood)
                    for _ in range(5):
                        await here.bystanders_talk()
            (session,) = list(here.gateway.broker.sessions.values())[2:]
            assert session.outbox.size < 64 * KIB
            await peer.aclose()


@pytest.fixture
def many_files() -> Iterator[None]:
    """500 connections are 1,000 descriptors where both ends are ours; the usual limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class TestNeverConnects:
    @parametrize(
        ("kind", "data"),
        [("tcp", b""), ("tcp", CONNECT[:30]), ("websocket", b""), ("websocket", UPGRADE[:30]), ("websocket", UPGRADE)],
        ids=["tcp silent", "tcp half", "websocket silent", "websocket half an upgrade", "websocket upgraded"],
    )
    async def test_five_hundred(self, shared_gateway: OpenGateway, kind: str, data: bytes, many_files: None) -> None:
        """All are closed by the connect timeout, and those who do connect are served meanwhile."""
        # On a busy machine 500 upgrades take longer than a second, and who is cut in his upgrade gets no ERROR.
        async with shared_gateway(connect_timeout=5.0 if data == UPGRADE else 1.0) as here:
            streams = []
            for _ in range(500):
                streams.append(await here.dial_stream(kind))
                if data:
                    await streams[-1].send_all(data)
            await here.bystanders_talk()
            newcomer = await here.session(kind)
            await newcomer.settled()
            await newcomer.send_frame("DISCONNECT")
            await newcomer.at_end()
            await newcomer.aclose()
            with trio.fail_after(20):
                for stream in streams:
                    last_words = await read_all(stream)
                    if kind == "tcp" or data == UPGRADE:
                        assert b"connect timeout" in last_words
                    await stream.aclose()
            counters = here.gateway.broker.counters
            assert (counters.refused, counters.sessions) == (500, 3)


def test_the_wire_of_a_websocket_is_what_it_seems() -> None:
    """The tests above rely on it to show violations; it must not hide them by itself."""
    wire = WebSocketWire.__new__(WebSocketWire)
    wire._buffer = ws(TEXT, b"x")
    with pytest.raises(AssertionError, match="masked"):
        wire._frame()
