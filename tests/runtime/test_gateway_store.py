"""A gateway with a store: what is in the file when it stops, and what it says if it cannot start with one."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
import trio

from gateway.auth.authenticator import Anonymous
from gateway.journal import Journal
from gateway.runtime.gateway import LONGEST_WRITE, Gateway, StartError, open_gateway
from gateway.stores import SQLiteStore, StoreFull

from .gateways import STORE, P, connected, fill, running, settings


async def read(gateway: Gateway, count: int, destination: str = "/queue/a") -> list[tuple[bytes, bool]]:
    """What waits: bodies, and whether they are marked as redelivered.  It is consumed."""
    peer = await connected(gateway, "tcp")
    await peer.send_frame("SUBSCRIBE", destination=destination, id=1, ack="client-individual", prefetch_count=1)
    found: list[tuple[bytes, bool]] = []
    settled = 0
    while settled < count:
        received = await peer.receive()
        assert received is not None
        if received.command == "RECEIPT":
            settled += 1
        elif len(found) < count:
            await peer.send_frame("ACK", id=received["ack"], receipt=received["ack"])
            found.append((received.body, "redelivered" in received.headers))
    await peer.aclose()
    return found


async def send_until_it_fails(gateway: Gateway) -> None:
    """Send a durable message, and wait until the store has failed."""
    peer = await connected(gateway, "tcp")
    await peer.send_frame("SEND", b"m", destination="/queue/a", receipt=1, **P)
    storage = gateway.broker.storage
    assert storage is not None
    while not storage.failure:
        await trio.lowlevel.checkpoint()
    await peer.aclose()


def row(path: str = "store.db") -> dict[str, Any]:
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        found = dict(connection.execute("SELECT * FROM store").fetchone())
    connection.close()
    return found


def write(data: bytes) -> None:
    Path("store.db").write_bytes(data)


def damage() -> None:
    """All but the first page is lost."""
    data = Path("store.db").read_bytes()
    write(data[:4096] + b"\xff" * (len(data) - 4096))


class TestStop:
    async def test_all_is_written(self) -> None:
        """Also messages without a receipt, and those that sessions give back when they end."""
        async with running(store=STORE) as gateway:
            peer = await connected(gateway, "tcp")
            await peer.subscribe("/queue/a", ack="client")
            for number in range(3):
                await peer.send_frame("SEND", b"%d" % number, destination="/queue/a", **P)
                await peer.frame("MESSAGE")
        assert row()["clean"] == 1
        await peer.aclose()
        async with running(store=STORE) as gateway:
            assert await read(gateway, 3) == [(b"0", True), (b"1", True), (b"2", True)]

    async def test_a_store_that_takes_nothing_any_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is not waited for without end; then the file does not say that all is well."""
        monkeypatch.setattr("gateway.runtime.gateway.LONGEST_WRITE", 0.05)

        def write(store: SQLiteStore, batch: object) -> None:
            raise StoreFull("store.db cannot grow: no space left")

        with structlog.testing.capture_logs() as logs:
            async with running(store=STORE) as gateway:
                monkeypatch.setattr(SQLiteStore, "write", write)
                await send_until_it_fails(gateway)
        events = [line["event"] for line in logs if line["log_level"] == "error"]
        assert events == ["the store has failed", "the store does not take what is left"]
        assert row()["clean"] == 0

    async def test_one_that_was_given_up_while_it_waits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another node of the cluster writes now: to wait for this store is no use."""
        failed = trio.Event()

        def write(store: SQLiteStore, batch: object) -> None:
            raise StoreFull("another node writes")

        async def abandon(gateway: Gateway) -> None:
            await failed.wait()
            while not gateway.draining or gateway.connection_limits.connections:
                await trio.lowlevel.checkpoint()
            gateway.abandon()

        with structlog.testing.capture_logs() as logs, trio.fail_after(LONGEST_WRITE / 2):
            async with trio.open_nursery() as nursery, running(store=STORE) as gateway:
                monkeypatch.setattr(SQLiteStore, "write", write)
                nursery.start_soon(abandon, gateway)
                await send_until_it_fails(gateway)
                failed.set()
        assert [line["event"] for line in logs if line["log_level"] == "error"] == ["the store has failed"]
        assert row()["clean"] == 0


class TestCannotStart:
    async def refused(self, **values: object) -> str:
        with pytest.raises(StartError) as caught:
            async with open_gateway(settings(**values), authenticator=Anonymous()):
                raise AssertionError("it has started")
        assert caught.value.__cause__ is None
        sentence = str(caught.value)
        assert "\n" not in sentence.rstrip()
        assert "store" in sentence
        return sentence

    async def test_a_file_that_cannot_be_used(self) -> None:
        """The sentence names the setting and the file; tests of the store have every reason."""
        sentence = await self.refused(store="sqlite:nowhere/store.db")
        assert sentence.startswith("store (GATEWAY_STORE) cannot be used: nowhere/store.db cannot be made")
        await fill(200)
        damage()
        assert "store.db is damaged" in await self.refused(store=STORE)

    async def test_one_that_a_second_gateway_has(self) -> None:
        async with running(store=STORE):
            sentence = await self.refused(store=STORE)
            assert sentence.startswith("store (GATEWAY_STORE) cannot be used: store.db is in use")
        async with running(store=STORE):
            pass

    @pytest.mark.parametrize("table", ["places", "rows"])
    async def test_one_whose_facts_are_none(self, table: str) -> None:
        policy = [{"match": "/topic/log", "log_messages": 10}]
        async with running(store=STORE, policy=policy) as gateway:
            peer = await connected(gateway, "tcp")
            await peer.send_frame("SEND", b"x", destination="/topic/log", receipt="1")
            await peer.frame("RECEIPT")
            await peer.aclose()
        with sqlite3.connect("store.db") as connection:
            connection.execute(f"UPDATE {table} SET facts = '{{'")
        connection.close()
        reason = await self.refused(store=STORE, policy=policy)
        assert "store.db" in reason
        assert "gateway store check" in reason


async def test_what_cannot_be_closed_keeps_nothing_else_open(monkeypatch: pytest.MonkeyPatch) -> None:
    in_order = Journal.close

    def close(journal: Journal, seconds: float) -> int:
        in_order(journal, seconds)
        raise OSError("a fault of the test")

    monkeypatch.setattr(Journal, "close", close)
    with pytest.raises(OSError, match="of the test"):
        async with running(store=STORE, journal="journal"):
            pass
    assert row()["clean"] == 1
