"""A shared_gateway: a gateway with both listeners open on loopback, two bystanders who talk across them, and others.

Whatever a stranger does, in the middle of it the bystanders must still get their messages through.  Everything is real
but short: timeouts of a fraction of a second, small limits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio

from gateway.auth.authenticator import Anonymous
from gateway.config.settings import KIB, Settings
from gateway.runtime.gateway import Gateway, open_gateway

from .peers import Peer, dial, dial_stream, until


class SharedGateway:
    """The gateway, and two bystanders on it: one over TCP, one over WebSocket."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._trips = 0
        self._bystanders: list[Peer] = []

    async def connect_bystanders(self) -> None:
        for kind in ("tcp", "websocket"):
            peer = await self.dial(kind)
            await peer.connect()
            await peer.subscribe(f"/queue/to-{kind}")
            self._bystanders.append(peer)

    async def bystanders_talk(self) -> None:
        """Each sends to the other, who receives, within a moment."""
        tcp, websocket = self._bystanders
        with trio.fail_after(5):
            for _ in range(3):
                self._trips += 1
                body = b"%d" % self._trips
                await tcp.publish("/queue/to-websocket", body)
                assert (await websocket.frame("MESSAGE")).body == body
                await websocket.publish("/queue/to-tcp", body)
                assert (await tcp.frame("MESSAGE")).body == body

    async def disconnect_bystanders(self) -> None:
        for peer in self._bystanders:
            await peer.aclose()

    async def dial(self, kind: str) -> Peer:
        return await dial(kind, self.gateway.addresses[kind][0])

    async def dial_stream(self, kind: str) -> trio.SocketStream:
        return await dial_stream(self.gateway.addresses[kind][0])

    async def session(self, kind: str, **headers: object) -> Peer:
        peer = await self.dial(kind)
        await peer.connect(**headers)
        return peer

    @property
    def others(self) -> int:
        """How many are there beside the two bystanders."""
        return len(self.gateway._server.open_connections) - 2

    async def gone(self) -> None:
        """Nobody is there but the bystanders, who talk."""
        await until(lambda: not self.others)
        assert len(self.gateway.broker.sessions) == 2
        await self.bystanders_talk()


OpenGateway = Callable[..., AbstractAsyncContextManager[SharedGateway]]


@asynccontextmanager
async def open_shared_gateway(**changes: object) -> AsyncIterator[SharedGateway]:
    """A shared_gateway with other settings than the usual."""
    values: dict[str, object] = {
        "tcp": "127.0.0.1:0",
        "websocket": "127.0.0.1:0",
        "close_linger": 0.1,
        "drain_timeout": 1.0,
        "max_body": 64 * KIB,
        "max_header_line": KIB,
        "max_connect_header_line": KIB,
        "max_outbound": 128 * KIB,
        "slow_consumer_timeout": 0.2,
        **changes,
    }
    settings = Settings(**values)  # type: ignore[arg-type]
    async with open_gateway(settings, authenticator=Anonymous()) as gateway:
        found = SharedGateway(gateway)
        await found.connect_bystanders()
        yield found
        await found.gone()
        await found.disconnect_bystanders()
