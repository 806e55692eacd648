"""Publishers to a queue at its limit (`when_full = "block"`): held there, to the message; and who sees held publishers.

What is held is the reader of a connection: frames behind the one that filled the queue stay undone.  So a test sends
many in one chunk and counts how many were carried out (`done`).
"""

from __future__ import annotations

import time
from typing import Any

import pytest
import structlog.testing
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker import Quotas
from gateway.broker.errors import SessionEnded
from gateway.broker.queue.queue import Queue
from gateway.transports import TransportOptions

from .harness import Harness, MakeHarness
from .peers import Peer, frame
from .pipes import ControlledPipe

parametrize = pytest.mark.parametrize

MOST = 10
POLICIES = {"/queue/#": {"max_messages": MOST}}


@pytest.fixture
async def harness(make_harness: MakeHarness) -> Harness:
    """Where ten messages fill any queue."""
    return make_harness(policies=POLICIES)


def sends(destination: str, count: int, start: int = 0, size: int = 0, **headers: object) -> bytes:
    """As many SENDs, numbered in their bodies."""
    numbers = range(start, start + count)
    return b"".join(
        frame("SEND", b"%03d" % number + b"x" * size, destination=destination, **headers) for number in numbers
    )


def waiting(harness: Harness, name: str = "/queue/a") -> int:
    queue = harness.broker.destinations[name]
    assert isinstance(queue, Queue)
    return queue.waiting


def done(harness: Harness, place: int = 0) -> int:
    """Frames carried out of the connection that came at that place."""
    return harness.session_at(place).frames_in


async def bodies(peer: Peer, count: int) -> list[int]:
    return [int((await peer.frame("MESSAGE")).body[:3]) for _ in range(count)]


class TestHeld:
    async def test_it_goes_on_when_there_is_room(self, harness: Harness, autojump_clock: MockClock) -> None:
        publisher, consumer = await harness.session("tcp"), await harness.session("tcp")
        await publisher.send(sends("/queue/a", 100, receipt="r"))
        await trio.sleep(10)
        await consumer.send_frame("SUBSCRIBE", destination="/queue/a", id=1)
        assert await bodies(consumer, 100) == list(range(100))
        for _ in range(100):
            await publisher.frame("RECEIPT")
        assert trio.current_time() == pytest.approx(10.0, abs=0.05)

    async def test_its_heart_beat_clock_stands_still(self, harness: Harness, autojump_clock: MockClock) -> None:
        publisher, consumer = await harness.session("tcp", heart_beat="1000,1000"), await harness.session("tcp")
        await publisher.send(sends("/queue/a", MOST + 1))
        await trio.sleep(60)
        assert len(harness.broker.sessions) == 2
        assert len(await publisher.listen(5)) >= 5, "our own beats go on"
        await consumer.subscribe_and_read("/queue/a", MOST + 1)
        began = trio.current_time()
        assert (await publisher.frame("ERROR"))["message"] == "heart-beat missing"
        assert trio.current_time() - began == pytest.approx(2.0, abs=0.05)

    @parametrize("sockets", [True, False])
    async def test_it_leaves(self, harness: Harness, sockets: bool, autojump_clock: MockClock) -> None:
        """Nobody reads it, so it is looked for; what it had sent before counts."""
        pipe = ControlledPipe()
        publisher = harness.connect("tcp", sockets=True) if sockets else harness.connect_through("tcp", pipe)
        await publisher.connect()
        await publisher.send(sends("/queue/a", 30))
        await trio.sleep(100)
        assert done(harness) == MOST
        await publisher.aclose()
        with trio.fail_after(1.1):
            await harness.server.wait_empty()
        assert waiting(harness) == 30

    async def test_the_gateway_drains(self, harness: Harness) -> None:
        publisher = await filled(harness)
        harness.connections[0].end(SessionEnded("server is shutting down"))
        await publisher.at_end_after_error()
        assert waiting(harness) == MOST


class TestConsumers:
    """Who publishes and consumes could be one of a circle of clients that wait for each other."""

    async def test_of_that_queue_are_not_held(self, harness: Harness, autojump_clock: MockClock) -> None:
        """Nobody else may be there to make room."""
        peer = await harness.session("tcp")
        await peer.subscribe("/queue/a", ack="client", prefetch_count=1)
        await peer.send(sends("/queue/a", 30))
        for number in range(30):
            message = await peer.frame("MESSAGE")
            assert int(message.body) == number
            await peer.send_frame("ACK", id=message["ack"])
        assert trio.current_time() == pytest.approx(0.0, abs=0.05)
        assert harness.counters.held_publishers == 0

    async def test_a_browser_is_blocked(self, harness: Harness, autojump_clock: MockClock) -> None:
        """A browser makes no room."""
        peer = await harness.session("tcp")
        await peer.subscribe("/queue/a", browser="true", browser_end="false")
        await peer.send(sends("/queue/a", 30))
        await trio.sleep(10)
        assert waiting(harness) < 30

    async def test_with_an_open_transaction_it_is_held_for_a_while_only(
        self, harness: Harness, autojump_clock: MockClock
    ) -> None:
        publisher = await harness.session("tcp")
        await publisher.send(frame("BEGIN", transaction="t") + sends("/queue/a", MOST))
        await publisher.send(frame("SEND", destination="/topic/a", receipt="r"))
        await publisher.frame("RECEIPT")
        assert trio.current_time() == pytest.approx(5.0, abs=0.05)


def log_of(logs: list[Any]) -> list[Any]:
    """The lines about publishers."""
    return [line for line in logs if line["event"] == "a publisher is held back"]


async def filled(harness: Harness, name: str = "/queue/a", *, sockets: bool = False, **headers: object) -> Peer:
    """Somebody who is held because that queue is full."""
    publisher = await harness.session("tcp", sockets=sockets, **headers)
    await publisher.send(sends(name, MOST + 1))
    await wait_all_tasks_blocked()
    return publisher


class TestSeen:
    async def test_it_is_listed_as_long_as_it_lasts(self, harness: Harness, autojump_clock: MockClock) -> None:
        before = time.time()
        await filled(harness)
        ((session_id, hold),) = harness.server.back_pressure.blocked.by_session().items()
        assert (session_id, len(harness.server.back_pressure.blocked)) == (harness.session_at(0).id, 1)
        assert before <= hold.since <= time.time()
        wanted = {"reason": "queue full", "destination": "/queue/a", "receiver": None, "since": hold.since}
        assert hold.row() == wanted
        consumer = await harness.session("tcp")
        await consumer.subscribe_and_read("/queue/a", MOST + 1)
        await wait_all_tasks_blocked()
        assert (len(harness.server.back_pressure.blocked), harness.server.back_pressure.blocked.by_session()) == (0, {})
        assert harness.counters.held_publishers == 1


class TestSlowSubscriberSeen:
    async def test_the_session_that_does_not_read(self, make_harness: MakeHarness, autojump_clock: MockClock) -> None:
        harness = make_harness(quotas=Quotas(max_outbound=64_000), options=TransportOptions(slow_consumer_timeout=10.0))
        await harness.stalled("tcp", "/topic/a")
        publisher = await harness.session("tcp")
        with structlog.testing.capture_logs() as logs:
            await publisher.send(sends("/topic/a", 6, size=9000))
            await trio.sleep(5)
            (hold,) = harness.server.back_pressure.blocked.by_session().values()
            await trio.sleep(10)
        reader, sender = harness.session_at(0), harness.session_at(1)
        assert (hold.reason, hold.destination, hold.receiver) == ("slow subscriber", None, reader.id)
        (line,) = log_of(logs)
        assert (line["session"], line["receiver"], line["reason"]) == (sender.id, reader.id, "slow subscriber")
        assert not len(harness.server.back_pressure.blocked)
