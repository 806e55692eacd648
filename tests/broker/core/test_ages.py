"""When messages came: to a second, to a minute, to an hour; never said too old, and of what came before, at least."""

from __future__ import annotations

import random

import pytest

from gateway.broker.core.ages import Age, MessageAges

# The last step of each length is not over.
STEPS = ((599.0, 1.0), (1_439 * 60.0, 60.0), (1_439 * 3_600.0, 3_600.0))


class Clock:
    now = 1_000.5

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ages(clock: Clock) -> MessageAges:
    return MessageAges(clock)


def test_what_came_before_the_first_note_is_at_least_as_old(ages: MessageAges, clock: Clock) -> None:
    assert ages.age(7) == Age(0.0, is_least=True)
    ages.note(100)
    clock.now += 5
    ages.note(110)
    assert ages.age(100) == ages.age(3) == Age(5.0, is_least=True)
    assert not ages.age(101).is_least


def test_to_a_second(ages: MessageAges, clock: Clock) -> None:
    ages.note(0)
    assert ages.age(1) == Age(0.0, is_least=False), "it may have come just now"
    for number in (10, 20, 20, 20, 30):
        clock.now += 1
        ages.note(number)
    clock.now += 0.25
    found = [ages.age(number).seconds for number in (1, 10, 11, 20, 21, 30, 31)]
    assert found == [4.25, 4.25, 3.25, 3.25, 0.25, 0.25, 0.0]


@pytest.mark.parametrize("busy", [0.3, 0.01])
def test_never_too_old_and_too_young_by_a_step_at_most(ages: MessageAges, clock: Clock, busy: float) -> None:
    """Three days, with messages in so many of the seconds."""
    drawn = random.Random(busy)
    came: dict[int, float] = {}
    number = 0
    ages.note(number)
    for _ in range(3 * 86_400):
        clock.now += 1
        if drawn.random() < busy:
            number += 1
            came[number] = clock.now - drawn.random()
        ages.note(number)
    for number, moment in came.items():
        age, found = clock.now - moment, ages.age(number)
        step = next(step for most, step in STEPS if age <= most)
        assert age - step <= found.seconds <= age, (age, found)
        assert not found.is_least


def test_the_notes_are_bounded(ages: MessageAges, clock: Clock) -> None:
    ages.note(0)
    for hour in range(1, 1_500):
        clock.now += 3_600
        ages.note(hour)
    assert ages.age(59) == ages.age(2) == Age((1_499 - 59) * 3_600.0, is_least=True)
    assert ages.age(60) == Age((1_499 - 60) * 3_600.0, is_least=False)
    assert [len(notes._numbers) for notes in ages._notes] == [600, 1_440, 1_440]
