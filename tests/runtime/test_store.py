"""What a gateway with a store finds when it starts, and what it says of that."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest
import structlog.testing

from ..transports.peers import frame
from .gateways import STORE, P, connected, fill, running


async def test_of_a_new_store_it_says_that() -> None:
    """Or an empty folder, where a disk should have been mounted, would look like a store."""
    with structlog.testing.capture_logs() as logs:
        async with running(store=STORE):
            pass
    events = [line["event"] for line in logs]
    assert "a new store was made" in events
    assert "recovered" not in events


async def test_the_log_tells_kinds_apart() -> None:
    policy = [{"match": "/topic/log", "log_messages": 10}]
    await fill(2)
    await fill(1, "/queue/b")
    async with running(store=STORE, policy=policy) as gateway:
        peer = await connected(gateway, "tcp")
        await peer.send_frame("SUBSCRIBE", destination="/topic/d", id="d", durable="true", receipt="d")
        await peer.frame("RECEIPT")
        for number in range(4):
            await peer.send_frame("SEND", b"x", destination="/topic/log", receipt=number)
            await peer.frame("RECEIPT")
        await peer.send_frame("SEND", b"x", destination="/queue/c", x_delay=60_000, receipt="c", **P)
        await peer.frame("RECEIPT")
        await peer.aclose()
    with structlog.testing.capture_logs() as logs:
        async with running(store=STORE, policy=policy):
            pass
    (line,) = [line for line in logs if line["event"] == "recovered"]
    found = {key: line[key] for key in ("queues", "messages", "subscriptions", "logs", "logged", "delayed")}
    assert found == {"queues": 2, "messages": 3, "subscriptions": 1, "logs": 1, "logged": 4, "delayed": 1}


async def test_the_log_names_what_no_policy_keeps() -> None:
    policy = [{"match": "/topic/log", "log_messages": 10}]
    async with running(store=STORE, policy=policy) as gateway:
        peer = await connected(gateway, "tcp")
        await peer.send_frame("SEND", b"x", destination="/topic/log", receipt="1")
        await peer.frame("RECEIPT")
        await peer.aclose()
    for policies, count in (([], 0), (policy, 1)):
        with structlog.testing.capture_logs() as logs:
            async with running(store=STORE, policy=policies) as gateway:
                assert gateway.broker.registry.streams.messages == count
        told = [line["topics"] for line in logs if line["event"] == "logs in the store that no policy keeps"]
        assert told == ([] if count else [["/topic/log"]])


async def test_around_damage() -> None:
    """What is read at the start, as delayed messages are, need not be whole either."""
    await fill(3, x_delay=60_000)
    with closing(sqlite3.connect("store.db")) as connection, connection:
        connection.execute("DELETE FROM contents WHERE content = (SELECT max(content) FROM contents)")
    with structlog.testing.capture_logs() as logs:
        async with running(store=STORE) as gateway:
            assert len(gateway.broker.router.delayed) == 2
            assert gateway.committer is not None
            assert gateway.committer.damaged == 1
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["a message in the store is damaged"]


async def test_message_ids_are_the_same_and_new_ones_are_new() -> None:
    async with running(store=STORE) as gateway:
        peer = await connected(gateway, "tcp")
        await peer.subscribe("/queue/a", ack="client")
        await peer.send_frame("SEND", b"m", destination="/queue/a", **P)
        before = (await peer.frame("MESSAGE"))["message-id"]
        await peer.aclose()
    async with running(store=STORE) as gateway:
        peer = await connected(gateway, "tcp")
        await peer.subscribe("/queue/a", ack="client")
        again = await peer.frame("MESSAGE")
        assert (again["message-id"], again["redelivered"], again["delivery-count"]) == (before, "true", "2")
        await peer.send_frame("SEND", b"m", destination="/queue/a", **P)
        assert (await peer.frame("MESSAGE"))["message-id"] != before
        await peer.aclose()


async def lost(*frames: bytes, ack: str = "auto", **values: object) -> list[Any]:
    """What the log says after these frames of a client that consumes /queue/taken."""
    with structlog.testing.capture_logs() as logs:
        async with running(**{"store": "memory", **values}) as gateway:
            peer = await connected(gateway, "tcp")
            await peer.subscribe("/queue/taken", ack=ack)
            await peer.send(b"".join(frames) + frame("SEND", destination="/topic/a", receipt="last"))
            while (received := await peer.receive()) and received.command != "RECEIPT":
                pass
        await peer.aclose()
    assert logs[-1]["event"] == "stopped"
    return [line for line in logs if line["log_level"] == "warning"]


async def test_what_waits_or_is_delayed_or_retained() -> None:
    (line,) = await lost(
        *[frame("SEND", destination=name) for name in ("/queue/a", "/queue/a", "/queue/b")],
        frame("SEND", destination="/queue/c", x_delay=60_000),
        frame("SEND", destination="/topic/a", retain="set"),
    )
    del line["log_level"]
    assert line == {
        "event": "messages are lost, for they are kept in memory only",
        "waiting": 3,
        "queues": 2,
        "delayed": 1,
        "retained": 1,
    }


@pytest.mark.parametrize(("values", "level"), [({}, "warning"), ({"store": "memory"}, "info")])
async def test_memory_is_told_at_the_start(values: dict[str, str], level: str) -> None:
    with structlog.testing.capture_logs() as logs:
        async with running(**values):
            assert logs[-1] == {
                "event": "messages are kept in memory only, and a restart loses them",
                "log_level": level,
                "remedy": 'write store = "sqlite:store.db" into gateway.toml',
            }


async def test_logs_in_memory() -> None:
    policy = [{"match": "/topic/log", "log_messages": 10}]
    warning, line = await lost(*[frame("SEND", destination="/topic/log")] * 3, policy=policy)
    start = "store is memory, so messages end with the process, though policies of /topic/log"
    assert warning["event"].startswith(start)
    assert (line["waiting"], line["logged"]) == (0, 3)
