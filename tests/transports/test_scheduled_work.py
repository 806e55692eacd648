"""What the broker does later: at a time, over the real wheel, or in turns of its own.

The clock of these tests jumps: what is asserted about time holds to the slot of the wheel (20 ms) and never the other
way: nothing comes early.
"""

from __future__ import annotations

import math

import pytest
import structlog.testing
import trio
from trio.testing import MockClock

from .harness import Harness, MakeHarness
from .peers import Peer

parametrize = pytest.mark.parametrize

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


class TestTurns:
    """What is much is cut into turns, between which outboxes are flushed and others do what they have to do."""

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
