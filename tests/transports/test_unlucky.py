"""Unlucky clients cost nobody else anything (SES-04): the slow, the vanished, those who never read or never connect."""

from __future__ import annotations

import resource
from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio

from gateway.config.settings import KIB

from .peers import (
    CLOSE,
    CONNECT,
    CONTINUATION,
    PING,
    TEXT,
    UPGRADE,
    Peer,
    WebSocketWire,
    frame,
    read_all,
    until,
    vanish,
    ws,
)
from .shared_gateway import OpenGateway, SharedGateway

pytestmark = pytest.mark.requirement("SES-04")
requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize

Mischief = Callable[[SharedGateway, Peer], Awaitable[None]]


class TestSlow:
    async def test_one_octet_at_a_time(self, shared_gateway: OpenGateway, kind: str) -> None:
        """Each wakes the server for nothing; all it costs is that."""
        async with shared_gateway() as here:
            peer = await here.dial(kind)
            done = trio.Event()
            data = CONNECT + frame("SUBSCRIBE", destination="/queue/a", id=1)
            data += frame("SEND", b"x" * 200, destination="/queue/a")

            async def trickle() -> None:
                for octet in data:
                    await peer.send(bytes([octet]))
                    await trio.sleep(0.001)
                done.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(trickle)
                while not done.is_set():
                    await here.bystanders_talk()
                    await trio.sleep(0.01)
                await peer.frame("CONNECTED")
                assert (await peer.frame("MESSAGE")).body == b"x" * 200
            await peer.aclose()

    async def test_octets_of_an_upgrade_one_at_a_time(self, shared_gateway: OpenGateway) -> None:
        async with shared_gateway() as here:
            stream = await here.dial_stream("websocket")
            for octet in UPGRADE:
                await stream.send_all(bytes([octet]))
            await here.bystanders_talk()
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 101")
            await stream.aclose()

    @requirement("WST-04")
    async def test_fragments_of_one_octet(self, shared_gateway: OpenGateway) -> None:
        async with shared_gateway() as here:
            peer = await here.dial("websocket")
            data = CONNECT + frame("SEND", "漢".encode() * 300, destination="/topic/a", receipt="1")
            pieces = [bytes([octet]) for octet in data]
            await peer.websocket.stream.send_all(
                ws(TEXT, pieces[0], fin=False)
                + b"".join([ws(CONTINUATION, piece, fin=False) + ws(PING, piece) for piece in pieces[1:]])
                + ws(CONTINUATION)
            )
            await here.bystanders_talk()
            await peer.frame("CONNECTED")
            await peer.frame("RECEIPT")
            await peer.aclose()

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
            assert here.gateway.broker.waiting == 0
            assert here.gateway.broker.stored_bytes == 0

    @requirement("ACK-06", "WST-10")
    async def test_what_it_held_comes_to_another(self, shared_gateway: OpenGateway, kind: str) -> None:
        async with shared_gateway() as here:
            peer, other = await here.session(kind), await here.session(kind)
            await peer.subscribe("/queue/a", ack="client-individual")
            for body in (b"1", b"2", b"3"):
                await other.publish("/queue/a", body)
                await peer.frame("MESSAGE")
            assert isinstance(peer.wire.stream, trio.SocketStream)
            vanish(peer.wire.stream)
            messages = await other.subscribe_and_read("/queue/a", 3)
            assert [message.body for message in messages] == [b"1", b"2", b"3"]
            assert {message["redelivered"] for message in messages} == {"true"}
            await other.aclose()

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

    @requirement("LNG-01")
    async def test_many_come_and_go(self, shared_gateway: OpenGateway, kind: str) -> None:
        async with shared_gateway() as here:
            for number in range(60):
                stream = await here.dial_stream(kind)
                if number % 3 == 0:
                    await stream.send_all(UPGRADE if kind == "websocket" else CONNECT)
                if number % 2:
                    vanish(stream)
                else:
                    await stream.aclose()
            await here.bystanders_talk()

    @requirement("WST-08")
    async def test_a_close_frame_and_no_answer_read(self, shared_gateway: OpenGateway) -> None:
        async with shared_gateway() as here:
            peer = await here.session("websocket")
            await peer.websocket.stream.send_all(ws(CLOSE, b"\x03\xe8"))
            await until(lambda: not here.others)
            await here.bystanders_talk()
            await peer.aclose()


class TestNeverReads:
    async def test_a_subscriber(self, shared_gateway: OpenGateway, kind: str) -> None:
        """Those who publish to it wait a moment for it, once; then it is cut, at its buffer's limit."""
        async with shared_gateway() as here:
            peer, publisher = await here.session(kind), await here.session(kind)
            await peer.subscribe("/topic/a")
            counters = here.gateway.broker.counters
            with trio.fail_after(20):
                while not counters.slow_consumers:
                    for _ in range(20):
                        await publisher.publish("/topic/a", b"x" * 32 * KIB)
                    await here.bystanders_talk()
                await publisher.settled()
            assert here.gateway.broker.stored_bytes == 0
            await until(lambda: here.others == 1)
            await publisher.aclose()
            await peer.aclose()

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

    async def test_a_consumer_of_a_queue(self, shared_gateway: OpenGateway, kind: str) -> None:
        """It holds no more than its window; all else goes to those who read."""
        async with shared_gateway() as here:
            peer, publisher = await here.session(kind), await here.session(kind)
            await peer.subscribe("/queue/a")
            for _ in range(300):
                await publisher.publish("/queue/a", b"x" * 32 * KIB)
            await publisher.settled()
            await here.bystanders_talk()
            assert here.gateway.broker.waiting > 0
            await peer.aclose()
            waiting = here.gateway.broker.waiting
            reader = await here.session(kind)
            assert len(await reader.subscribe_and_read("/queue/a", waiting)) == waiting
            for each in (publisher, reader):
                await each.send_frame("DISCONNECT")
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

    async def test_its_error(self, shared_gateway: OpenGateway, kind: str) -> None:
        async with shared_gateway() as here:
            peer = await here.session(kind)
            await peer.send(b"HELLO\n\n\0")
            await here.bystanders_talk()
            await until(lambda: not here.others)
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
        [
            ("tcp", b""),
            ("tcp", CONNECT[:30]),
            ("websocket", b""),
            ("websocket", UPGRADE[:30]),
            ("websocket", UPGRADE),
        ],
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
