"""Turns of a reader: how long they may be, what counts as one, and what of it is measured.

For turns that end because they deliver much see `test_back_pressure`.
"""

from __future__ import annotations

import itertools

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker import Quotas
from gateway.transports.connection import connection
from gateway.transports.flow import back_pressure

from .harness import Harness, MakeHarness
from .peers import frame


class Clock:
    """What reader and back-pressure look at; frames take as long as the test says.

    Attributes:
        now: seconds.
    """

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(connection, "perf_counter", found)
    monkeypatch.setattr(back_pressure, "perf_counter", found)
    return found


def turns_of(harness: Harness) -> int:
    return sum(harness.server.back_pressure.turns.counts)


async def test_the_frames_are_measured_with_what_they_cause(
    harness: Harness, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, reader = await harness.session("tcp"), await harness.session("tcp")
    await reader.subscribe("/queue/a")
    flush = harness.server.back_pressure._flush

    async def slow_flush() -> None:
        clock.now += 0.002
        await flush()

    monkeypatch.setattr(harness.server.back_pressure, "_flush", slow_flush)
    before = harness.server.back_pressure.turns.total
    await peer.publish("/queue/a")
    await reader.frame("MESSAGE")
    await wait_all_tasks_blocked()
    assert harness.server.back_pressure.turns.total - before == pytest.approx(2_000)


async def test_what_is_waited_for_behind_it_is_not(
    make_harness: MakeHarness, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publisher that is held for a reader that does not read."""
    for module in (connection, back_pressure):
        monkeypatch.setattr(module, "perf_counter", lambda: 100.0 + autojump_clock.current_time())
    harness = make_harness(quotas=Quotas(max_outbound=100_000))
    await harness.stalled("tcp", "/topic/a")
    peer = await harness.session("tcp")
    before = turns_of(harness)
    began = autojump_clock.current_time()
    await peer.publish("/topic/a", b"x" * 90_000)
    await wait_all_tasks_blocked()
    assert harness.counters.held_publishers == 1
    assert turns_of(harness) == before + 1
    await peer.settled()
    assert autojump_clock.current_time() - began >= harness.options.slow_consumer_timeout
    assert turns_of(harness) == before + 2
    assert harness.server.back_pressure.turns.total == 0


SLOW = frame("SEND", b"slow", destination="/queue/a") * 100


@pytest.fixture
def frames_per_turn(monkeypatch: pytest.MonkeyPatch) -> int:
    """Each frame takes a third of the longest turn, by the clock that the reader looks at."""
    moments = itertools.count()
    for module in (connection, back_pressure):
        monkeypatch.setattr(module, "perf_counter", lambda: next(moments) * connection._LONGEST_TURN / 3)
    return 4


@pytest.mark.parametrize("after", [1, 40])
async def test_slow_frames_let_others_in_between(harness: Harness, frames_per_turn: int, after: int) -> None:
    slow, other, reader = [await harness.session("tcp") for _ in range(3)]
    await slow.send(SLOW)
    while harness.counters.published < after:
        await trio.lowlevel.checkpoint()
    seen = harness.counters.published
    assert seen < after + 2 * frames_per_turn
    await other.publish("/queue/a", b"other")
    await wait_all_tasks_blocked()
    bodies = [each.body for each in await reader.subscribe_and_read("/queue/a", 101)]
    assert seen <= bodies.index(b"other") <= seen + 5 * frames_per_turn


async def test_half_a_frame_is_no_turn(harness: Harness) -> None:
    peer = await harness.session("tcp")
    data = frame("SEND", b"x" * 100, destination="/topic/a", content_length=100)
    await peer.send(data[:50])
    await wait_all_tasks_blocked()
    assert turns_of(harness) == 0
    await peer.send(data[50:])
    await wait_all_tasks_blocked()
    assert turns_of(harness) == 1
