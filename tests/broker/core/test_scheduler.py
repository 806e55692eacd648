"""Scheduler: what is due at which time, when it is woken, and work in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.core.scheduler import Scheduler
from gateway.broker.core.work_limits import WORK_LIMITS, WorkLimits


class Harness:
    """Stands where the transports stand: a clock, and a note of what the scheduler asked for."""

    def __init__(self, limits: WorkLimits = WORK_LIMITS) -> None:
        self.now = 100.0
        self.woken: list[float] = []
        self.busy = 0
        self.done: list[object] = []
        self.scheduler = Scheduler(lambda: self.now, lambda: 1e9 + self.now, self.woken.append, self._on_busy, limits)
        self.at = self.scheduler.at

    def _on_busy(self) -> None:
        self.busy += 1

    def gives(self, due: float, action: Callable[[], None]) -> Callable[[], None]:
        """An action that schedules another one."""
        return lambda: self.at(due, action) and None  # type: ignore[func-returns-value]

    def does(self, what: object) -> Callable[[], None]:
        """An action that leaves a mark."""
        return partial(self.done.append, what)

    def tick(self, now: float) -> None:
        """One call at that time."""
        self.now = now
        self.woken.clear()
        self.scheduler.tick()

    def proceed(self) -> int:
        """Do all that is unfinished; returns the number of turns that were not the last."""
        turns = 0
        while self.scheduler.proceed():
            turns += 1
        return turns

    def run(self, seconds: float) -> None:
        """Time passes; the scheduler is called when it asked to be, and as often as it wants."""
        end = self.now + seconds
        while self.woken and min(self.woken) <= end:
            self.tick(max(self.now, min(self.woken)))
            self.proceed()
        self.now = end


def test_when_the_next_thing_is_due() -> None:
    harness = Harness()
    assert harness.scheduler.next_due == math.inf
    harness.at(200.0, harness.does("later"))
    harness.at(150.0, harness.does("sooner"))
    assert harness.scheduler.next_due == 150.0
    harness.tick(150.0)
    assert (harness.done, harness.scheduler.next_due) == (["sooner"], 200.0)


def fault() -> None:
    raise ZeroDivisionError


@pytest.fixture
def harness() -> Harness:
    return Harness()


class TestAt:
    def test_an_action_may_give_another(self, harness: Harness) -> None:
        harness.at(101.0, harness.gives(103.0, harness.does("later")))
        harness.at(102.0, harness.does("between"))
        harness.run(2.0)
        assert harness.done == ["between"], "it is woken for what is earlier than what an action gave"
        harness.at(103.0, harness.gives(103.0, harness.does("at once")))
        harness.run(1.0)
        assert harness.done == ["between", "later", "at once"]

    def test_it_is_woken_for_the_first_and_for_what_is_earlier(self, harness: Harness) -> None:
        for due in (110.0, 120.0, 105.0, 105.0, 107.0):
            harness.at(due, harness.gives(106.0, harness.does(due)))
        assert harness.woken == [110.0, 105.0]
        harness.tick(105.0)
        assert harness.woken == [106.0], "once, for what an action gave"


class TestCancel:
    def test_it_is_not_carried_out(self, harness: Harness) -> None:
        entries = [harness.at(101.0, harness.does(number)) for number in range(5)]
        for number in (0, 3):
            harness.scheduler.cancel(entries[number])
        assert entries[0].action is None, "it refers to nothing any more"
        harness.scheduler.cancel(None)
        harness.run(2.0)
        assert harness.done == [1, 2, 4]
        assert len(harness.scheduler) == 0

    def test_an_action_may_cancel_itself_and_others(self, harness: Harness) -> None:
        entries = [harness.at(101.0 + number, harness.does(number)) for number in range(500)]

        def cancel_all() -> None:
            for entry in (itself, *entries):
                harness.scheduler.cancel(entry)

        itself = harness.at(100.5, cancel_all)
        harness.at(100.5, harness.does("a"))
        harness.run(1_000.0)
        assert harness.done == ["a"]
        assert len(harness.scheduler) <= 200

    def test_cancelled_ones_do_not_pile_up(self, harness: Harness) -> None:
        kept = [harness.at(200.0 + number, harness.does(number)) for number in range(100)]
        for number in range(10_000):
            harness.scheduler.cancel(harness.at(1e9 + number, harness.does("never")))
            assert len(harness.scheduler) <= 2 * len(kept) + 200
        harness.run(1_000.0)
        assert harness.done == [*range(100)]


def test_a_fault_stops_no_other_action(harness: Harness) -> None:
    harness.at(101.0, fault)
    harness.at(101.0, harness.does("a"))
    harness.at(102.0, harness.does("b"))
    with pytest.raises(ZeroDivisionError):
        harness.tick(101.0)
    harness.run(2.0)
    assert harness.done == ["a", "b"]
    harness.scheduler.later(fault)
    harness.scheduler.later(harness.does("c"))
    with pytest.raises(ZeroDivisionError):
        harness.scheduler.proceed()
    assert harness.scheduler.proceed() is False
    assert harness.done == ["a", "b", "c"]


def test_a_fault_in_a_slice_ends_its_work_and_names_it(harness: Harness) -> None:
    def work() -> Iterator[None]:
        yield
        fault()

    harness.scheduler.run(work())
    harness.scheduler.later(harness.does("other"))
    with pytest.raises(ZeroDivisionError) as caught:
        harness.scheduler.proceed()
    (note,) = caught.value.__notes__
    assert "work" in note
    assert harness.scheduler.proceed() is False
    assert harness.done == ["other"]


class TestTurns:
    """What is due at one time is not all done in one turn."""

    @pytest.fixture
    def harness(self) -> Harness:
        return Harness(WorkLimits(actions_per_turn=3))

    def test_the_rest_follows_in_turns_of_its_own(self, harness: Harness) -> None:
        for number in range(7):
            harness.at(101.0, harness.gives(102.0, harness.does(number)))
            harness.at(101.0, harness.does(number))
        harness.tick(101.0)
        assert (harness.done, harness.busy) == ([0], 1)
        assert harness.scheduler.proceed() is True
        assert harness.done == [0, 1, 2]
        assert harness.proceed() == 2
        assert harness.done == [*range(7)]
        harness.run(1.0)
        assert harness.done == [*range(7), *range(7)]

    def test_an_action_that_always_gives_another_stops_no_other_task(self, harness: Harness) -> None:
        def again() -> None:
            harness.done.append("again")
            harness.at(harness.now, again)

        harness.at(101.0, again)
        harness.tick(101.0)
        assert len(harness.done) == 3


def test_unfinished_work_goes_on_one_piece_at_a_time(harness: Harness) -> None:
    assert harness.scheduler.proceed() is False
    rest = [0, 1, 2]

    def piece() -> None:
        harness.done.append(rest.pop(0))
        if rest:
            harness.scheduler.later(piece)

    harness.scheduler.later(piece)
    harness.scheduler.later(harness.does("other"))
    assert (harness.done, harness.busy) == ([], 1)
    assert [harness.scheduler.proceed() for _ in range(4)] == [True, True, True, False]
    assert harness.done == [0, "other", 1, 2]
    busy = harness.busy
    for _ in range(2):
        harness.scheduler.later(harness.does("more"))
    assert harness.busy == busy + 1, "once, until all is done"


@given(
    dues=st.lists(st.integers(0, 20), max_size=60),
    steps=st.lists(st.floats(0, 10, allow_nan=False), min_size=1, max_size=10),
    most=st.integers(1, 5),
)
def test_everything_at_its_time_whatever_the_steps(dues: list[int], steps: list[float], most: int) -> None:
    harness = Harness(WorkLimits(actions_per_turn=most))
    for number, due in enumerate(dues):
        harness.at(100.0 + due, harness.does((due, number)))
    for step in [*steps, 30.0]:
        harness.run(step)
        expected = sorted((due, number) for number, due in enumerate(dues) if 100.0 + due <= harness.now)
        assert harness.done == expected


class TestSweep:
    """Many cancelled entries are swept in turns, and what is in force is carried out meanwhile, in order."""

    MANY = 3 * WORK_LIMITS.sweeps_per_turn

    def test_in_turns(self, harness: Harness) -> None:
        entries = [harness.at(200.0 + number, harness.does(number)) for number in range(2 * self.MANY)]
        for entry in (*entries[1::2], entries[2]):
            harness.scheduler.cancel(entry)
        assert len(harness.scheduler) == 2 * self.MANY, "half of it and some may lie about"
        for entry in entries[4:50:2]:
            harness.scheduler.cancel(entry)
        assert self.MANY < len(harness.scheduler) < 2 * self.MANY
        assert harness.proceed() + 1 == 2 * self.MANY // WORK_LIMITS.sweeps_per_turn - 1
        left = [0, *range(50, 2 * self.MANY, 2)]
        assert len(harness.scheduler) - len(left) <= 16
        harness.run(10_000)
        assert harness.done == left

    def test_what_is_due_or_cancelled_meanwhile(self, harness: Harness) -> None:
        entries = [harness.at(200.0 + number, harness.does(number)) for number in range(2 * self.MANY)]
        for entry in entries[self.MANY - 20 :]:
            harness.scheduler.cancel(entry)
        harness.at(200.5, harness.does("new"))
        harness.tick(203.0)
        assert harness.done == [0, "new", 1, 2, 3]
        for entry in entries[10 : self.MANY]:
            harness.scheduler.cancel(entry)
        harness.run(10_000)
        assert harness.done == [0, "new", *range(1, 10)]
        assert len(harness.scheduler) == 0
