"""Gateways with listeners on free ports, and their clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.auth.authenticator import Anonymous
from gateway.config.settings import Settings
from gateway.runtime.gateway import Gateway, open_gateway

from ..transports.peers import Peer, dial, dial_stream

FREE = "127.0.0.1:0"
KINDS = ("tcp", "websocket")
STORE = "sqlite:store.db"
P = {"persistent": "true"}


def settings(**values: object) -> Settings:
    return Settings(**{"tcp": FREE, "websocket": FREE, "close_linger": 0.2, **values})  # type: ignore[arg-type]


@asynccontextmanager
async def running(**values: object) -> AsyncIterator[Gateway]:
    async with open_gateway(settings(**values), authenticator=Anonymous()) as gateway:
        yield gateway


async def connected(gateway: Gateway, kind: str, number: int = 0) -> Peer:
    peer = await dial(kind, gateway.addresses[kind][number])
    await peer.connect()
    return peer


async def refused(address: str) -> bool:
    try:
        await (await dial_stream(address)).aclose()
    except OSError:
        return True
    return False


async def fill(count: int = 3, destination: str = "/queue/a", *, store: str = STORE, **headers: object) -> None:
    """A gateway that takes so many durable messages, and stops in order."""
    async with running(store=store) as gateway:
        peer = await connected(gateway, "tcp")
        for number in range(count):
            await peer.send_frame("SEND", b"%d" % number, destination=destination, receipt=number, **P, **headers)
            assert (await peer.frame("RECEIPT"))["receipt-id"] == str(number)
        await peer.aclose()
