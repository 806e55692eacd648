"""Latencies: percentiles, heat maps over time with the percentiles as lines, and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..jobs import latency
from ..jobs.figures import Figures, Histogram
from . import parts, svg, times, traffic, values
from .figures import Report, Step, percentiles
from .markup import Markup, element

_PERCENTILES = ("p50", "p95", "p99")
_MOST_ROWS = 28
_LEAST_BUCKETS = 24


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the two latencies."""

    key: str
    title: str
    remark: str
    of: Callable[[Figures], Histogram]


KINDS = (
    Kind("queue", "In the queue", "from accepted to the first delivery", lambda figures: figures.queue),
    Kind("ack", "At the consumer", "from the delivery to its ACK", lambda figures: figures.ack),
)


def section(report: Report) -> list[Markup]:
    """Both latencies."""
    content = [parts.quiet("Taken from histograms; what is shown is true to 4.5 %. Times are UTC.")]
    for kind in KINDS:
        content += _part(report, kind, kind.of(report.whole))
    return [parts.section("latency", "Latency", *content)]


def _part(report: Report, kind: Kind, whole: Histogram) -> list[Markup]:
    heading = element("h3", f"{kind.title}: {kind.remark}")
    if not whole:
        return [heading, parts.quiet("There was none in this span.")]
    figures = [
        parts.headline(f"{kind.key}_{name}", name, value, values.latency(value))
        for name, value in zip(_PERCENTILES, percentiles(whole), strict=True)
    ]
    legend = element("div", svg.legend(_PERCENTILES), svg.depths("few", "many"), class_="over legend")
    return [
        heading,
        parts.headlines(figures, "small three"),
        legend,
        _heat(report, kind, whole),
        parts.behind(f"{kind.key}-table", "The percentiles as a table", _table(report, kind)),
    ]


def _heat(report: Report, kind: Kind, whole: Histogram) -> Markup:
    first, size, rows = layers(whole)
    cells: Counter[tuple[int, int]] = Counter()
    for column, step in enumerate(report.steps):
        for bucket, many in kind.of(step.figures).items():
            cells[column, (bucket - first) // size] += many
    taken = [percentiles(kind.of(step.figures)) for step in report.steps]
    over = [svg.Series(name, [each[place] for each in taken]) for place, name in enumerate(_PERCENTILES)]
    p50, p95, p99 = [values.latency(value) for value in percentiles(whole)]
    bands = [traffic.band(report, step, _hint(report, kind, step)) for step in report.steps]
    frame = svg.Frame(
        f"{kind.key}-chart",
        f"Latency over time, {kind.remark}",
        f"Over the whole span the median is {p50}, p95 {p95}, p99 {p99}. The darker, the more messages took so long.",
        times.marks(report.since, report.until),
        bands,
    )
    scale = svg.logarithmic(rows[0][0], rows[-1][1], values.latency)
    columns = [(each.start, each.end) for each in bands]
    return svg.heat(frame, cells, columns, rows, scale, (traffic.middles(report), over))


def layers(whole: Histogram) -> tuple[int, int, list[tuple[float, float]]]:
    """The rows of a heat map: the first bucket, how many buckets a row has, and where in microseconds each row is.

    A few are left free above and below when all is in one place.
    """
    low, high = min(whole), max(whole)
    free = max(_LEAST_BUCKETS - (high - low + 1), 0)
    low = max(low - free // 2, 0)
    high = max(high, low + _LEAST_BUCKETS - 1)
    size = next(each for each in (1, 2, 4, 8, 16, 32) if each == 32 or high // each - low // each < _MOST_ROWS)
    first = low // size * size
    starts = range(first, high + 1, size)
    return first, size, [(latency.bounds(start)[0], latency.bounds(start + size - 1)[1]) for start in starts]


def _hint(report: Report, kind: Kind, step: Step) -> str:
    taken = kind.of(step.figures)
    lines = [traffic.during(report, step), f"Messages: {values.count(sum(taken.values()))}"]
    return "\n".join([*lines, *_named(taken)])


def _named(taken: Histogram) -> Sequence[str]:
    pairs = zip(_PERCENTILES, percentiles(taken), strict=True)
    return [f"{name}: {values.latency(value)}" for name, value in pairs if value is not None]


def _table(report: Report, kind: Kind) -> Markup:
    rows = [
        parts.row(
            parts.head(times.label(step.start, report.since, report.until)),
            parts.counted("count", "Messages", sum(kind.of(step.figures).values())),
            *[
                parts.took(name, name, value)
                for name, value in zip(_PERCENTILES, percentiles(kind.of(step.figures)), strict=True)
            ],
            data_time=values.iso(step.start),
        )
        for step in report.steps
    ]
    return parts.table(kind.title, ["From (UTC)", "#Messages", *[f"#{name}" for name in _PERCENTILES]], rows)
