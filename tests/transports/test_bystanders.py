"""Clients that break the protocol, vanish or never log in cost no other client anything (SES-04).

What floods do to a gateway of its own process stands in `tests/attacks`.
"""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator

import pytest
import structlog.testing
import trio

from .peers import CONNECT, UPGRADE, frame, read_all, vanish
from .shared_gateway import OpenGateway

pytestmark = pytest.mark.requirement("SES-04")
requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize

TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2
RECEIPTS = b"".join(frame("SEND", destination="/topic/a", receipt=number) for number in range(20))
BEGUN = frame("BEGIN", transaction="t") + frame("SEND", b"never", destination="/queue/a", transaction="t")


async def test_random_bytes_of_fifty_clients(shared_gateway: OpenGateway) -> None:
    source = random.Random(7)
    async with shared_gateway(connect_timeout=1.0) as here:
        peers = [await here.session("tcp") if number % 2 else await here.dial("tcp") for number in range(50)]
        for peer in peers:
            await peer.send(b"\1\0" + source.randbytes(source.randrange(1, 2000)))
        await here.bystanders_talk()
        for peer in peers:
            await peer.at_end_after_error()
            await peer.aclose()


@requirement("FRM-13")
async def test_a_tls_hello_is_logged(shared_gateway: OpenGateway, kind: str) -> None:
    """The log names it, because the client's error does not."""
    async with shared_gateway() as here:
        with structlog.testing.capture_logs() as logs:
            stream = await here.dial_stream(kind)
            await stream.send_all(TLS_HELLO)
            await here.bystanders_talk()
            await read_all(stream)
            await stream.aclose()
            await here.gone()
        (entry,) = [entry for entry in logs if entry["log_level"] == "warning"]
        assert entry["event"] == "TLS hello on a plain port"
        assert entry["peer"].startswith("127.0.0.1:")


async def test_requests_that_are_no_upgrade(shared_gateway: OpenGateway) -> None:
    async with shared_gateway() as here:
        for data in (b"\0" * 100, b"POST / HTTP/1.1\r\n\r\n", b"x" * 20_000, CONNECT):
            stream = await here.dial_stream("websocket")
            await stream.send_all(data)
            await here.bystanders_talk()
            await read_all(stream)
            await stream.aclose()


@requirement("LNG-01", "TXN-08", "WST-10")
@parametrize(
    ("connected", "data"),
    [
        (False, b""),
        (False, CONNECT[:20]),
        (False, CONNECT + RECEIPTS),
        (True, b""),
        (True, b"SEND\ndestination:/queue/a\ncontent-length:100\n\nhalf"),
        (True, BEGUN),
        (True, b"HELLO\n\n\0"),
    ],
    ids=["silent", "half a CONNECT", "unread receipts", "connected", "half a frame", "open transaction", "in error"],
)
async def test_clients_that_vanish(shared_gateway: OpenGateway, kind: str, connected: bool, data: bytes) -> None:
    async with shared_gateway() as here:
        for _ in range(5):
            peer = await here.dial(kind)
            if connected:
                await peer.connect()
            if data:
                await peer.send(data)
            assert isinstance(peer.wire.stream, trio.SocketStream)
            vanish(peer.wire.stream)
            await here.bystanders_talk()
        await here.gone()
        assert here.gateway.broker.context.waiting == 0
        assert here.gateway.broker.memory.used == 0


@pytest.fixture
def many_files() -> Iterator[None]:
    """500 connections are 1,000 descriptors where both ends are ours; the usual limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@parametrize(
    ("kind", "data"),
    [("tcp", b""), ("tcp", CONNECT[:30]), ("websocket", UPGRADE[:30]), ("websocket", UPGRADE)],
    ids=["tcp silent", "tcp half", "websocket half an upgrade", "websocket upgraded"],
)
@pytest.mark.long
async def test_five_hundred_that_never_log_in(
    shared_gateway: OpenGateway, kind: str, data: bytes, many_files: None
) -> None:
    """All are closed by the connect timeout, and clients that do log in are served meanwhile."""
    # On a busy machine 500 upgrades take longer than a second, and a client that is cut in its upgrade gets no ERROR.
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
