"""Traffic over time: messages, what went wrong with some of them, and the table of both.

The charts show rates, so that a short first or last step does not look like a pause; the table has the counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from . import parts, svg, times, values
from .figures import EVENTS, EXCEPTIONS, FLOWS, Report, Step
from .markup import Markup

NAMES = {
    "accepted": "Accepted",
    "delivered": "Delivered",
    "acked": "Acknowledged",
    "nacked": "Rejected (NACK)",
    "redelivered": "Redelivered",
    "expired": "Expired",
    "dead_lettered": "Dead-lettered",
    "dropped": "Dropped",
}
_UNITS = {"hour": timedelta(hours=1), "minute": timedelta(minutes=1), "second": timedelta(seconds=1)}


def section(report: Report) -> list[Markup]:
    """The charts and the table behind them."""
    content = [
        parts.quiet(f"Messages per {unit(report)}, {_steps(report)}. Times are UTC."),
        *_chart(report, "traffic-chart", "Messages over time", FLOWS),
    ]
    if any(report.total(event) for event in EXCEPTIONS):
        content += [
            Markup("<h3>Exceptions</h3>"),
            parts.quiet(f"Messages per {unit(report)}, on a scale of their own."),
            *_chart(report, "exceptions-chart", "Exceptions over time", EXCEPTIONS),
        ]
    content.append(parts.behind("traffic-table", "The counts as a table", _table(report)))
    return [parts.section("traffic", "Traffic", *content)]


def peak(report: Report, event: str) -> tuple[float, datetime] | None:
    """The highest rate of an event, and when its step began; None: it never happened."""
    best = max(report.steps, key=lambda step: rate(report, step, event), default=None)
    return None if best is None or not best.figures.counts[event] else (rate(report, best, event), best.start)


def rate(report: Report, step: Step, event: str) -> float:
    """Per second, minute or hour, see `unit`."""
    return step.figures.counts[event] * (per(report) / (step.end - step.start))


def per(report: Report) -> timedelta:
    """What rates are counted by: see `unit`."""
    return _UNITS[unit(report)]


def unit(report: Report) -> str:
    """Of rates: hours, minutes or seconds, whichever is the longest that is not longer than a step."""
    return next((name for name, length in _UNITS.items() if report.step >= length), "second")


def _steps(report: Report) -> str:
    return "a point for each" if report.step == per(report) else f"a point for every {values.length(report.step)}"


def _chart(report: Report, key: str, title: str, events: Sequence[str]) -> list[Markup]:
    shown = [event for event in events if event in FLOWS or report.total(event)]
    series = [svg.Series(NAMES[event], [rate(report, step, event) for step in report.steps]) for event in shown]
    highest = max([value or 0 for each in series for value in each.values], default=0.0)
    frame = svg.Frame(
        key,
        title,
        f"From {values.moment(report.since)} to {values.moment(report.until)} UTC. {_in_words(report, shown)}",
        times.marks(report.since, report.until),
        [band(report, step, _hint(report, step, shown)) for step in report.steps],
    )
    drawn = svg.lines(frame, middles(report), series, svg.linear(highest, values.short))
    return [svg.legend([each.name for each in series]), drawn]


def _in_words(report: Report, events: Sequence[str]) -> str:
    sentences = []
    for event in events:
        found = peak(report, event)
        highest = f", at most {values.short(found[0])} per {unit(report)}" if found else ""
        sentences.append(f"{NAMES[event]}: {values.count(report.total(event))}{highest}.")
    return " ".join(sentences)


def _hint(report: Report, step: Step, events: Sequence[str]) -> str:
    figures = [f"{NAMES[event]}: {values.count(step.figures.counts[event])}" for event in events]
    return "\n".join([during(report, step), *figures])


def during(report: Report, step: Step) -> str:
    """When a step was."""
    return f"{times.label(step.start, report.since, report.until)} to {values.clock(step.end)} UTC"


def band(report: Report, step: Step, text: str) -> svg.Band:
    """The column of a step."""
    start, end = [times.share(when, report.since, report.until) for when in (step.start, step.end)]
    return svg.Band(start, end, text)


def middles(report: Report) -> list[float]:
    """Where the points of the steps are."""
    return [times.share(step.start + (step.end - step.start) / 2, report.since, report.until) for step in report.steps]


def _table(report: Report) -> Markup:
    rows = [_row(report, step) for step in report.steps]
    columns = ["From (UTC)", *[f"#{NAMES[event]}" for event in EVENTS], "#Octets accepted"]
    return parts.table("Messages over time", columns, rows)


def _row(report: Report, step: Step) -> Markup:
    octets = step.figures.octets["accepted"]
    return parts.row(
        parts.head(times.label(step.start, report.since, report.until)),
        *[parts.counted(event, NAMES[event], step.figures.counts[event]) for event in EVENTS],
        parts.cell("octets", "Octets accepted", octets, values.octets(octets)),
        data_time=values.iso(step.start),
    )
