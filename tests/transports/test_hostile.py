"""Hostile clients cost nobody else anything (SES-04): those who send what is wrong, too large, or only half."""

from __future__ import annotations

import random

import pytest
import structlog.testing

from .peers import CONNECT, Peer, frame, read_all, until
from .shared_gateway import OpenGateway

pytestmark = pytest.mark.requirement("SES-04")
requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize

TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2


async def ends_with_error(peer: Peer) -> str:
    error = await peer.at_end_after_error()
    await peer.aclose()
    return error["message"]


class TestMalformed:
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

    async def test_a_request_that_is_no_upgrade(self, shared_gateway: OpenGateway) -> None:
        async with shared_gateway() as here:
            for data in (b"\0" * 100, b"POST / HTTP/1.1\r\n\r\n", b"x" * 20_000, CONNECT):
                stream = await here.dial_stream("websocket")
                await stream.send_all(data)
                await here.bystanders_talk()
                await read_all(stream)
                await stream.aclose()


class TestOversized:
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
