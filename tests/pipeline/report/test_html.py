"""Text never becomes markup; numbers have units, times are UTC; charts: scales, labels, lines and steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pipeline.report import chart, formats
from gateway.pipeline.report import figures as time_steps
from gateway.pipeline.report.build import fitted
from gateway.pipeline.report.figures import DAY, HOUR, MINUTE, SECOND
from gateway.pipeline.report.formats import SPACE
from gateway.pipeline.report.html import element
from gateway.text import visible
from tests.pipeline import rows
from tests.pipeline.rows import START


class Reader(HTMLParser):
    """Keeps what it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.values: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.values += [value for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(st.text(st.characters(codec=None), min_size=1))
def test_any_text_stays_text(text: str) -> None:
    reader = Reader()
    reader.feed(element("p", text, title=text))
    reader.close()
    assert reader.tags == ["p"]
    assert "".join(reader.texts) == visible(text)
    assert reader.values == [visible(text)]
    reader.texts[0].encode()


S, H = 1e6, 3_600e6


@pytest.mark.parametrize(
    ("of", "texts"),
    [
        (formats.latency, {None: "–", 0: "0 µs", 7: "7 µs", 692: "690 µs", 996: "1 ms", 1234: "1.2 ms"}),
        (formats.latency, {251_000: "250 ms", 999_900: "1 s", 61 * S: "61 s", 121 * S: "2 min", 7_300 * S: "2 h"}),
        (formats.latency, {40 * H: "40 h", 72 * H: "3 d"}),
        (formats.short, {0: "0", 0.25: "0.25", 1 / 3: "0.333", 12: "12", 999.9: "1 k", 1234567: "1.23 M"}),
        (formats.short, {2e9: "2 G", 3e12: "3 T"}),
        (formats.size, {0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 * 1024**2: "5 MiB", 2**30: "1 GiB"}),
        (formats.size, {2**40: "1 TiB"}),
        (formats.count, {1234567: "1,234,567"}),
        (formats.length, {timedelta(seconds=90): "1 min 30 s", timedelta(hours=24): "24 h"}),
        (formats.length, {timedelta(days=7, hours=1): "7 d 1 h", timedelta(seconds=1.5): "1 s"}),
        (formats.length, {timedelta(milliseconds=500): "0.5 s"}),
    ],
)
def test_numbers(of: Callable[[Any], str], texts: dict[Any, str]) -> None:
    assert {value: of(value).replace(formats.SPACE, " ") for value in texts} == texts


def test_moments_are_utc() -> None:
    when = datetime(2026, 11, 22, 0, 3, tzinfo=timezone(timedelta(hours=1)))
    assert formats.moment(when).replace(formats.SPACE, " ") == "21 Nov 2026 23:03"
    assert formats.iso(when) == "2026-11-21T23:03:00Z"
    assert formats.clock(when.replace(second=7)) == "23:03:07"
    assert formats.iso(datetime(2026, 1, 2, 3, 4, 5, 6, UTC)) == "2026-01-02T03:04:05.000006Z"


NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_a_linear_scale_is_round_and_holds_the_highest() -> None:
    for highest in (0.003, 1, 7, 99, 1234, 8e9):
        scale = chart.linear(highest, str)
        assert highest <= scale.high <= 2.1 * highest
        assert 2 <= len(scale.ticks) <= 6
        assert (scale.place(0), scale.place(scale.high)) == (chart.HEIGHT, 0)
    nothing = chart.linear(0, str)
    assert ([value for value, _ in nothing.ticks], nothing.place(0)) == ([0], chart.HEIGHT)


def test_a_logarithmic_scale_has_ticks_at_powers_of_ten() -> None:
    for low, high, ticks in (
        (90, 2e6, [100, 1e3, 1e4, 1e5, 1e6]),
        (100, 900, [100, 200, 500]),
        (0, 20, [1, 2, 5, 10, 20]),
    ):
        scale = chart.logarithmic(low, high, str)
        assert [value for value, _ in scale.ticks] == ticks
        assert (scale.place(low), scale.place(high * 9)) == (chart.HEIGHT, 0)


def test_lines() -> None:
    points = [NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR]
    series = {"one": [0, 100, None], "two <": [None, 50, 50]}
    span = (NOON, NOON + 4 * HOUR)
    legend, drawn = chart.lines("c", "Title <", "Words", span, points, series, chart.linear(100, str))
    assert legend.count("<li>") == 2
    assert "two &lt;" in legend
    root = ElementTree.fromstring(drawn)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] == "c-title c-description"
    assert [root.findtext("title"), root.findtext("desc")] == ["Title <", "Words"]
    paths = {each.attrib["class"]: each.attrib["d"] for each in root.iter("path")}
    assert paths == {"line s1": "M2500 200l0 0L5000 0", "line s2": "M5000 100l0 0L7500 100"}
    texts = [(each.text, "minor" in each.attrib["class"]) for each in root.iter("text")]
    assert texts[-2:] == [("15:30", True), ("16:00", False)]


def test_midnight_is_labelled_as_a_day() -> None:
    texts = [text.replace(SPACE, " ") for _, text in chart.labels(NOON, NOON + DAY)]
    assert texts == ["12:00", "15:00", "18:00", "21:00", "21 Nov", "03:00", "06:00", "09:00", "12:00"]


def test_steps_are_as_coarse_as_needed() -> None:
    expected = {MINUTE: SECOND, 4 * MINUTE: 5 * SECOND, 3 * HOUR: MINUTE, 4 * HOUR: 5 * MINUTE, 3650 * DAY: 28 * DAY}
    assert {span: time_steps.step_of(span) for span in expected} == expected


@given(st.timedeltas(SECOND, 4000 * DAY), st.timedeltas(timedelta(0), 30 * DAY))
def test_steps_cover_the_span_without_holes(span: timedelta, later: timedelta) -> None:
    since, step = START + later, time_steps.step_of(span)
    found = list(time_steps.steps(since, since + span, step))
    assert (found[0][0], found[-1][1]) == (since, since + span)
    assert all(one[1] == other[0] for one, other in itertools.pairwise(found))
    assert all(time_steps.floor(start, step) == start for start, _ in found[1:])
    assert len(found) <= time_steps.MOST_STEPS + 1


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
