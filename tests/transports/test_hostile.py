"""Hostile clients cost nobody else anything (SES-04): those who send what is wrong, too large, or only half."""

from __future__ import annotations

import random

import pytest
import structlog.testing
import trio

from gateway.config.settings import KIB

from .peers import (
    BINARY,
    CONNECT,
    CONTINUATION,
    PING,
    TEXT,
    UPGRADE,
    Peer,
    frame,
    read_all,
    until,
    ws,
)
from .shared_gateway import OpenGateway

pytestmark = pytest.mark.requirement("SES-04")
requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize

TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2


async def ends_with_error(peer: Peer) -> str:
    error = await peer.at_end_after_error()
    await peer.aclose()
    return error["message"]


class TestMalformed:
    @requirement("FRM-13", "FRM-08", "ENC-03", "ENC-14", "BOD-04", "BOD-10")
    @parametrize(
        "data",
        [
            b"\0\0\1\0",
            b"SEND\nnonsense\n\n\0",
            b"SEND\ndestination:/queue/a\nk:\\t\n\n\0",
            b"SEND\ndestination:/queue/a\nk:\xc3\x28\n\n\0",
            b"SEND\ndestination:/queue/a\ncontent-length:2\n\nabc\0",
            b"SEND\ndestination:/queue/a\ncontent-length:x\n\nabc\0",
            b"HELLO\n\n\0",
            b"GET / HTTP/1.1\r\nHost: h\r\n\r\n\0",
            random.Random(2).randbytes(5000),
            b"x" * 5000,
        ],
        ids=lambda data: repr(data[:20]),
    )
    @parametrize("opened", [False, True])
    async def test_octets(self, shared_gateway: OpenGateway, kind: str, data: bytes, opened: bool) -> None:
        async with shared_gateway() as here:
            peer = await here.session(kind) if opened else await here.dial(kind)
            await peer.send(data)
            await here.bystanders_talk()
            assert await ends_with_error(peer)

    async def test_many_at_once(self, shared_gateway: OpenGateway, kind: str) -> None:
        """Random bytes from fifty clients."""
        source = random.Random(7)
        async with shared_gateway(connect_timeout=1.0) as here:
            peers = [await here.session(kind) if number % 2 else await here.dial(kind) for number in range(50)]
            for peer in peers:
                await peer.send(b"\1\0" + source.randbytes(source.randrange(1, 2000)))
            await here.bystanders_talk()
            for peer in peers:
                assert await ends_with_error(peer)

    @requirement("FRM-13")
    async def test_a_tls_hello(self, shared_gateway: OpenGateway, kind: str) -> None:
        """Somebody dials with TLS where there is none; the log names it, because the client's error does not."""
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

    @requirement("WST-09", "WST-06")
    @parametrize(
        ("data", "code"),
        [
            (ws(TEXT, b"x", mask=None), 1002),
            (ws(5, b"x"), 1002),
            (ws(TEXT, b"x", rsv=4), 1002),
            (ws(CONTINUATION, b"x"), 1002),
            (ws(PING, b"x" * 126), 1002),
            (ws(TEXT, b"\xff\xfe"), 1007),
            (ws(TEXT, CONNECT, fin=False) + ws(TEXT, b"x"), 1002),
            (b"\x82\xff" + b"\xff" * 8 + b"mask", 1002),
        ],
    )
    async def test_websocket_frames(self, shared_gateway: OpenGateway, data: bytes, code: int) -> None:
        async with shared_gateway() as here:
            peer = await here.session("websocket")
            await peer.websocket.stream.send_all(data)
            await here.bystanders_talk()
            await peer.at_end()
            assert peer.websocket.closed is not None
            assert peer.websocket.closed[0] == code
            await peer.aclose()

    async def test_an_upgrade_that_is_none(self, shared_gateway: OpenGateway) -> None:
        async with shared_gateway() as here:
            for data in (b"\0" * 100, b"POST / HTTP/1.1\r\n\r\n", b"x" * 20_000, CONNECT):
                stream = await here.dial_stream("websocket")
                await stream.send_all(data)
                await here.bystanders_talk()
                await read_all(stream)
                await stream.aclose()


class TestOversized:
    @requirement("LIM-01", "LIM-02", "LIM-03", "LIM-04")
    @parametrize(
        ("data", "reason"),
        [
            (frame("SEND", b"x" * (64 * KIB + 1), destination="/queue/a"), "body too large"),
            (b"SEND\ndestination:/queue/a\ncontent-length:999999999999\n\n", "body too large"),
            (b"SEND\ndestination:/queue/a\nk:" + b"v" * KIB + b"\n\n\0", "header line too long"),
            (b"SEND\n" + b"a:b\n" * 1001 + b"\n\0", "too many headers"),
            (b"SEND\n" + b"k:%b\n" % (b"v" * 500) * 10, "headers too large"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    async def test_a_frame(self, shared_gateway: OpenGateway, kind: str, data: bytes, reason: str) -> None:
        async with shared_gateway() as here:
            peer = await here.session(kind)
            await peer.send(data)
            await here.bystanders_talk()
            assert await ends_with_error(peer) == reason

    @requirement("LIM-03", "LIM-04", "LNG-02")
    async def test_a_body_without_end(self, shared_gateway: OpenGateway, kind: str) -> None:
        """It goes on sending after the ERROR; that is read and thrown away for a moment, then it is cut."""
        async with shared_gateway() as here:
            peer = await here.session(kind)
            await peer.send(b"SEND\ndestination:/queue/a\n\n")

            async def flood() -> None:
                try:
                    for _ in range(2000):
                        await peer.send(b"x" * 16 * KIB)
                except trio.BrokenResourceError:
                    return

            async with trio.open_nursery() as nursery:
                nursery.start_soon(flood)
                assert (await peer.frame("ERROR"))["message"] == "body too large"
                await here.bystanders_talk()
                await until(lambda: not here.others)
            await peer.aclose()

    @requirement("LIM-04")
    @parametrize(
        "data",
        [b"CONNECT\nk:" + b"v" * 2000, b"CONNECT\n" + b"a:b\n" * 100 + b"\n\0", frame("CONNECT", b"x" * 2000)],
    )
    async def test_before_login(self, shared_gateway: OpenGateway, kind: str, data: bytes) -> None:
        async with shared_gateway() as here:
            peer = await here.dial(kind)
            await peer.send(data + b"x" * 5000)
            await here.bystanders_talk()
            assert await ends_with_error(peer)

    @requirement("WST-04")
    async def test_a_websocket_message_of_a_terabyte(self, shared_gateway: OpenGateway) -> None:
        """Its header costs nothing; only what is no STOMP in it does."""
        async with shared_gateway() as here:
            peer = await here.session("websocket")
            stream = peer.websocket.stream
            await stream.send_all(b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"\0\0\0\0")
            await here.bystanders_talk()
            await stream.send_all(frame("SEND", destination="/topic/a", receipt="1"))
            await peer.frame("RECEIPT")
            await peer.aclose()


class TestHalfSent:
    @parametrize("data", [b"CONN", b"CONNECT\naccept-version:1.2\n", CONNECT[:-1]])
    async def test_connect(self, shared_gateway: OpenGateway, kind: str, data: bytes) -> None:
        async with shared_gateway(connect_timeout=0.3) as here:
            peer = await here.dial(kind)
            await peer.send(data)
            await here.bystanders_talk()
            assert await ends_with_error(peer) == "connect timeout"

    @parametrize(
        "data",
        [
            b"SEND\ndestination:/qu",
            b"SEND\ndestination:/queue/a\n\n" + b"x" * 1000,
            b"SEND\ndestination:/queue/a\ncontent-length:60000\n\n" + b"x" * 59_999,
        ],
    )
    async def test_send(self, shared_gateway: OpenGateway, kind: str, data: bytes) -> None:
        """It may take its time (without heart-beats nothing forbids that), and then goes."""
        async with shared_gateway() as here:
            peer = await here.session(kind)
            await peer.send(data)
            await here.bystanders_talk()
            assert here.others == 1
            await peer.aclose()
            await until(lambda: not here.others)
            assert "/queue/a" not in here.gateway.broker.destinations

    @requirement("HBT-04")
    async def test_one_that_had_promised_heart_beats(self, shared_gateway: OpenGateway, kind: str) -> None:
        async with shared_gateway(heartbeat_receive=50) as here:
            peer = await here.session(kind, heart_beat="50,0")
            await peer.send(b"SEND\ndestination:/queue/a\n\nhalf")
            await here.bystanders_talk()
            assert await ends_with_error(peer) == "heart-beat missing"

    async def test_a_websocket_frame(self, shared_gateway: OpenGateway) -> None:
        async with shared_gateway() as here:
            for data in (b"\x82", b"\x82\xfe\x01", ws(PING, b"x" * 100)[:50], ws(BINARY, CONNECT)[:20]):
                peer = await here.session("websocket")
                await peer.websocket.stream.send_all(data)
                await here.bystanders_talk()
                await peer.aclose()

    async def test_an_upgrade(self, shared_gateway: OpenGateway) -> None:
        async with shared_gateway(connect_timeout=0.3) as here:
            stream = await here.dial_stream("websocket")
            await stream.send_all(UPGRADE[:-2])
            await here.bystanders_talk()
            await read_all(stream)
            await stream.aclose()
