"""The agenda: what is due at which time, who is woken for it, and work in turns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.core import scheduler as agenda_module
from gateway.broker.core.scheduler import Scheduler


class House:
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
def house() -> House:
    return House()


class TestAt:
    def test_not_before_its_time(self, house: House) -> None:
        house.scheduler.at(110.0, house.does("a"))
        house.now = 109.999
        house.scheduler.tick()
        assert house.done == []
        house.now = 110.0
        house.scheduler.tick()
        assert house.done == ["a"]
        house.scheduler.tick()
        assert house.done == ["a"]

    def test_by_time_whatever_the_order(self, house: House) -> None:
        for due in (3, 1, 2, 5, 4):
            house.scheduler.at(100.0 + due, house.does(due))
        house.now = 110.0
        house.scheduler.tick()
        assert house.done == [1, 2, 3, 4, 5]

    def test_equal_times_keep_their_order(self, house: House) -> None:
        for number in range(20):
            house.scheduler.at(101.0, house.does(number))
        house.run(1.0)
        assert house.done == [*range(20)]

    def test_what_is_past_is_due(self, house: House) -> None:
        house.scheduler.at(50.0, house.does("a"))
        house.run(0.0)
        assert house.done == ["a"]

    def test_an_action_may_give_another(self, house: House) -> None:
        house.scheduler.at(101.0, house.gives(101.0, house.does("at once")))
        house.scheduler.at(101.0, house.gives(102.0, house.does("later")))
        house.run(1.0)
        assert house.done == ["at once"]
        house.run(1.0)
        assert house.done == ["at once", "later"]


class TestWake:
    def test_for_the_first_and_for_what_is_earlier(self, house: House) -> None:
        for due in (110.0, 120.0, 105.0, 105.0, 107.0):
            house.scheduler.at(due, house.does(due))
        assert house.woken == [110.0, 105.0]

    def test_after_a_tick_for_the_next(self, house: House) -> None:
        for due in (105.0, 110.0, 120.0):
            house.scheduler.at(due, house.does(due))
        house.now = 105.0
        house.woken.clear()
        house.scheduler.tick()
        assert house.woken == [110.0]

    def test_too_early_a_tick_asks_again(self, house: House) -> None:
        house.scheduler.at(105.0, house.does("a"))
        house.woken.clear()
        house.scheduler.tick()
        assert house.woken == [105.0]

    def test_not_when_nothing_is_left(self, house: House) -> None:
        house.scheduler.at(105.0, house.does("a"))
        house.now = 105.0
        house.woken.clear()
        house.scheduler.tick()
        assert house.woken == []

    def test_once_for_what_an_action_gave(self, house: House) -> None:
        house.scheduler.at(105.0, house.gives(110.0, house.does("a")))
        house.now = 105.0
        house.woken.clear()
        house.scheduler.tick()
        assert house.woken == [110.0]

    def test_for_what_an_action_gave_and_what_is_earlier(self, house: House) -> None:
        house.scheduler.at(105.0, house.gives(120.0, house.does("b")))
        house.scheduler.at(110.0, house.does("a"))
        house.run(100.0)
        assert house.done == ["a", "b"]


class TestCancel:
    def test_it_is_not_carried_out(self, house: House) -> None:
        entries = [house.scheduler.at(101.0, house.does(number)) for number in range(5)]
        for number in (0, 3):
            house.scheduler.cancel(entries[number])
        house.run(2.0)
        assert house.done == [1, 2, 4]
        assert len(house.scheduler) == 0

    def test_none_is_nothing(self, house: House) -> None:
        house.scheduler.cancel(None)
        house.scheduler.at(101.0, house.does("a"))
        house.run(1.0)
        assert house.done == ["a"]

    def test_twice_or_too_late_changes_nothing(self, house: House) -> None:
        one = house.scheduler.at(101.0, house.does("one"))
        two = house.scheduler.at(102.0, house.does("two"))
        house.run(1.0)
        for entry in (one, two, two, one):
            house.scheduler.cancel(entry)
        for number in range(200):
            house.scheduler.cancel(house.scheduler.at(103.0, house.does(number)))
        house.scheduler.at(104.0, house.does("three"))
        house.run(5.0)
        assert house.done == ["one", "three"]

    def test_it_refers_to_nothing_any_more(self, house: House) -> None:
        entry = house.scheduler.at(1e9, house.does("a"))
        house.scheduler.cancel(entry)
        assert entry.action is None

    def test_cancelled_ones_do_not_pile_up(self, house: House) -> None:
        kept = [house.scheduler.at(200.0 + number, house.does(number)) for number in range(100)]
        for number in range(10_000):
            house.scheduler.cancel(house.scheduler.at(1e9 + number, house.does("never")))
            assert len(house.scheduler) <= 2 * len(kept) + 200
        house.run(1_000.0)
        assert house.done == [*range(100)]

    def test_an_action_may_cancel_others(self, house: House) -> None:
        entries = [house.scheduler.at(101.0 + number, house.does(number)) for number in range(500)]

        def cancel_all() -> None:
            for entry in entries:
                house.scheduler.cancel(entry)

        house.scheduler.at(100.5, cancel_all)
        house.run(1_000.0)
        assert house.done == []
        assert len(house.scheduler) <= 200

    def test_an_action_may_cancel_itself(self, house: House) -> None:
        entry = house.scheduler.at(101.0, lambda: house.scheduler.cancel(entry))
        house.scheduler.at(101.0, house.does("a"))
        house.run(1.0)
        assert house.done == ["a"]


class TestFaults:
    """A fault in one action, whoever sees to it, must not stop the others."""

    def test_what_is_due_at_the_same_time_follows(self, house: House) -> None:
        house.scheduler.at(101.0, fault)
        house.scheduler.at(101.0, house.does("a"))
        house.scheduler.at(102.0, house.does("b"))
        house.now = 101.0
        house.woken.clear()
        with pytest.raises(ZeroDivisionError):
            house.scheduler.tick()
        house.run(2.0)
        assert house.done == ["a", "b"]

    def test_and_what_was_put_off(self, house: House) -> None:
        house.scheduler.later(fault)
        house.scheduler.later(house.does("a"))
        with pytest.raises(ZeroDivisionError):
            house.scheduler.proceed()
        assert house.scheduler.proceed() is False
        assert house.done == ["a"]


class TestTurns:
    """What is due at one time is not all done in one turn."""

    @pytest.fixture(autouse=True)
    def three_actions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(agenda_module, "_ACTIONS_PER_TURN", 3)

    def test_the_rest_follows_in_turns_of_its_own(self, house: House) -> None:
        for number in range(7):
            house.scheduler.at(101.0, house.does(number))
        house.now = 101.0
        house.scheduler.tick()
        assert house.done == [0, 1, 2]
        assert house.busy == 1
        assert house.scheduler.proceed() is True
        assert house.done == [0, 1, 2, 3, 4, 5]
        assert house.scheduler.proceed() is False
        assert house.done == [*range(7)]

    def test_a_turn_that_was_just_enough(self, house: House) -> None:
        for number in range(3):
            house.scheduler.at(101.0, house.does(number))
        house.scheduler.at(102.0, house.does(3))
        house.run(1.0)
        assert house.done == [0, 1, 2]
        house.run(1.0)
        assert house.done == [0, 1, 2, 3]

    def test_an_action_that_always_gives_another_stops_nobody(self, house: House) -> None:
        def again() -> None:
            house.done.append("again")
            house.scheduler.at(house.now, again)

        house.scheduler.at(101.0, again)
        house.now = 101.0
        house.scheduler.tick()
        assert len(house.done) == 3

    def test_none_is_lost_where_the_rest_comes_with_new_ones(self, house: House) -> None:
        for number in range(5):
            house.scheduler.at(101.0, house.gives(101.0 + number, house.does(number)))
        house.run(100.0)
        assert sorted(house.done, key=str) == [*range(5)]


class TestLater:
    def test_one_thing_at_a_time(self, house: House) -> None:
        for what in "abc":
            house.scheduler.later(house.does(what))
        assert house.done == []
        assert house.scheduler.proceed() is True
        assert house.done == ["a"]
        assert house.scheduler.proceed() is True
        assert house.scheduler.proceed() is False
        assert house.done == ["a", "b", "c"]

    def test_nothing_to_do(self, house: House) -> None:
        assert house.scheduler.proceed() is False
        assert house.busy == 0

    def test_it_says_once_that_it_is_busy(self, house: House) -> None:
        for _ in range(3):
            house.scheduler.later(house.does("a"))
        assert house.busy == 1
        while house.scheduler.proceed():
            pass
        house.scheduler.later(house.does("a"))
        assert house.busy == 2

    def test_what_goes_on_later_again_goes_behind_the_others(self, house: House) -> None:
        rest = [*range(3)]

        def piece() -> None:
            house.done.append(rest.pop(0))
            if rest:
                house.scheduler.later(piece)

        house.scheduler.later(piece)
        house.scheduler.later(house.does("other"))
        while house.scheduler.proceed():
            pass
        assert house.done == [0, "other", 1, 2]

    def test_alone_it_still_goes_on(self, house: House) -> None:
        """`proceed` says that there is more, whoever put it there."""
        house.scheduler.later(lambda: house.scheduler.later(house.does("a")))
        assert house.scheduler.proceed() is True
        assert house.scheduler.proceed() is False
        assert house.done == ["a"]


@given(
    dues=st.lists(st.integers(0, 20), max_size=60),
    steps=st.lists(st.floats(0, 10, allow_nan=False), min_size=1, max_size=10),
    most=st.integers(1, 5),
)
def test_everything_at_its_time_whatever_the_steps(dues: list[int], steps: list[float], most: int) -> None:
    house = House()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agenda_module, "_ACTIONS_PER_TURN", most)
        for number, due in enumerate(dues):
            house.scheduler.at(100.0 + due, house.does((due, number)))
        for step in [*steps, 30.0]:
            house.run(step)
            expected = sorted((due, number) for number, due in enumerate(dues) if 100.0 + due <= house.now)
            assert house.done == expected


class TestSweep:
    """Many cancelled entries are swept in turns, and what is in force is carried out meanwhile, in order."""

    MANY = 3 * agenda_module._SWEPT_PER_TURN

    def test_in_turns(self, house: House) -> None:
        entries = [house.scheduler.at(200.0 + number, house.does(number)) for number in range(2 * self.MANY)]
        for entry in entries[1::2]:
            house.scheduler.cancel(entry)
        house.scheduler.cancel(entries[2])
        assert len(house.scheduler) == 2 * self.MANY, "half of it and some may lie about"
        for entry in entries[4:50:2]:
            house.scheduler.cancel(entry)
        assert self.MANY < len(house.scheduler) < 2 * self.MANY
        turns = 1
        while house.scheduler.proceed():
            turns += 1
        assert turns == 2 * self.MANY // agenda_module._SWEPT_PER_TURN - 1
        left = [0, *range(50, 2 * self.MANY, 2)]
        assert len(house.scheduler) - len(left) <= agenda_module._SLACK
        house.run(10_000)
        assert house.done == left

    def test_what_is_due_meanwhile(self, house: House) -> None:
        entries = [house.scheduler.at(200.0 + number, house.does(number)) for number in range(2 * self.MANY)]
        for entry in entries[self.MANY - 20 :]:
            house.scheduler.cancel(entry)
        house.scheduler.at(200.5, house.does("new"))
        house.now = 203.0
        house.scheduler.tick()
        assert house.done == [0, "new", 1, 2, 3]
        house.run(10_000)
        assert house.done == [0, "new", *range(1, self.MANY - 20)]
        assert len(house.scheduler) == 0

    def test_more_is_cancelled_meanwhile(self, house: House) -> None:
        entries = [house.scheduler.at(200.0 + number, house.does(number)) for number in range(2 * self.MANY)]
        for entry in entries:
            house.scheduler.cancel(entry)
        house.run(10_000)
        assert house.done == []
        assert len(house.scheduler) == 0
