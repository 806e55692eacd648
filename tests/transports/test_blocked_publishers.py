"""Publishers that are held: who sees it, and how often the log says so."""

from __future__ import annotations

import time
from typing import Any

import pytest
import structlog.testing
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker import Quotas
from gateway.transports import TransportOptions

from .harness import Harness, MakeHarness
from .peers import Peer
from .test_full_queues import MOST, sends


def log_of(logs: list[Any]) -> list[Any]:
    """The lines about publishers."""
    return [line for line in logs if line["event"] == "a publisher is held back"]


@pytest.fixture
async def harness(make_harness: MakeHarness) -> Harness:
    """Where ten messages fill any queue."""
    return make_harness(policies={"/queue/#": {"max_messages": MOST}})


async def filled(harness: Harness, name: str = "/queue/a", *, sockets: bool = False, **headers: object) -> Peer:
    """Somebody who is held because that queue is full."""
    publisher = await harness.session("tcp", sockets=sockets, **headers)
    await publisher.send(sends(name, MOST + 1))
    await wait_all_tasks_blocked()
    return publisher


class TestFullQueue:
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

    async def test_one_line_a_minute_for_each_queue(self, harness: Harness, autojump_clock: MockClock) -> None:
        with structlog.testing.capture_logs() as logs:
            for _ in range(5):
                await filled(harness, "/queue/a")
            await filled(harness, "/queue/b")
            await trio.sleep(50)
            assert [line["destination"] for line in log_of(logs)] == ["/queue/a", "/queue/b"]
            assert log_of(logs)[0]["held"] == 6
            await filled(harness, "/queue/a")
            await trio.sleep(5)
            assert len(log_of(logs)) == 2, "it is no news yet"
            await trio.sleep(20)
            await filled(harness, "/queue/b")
            await trio.sleep(5)
            assert [line["destination"] for line in log_of(logs)[2:]] == ["/queue/b"]


class TestSlowSubscriber:
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


class TestShortMemory:
    async def test_it_is_listed_and_logged_once_for_all(
        self, make_harness: MakeHarness, autojump_clock: MockClock
    ) -> None:
        harness = make_harness(quotas=Quotas(memory_limit=1_000_000, max_outbound=10_000_000))
        publishers = [await harness.session("tcp") for _ in range(3)]
        with structlog.testing.capture_logs() as logs:
            for number in range(90):
                await publishers[number % 3].publish("/queue/a", b"x" * 10_000)
            await trio.sleep(100)
        holds = harness.server.back_pressure.blocked.by_session().values()
        assert [(hold.reason, hold.destination, hold.receiver) for hold in holds] == [("memory short", None, None)] * 3
        assert [line["event"] for line in logs] == ["memory is short, publishers are held back"]
