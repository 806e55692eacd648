"""The timer wheel, and what the broker does later over it.

The clock of these tests jumps: what is asserted about time holds to the slot of the wheel (20 ms) and never the other
way: nothing comes early.
"""

from __future__ import annotations

import math

import pytest
import structlog.testing
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.transports.flow.timers import TICK, TimerWheel

from .harness import Harness, MakeHarness
from .peers import Peer


class Bell:
    """Notes when it was called, and wants to be called at given times."""

    def __init__(self, *answers: float) -> None:
        self.rung: list[float] = []
        self._answers = list(answers)

    def tick(self, now: float) -> float:
        assert now == trio.current_time()
        self.rung.append(now)
        return self._answers.pop(0) if self._answers else math.inf


@pytest.fixture
def timers(nursery: trio.Nursery) -> TimerWheel:
    timers = TimerWheel()
    nursery.start_soon(timers.run)
    return timers


def near(time: float) -> object:
    """At that time or up to one tick later, never earlier."""
    return pytest.approx(time + TICK / 2, abs=TICK / 2 + 1e-6)


async def test_called_again_when_it_says(timers: TimerWheel, autojump_clock: MockClock) -> None:
    bell = Bell(2.0, 2.5, 10.0)
    timers.add(bell, 1.0)
    await trio.sleep(100)
    assert bell.rung == [near(1.0), near(2.0), near(2.5), near(10.0)]


async def test_one_that_is_due_in_the_past(timers: TimerWheel, autojump_clock: MockClock) -> None:
    """At the next tick, not in a loop that never waits."""
    bell = Bell(0.0, 0.0, 0.0)
    timers.add(bell, 0.0)
    await trio.sleep(10)
    assert bell.rung == [near(TICK * number) for number in range(4)]


async def test_never_early_by_a_rounding_error(timers: TimerWheel, autojump_clock: MockClock) -> None:
    """Where a slot's time and what was asked for differ in the last bit only."""
    times = [math.nextafter(number * TICK, math.inf) for number in range(1, 1000)]
    assert any(math.ceil(time / TICK) * TICK < time for time in times), "there are such times"
    bells = [Bell() for _ in times]
    for bell, time in zip(bells, times, strict=True):
        timers.add(bell, time)
    await trio.sleep(30)
    for bell, time in zip(bells, times, strict=True):
        assert len(bell.rung) == 1
        assert time <= bell.rung[0] <= time + TICK + 1e-6


async def test_one_that_fails(timers: TimerWheel, autojump_clock: MockClock) -> None:
    """It leaves the wheel, and the others turn on."""

    class Burning(Bell):
        def tick(self, now: float) -> float:
            super().tick(now)
            raise RuntimeError("a fault")

    burning, beside, later = Burning(), Bell(), Bell()
    timers.add(burning, 1.0)
    timers.add(beside, 1.0)
    timers.add(later, 2.0)
    with structlog.testing.capture_logs() as logs:
        await trio.sleep(10)
    assert (burning.rung, beside.rung, later.rung) == ([near(1.0)], [near(1.0)], [near(2.0)])
    assert [(entry["log_level"], entry["exc_info"]) for entry in logs] == [("error", True)]


async def test_an_empty_timer_wheel_sleeps(timers: TimerWheel, autojump_clock: MockClock) -> None:
    """It wakes for nothing but an entry: no polling, of which a thousand idle machines would know."""
    bell = Bell()
    timers.add(bell, 1.0)
    await trio.sleep(2)
    await wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().seconds_to_next_deadline == math.inf
    timers.add(bell, trio.current_time() + 1.0)
    await trio.sleep(2)
    assert len(bell.rung) == 2


LATEST = 0.021  # seconds behind the moment that was asked for: a slot of the wheel, and what floats lose
ROUNDING = 1e-9


def in_time(due: float) -> bool:
    return due - ROUNDING <= trio.current_time() <= due + LATEST


async def read_in_time(peer: Peer, count: int) -> list[str]:
    """Messages whose bodies say when they are due; returns them in the order in which they came."""
    received = []
    for _ in range(count):
        message = await peer.frame("MESSAGE")
        assert in_time(float(message.body)), (message, trio.current_time())
        received.append(message.body.decode())
    return received


class TestDelay:
    @pytest.mark.parametrize("milliseconds", [1, 7, 19, 20, 21, 50, 333, 1000, 12_345])
    async def test_in_time_and_never_early(
        self, harness: Harness, kind: str, milliseconds: int, autojump_clock: MockClock
    ) -> None:
        """Whatever part of a slot the wheel is in."""
        publisher, consumer = await harness.session(kind), await harness.session(kind)
        await consumer.subscribe("/queue/a")
        for _ in range(5):
            await trio.sleep(0.0137)
            due = trio.current_time() + milliseconds / 1000
            await publisher.publish("/queue/a", b"%r" % due, x_delay=milliseconds)
            await read_in_time(consumer, 1)


class TestTurns:
    """What is much is cut into turns, between which outboxes are flushed and others do what they have to do."""

    @pytest.mark.parametrize("when", ["at a time", "in a turn"])
    async def test_one_fault_stops_nothing_else(self, harness: Harness, when: str, autojump_clock: MockClock) -> None:
        """It would be the end of the gateway, or of all that is due later."""
        publisher, consumer = await harness.session("tcp"), await harness.session("tcp")
        await consumer.subscribe("/queue/a")

        def burn() -> None:
            raise RuntimeError("a fault of the broker's")

        await publisher.publish("/queue/a", b"1.0", x_delay=1000)
        await publisher.publish("/queue/a", b"2.0", x_delay=2000)
        await publisher.settled()
        scheduler = harness.broker.scheduler
        with structlog.testing.capture_logs() as logs:
            if when == "at a time":
                scheduler.at(1.0, burn)
            else:
                scheduler.later(burn)
                scheduler.later(lambda: None)
            await read_in_time(consumer, 2)
        (entry,) = [entry for entry in logs if entry["log_level"] == "error"]
        assert entry["exc_info"]

    async def test_a_queue_filled_by_the_scheduler_blocks_no_publisher(
        self, make_harness: MakeHarness, autojump_clock: MockClock
    ) -> None:
        """Whoever runs next must not be held for it."""
        harness = make_harness(policies={"/queue/a": {"max_messages": 1}})
        seen: list[bool] = []

        class Behind:
            def tick(self, now: float) -> float:
                seen.append(bool(harness.broker.context.full))
                return math.inf

        publisher = await harness.session("tcp")
        await publisher.publish("/queue/a", x_delay=1000)
        await publisher.settled()
        harness.server.timers.add(Behind(), 1.0)  # in the slot of the alarm
        await trio.sleep(2)
        assert (seen, harness.broker.context.waiting) == ([False], 1)
