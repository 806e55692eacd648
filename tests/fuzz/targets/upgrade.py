"""The request that opens a WebSocket: it is let in or refused with a status, whatever it holds."""

from __future__ import annotations

import trio
from trio.testing import memory_stream_pair

from gateway.transports.accept.websocket import Conditions, Refusal, WebSocketLink, accept
from gateway.transports.wire.forwarded import Trusted
from gateway.transports.wire.link import Remote
from tests.transports.pipes import StreamPipe

STATUSES = {400, 403, 404}


def run(octets: bytes) -> None:
    """All of them are what the peer sends."""
    result, written = trio.run(_accept, octets)
    if isinstance(result, Refusal):
        assert result.status in STATUSES
        assert not written.startswith(b"HTTP/1.1 101")
    else:
        assert written.startswith(b"HTTP/1.1 101")
        assert result.remote.upgrade is not None


async def _accept(octets: bytes) -> tuple[WebSocketLink | Refusal, bytes]:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(octets)
    await theirs.send_eof()
    conditions = Conditions("/ws", ("https://app.example",), trusted=Trusted(["127.0.0.1"]))
    with trio.fail_after(5):
        result = await accept(StreamPipe(ours), "peer", conditions, Remote("127.0.0.1"))
        await ours.send_eof()
        written = b"".join([bytes(chunk) async for chunk in theirs])
    return result, written
