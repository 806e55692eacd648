"""Charts as inline SVG: lines, a heat map, bars.  They know nothing of messages, have no script and no style of their
own: classes say what a thing is, and the style sheet of the page gives colours for light, dark and paper.

A chart is as wide as its place and keeps its height.  So that its text is not stretched, positions across are
percentages and positions down are pixels; only curves and cells stand in an inner `svg` that is stretched, with strokes
that are not.  Labels of the vertical axis hang over the left edge, into a margin that the style sheet leaves.

    x    fractions of the width, 0 to 1
    y    values, in the unit of the axis

Every chart has a title and a description.  Bands are invisible columns that show their text when pointed at.  Whoever
cannot point or see finds the same figures in the table that the page puts behind the chart.

    chart       root; `lines` or `heat` besides
    s1 .. s5    series, also on the keys of the legend
    h1 .. h7    cells, from few to many
    grid axis line band dot bar halo
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .markup import Markup, element, join, number

HEIGHT = 200
"""Of the plot, in pixels."""
_ABOVE, _BELOW = 10, 26
_WIDE = 10_000
_MOST_DOTS = 24
LEVELS = 7


@dataclass(frozen=True, slots=True)
class Series:
    """A line.

    Attributes:
        values: one for each point; None: the line is broken there.
    """

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """A label of the horizontal axis; a minor one is left out where there is little room."""

    at: float
    text: str
    minor: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """A column, and what it tells of itself."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class Frame:
    """What all charts have.

    Attributes:
        name: unique on the page.
    """

    name: str
    title: str
    description: str
    marks: Sequence[Mark] = ()
    bands: Sequence[Band] = ()


@dataclass(frozen=True, slots=True)
class Scale:
    """The vertical axis: a value is at `place(value)` pixels from the top of the plot.

    Attributes:
        low, high: values at its ends, in the measure of `of`.
        of: from value to measure, for axes that are not linear.
        ticks: values with a label.
    """

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    of: Callable[[float], float] = float

    def place(self, value: float) -> float:
        """Pixels from the top; beyond an end is at that end."""
        share = (self.of(value) - self.low) / (self.high - self.low)
        return HEIGHT * (1 - min(max(share, 0.0), 1.0))


def linear(highest: float, label: Callable[[float], str]) -> Scale:
    """From zero to a round number that is not below the highest value."""
    if highest <= 0:
        return Scale(0.0, 1.0, [(0.0, label(0.0))])
    step = _round_step(highest / 5)
    steps = math.ceil(highest / step - 1e-9)
    return Scale(0.0, step * steps, [(step * place, label(step * place)) for place in range(steps + 1)])


def logarithmic(low: float, high: float, label: Callable[[float], str]) -> Scale:
    """From one value, which may be zero, to another; ticks at powers of ten, and at 2 and 5 where those are few."""
    measure = math.log1p
    powers = [10.0**power for power in range(13)]
    ticks = [each for each in powers if low <= each <= high]
    if len(ticks) < 3:
        ticks = [power * factor for power in powers for factor in (1, 2, 5) if low <= power * factor <= high]
    return Scale(measure(low), measure(high), [(each, label(each)) for each in ticks], measure)


def _round_step(least: float) -> float:
    """1, 2, 2.5 or 5 times a power of ten, not below the least."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= least * (1 - 1e-9))


def lines(frame: Frame, points: Sequence[float], series: Sequence[Series], scale: Scale) -> Markup:
    """Lines over the points."""
    curves = [_curve(points, each.values, scale, f"s{place}") for place, each in enumerate(series, 1)]
    dots = [
        element("circle", cx=_percent(x), cy=_ABOVE + scale.place(y), r=2.5, class_=f"dot s{place}")
        for place, each in enumerate(series, 1)
        for x, y in zip(points, each.values, strict=True)
        if y is not None and len(points) <= _MOST_DOTS
    ]
    return _chart("lines", frame, scale, [_stretched(*curves), *dots])


def heat(
    frame: Frame,
    cells: Mapping[tuple[int, int], int],
    columns: Sequence[tuple[float, float]],
    rows: Sequence[tuple[float, float]],
    scale: Scale,
    over: tuple[Sequence[float], Sequence[Series]] = ((), ()),
) -> Markup:
    """A heat map: cells are the darker the more is counted, by the logarithm.

    Args:
        cells: counts by (column, row); no cell is drawn for zero.
        columns: from where to where.
        rows: from which value to which.
        over: points and lines above the cells.
    """
    most = max(cells.values(), default=1)
    paths: dict[int, list[str]] = {}
    for (column, row), many in sorted(cells.items()):
        if many:
            paths.setdefault(level(many, most), []).append(_box(columns[column], rows[row], scale))
    painted = [element("path", d="".join(boxes), class_=f"cell h{depth}") for depth, boxes in sorted(paths.items())]
    points, series = over
    halos = [_curve(points, each.values, scale, "halo") for each in series]
    curves = [_curve(points, each.values, scale, f"s{place}") for place, each in enumerate(series, 1)]
    return _chart("heat", frame, scale, [_stretched(*painted, *halos, *curves)])


def level(many: int, most: int) -> int:
    """Of a cell: 1 to `LEVELS`."""
    if most <= 1:
        return LEVELS
    return 1 + min(int(LEVELS * math.log(many) / math.log(most)), LEVELS - 1)


def bars(*shares: float) -> Markup:
    """Thin bars below each other; a share of 1 is the whole width.  For a cell of a table that has the figures."""
    drawn = [
        element("rect", y=(place - 1) * 5, width=_percent(share), height=4, rx=1, class_=f"bar s{place}")
        for place, share in enumerate(shares, 1)
    ]
    return element("svg", *drawn, class_="bars", height=len(shares) * 5, aria_hidden="true")


def legend(names: Sequence[str]) -> Markup:
    """A list of keys for the series of a chart of lines."""
    return _keys(names, [element("path", d="M2 6H28", class_=f"line s{place}") for place in range(1, len(names) + 1)])


def legend_of_bars(names: Sequence[str]) -> Markup:
    """The same for bars."""
    places = range(1, len(names) + 1)
    return _keys(names, [element("rect", y=4, width=30, height=4, rx=1, class_=f"bar s{place}") for place in places])


def _keys(names: Sequence[str], drawings: Sequence[Markup]) -> Markup:
    keys = [element("li", _key(drawing, 30), name) for name, drawing in zip(names, drawings, strict=True)]
    return element("ul", *keys, class_="legend")


def depths(few: str, many: str) -> Markup:
    """A list of one key for the cells of a heat map."""
    boxes = [
        element("rect", x=(depth - 1) * 12, width=12, height=12, class_=f"cell h{depth}")
        for depth in range(1, LEVELS + 1)
    ]
    return element("ul", element("li", few, _key(join(boxes), LEVELS * 12), many), class_="legend")


def _key(drawing: Markup, width: int) -> Markup:
    return element("svg", drawing, class_="key", width=width, height=12, aria_hidden="true")


def _chart(kind: str, frame: Frame, scale: Scale, content: Sequence[Markup]) -> Markup:
    title, description = f"{frame.name}-title", f"{frame.name}-description"
    return element(
        "svg",
        element("title", frame.title, id=title),
        element("desc", frame.description, id=description),
        *_grid(scale),
        *content,
        *_marks(frame.marks),
        *[_band(each) for each in frame.bands],
        id=frame.name,
        class_=f"chart {kind}",
        role="img",
        aria_labelledby=f"{title} {description}",
        height=_ABOVE + HEIGHT + _BELOW,
    )


def _grid(scale: Scale) -> list[Markup]:
    drawn = []
    for value, text in scale.ticks:
        y = _ABOVE + scale.place(value)
        drawn += [
            element("line", x1=0, x2="100%", y1=y, y2=y, class_="grid"),
            element("text", text, x=-8, y=y + 4, class_="axis up"),
        ]
    return drawn


def _marks(marks: Sequence[Mark]) -> list[Markup]:
    top = _ABOVE + HEIGHT
    drawn = []
    for mark in marks:
        x, minor = _percent(mark.at), " minor" if mark.minor else ""
        drawn += [
            element("line", x1=x, x2=x, y1=top, y2=top + 5, class_="grid" + minor),
            element("text", mark.text, x=x, y=top + 19, class_="axis along" + minor),
        ]
    return drawn


def _band(band: Band) -> Markup:
    width = _percent(band.end - band.start)
    hint = element("title", band.text)
    return element("rect", hint, x=_percent(band.start), y=_ABOVE, width=width, height=HEIGHT, class_="band")


def _stretched(*content: Markup) -> Markup:
    box = f"0 0 {_WIDE} {HEIGHT}"
    return element(
        "svg", *content, y=_ABOVE, width="100%", height=HEIGHT, viewBox=box, preserveAspectRatio="none", class_="plot"
    )


def _curve(points: Sequence[float], values: Sequence[float | None], scale: Scale, class_: str) -> Markup:
    """A line through the points; one that stands alone is a dot, since a line without length has round ends."""
    drawn: list[str] = []
    pen = "M"
    for x, y in zip(points, values, strict=True):
        if y is None:
            pen = "M"
            continue
        place = f"{round(x * _WIDE)} {number(round(scale.place(y), 1))}"
        drawn.append(f"{pen}{place}" if pen == "L" else f"M{place}l0 0")
        pen = "L"
    return element("path", d="".join(drawn), class_=f"line {class_}")


def _box(column: tuple[float, float], row: tuple[float, float], scale: Scale) -> str:
    left, right = [round(each * _WIDE) for each in column]
    low, high = [round(scale.place(each), 1) for each in row]
    return f"M{left} {number(high)}H{right}V{number(low)}H{left}z"


def _percent(share: float) -> str:
    return f"{number(round(share * 100, 3))}%"
