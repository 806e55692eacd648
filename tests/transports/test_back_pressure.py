"""Slow clients, those who publish to them, and the turns of a reader: how long they may be, and what is measured."""

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

requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize


class TestBackPressure:
    """Those who publish to a slow client: `test_server`."""

    @requirement("XTR-05", "FRM-09")
    async def test_all_comes_in_order(self, harness: Harness, kind: str) -> None:
        """Through a socket that takes a few bytes at a time."""
        peer, pipe = await harness.stalled(kind, "/topic/a")
        publisher = await harness.session(kind)
        sizes = [0, 1, 100, 40_000, 5, 33_000, 70_000, 2]
        for size in sizes:
            await publisher.publish("/topic/a", b"x" * size)

        async def trickle() -> None:
            while True:
                pipe.open(777)
                await wait_all_tasks_blocked()

        harness.nursery.start_soon(trickle)
        assert [len((await peer.frame("MESSAGE")).body) for _ in sizes] == sizes

    async def test_a_long_turn_lets_others_have_theirs(self, harness: Harness) -> None:
        """A chunk of very many deliveries is settled in between, not at its end alone."""
        receivers = [await harness.session("tcp") for _ in range(50)]
        for receiver in receivers:
            await receiver.subscribe("/topic/a")
        peer = await harness.session("tcp")
        await peer.send(frame("SEND", b"x", destination="/topic/a") * 500)
        seen: set[int] = set()
        while harness.counters.delivered < 25_000:
            seen.add(harness.counters.delivered)
            await trio.lowlevel.checkpoint()
        assert len(seen - {0}) >= 2


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
    """Each frame takes a third of the longest turn (3 ms), by the clock that the reader looks at."""
    moments = itertools.count()
    for module in (connection, back_pressure):
        monkeypatch.setattr(module, "perf_counter", lambda: next(moments) * 0.001)
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
