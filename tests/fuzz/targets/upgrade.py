"""The request that opens a WebSocket: it is let in or refused with a status, whatever it holds."""

from __future__ import annotations

import trio

from gateway.transports.accept.websocket import Conditions, Refusal, WebSocketLink, accept
from gateway.transports.wire.forwarded import Trusted
from gateway.transports.wire.link import Buffers, Remote

STATUSES = {400, 403, 404}


class Pipe:
    """A peer that sends these octets and then waits to be told; what is written to it is kept."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self.written = b""

    async def receive(self, size: int) -> bytes:
        await trio.lowlevel.checkpoint()
        octets, self._octets = self._octets[:size], self._octets[size:]
        return octets

    def send_nowait(self, buffers: Buffers) -> int:
        octets = b"".join(buffers)
        self.written += octets
        return len(octets)

    async def send_some(self, buffers: Buffers) -> int:
        await trio.lowlevel.checkpoint()
        return self.send_nowait(buffers)

    def peer_has_gone(self) -> bool:
        return False

    def has_octets(self) -> bool:
        return bool(self._octets)

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def run(octets: bytes) -> None:
    """All of them are what the peer sends."""
    pipe = Pipe(octets)
    result = trio.run(_accept, pipe)
    if isinstance(result, Refusal):
        assert result.status in STATUSES
        assert not pipe.written.startswith(b"HTTP/1.1 101")
    else:
        assert pipe.written.startswith(b"HTTP/1.1 101")
        assert result.remote.upgrade is not None


async def _accept(pipe: Pipe) -> WebSocketLink | Refusal:
    conditions = Conditions("/ws", ("https://app.example",), trusted=Trusted(["127.0.0.1"]))
    with trio.fail_after(5):
        return await accept(pipe, "peer", conditions, Remote("127.0.0.1"))
