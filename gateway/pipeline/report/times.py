"""How a span is divided: the steps of its figures, and the labels below its charts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from . import values
from .svg import Mark

_SECOND, _MINUTE, _HOUR, _DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

STEPS = (
    *(seconds * _SECOND for seconds in (1, 5, 15)),
    *(_MINUTE, 5 * _MINUTE, 15 * _MINUTE, _HOUR, 6 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY),
)
MOST_STEPS = 180
"""About what a chart can show."""

_BETWEEN_MARKS = (
    *(seconds * _SECOND for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 7, 14, 28, 56, 112, 364)),
)
_MOST_MARKS = 10


def step_of(span: timedelta) -> timedelta:
    """A second for up to three minutes, a minute for up to three hours: as coarse as the charts need it."""
    return next((step for step in STEPS if span <= step * MOST_STEPS), STEPS[-1])


def floor(when: datetime, step: timedelta) -> datetime:
    """The start of the step that a moment is in; steps are counted from 1970 on."""
    return EPOCH + (when - EPOCH) // step * step


def steps(since: datetime, until: datetime, step: timedelta) -> Iterator[tuple[datetime, datetime]]:
    """The steps of [since, until), the first and the last cut to it."""
    start = floor(since, step)
    while start < until:
        yield max(start, since), min(start + step, until)
        start += step


def share(when: datetime, since: datetime, until: datetime) -> float:
    """Where in the span: 0 to 1."""
    return (when - since) / (until - since)


def marks(since: datetime, until: datetime) -> list[Mark]:
    """Labels at round times; every other one is minor.  At midnight it is the day."""
    span = until - since
    between = next((each for each in _BETWEEN_MARKS if span <= each * _MOST_MARKS), _BETWEEN_MARKS[-1])
    when = floor(since, between)
    found: list[Mark] = []
    while when <= until:
        if when >= since:
            midnight = when == floor(when, _DAY)
            text = values.day(when) if midnight and span > _DAY / 2 else values.clock(when)
            found.append(Mark(share(when, since, until), text, minor=bool(len(found) % 2)))
        when += between
    return found


def label(when: datetime, since: datetime, until: datetime) -> str:
    """A moment of a span, with the day where that is not clear."""
    alone = floor(since, _DAY) == floor(until - timedelta(microseconds=1), _DAY)
    return values.clock(when) if alone else f"{values.day(when)} {values.clock(when)}"
