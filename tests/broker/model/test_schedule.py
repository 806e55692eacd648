"""Schedules: the moments of a calendar and of repetitions, what is missed, summer time, and what is no schedule."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gateway.broker.model.schedule import FOR_EVER, Moment, Schedule, next_moment

NOW = datetime(2026, 11, 24, 12, 0, 30, tzinfo=UTC).timestamp()


def moments(schedule: Schedule, count: int, start: float = NOW) -> list[float]:
    """The first moments, in seconds behind the start; each message goes out in time."""
    found, moment = [], schedule.first(start)
    while moment is not None and len(found) < count:
        found.append(moment.due - start)
        moment = schedule.after(moment, moment.due)
    return found


@pytest.mark.parametrize(
    ("schedule", "due"),
    [
        (Schedule(period=2.0, repeat=2), [2.0, 4.0, 6.0]),
        (Schedule(delay=5.0, period=2.0, repeat=2), [5.0, 7.0, 9.0]),
        (Schedule(period=10.0, repeat=FOR_EVER), [10.0, 20.0, 30.0, 40.0]),
        (Schedule(cron="* * * * *"), [30.0, 90.0, 150.0, 210.0]),
        (Schedule(cron="0 * * * *", delay=1.0, period=1.0, repeat=2), [3571.0, 3572.0, 3573.0, 7171.0]),
        (Schedule(cron="30 13 * * *", timezone="Europe/Berlin"), [1770.0, 88170.0, 174570.0, 260970.0]),
        (Schedule(cron="0 13 * * MON-FRI", timezone="Europe/Berlin"), [86370.0, 172770.0, 259170.0, 518370.0]),
    ],
)
def test_moments(schedule: Schedule, due: list[float]) -> None:
    assert moments(schedule, 4) == pytest.approx(due)


@pytest.mark.parametrize(
    ("schedule", "late", "due"),
    [
        (Schedule(period=10.0, repeat=FOR_EVER), 35.0, 50.0),
        (Schedule(period=10.0, repeat=5), 35.0, 50.0),
        (Schedule(period=10.0, repeat=2), 35.0, None),
        (Schedule(cron="* * * * *"), 300.0, 330.0 + 60.0),
        (Schedule(cron="0 * * * *", period=1.0, repeat=2), 7_200.0, 3_570.0 + 3 * 3_600.0),
    ],
)
def test_what_is_missed_comes_once(schedule: Schedule, late: float, due: float | None) -> None:
    """The message that is overdue goes out late, and the next one is the first that is not over then."""
    first = schedule.first(NOW)
    assert first is not None
    following = schedule.after(first, first.due + late)
    assert (None if following is None else following.due - NOW) == (None if due is None else pytest.approx(due))


@pytest.mark.parametrize(
    ("cron", "start", "hours"),
    [
        # In the night to the 29th of March 2026 the clock jumps from 2 to 3, and 1 o'clock UTC is 3 o'clock there.
        ("30 2 * * *", datetime(2026, 3, 28, 12, tzinfo=UTC), [13.0, 36.5, 60.5]),
        # In the night to the 25th of October it goes back from 3 to 2.
        ("30 2 * * *", datetime(2026, 10, 24, 12, tzinfo=UTC), [12.5, 37.5, 61.5]),
        ("30 * * * *", datetime(2026, 10, 24, 23, tzinfo=UTC), [0.5, 1.5, 2.5]),
    ],
)
def test_summer_time(cron: str, start: datetime, hours: list[float]) -> None:
    found = moments(Schedule(cron=cron, timezone="Europe/Berlin"), 3, start.timestamp())
    assert [each / 3600 for each in found] == pytest.approx(hours)


@pytest.mark.parametrize(
    ("cron", "timezone", "sentence"),
    [
        ("* * * *", "UTC", "a calendar has five fields (minute hour day month weekday), not 4"),
        ("* * * * * *", "UTC", "a calendar has five fields (minute hour day month weekday), not 6"),
        ("", "UTC", "a calendar has five fields (minute hour day month weekday), not 0"),
        ("61 * * * *", "UTC", "bad minute"),
        ("* * * * *", "Berlin", "there is no time zone 'Berlin': name one like Europe/Berlin"),
        ("* * * * *", "../etc/passwd", "there is no time zone '../etc/passwd': name one like Europe/Berlin"),
        ("* * * * *", "", "there is no time zone '': name one like Europe/Berlin"),
        ("* * * * *", "a\0b", "there is no time zone"),
    ],
)
def test_what_is_no_calendar(cron: str, timezone: str, sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:
        next_moment(cron, timezone, NOW)
    assert str(refusal.value).startswith(sentence)


def test_it_comes_out_of_the_store_as_it_went_in() -> None:
    schedule = Schedule(cron="0 * * * *", timezone="Europe/Berlin", delay=1.0, period=2.0, repeat=3)
    assert Schedule.from_store(schedule.stored()) == schedule
    assert Moment(*[1.0, 2, 3.0]) == Moment(1.0, 2, 3.0)


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (Schedule(cron="0 9 * * *"), "0 9 * * * UTC"),
        (Schedule(period=0.5, repeat=3), "every 0.5 s, 3 times more"),
        (Schedule(cron="0 9 * * *", period=60.0, repeat=FOR_EVER), "0 9 * * * UTC, every 60 s, for ever"),
    ],
)
def test_in_words(schedule: Schedule, text: str) -> None:
    assert str(schedule) == text


def test_a_calendar_that_comes_rarely() -> None:
    assert moments(Schedule(cron="0 0 29 2 *"), 1) == [(datetime(2028, 2, 29, tzinfo=UTC).timestamp() - NOW)]
