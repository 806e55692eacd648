"""Numbers with units."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from gateway.pipeline.report import values


def plain(text: str) -> str:
    return text.replace(values.SPACE, " ")


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (None, "–"),
        (0, "0 µs"),
        (7, "7 µs"),
        (692, "690 µs"),
        (996, "1 ms"),
        (1234, "1.2 ms"),
        (251_000, "250 ms"),
        (999_900, "1 s"),
        (61e6, "61 s"),
        (121e6, "2 min"),
        (7_300e6, "2 h"),
        (40 * 3_600e6, "40 h"),
        (72 * 3_600e6, "3 d"),
    ],
)
def test_latency(us: float | None, text: str) -> None:
    assert plain(values.latency(us)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (1 / 3, "0.333"),
        (12, "12"),
        (999.9, "1 k"),
        (1234567, "1.23 M"),
        (2e9, "2 G"),
        (3e12, "3 T"),
    ],
)
def test_short(value: float, text: str) -> None:
    assert plain(values.short(value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**2, "5 MiB"), (2**30, "1 GiB"), (2**40, "1 TiB")],
)
def test_octets(value: int, text: str) -> None:
    assert plain(values.octets(value)) == text


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(seconds=90), "1 min 30 s"),
        (timedelta(hours=24), "24 h"),
        (timedelta(days=7, hours=1), "7 d 1 h"),
        (timedelta(milliseconds=1500), "1 s"),
        (timedelta(milliseconds=500), "0.5 s"),
    ],
)
def test_length(span: timedelta, text: str) -> None:
    assert plain(values.length(span)) == text


def test_counts_have_separators() -> None:
    assert values.count(1234567) == "1,234,567"


def test_moments_are_utc() -> None:
    berlin = timezone(timedelta(hours=1))
    when = datetime(2026, 11, 22, 0, 3, tzinfo=berlin)
    assert plain(values.moment(when)) == "21 Nov 2026 23:03"
    assert values.iso(when) == "2026-11-21T23:03:00Z"
    assert values.clock(when.replace(second=7)) == "23:03:07"
    assert values.iso(datetime(2026, 1, 2, 3, 4, 5, 6, UTC)) == "2026-01-02T03:04:05.000006Z"
