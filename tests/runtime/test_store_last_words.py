"""What the log says is lost when the gateway stops."""

from __future__ import annotations

from typing import Any

import structlog.testing

from ..transports.peers import frame
from .test_gateway import connected, running


async def lost(*frames: bytes, ack: str = "auto", **values: object) -> list[Any]:
    """What the log says after these frames of a client that consumes /queue/taken."""
    with structlog.testing.capture_logs() as logs:
        async with running(**values) as gateway:
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


async def test_what_sessions_had_not_acknowledged() -> None:
    """They gave it back when they ended."""
    (line,) = await lost(*[frame("SEND", destination="/queue/taken")] * 3, ack="client")
    assert (line["waiting"], line["queues"]) == (3, 1)


async def test_what_was_to_come_back_later() -> None:
    policy = [{"match": "/queue/a", "backoff": 60}]
    with structlog.testing.capture_logs() as logs:
        async with running(policy=policy) as gateway:
            peer = await connected(gateway, "tcp")
            await peer.subscribe("/queue/a", ack="client")
            await peer.publish("/queue/a")
            message = await peer.frame("MESSAGE")
            await peer.send_frame("NACK", id=message["ack"])
            await peer.settled()
        await peer.aclose()
    (line,) = (line for line in logs if line["log_level"] == "warning")
    assert (line["waiting"], line["queues"], line["delayed"]) == (0, 1, 1)


async def test_logs_in_memory() -> None:
    policy = [{"match": "/topic/log", "log_messages": 10}]
    warning, line = await lost(*[frame("SEND", destination="/topic/log")] * 3, policy=policy)
    assert warning["event"].startswith(
        "store is memory, so messages end with the process, though policies of /topic/log"
    )
    assert (line["waiting"], line["logged"]) == (0, 3)
