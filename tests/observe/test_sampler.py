"""The sampler: what a sample has, how many are kept, and that it goes on whatever happens."""

from __future__ import annotations

import math
import random

import pytest
import structlog
import trio
from trio.testing import MockClock

from gateway.auth.authenticator import Anonymous
from gateway.broker.core.events import EventLog, NullEventLog
from gateway.broker.core.histogram import BOUNDS, Histogram
from gateway.broker.model.options import PLAIN
from gateway.codec import V12, Head, ProtocolError
from gateway.observe.sampler import KEPT, Percentiles, Sampler, percentiles
from gateway.transports import Server
from tests.broker.recorder import Notebook
from tests.observe.everything import Carrier

EPOCH = 1_700_000_000.0


class Process:
    def __init__(self) -> None:
        self.seconds = 5.0
        self.nbytes = 1_000_000
        self.fails = False

    def cpu(self) -> float:
        return self.seconds

    def memory(self) -> int:
        if self.fails:
            raise ValueError("the system says nothing")
        return self.nbytes


@pytest.fixture
async def server() -> Server:
    return Server(Anonymous())


@pytest.fixture
def process() -> Process:
    return Process()


def sampler_of(server: Server, process: Process) -> Sampler:
    return Sampler(
        server.broker,
        server.connection_limits,
        server.back_pressure.turns,
        cpu=process.cpu,
        memory=process.memory,
        epoch=lambda: EPOCH + trio.current_time(),
    )


@pytest.fixture
async def running(server: Server, process: Process, nursery: trio.Nursery) -> Sampler:
    found = sampler_of(server, process)
    nursery.start_soon(found.run)
    await trio.sleep(0.5)
    return found


class TestSamples:
    async def test_one_each_second_with_rates(
        self, server: Server, process: Process, running: Sampler, autojump_clock: MockClock
    ) -> None:
        counters = server.broker.counters
        counters.published, counters.delivered, counters.acknowledged = 7, 30, 20
        counters.fail(ProtocolError("one"))
        process.seconds += 1.25  # of all threads
        server.back_pressure.turns.add(170, 100)
        await trio.sleep(3)
        found = running.since(0)
        assert [each.at - found[0].at for each in found] == [0, 1, 2]
        assert found[-1] is running.last
        first, second, _ = found
        assert (first.published, first.delivered, first.acknowledged, first.errors, first.cpu) == (7, 30, 20, 1, 1.25)
        assert (second.published, second.delivered, second.acknowledged, second.errors, second.cpu) == (0, 0, 0, 0, 0.0)
        assert (first.p50, first.p95, first.p99) == (0.175, 0.198, 0.2)
        assert (second.p50, second.p95, second.p99) == (None, None, None)

    async def test_messages_have_an_age_from_then_on(
        self, server: Server, process: Process, running: Sampler, autojump_clock: MockClock
    ) -> None:
        process.fails = True  # which has nothing to do with it
        broker = server.broker
        for _ in range(2):
            broker.deposit("/queue/a", Head.of("SEND", {"destination": "/queue/a"}), b"", PLAIN)
            await trio.sleep(10)
        assert [broker.dates.age(number) for number in (1, 2)] == [(19.5, False), (9.5, False)]

    async def test_what_is_there_now(
        self, server: Server, process: Process, running: Sampler, autojump_clock: MockClock
    ) -> None:
        broker = server.broker
        broker.open_session(V12, "ann", peer="p", transport="tcp", connected_at=0.0, carrier=Carrier())
        server.connection_limits.enter("10.0.0.1", lambda error: None)
        server.connection_limits.enter("10.0.0.2", lambda error: None)
        broker.context.waiting, broker.memory.used, process.nbytes = 5, 600, 2_000_000
        await trio.sleep(1)
        (found,) = running.since(0)
        assert (found.sessions, found.connections, found.waiting, found.octets) == (1, 2, 5, 600)
        assert found.memory == 2_000_000


class TestSince:
    async def test_only_newer_ones_of_ten_minutes(self, running: Sampler, autojump_clock: MockClock) -> None:
        await trio.sleep(5)
        every = running.since(0)
        assert running.since(every[2].at) == every[3:]
        assert running.since(every[-1].at) == []
        assert running.since(math.nextafter(every[-1].at, 0)) == every[-1:]
        await trio.sleep(695)
        found = running.since(0)
        assert len(found) == KEPT == 600
        assert found[-1].at - found[0].at == 599

    async def test_a_clock_that_was_set_back(
        self, server: Server, process: Process, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        """Whoever asks for what is newer than the latest it knows gets what there is since."""
        epoch = [EPOCH]
        found = Sampler(
            server.broker,
            server.connection_limits,
            server.back_pressure.turns,
            epoch=lambda: epoch[0] + trio.current_time(),
        )
        nursery.start_soon(found.run)
        await trio.sleep(3.5)
        known = found.since(0)[-1].at
        epoch[0] -= 3_600
        await trio.sleep(2)
        assert [each.at for each in found.since(known)] == [known - 3_599, known - 3_598]
        assert found.since(0) == found.since(known)


class TestWindows:
    async def test_turns_of_the_last_ten_seconds(
        self, server: Server, running: Sampler, autojump_clock: MockClock
    ) -> None:
        assert running.turns() is None
        server.back_pressure.turns.add(170, 90)
        await trio.sleep(5)
        server.back_pressure.turns.add(60_000, 10)
        await trio.sleep(5)
        found = running.turns()  # of all steps of the window together
        assert found is not None
        assert (found.p50 < 0.2, found.p95 > 50) == (True, True)
        await trio.sleep(1)
        found = running.turns()
        assert found is not None
        assert found.p50 > 50, "older steps are forgotten"
        await trio.sleep(5)
        assert running.turns() is None

    async def test_what_a_recorder_computes(
        self, server: Server, process: Process, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        server.broker.records = records = EventLog(server.broker, Notebook())
        found = sampler_of(server, process)
        nursery.start_soon(found.run)
        await trio.sleep(0.5)
        records.waited.add(1_700)
        records.took.add(60_000)
        server.broker.records = NullEventLog()  # the journal is closed first
        await trio.sleep(1)
        waited, took = found.waited(), found.took()
        assert waited is not None
        assert took is not None
        assert 1.5 < waited.p50 <= 2.0
        assert 50.0 < took.p50 <= 70.0


class TestTrouble:
    async def test_a_sample_that_fails_is_left_out(
        self, process: Process, running: Sampler, autojump_clock: MockClock
    ) -> None:
        await trio.sleep(1)
        process.fails = True
        with structlog.testing.capture_logs() as lines:
            await trio.sleep(1)
        process.fails = False
        await trio.sleep(1)
        assert [line["event"] for line in lines] == ["no sample could be taken"]
        assert len(running.since(0)) == 2

    async def test_a_loop_that_stands_still_lags_and_nothing_is_made_up_for(
        self, server: Server, running: Sampler, autojump_clock: MockClock
    ) -> None:
        await trio.sleep(1)
        server.broker.counters.published += 3_600
        autojump_clock.jump(3_600.0)
        await trio.sleep(2.25)
        found = running.since(0)
        assert len(found) <= 5
        assert (found[0].lag_ms, found[1].lag_ms) == (0, pytest.approx(3_599_500))
        assert found[1].published == pytest.approx(1.0)
        assert {each.published for each in found[2:]} == {0}


def test_a_percentile_is_nearly_right() -> None:
    rng, histogram = random.Random(7), Histogram()
    times = sorted(rng.lognormvariate(6.0, 1.5) for _ in range(10_000))
    for each in times:
        histogram.add(each)
    found = percentiles(histogram.counts)
    assert found is not None
    for part, milliseconds in zip((5_000, 9_500, 9_900), found, strict=True):
        assert milliseconds * 1000 == pytest.approx(times[part], rel=0.1)
    histogram = Histogram()
    histogram.add(2e9)  # longer than all bounds
    assert percentiles(histogram.counts) == Percentiles(*[BOUNDS[-1] / 1000] * 3)
