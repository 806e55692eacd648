"""Clients that break the protocol, vanish or never log in cost no other client anything (SES-04).

What floods do to a gateway of its own process stands in `tests/attacks`.
"""

from __future__ import annotations

import pytest
import structlog.testing
import trio

from .peers import CONNECT, frame, read_all, vanish
from .shared_gateway import OpenGateway

pytestmark = pytest.mark.requirement("SES-04")
requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize

TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2
RECEIPTS = b"".join(frame("SEND", destination="/topic/a", receipt=number) for number in range(20))
BEGUN = frame("BEGIN", transaction="t") + frame("SEND", b"never", destination="/queue/a", transaction="t")


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
