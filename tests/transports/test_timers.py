"""The timer wheel: nothing comes early, and all within the slot of the wheel (20 ms)."""

from __future__ import annotations

import math

import pytest
import structlog.testing
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.transports.flow.timers import TICK, TimerWheel

from .harness import MakeHarness


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


async def test_a_queue_filled_by_the_scheduler_blocks_no_publisher(
    make_harness: MakeHarness, autojump_clock: MockClock
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
