"""Where a report begins and ends if nobody says so."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gateway.pipeline.report.extent import fitted
from tests.pipeline import rows
from tests.pipeline.rows import START

DAY = timedelta(days=1)


def of(folder: Path, *at: float) -> tuple[datetime, datetime]:
    """The extent of rows at so many seconds behind START, in the day around it."""
    if at:
        rows.write(folder, [rows.accepted(each) for each in at])
    return fitted(folder, START - DAY, START + DAY)


def test_a_short_one_is_to_the_second(tmp_path: Path) -> None:
    assert of(tmp_path, 0.25, 7, 19.75) == (START, START + timedelta(seconds=20))


def test_a_long_one_is_to_the_minute(tmp_path: Path) -> None:
    assert of(tmp_path, 61, 3 * 3600 + 1) == (START + timedelta(minutes=1), START + timedelta(hours=3, minutes=1))


@pytest.mark.parametrize("at", [(), (3 * 86_400.0,)])
def test_nothing_in_it(tmp_path: Path, at: tuple[float, ...]) -> None:
    assert of(tmp_path, *at) == (START - DAY, START + DAY)


def test_it_is_inside_of_what_was_asked_for(tmp_path: Path) -> None:
    """A file of the hour has rows before and behind."""
    rows.write(tmp_path, [rows.accepted(each) for each in (0, 100, 200)])
    asked = START + timedelta(seconds=50), START + timedelta(seconds=150)
    assert fitted(tmp_path, *asked) == asked
