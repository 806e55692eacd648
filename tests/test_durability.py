"""docs/durability.md, against a real gateway that is filled, killed or stopped, and started again over its store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from .gateway_process import HOST, GatewayProcess
from .transports.peers import Peer, Received, dial

pytestmark = pytest.mark.slow

POLICIES = """
[[policy]]
match = ["/queue/always", "/topic/always"]
durable = true

[[policy]]
match = "/queue/never"
durable = false
"""
DURABLE = {"persistent": "true"}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway with a store, and nobody who looks at how it ends."""
    (tmp_path / "gateway.toml").write_text(POLICIES)
    gateway = GatewayProcess(tmp_path, {"store": "sqlite:store.db", "close_linger": 0.1})
    gateway.start()
    yield gateway
    gateway.kill()


@pytest.fixture(params=["kill", pytest.param("stop", marks=pytest.mark.long)])
def end(request: pytest.FixtureRequest) -> Callable[[GatewayProcess], None]:
    """One of the ways in which a gateway ends."""
    return GatewayProcess.kill if request.param == "kill" else GatewayProcess.stop


@asynccontextmanager
async def client(gateway: GatewayProcess, **headers: object) -> AsyncIterator[Peer]:
    """A client that has logged in; it goes without a word."""
    peer = await dial("tcp", f"{HOST}:{gateway.tcp_port}")
    await peer.connect(**headers)  # type: ignore[arg-type]
    try:
        yield peer
    finally:
        await peer.aclose()


async def ask(peer: Peer, command: str, body: bytes = b"", /, **headers: object) -> None:
    """A frame that is carried out, and stored."""
    await peer.send_frame(command, body, receipt="asked", **headers)
    while (await anything(peer)).command != "RECEIPT":
        pass  # messages may come before it


async def anything(peer: Peer) -> Received:
    received = await peer.receive()
    assert received is not None
    assert received.command != "ERROR", received
    return received


async def send(peer: Peer, destination: str, body: str = "x", **headers: object) -> None:
    await ask(peer, "SEND", body.encode(), destination=destination, **headers)


async def take(peer: Peer, destination: str, count: int, **headers: object) -> list[Received]:
    """Subscribe to what waits, and get so many."""
    await peer.send_frame("SUBSCRIBE", destination=destination, id=destination, ack="client-individual", **headers)
    return [await peer.frame("MESSAGE") for _ in range(count)]


async def left(gateway: GatewayProcess, destination: str, **headers: object) -> list[tuple[str, str | None]]:
    """What waits in a queue: bodies, and which delivery it is where it is not the first."""
    async with client(gateway) as peer:
        await peer.send_frame("SUBSCRIBE", destination=destination, id=1, ack="client-individual", **headers)
        await peer.publish(destination, b"the end", priority=0)
        found: list[tuple[str, str | None]] = []
        while True:
            received = await anything(peer)
            if received.command == "MESSAGE":
                if received.body == b"the end":
                    await ask(peer, "ACK", id=received["ack"])
                    return found
                found.append((received.body.decode(), received.headers.get("delivery-count")))


def again(end: Callable[[GatewayProcess], None]) -> str | None:
    """The delivery count of a stored message: after a kill, all that were stored count as delivered once."""
    return "2" if end is GatewayProcess.kill else None


async def test_which_messages(gateway: GatewayProcess, end: Callable[[GatewayProcess], None]) -> None:
    async with client(gateway) as peer:
        for name in ("said", "always", "never"):
            await send(peer, f"/queue/{name}", "durable", **DURABLE)
        for name in ("unsaid", "always", "never"):
            await send(peer, f"/queue/{name}", "plain")
        await send(peer, "/queue/a,/queue/b", "both", **DURABLE)
        for name, headers in (("said", DURABLE), ("unsaid", {}), ("always", {})):
            await send(peer, f"/topic/{name}", "value", retain="set", **headers)
            await send(peer, f"/queue/later-{name}", x_delay=100, **headers)
            await send(peer, f"/queue/once-{name}", "first", dedup_id="id", **headers)
        await send(peer, "/topic/overwritten", "durable", retain="set", **DURABLE)
        await send(peer, "/topic/overwritten", "plain", retain="set")
        await send(peer, "/topic/removed", "durable", retain="set", **DURABLE)
        await send(peer, "/topic/removed", retain="remove")
    end(gateway)
    gateway.start()
    assert [await left(gateway, f"/queue/{name}") for name in ("said", "always", "never", "unsaid", "a", "b")] == [
        [("durable", again(end))],
        [("durable", again(end)), ("plain", again(end))],
        [],
        [],
        [("both", again(end))],
        [("both", again(end))],
    ]
    assert [body for body, _ in await left(gateway, "/queue/later-said")] == ["x"]
    assert await left(gateway, "/queue/later-unsaid") == []
    async with client(gateway) as peer:
        for name in ("said", "unsaid"):
            await send(peer, f"/queue/once-{name}", "second", dedup_id="id", **DURABLE)
    assert await left(gateway, "/queue/once-said") == [("first", again(end))]
    assert await left(gateway, "/queue/once-unsaid") == [("second", None)]
    for name, values in (("said", 1), ("unsaid", 0), ("always", 1), ("overwritten", 0), ("removed", 0)):
        assert len(await left(gateway, f"/topic/{name}")) == values


async def test_what_comes_back(gateway: GatewayProcess, end: Callable[[GatewayProcess], None]) -> None:
    """0 is with its second consumer, 1 with its first; after a kill all of them are marked."""
    async with client(gateway) as peer, client(gateway) as worker:
        for number in range(4):
            await send(peer, "/queue/a", str(number), **DURABLE)
        (first,) = await take(worker, "/queue/a", 1, prefetch_count=1)
        await ask(worker, "UNSUBSCRIBE", id="/queue/a")
        found = await take(worker, "/queue/a", 2, prefetch_count=2)
        assert [message.headers.get("delivery-count") for message in found] == ["2", None]
        end(gateway)
    gateway.start()
    counts = await left(gateway, "/queue/a")
    if end is GatewayProcess.stop:
        assert counts == [("0", "3"), ("1", "2"), ("2", None), ("3", None)]
    else:
        assert counts == [("0", "2"), ("1", "2"), ("2", "2"), ("3", "2")]
    async with client(gateway) as peer:
        (again, *_) = await take(peer, "/queue/a", 4)
    assert again["message-id"] == first["message-id"]
