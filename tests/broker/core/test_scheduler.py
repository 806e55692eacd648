"""The agenda: what is due at which time, who is woken for it, and work in turns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.core import scheduler as agenda_module
from gateway.broker.core.scheduler import Scheduler


class Harness:
    """Stands where the transports stand: a clock, and a note of what the agenda asked for."""

    def __init__(self) -> None:
        self.now = 100.0
        self.woken: list[float] = []
        self.busy = 0
        self.done: list[object] = []
        self.scheduler = Scheduler(lambda: self.now, lambda: 1e9 + self.now, self.woken.append, self._on_busy)

    def _on_busy(self) -> None:
        self.busy += 1

    def gives(self, due: float, action: Callable[[], None]) -> Callable[[], None]:
        """An action that puts another one on the agenda."""

        def give() -> None:
            self.scheduler.at(due, action)

        return give

    def does(self, what: object) -> Callable[[], None]:
        """An action that leaves a mark."""
        return partial(self.done.append, what)

    def run(self, seconds: float) -> None:
        """Time passes; the agenda is called when it asked to be, and as often as it wants."""
        end = self.now + seconds
        while self.woken and min(self.woken) <= end:
            self.now = max(self.now, min(self.woken))
            self.woken.clear()
            self.scheduler.tick()
            while self.scheduler.proceed():
                pass
        self.now = end


def fault() -> None:
    raise ZeroDivisionError


@pytest.fixture
def harness() -> Harness:
    return Harness()


class TestAt:
    def test_not_before_its_time(self, harness: Harness) -> None:
        harness.scheduler.at(110.0, harness.does("a"))
        harness.now = 109.999
        harness.scheduler.tick()
        assert harness.done == []
        harness.now = 110.0
        harness.scheduler.tick()
        assert harness.done == ["a"]
        harness.scheduler.tick()
        assert harness.done == ["a"]

    def test_by_time_whatever_the_order(self, harness: Harness) -> None:
        for due in (3, 1, 2, 5, 4):
            harness.scheduler.at(100.0 + due, harness.does(due))
        harness.now = 110.0
        harness.scheduler.tick()
        assert harness.done == [1, 2, 3, 4, 5]

    def test_equal_times_keep_their_order(self, harness: Harness) -> None:
        for number in range(20):
            harness.scheduler.at(101.0, harness.does(number))
        harness.run(1.0)
        assert harness.done == [*range(20)]

    def test_what_is_past_is_due(self, harness: Harness) -> None:
        harness.scheduler.at(50.0, harness.does("a"))
        harness.run(0.0)
        assert harness.done == ["a"]

    def test_an_action_may_give_another(self, harness: Harness) -> None:
        harness.scheduler.at(101.0, harness.gives(101.0, harness.does("at once")))
        harness.scheduler.at(101.0, harness.gives(102.0, harness.does("later")))
        harness.run(1.0)
        assert harness.done == ["at once"]
        harness.run(1.0)
        assert harness.done == ["at once", "later"]


class TestWake:
    def test_for_the_first_and_for_what_is_earlier(self, harness: Harness) -> None:
        for due in (110.0, 120.0, 105.0, 105.0, 107.0):
            harness.scheduler.at(due, harness.does(due))
        assert harness.woken == [110.0, 105.0]

    def test_after_a_tick_for_the_next(self, harness: Harness) -> None:
        for due in (105.0, 110.0, 120.0):
            harness.scheduler.at(due, harness.does(due))
        harness.now = 105.0
        harness.woken.clear()
        harness.scheduler.tick()
        assert harness.woken == [110.0]

    def test_too_early_a_tick_asks_again(self, harness: Harness) -> None:
        harness.scheduler.at(105.0, harness.does("a"))
        harness.woken.clear()
        harness.scheduler.tick()
        assert harness.woken == [105.0]

    def test_not_when_nothing_is_left(self, harness: Harness) -> None:
        harness.scheduler.at(105.0, harness.does("a"))
        harness.now = 105.0
        harness.woken.clear()
        harness.scheduler.tick()
        assert harness.woken == []

    def test_once_for_what_an_action_gave(self, harness: Harness) -> None:
        harness.scheduler.at(105.0, harness.gives(110.0, harness.does("a")))
        harness.now = 105.0
        harness.woken.clear()
        harness.scheduler.tick()
        assert harness.woken == [110.0]

    def test_for_what_an_action_gave_and_what_is_earlier(self, harness: Harness) -> None:
        harness.scheduler.at(105.0, harness.gives(120.0, harness.does("b")))
        harness.scheduler.at(110.0, harness.does("a"))
        harness.run(100.0)
        assert harness.done == ["a", "b"]


class TestCancel:
    def test_it_is_not_carried_out(self, harness: Harness) -> None:
        entries = [harness.scheduler.at(101.0, harness.does(number)) for number in range(5)]
        for number in (0, 3):
            harness.scheduler.cancel(entries[number])
        harness.run(2.0)
        assert harness.done == [1, 2, 4]
        assert len(harness.scheduler) == 0

    def test_none_is_nothing(self, harness: Harness) -> None:
        harness.scheduler.cancel(None)
        harness.scheduler.at(101.0, harness.does("a"))
        harness.run(1.0)
        assert harness.done == ["a"]

    def test_twice_or_too_late_changes_nothing(self, harness: Harness) -> None:
        one = harness.scheduler.at(101.0, harness.does("one"))
        two = harness.scheduler.at(102.0, harness.does("two"))
        harness.run(1.0)
        for entry in (one, two, two, one):
            harness.scheduler.cancel(entry)
        for number in range(200):
            harness.scheduler.cancel(harness.scheduler.at(103.0, harness.does(number)))
        harness.scheduler.at(104.0, harness.does("three"))
        harness.run(5.0)
        assert harness.done == ["one", "three"]

    def test_it_refers_to_nothing_any_more(self, harness: Harness) -> None:
        entry = harness.scheduler.at(1e9, harness.does("a"))
        harness.scheduler.cancel(entry)
        assert entry.action is None

    def test_cancelled_ones_do_not_pile_up(self, harness: Harness) -> None:
        kept = [harness.scheduler.at(200.0 + number, harness.does(number)) for number in range(100)]
        for number in range(10_000):
            harness.scheduler.cancel(harness.scheduler.at(1e9 + number, harness.does("never")))
            assert len(harness.scheduler) <= 2 * len(kept) + 200
        harness.run(1_000.0)
        assert harness.done == [*range(100)]

    def test_an_action_may_cancel_others(self, harness: Harness) -> None:
        entries = [harness.scheduler.at(101.0 + number, harness.does(number)) for number in range(500)]

        def cancel_all() -> None:
            for entry in entries:
                harness.scheduler.cancel(entry)

        harness.scheduler.at(100.5, cancel_all)
        harness.run(1_000.0)
        assert harness.done == []
        assert len(harness.scheduler) <= 200

    def test_an_action_may_cancel_itself(self, harness: Harness) -> None:
        entry = harness.scheduler.at(101.0, lambda: harness.scheduler.cancel(entry))
        harness.scheduler.at(101.0, harness.does("a"))
        harness.run(1.0)
        assert harness.done == ["a"]


class TestFaults:
    """A fault in one action, whoever sees to it, must not stop the others."""

    def test_what_is_due_at_the_same_time_follows(self, harness: Harness) -> None:
        harness.scheduler.at(101.0, fault)
        harness.scheduler.at(101.0, harness.does("a"))
        harness.scheduler.at(102.0, harness.does("b"))
        harness.now = 101.0
        harness.woken.clear()
        with pytest.raises(ZeroDivisionError):
            harness.scheduler.tick()
        harness.run(2.0)
        assert harness.done == ["a", "b"]

    def test_and_what_was_put_off(self, harness: Harness) -> None:
        harness.scheduler.later(fault)
        harness.scheduler.later(harness.does("a"))
        with pytest.raises(ZeroDivisionError):
            harness.scheduler.proceed()
        assert harness.scheduler.proceed() is False
        assert harness.done == ["a"]


class TestTurns:
    """What is due at one time is not all done in one turn."""

    @pytest.fixture(autouse=True)
    def three_actions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(agenda_module, "_ACTIONS_PER_TURN", 3)

    def test_the_rest_follows_in_turns_of_its_own(self, harness: Harness) -> None:
        for number in range(7):
            harness.scheduler.at(101.0, harness.does(number))
        harness.now = 101.0
        harness.scheduler.tick()
        assert harness.done == [0, 1, 2]
        assert harness.busy == 1
        assert harness.scheduler.proceed() is True
        assert harness.done == [0, 1, 2, 3, 4, 5]
        assert harness.scheduler.proceed() is False
        assert harness.done == [*range(7)]

    def test_a_turn_that_was_just_enough(self, harness: Harness) -> None:
        for number in range(3):
            harness.scheduler.at(101.0, harness.does(number))
        harness.scheduler.at(102.0, harness.does(3))
        harness.run(1.0)
        assert harness.done == [0, 1, 2]
        harness.run(1.0)
        assert harness.done == [0, 1, 2, 3]

    def test_an_action_that_always_gives_another_stops_nobody(self, harness: Harness) -> None:
        def again() -> None:
            harness.done.append("again")
            harness.scheduler.at(harness.now, again)

        harness.scheduler.at(101.0, again)
        harness.now = 101.0
        harness.scheduler.tick()
        assert len(harness.done) == 3

    def test_none_is_lost_where_the_rest_comes_with_new_ones(self, harness: Harness) -> None:
        for number in range(5):
            harness.scheduler.at(101.0, harness.gives(101.0 + number, harness.does(number)))
        harness.run(100.0)
        assert sorted(harness.done, key=str) == [*range(5)]


class TestLater:
    def test_one_thing_at_a_time(self, harness: Harness) -> None:
        for what in "abc":
            harness.scheduler.later(harness.does(what))
        assert harness.done == []
        assert harness.scheduler.proceed() is True
        assert harness.done == ["a"]
        assert harness.scheduler.proceed() is True
        assert harness.scheduler.proceed() is False
        assert harness.done == ["a", "b", "c"]

    def test_nothing_to_do(self, harness: Harness) -> None:
        assert harness.scheduler.proceed() is False
        assert harness.busy == 0

    def test_it_says_once_that_it_is_busy(self, harness: Harness) -> None:
        for _ in range(3):
            harness.scheduler.later(harness.does("a"))
        assert harness.busy == 1
        while harness.scheduler.proceed():
            pass
        harness.scheduler.later(harness.does("a"))
        assert harness.busy == 2

    def test_what_goes_on_later_again_goes_behind_the_others(self, harness: Harness) -> None:
        rest = [*range(3)]

        def piece() -> None:
            harness.done.append(rest.pop(0))
            if rest:
                harness.scheduler.later(piece)

        harness.scheduler.later(piece)
        harness.scheduler.later(harness.does("other"))
        while harness.scheduler.proceed():
            pass
        assert harness.done == [0, "other", 1, 2]

    def test_alone_it_still_goes_on(self, harness: Harness) -> None:
        """`proceed` says that there is more, whoever put it there."""
        harness.scheduler.later(lambda: harness.scheduler.later(harness.does("a")))
        assert harness.scheduler.proceed() is True
        assert harness.scheduler.proceed() is False
        assert harness.done == ["a"]


@given(
    dues=st.lists(st.integers(0, 20), max_size=60),
    steps=st.lists(st.floats(0, 10, allow_nan=False), min_size=1, max_size=10),
    most=st.integers(1, 5),
)
def test_everything_at_its_time_whatever_the_steps(dues: list[int], steps: list[float], most: int) -> None:
    harness = Harness()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agenda_module, "_ACTIONS_PER_TURN", most)
        for number, due in enumerate(dues):
            harness.scheduler.at(100.0 + due, harness.does((due, number)))
        for step in [*steps, 30.0]:
            harness.run(step)
            expected = sorted((due, number) for number, due in enumerate(dues) if 100.0 + due <= harness.now)
            assert harness.done == expected


class TestSweep:
    """Many cancelled entries are swept in turns, and what is in force is carried out meanwhile, in order."""

    MANY = 3 * agenda_module._SWEPT_PER_TURN

    def test_in_turns(self, harness: Harness) -> None:
        entries = [harness.scheduler.at(200.0 + number, harness.does(number)) for number in range(2 * self.MANY)]
        for entry in entries[1::2]:
            harness.scheduler.cancel(entry)
        harness.scheduler.cancel(entries[2])
        assert len(harness.scheduler) == 2 * self.MANY, "half of it and some may lie about"
        for entry in entries[4:50:2]:
            harness.scheduler.cancel(entry)
        assert self.MANY < len(harness.scheduler) < 2 * self.MANY
        turns = 1
        while harness.scheduler.proceed():
            turns += 1
        assert turns == 2 * self.MANY // agenda_module._SWEPT_PER_TURN - 1
        left = [0, *range(50, 2 * self.MANY, 2)]
        assert len(harness.scheduler) - len(left) <= agenda_module._SLACK
        harness.run(10_000)
        assert harness.done == left

    def test_what_is_due_meanwhile(self, harness: Harness) -> None:
        entries = [harness.scheduler.at(200.0 + number, harness.does(number)) for number in range(2 * self.MANY)]
        for entry in entries[self.MANY - 20 :]:
            harness.scheduler.cancel(entry)
        harness.scheduler.at(200.5, harness.does("new"))
        harness.now = 203.0
        harness.scheduler.tick()
        assert harness.done == [0, "new", 1, 2, 3]
        harness.run(10_000)
        assert harness.done == [0, "new", *range(1, self.MANY - 20)]
        assert len(harness.scheduler) == 0

    def test_more_is_cancelled_meanwhile(self, harness: Harness) -> None:
        entries = [harness.scheduler.at(200.0 + number, harness.does(number)) for number in range(2 * self.MANY)]
        for entry in entries:
            harness.scheduler.cancel(entry)
        harness.run(10_000)
        assert harness.done == []
        assert len(harness.scheduler) == 0
