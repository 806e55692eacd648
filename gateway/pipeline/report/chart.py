"""Line charts as inline SVG, without script: classes name the parts, the page's style sheet has the colours.

A chart is as wide as its place and keeps its height: positions across are percentages and positions down are pixels;
only the curves stand in an inner `svg` that is stretched.  The page puts a table with the same figures behind it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from . import formats
from .figures import DAY, HOUR, MINUTE, SECOND, floor
from .html import Markup, element, join, number

HEIGHT = 200  # of the plot, in pixels
_ABOVE, _BELOW = 10, 26
_WIDE = 10_000
_MOST_LABELS = 10
_BETWEEN_LABELS = (
    *(count * unit for unit in (SECOND, MINUTE) for count in (1, 2, 5, 10, 15, 30)),
    *(count * HOUR for count in (1, 2, 3, 6, 12)),
    *(count * DAY for count in (1, 2, 7, 14, 28, 56, 112, 364)),
)

Series = Mapping[str, Sequence[float | None]]  # name of a line -> its value at each point; None breaks the line


@dataclass(frozen=True, slots=True)
class Scale:
    low: float  # the values at its ends, as `of` measures them
    high: float
    ticks: Sequence[tuple[float, str]]  # values with a label
    of: Callable[[float], float] = float  # from a value to its measure; not the identity for axes that are not linear

    def place(self, value: float) -> float:
        """Pixels from the top; a value beyond an end is at that end."""
        share = (self.of(value) - self.low) / (self.high - self.low)
        return HEIGHT * (1 - min(max(share, 0.0), 1.0))


def linear(highest: float, label: Callable[[float], str]) -> Scale:
    """From zero to a round number that is not below the highest value."""
    if highest <= 0:
        return Scale(0.0, 1.0, [(0.0, label(0.0))])
    power = 10.0 ** math.floor(math.log10(highest / 5))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= highest / 5 * (1 - 1e-9))
    steps = math.ceil(highest / step - 1e-9)
    return Scale(0.0, step * steps, [(step * place, label(step * place)) for place in range(steps + 1)])


def logarithmic(low: float, high: float, label: Callable[[float], str]) -> Scale:
    """From one value, which may be zero, to another; ticks at powers of ten, and at 2 and 5 if those are few."""
    powers = [10.0**power for power in range(13)]
    ticks = [each for each in powers if low <= each <= high]
    if len(ticks) < 3:
        ticks = [power * factor for power in powers for factor in (1, 2, 5) if low <= power * factor <= high]
    return Scale(math.log1p(low), math.log1p(high), [(each, label(each)) for each in ticks], math.log1p)


def lines(
    key: str,
    title: str,
    description: str,
    span: tuple[datetime, datetime],
    points: Sequence[datetime],
    series: Series,
    scale: Scale,
) -> list[Markup]:
    """A legend and a chart, whose id on the page is `key`; `points` are the moments that the values belong to."""
    places = [(when - span[0]) / (span[1] - span[0]) for when in points]
    curves = [_curve(places, values, scale, index) for index, values in enumerate(series.values(), 1)]
    box = f"0 0 {_WIDE} {HEIGHT}"
    plot = element(
        "svg", *curves, y=_ABOVE, width="100%", height=HEIGHT, viewBox=box, preserveAspectRatio="none", class_="plot"
    )
    chart = element(
        "svg",
        element("title", title, id=f"{key}-title"),
        element("desc", description, id=f"{key}-description"),
        *_grid(scale),
        plot,
        *_labels(*span),
        id=key,
        class_="chart lines",
        role="img",
        aria_labelledby=f"{key}-title {key}-description",
        height=_ABOVE + HEIGHT + _BELOW,
    )
    return [_legend(list(series)), chart]


def _legend(names: Sequence[str]) -> Markup:
    keys = [element("path", d="M2 6H28", class_=f"line s{place}") for place in range(1, len(names) + 1)]
    drawn = [element("svg", key, class_="key", width=30, height=12, aria_hidden="true") for key in keys]
    return element("ul", *[element("li", key, name) for key, name in zip(drawn, names, strict=True)], class_="legend")


def _grid(scale: Scale) -> list[Markup]:
    return [
        join(
            [
                element("line", x1=0, x2="100%", y1=y, y2=y, class_="grid"),
                element("text", text, x=-8, y=y + 4, class_="axis up"),
            ]
        )
        for y, text in [(_ABOVE + scale.place(value), text) for value, text in scale.ticks]
    ]


def labels(since: datetime, until: datetime) -> list[tuple[float, str]]:
    """Round times of a span: where each is, 0 to 1, and its text, which is the day at midnight."""
    span = until - since
    between = next((each for each in _BETWEEN_LABELS if span <= each * _MOST_LABELS), _BETWEEN_LABELS[-1])
    found = []
    when = floor(since - timedelta(microseconds=1), between) + between
    while when <= until:
        is_day = when == floor(when, DAY) and span > DAY / 2
        found.append(((when - since) / span, formats.day(when) if is_day else formats.clock(when)))
        when += between
    return found


def _labels(since: datetime, until: datetime) -> list[Markup]:
    """The horizontal axis; every other label is minor, and left out where there is little room."""
    top = _ABOVE + HEIGHT
    drawn = []
    for place, (at, text) in enumerate(labels(since, until)):
        x, minor = f"{number(round(at * 100, 3))}%", " minor" * (place % 2)
        drawn += [
            element("line", x1=x, x2=x, y1=top, y2=top + 5, class_=f"grid{minor}"),
            element("text", text, x=x, y=top + 19, class_=f"axis along{minor}"),
        ]
    return drawn


def _curve(places: Sequence[float], values: Sequence[float | None], scale: Scale, index: int) -> Markup:
    """A line through the points; a single point is a dot, for a line without length has round ends."""
    drawn: list[str] = []
    pen = "M"
    for x, y in zip(places, values, strict=True):
        if y is None:
            pen = "M"
            continue
        place = f"{round(x * _WIDE)} {number(round(scale.place(y), 1))}"
        drawn.append(f"{pen}{place}" if pen == "L" else f"M{place}l0 0")
        pen = "L"
    return element("path", d="".join(drawn), class_=f"line s{index}")
