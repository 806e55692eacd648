"""The steps of a span, and the part of it that has rows."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.pipeline.report import figures
from gateway.pipeline.report.build import fitted
from gateway.pipeline.report.figures import DAY, HOUR, MINUTE, SECOND
from tests.pipeline import rows
from tests.pipeline.rows import START


def test_steps_are_as_coarse_as_needed() -> None:
    expected = {
        MINUTE: SECOND,
        4 * MINUTE: 5 * SECOND,
        HOUR: MINUTE,
        3 * HOUR: MINUTE,
        4 * HOUR: 5 * MINUTE,
        DAY: 15 * MINUTE,
        7 * DAY: HOUR,
        3650 * DAY: 28 * DAY,
    }
    assert {span: figures.step_of(span) for span in expected} == expected


@given(st.timedeltas(SECOND, 4000 * DAY), st.timedeltas(timedelta(0), 30 * DAY))
def test_steps_cover_the_span_without_holes(span: timedelta, later: timedelta) -> None:
    since, step = START + later, figures.step_of(span)
    found = list(figures.steps(since, since + span, step))
    assert (found[0][0], found[-1][1]) == (since, since + span)
    assert all(one[1] == other[0] for one, other in itertools.pairwise(found))
    assert all(figures.floor(start, step) == start for start, _ in found[1:])
    assert len(found) <= figures.MOST_STEPS + 1


def extent(folder: Path, *at: float) -> tuple[datetime, datetime]:
    """The part with rows at so many seconds after START, of two days around it."""
    if at:
        rows.write(folder, [rows.accepted(each) for each in at])
    return fitted(folder, START - DAY, START + DAY)


def test_the_part_with_rows(tmp_path: Path) -> None:
    assert extent(tmp_path / "seconds", 0.25, 7, 19.75) == (START, START + 20 * SECOND)
    assert extent(tmp_path / "minutes", 61, 3 * 3600 + 1) == (START + MINUTE, START + 3 * HOUR + MINUTE)
    assert extent(tmp_path / "empty") == extent(tmp_path / "later", 3 * 86_400.0) == (START - DAY, START + DAY)
    # A file of the hour has rows before the span and after it.
    rows.write(tmp_path, [rows.accepted(each) for each in (0, 100, 200)])
    asked = START + 50 * SECOND, START + 150 * SECOND
    assert fitted(tmp_path, *asked) == asked
