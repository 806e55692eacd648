"""Who takes long has a turn in each round of the loop, one after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.transports.wire.fairness import FairGate, FairGates, in_steps
from gateway.transports.wire.link import SocketPipe

from .peers import socket_streams


class Rounds(trio.abc.Instrument):
    """Counts the rounds of the loop."""

    def __init__(self) -> None:
        self.count = 0

    def after_io_wait(self, timeout: float) -> None:
        self.count += 1


@pytest.fixture
async def rounds() -> AsyncIterator[Rounds]:
    found = Rounds()
    trio.lowlevel.add_instrument(found)
    yield found
    trio.lowlevel.remove_instrument(found)


class TestFairGate:
    async def test_one_passes_in_a_round(self, nursery: trio.Nursery, rounds: Rounds) -> None:
        gate = FairGate()
        passed: list[tuple[int, int]] = []

        async def enter(number: int) -> None:
            await gate.enter()
            passed.append((rounds.count, number))

        nursery.start_soon(gate.run)
        await wait_all_tasks_blocked()
        for number in range(5):
            nursery.start_soon(enter, number)
        await wait_all_tasks_blocked()
        times = [when for when, _ in passed]
        assert len(set(times)) == 5
        assert times == sorted(times)
        assert times[-1] - times[0] <= 6, "no round goes by in vain, but where the keeper came before the first"
        assert sorted(number for _, number in passed) == list(range(5))

    async def test_a_single_task_does_not_wait(self, nursery: trio.Nursery) -> None:
        gate = FairGate()
        await gate.enter()  # it is open without its keeper
        nursery.start_soon(gate.run)
        for _ in range(3):
            await wait_all_tasks_blocked()
            before = trio.lowlevel.current_task()._schedule_points
            await gate.enter()
            assert trio.lowlevel.current_task()._schedule_points == before
        with trio.CancelScope() as scope:  # a cancelled task leaves the line
            scope.cancel()
            await gate.enter()
        assert scope.cancelled_caught
        await gate.enter()

    async def test_more_pass_where_rounds_are_long(self, nursery: trio.Nursery, rounds: Rounds) -> None:
        now = 0.0
        gate = FairGate(share=1.0, clock=lambda: now)
        passed: list[int] = []

        async def others() -> None:
            nonlocal now
            while True:  # each round takes as long as three have as their share
                now += 3.0
                await trio.lowlevel.checkpoint()

        async def enter() -> None:
            await gate.enter()
            passed.append(rounds.count)

        nursery.start_soon(gate.run)
        await wait_all_tasks_blocked()
        now = 100.0  # no task came: a long wait is no long round
        for _ in range(5):
            nursery.start_soon(enter)
        await wait_all_tasks_blocked()
        assert len(set(passed)) == 5
        passed.clear()
        async with trio.open_nursery() as busy:
            busy.start_soon(others)
            async with trio.open_nursery() as crowd:
                for _ in range(40):
                    crowd.start_soon(enter)
            busy.cancel_scope.cancel()
        assert 10 <= len(set(passed)) <= 13, "four in a round, but for the first ones"
        assert max(passed.count(number) for number in passed) <= 7, "nor all of them at once"


async def test_steps_are_all_done_whatever_is_cancelled(nursery: trio.Nursery) -> None:
    done: list[int] = []
    others: list[int] = []

    def steps() -> Iterator[None]:
        for number in range(3):
            done.append(number)
            yield

    async def other() -> None:
        while True:
            others.append(len(done))
            await trio.lowlevel.checkpoint()

    nursery.start_soon(other)
    with trio.CancelScope() as scope:
        scope.cancel()
        await in_steps(steps())
    assert done == [0, 1, 2]
    assert {1, 2} & set(others), "others had their turn between two"
    nursery.cancel_scope.cancel()


class Recorded(FairGate):
    """One that notes who passes."""

    def __init__(self, name: str, passed: list[str]) -> None:
        super().__init__()
        self._name = name
        self._passed = passed

    async def enter(self) -> None:
        self._passed.append(self._name)


async def test_the_line_that_a_connection_stands_in() -> None:
    passed: list[str] = []
    fair_gates = FairGates()
    fair_gates.handshakes, fair_gates.bulk = Recorded("stranger", passed), Recorded("bulk", passed)
    theirs, ours = socket_streams()
    pipe = SocketPipe(ours, fair_gates)
    await theirs.send_all(b"x" * 35)
    for _ in range(4):
        await pipe.receive(10)
    assert passed == ["stranger", "stranger", "bulk", "bulk"]
    await theirs.send_all(b"x")
    await pipe.receive(10)
    assert passed[4:] == [], "the read before did not fill its buffer"
    await pipe.send_eof()
    await theirs.aclose()
    assert await pipe.receive(10) == b""
    assert passed[4:] == ["stranger"]
    await pipe.aclose()
