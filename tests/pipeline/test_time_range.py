"""Words for moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from gateway.pipeline.errors import UsageFailure
from gateway.pipeline.options import is_fixed, moment, span

NOW = datetime(2026, 11, 21, 14, 30, 15, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", NOW),
        (" NOW ", NOW),
        ("today", datetime(2026, 11, 21, tzinfo=UTC)),
        ("yesterday", datetime(2026, 11, 20, tzinfo=UTC)),
        ("90s", NOW - timedelta(seconds=90)),
        ("90m", NOW - timedelta(minutes=90)),
        ("2h", NOW - timedelta(hours=2)),
        ("2 H", NOW - timedelta(hours=2)),
        ("7d", NOW - timedelta(days=7)),
        ("2w", NOW - timedelta(days=14)),
        ("0s", NOW),
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01 12:00", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01T12:00:01.5", datetime(2026, 3, 1, 12, 0, 1, 500_000, tzinfo=UTC)),
        ("2026-03-01T12:00Z", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01T12:00+01:00", datetime(2026, 3, 1, 11, tzinfo=UTC)),
    ],
)
def test_times(text: str, meant: datetime) -> None:
    found = moment(text, NOW.astimezone(timezone(timedelta(hours=-15))))  # where it is another day
    assert (found, found.tzinfo) == (meant, UTC)


@pytest.mark.parametrize(
    "text", ["", "soon", "2", "2y", "-2h", "2026-13-01", "99:99", "999999999w", "0001-01-01T00:00+01:00"]
)
def test_invalid_times(text: str) -> None:
    with pytest.raises(UsageFailure, match="is no moment; write now, today"):
        moment(text, NOW)


@pytest.mark.parametrize(("since", "until"), [("now", "2h"), ("1h", "60m")])
def test_an_empty_range(since: str, until: str) -> None:
    with pytest.raises(UsageFailure, match=r"UTC, is empty: --until must be later"):
        span(since, until, NOW)
    assert span(until, "now", NOW) == (moment(until, NOW), NOW)


@pytest.mark.parametrize(("text", "fixed"), [("now", False), ("today", False), ("2h", False), ("2026-03-01", True)])
def test_relative_times(text: str, fixed: bool) -> None:
    assert is_fixed(text) is fixed
