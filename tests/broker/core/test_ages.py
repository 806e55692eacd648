"""When messages came: to a second, to a minute, to an hour; never said too old, and of what came before, at least."""

from __future__ import annotations

import random

import pytest

from gateway.broker.core.ages import Age, MessageAges

# The last step of each length is not over.
STEPS = ((599.0, 1.0), (1_439 * 60.0, 60.0), (1_439 * 3_600.0, 3_600.0))


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.5

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def dates(clock: Clock) -> MessageAges:
    return MessageAges(clock)


def test_before_the_first_note_nothing_is_known(dates: MessageAges) -> None:
    assert dates.age(7) == Age(0.0, is_least=True)


def test_what_was_there_before_is_as_old_as_the_first_note_at_least(dates: MessageAges, clock: Clock) -> None:
    dates.note(100)
    clock.now += 5
    dates.note(110)
    assert dates.age(100) == dates.age(3) == Age(5.0, is_least=True)
    assert not dates.age(101).is_least


def test_to_a_second(dates: MessageAges, clock: Clock) -> None:
    dates.note(0)
    for number in (10, 20, 20, 20, 30):
        clock.now += 1
        dates.note(number)
    clock.now += 0.25
    ages = [dates.age(number).seconds for number in (1, 10, 11, 20, 21, 30, 31)]
    assert ages == [4.25, 4.25, 3.25, 3.25, 0.25, 0.25, 0.0]


def test_it_may_have_come_just_now(dates: MessageAges, clock: Clock) -> None:
    dates.note(0)
    clock.now += 0.9
    assert dates.age(1) == Age(0.0, is_least=False)


@pytest.mark.parametrize("busy", [1.0, 0.3, 0.01])
def test_never_too_old_and_too_young_by_a_step_at_most(dates: MessageAges, clock: Clock, busy: float) -> None:
    """Three days, with messages in so many of the seconds."""
    drawn = random.Random(busy)
    came: dict[int, float] = {}
    number = 0
    dates.note(number)
    for _ in range(3 * 86_400):
        clock.now += 1
        if drawn.random() < busy:
            number += 1
            came[number] = clock.now - drawn.random()
        dates.note(number)
    for number, moment in came.items():
        age, found = clock.now - moment, dates.age(number)
        step = next(step for most, step in STEPS if age <= most)
        assert age - step <= found.seconds <= age, (age, found)
        assert not found.is_least


def test_what_is_too_long_ago(dates: MessageAges, clock: Clock) -> None:
    dates.note(0)
    for hour in range(1, 1_500):
        clock.now += 3_600
        dates.note(hour)
    assert dates.age(59) == dates.age(2) == Age((1_499 - 59) * 3_600.0, is_least=True)
    assert dates.age(60) == Age((1_499 - 60) * 3_600.0, is_least=False)


def test_the_notes_are_bounded(dates: MessageAges, clock: Clock) -> None:
    for second in range(100_000):
        clock.now += 61
        dates.note(second)
    assert [len(notes._numbers) for notes in dates._notes] == [600, 1_440, 1_440]
