"""Steps and labels of a span."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pipeline.report import times, values

START = datetime(2026, 11, 20, 14, 3, 20, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("span", "step"),
    [
        (MINUTE, SECOND),
        (4 * MINUTE, 5 * SECOND),
        (HOUR, MINUTE),
        (3 * HOUR, MINUTE),
        (4 * HOUR, 5 * MINUTE),
        (DAY, 15 * MINUTE),
        (7 * DAY, HOUR),
        (3650 * DAY, 28 * DAY),
    ],
)
def test_steps_are_as_coarse_as_needed(span: timedelta, step: timedelta) -> None:
    assert times.step_of(span) == step


@given(st.timedeltas(timedelta(seconds=1), timedelta(days=4000)), st.timedeltas(timedelta(0), timedelta(days=30)))
def test_steps_cover_the_span_without_holes(span: timedelta, later: timedelta) -> None:
    since = START + later
    step = times.step_of(span)
    found = list(times.steps(since, since + span, step))
    assert found[0][0] == since
    assert found[-1][1] == since + span
    assert all(one[1] == other[0] for one, other in itertools.pairwise(found))
    assert all(times.floor(start, step) == start for start, _ in found[1:])
    assert len(found) <= times.MOST_STEPS + 1


@given(st.timedeltas(timedelta(minutes=2), timedelta(days=4000)))
def test_labels_are_inside_and_few(span: timedelta) -> None:
    marks = times.marks(START, START + span)
    assert 1 <= len(marks) <= 12
    assert all(0 <= mark.at <= 1 for mark in marks)
    assert [mark.minor for mark in marks[:2]] == [False, True][: len(marks)]


def test_midnight_is_a_day() -> None:
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    texts = [mark.text.replace(values.SPACE, " ") for mark in times.marks(noon, noon + DAY)]
    assert texts == ["12:00", "15:00", "18:00", "21:00", "21 Nov", "03:00", "06:00", "09:00", "12:00"]


def test_rows_have_their_day_where_it_is_not_clear() -> None:
    midnight = datetime(2026, 11, 20, tzinfo=UTC)
    assert times.label(START, midnight, midnight + DAY) == "14:03:20"
    assert times.label(START, midnight, midnight + DAY + MINUTE).replace(values.SPACE, " ") == "20 Nov 14:03:20"
