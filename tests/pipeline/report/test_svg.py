"""Charts: where things are drawn."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from gateway.pipeline.report import svg

FRAME = svg.Frame(
    "c", "Title <", "Words", [svg.Mark(0, "left"), svg.Mark(1, "right", minor=True)], [svg.Band(0, 0.5, "a\nb")]
)


def drawn(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(chart)


def test_a_scale_is_round_and_holds_the_highest() -> None:
    for highest in (0.003, 1, 7, 99, 1234, 8e9):
        scale = svg.linear(highest, str)
        assert scale.high >= highest
        assert 2 <= len(scale.ticks) <= 6
        assert scale.place(0) == svg.HEIGHT
        assert scale.place(scale.high) == 0
        assert scale.high <= 2.1 * highest


def test_a_scale_of_nothing() -> None:
    scale = svg.linear(0, str)
    assert [value for value, _ in scale.ticks] == [0]
    assert scale.place(0) == svg.HEIGHT


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(90, 2e6, [100, 1e3, 1e4, 1e5, 1e6]), (100, 900, [100, 200, 500]), (0, 20, [1, 2, 5, 10, 20])],
)
def test_a_logarithmic_scale(low: float, high: float, ticks: list[float]) -> None:
    scale = svg.logarithmic(low, high, str)
    assert [value for value, _ in scale.ticks] == ticks
    assert scale.place(low) == svg.HEIGHT
    assert scale.place(high * 9) == 0


def test_lines() -> None:
    scale = svg.linear(100, str)
    chart = drawn(
        svg.lines(
            FRAME, [0.25, 0.5, 0.75], [svg.Series("one", [0, 100, None]), svg.Series("two", [None, 50, 50])], scale
        )
    )
    assert chart.attrib["role"] == "img"
    assert chart.attrib["aria-labelledby"] == "c-title c-description"
    assert [chart.findtext("title"), chart.findtext("desc")] == ["Title <", "Words"]
    paths = {each.attrib["class"]: each.attrib["d"] for each in chart.iter("path")}
    assert paths == {"line s1": "M2500 200l0 0L5000 0", "line s2": "M5000 100l0 0L7500 100"}
    assert [each.attrib["cx"] for each in chart.iter("circle")] == ["25%", "50%", "50%", "75%"]
    assert [each.text for each in chart.iter("text")][-2:] == ["left", "right"]
    (band,) = [each for each in chart.iter("rect") if each.attrib["class"] == "band"]
    assert (band.attrib["width"], band.findtext("title")) == ("50%", "a\\nb")


def test_many_points_have_no_dots() -> None:
    points = [place / 100 for place in range(100)]
    chart = svg.lines(FRAME, points, [svg.Series("one", points)], svg.linear(1, str))
    assert "<circle" not in chart


def test_heat() -> None:
    scale = svg.Scale(0, 4, [])
    cells = {(0, 0): 1, (1, 1): 1000, (1, 0): 0}
    over = ([0.5], [svg.Series("p50", [2])])
    chart = drawn(svg.heat(FRAME, cells, [(0, 0.5), (0.5, 1)], [(0, 1), (1, 4)], scale, over))
    paths = {each.attrib["class"]: each.attrib["d"] for each in chart.iter("path")}
    assert paths == {
        "cell h1": "M0 150H5000V200H0z",
        "cell h7": "M5000 0H10000V150H5000z",
        "line halo": "M5000 100l0 0",
        "line s1": "M5000 100l0 0",
    }


def test_depth_grows_with_the_logarithm() -> None:
    levels = [svg.level(many, 10_000_000) for many in (1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000)]
    assert levels == sorted(levels)
    assert {levels[0], levels[-1]} == {1, svg.LEVELS}
    assert svg.level(1, 1) == svg.LEVELS


def test_bars_and_legends() -> None:
    widths = re.findall(r'width="([^"]+)"', svg.bars(1, 1 / 3, 0))
    assert widths == ["100%", "33.333%", "0%"]
    assert svg.legend(["a", "b<"]).count("<li>") == 2
    assert "b&lt;" in svg.legend_of_bars(["a", "b<"])
    assert svg.depths("few", "many").count("cell h") == svg.LEVELS
