"""What the broker does later: at a time, over the real wheel, or in turns of its own.

The clock of these tests jumps: what is asserted about time holds to the slot of the wheel (20 ms) and never the other
way: nothing comes early.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
import structlog.testing
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker.core.scheduler import Scheduler
from gateway.transports.wire.link import Buffers

from .harness import Harness
from .peers import Peer, frame
from .pipes import ControlledPipe

parametrize = pytest.mark.parametrize
MakeHarness = Callable[..., Harness]

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


class Epoch:
    """Stands for the module `time`, with a clock of its own."""

    def __init__(self, offset: float) -> None:
        self.offset = offset

    def time(self) -> float:
        return trio.current_time() + self.offset


class Recording(ControlledPipe):
    """Knows how much was written at once."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[int] = []

    def send_nowait(self, buffers: Buffers) -> int:
        nbytes = super().send_nowait(buffers)
        self.writes.append(nbytes)
        return nbytes


class TestDelay:
    @parametrize("milliseconds", [1, 7, 19, 20, 21, 50, 333, 1000, 12_345])
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

    async def test_many_in_the_order_of_their_times(self, harness: Harness, autojump_clock: MockClock) -> None:
        """Each may be the nearest of all when it comes, or not; equal times are in the order of the SENDs."""
        publisher, consumer = await harness.session("tcp"), await harness.session("tcp")
        await consumer.subscribe("/topic/a")
        dice = random.Random(7)
        expected = []

        async def publish() -> None:
            for delay in [dice.randrange(1, 2000) for _ in range(300)]:
                expected.append(trio.current_time() + delay / 1000)
                await publisher.publish("/topic/a", b"%r" % expected[-1], x_delay=delay)
                await trio.sleep(0.001)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish)
            received = [float(each) for each in await read_in_time(consumer, 300)]
        assert received == sorted(expected)


class TestTurns:
    """What is much is cut into turns, between which outboxes are flushed and others do what they have to do."""

    async def test_many_at_once(self, harness: Harness, autojump_clock: MockClock) -> None:
        publisher, consumer = await harness.session("tcp"), await harness.session("tcp")
        await consumer.subscribe("/topic/a")
        await publisher.send(b"".join(frame("SEND", b"1.0", destination="/topic/a", x_delay=1000) for _ in range(3000)))
        await publisher.settled()
        begun = trio.Event()
        harness.broker.scheduler.at(0.999, begun.set)  # in the same slot
        await begun.wait()
        seen: set[int] = set()
        while harness.counters.delivered < 3000:
            seen.add(harness.counters.delivered)
            await trio.lowlevel.checkpoint()
        assert len(seen - {0}) >= 3
        assert in_time(1.0)
        await read_in_time(consumer, 3000)

    @parametrize("when", ["at a time", "in a turn"])
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

    async def test_the_timer_wheel_is_empty_when_nothing_is_due(
        self, harness: Harness, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Alarms that an earlier one replaced leave it, too, and do nothing."""
        ticks: list[float] = []
        tick = Scheduler.tick

        def counted(scheduler: Scheduler) -> None:
            ticks.append(scheduler.clock())
            tick(scheduler)

        monkeypatch.setattr(Scheduler, "tick", counted)
        publisher = await harness.session("tcp")
        for delay in range(5000, 0, -100):
            await publisher.publish("/topic/nobody", x_delay=delay)
        await publisher.settled()  # to the same topic
        await publisher.aclose()
        await trio.sleep(120)
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == math.inf
        assert (harness.broker.memory.used, harness.counters.unroutable, len(ticks)) == (0, 51, 50)
