"""Charts: scales, labels, and the place of each line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from gateway.pipeline.report import chart
from gateway.pipeline.report.formats import SPACE

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


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


@given(st.timedeltas(timedelta(minutes=2), timedelta(days=4000)))
def test_labels_are_inside_and_few(span: timedelta) -> None:
    found = chart.labels(NOON + timedelta(seconds=200), NOON + timedelta(seconds=200) + span)
    assert 1 <= len(found) <= 12
    assert all(0 <= at <= 1 for at, _ in found)
