"""The figures as CSV files, for spreadsheets and programs: one for each table of the page, and with all that is known.

Of the reasons of an event these are the 1,000 most frequent ones; `other_reasons_<event>` counts the rows of the rest.

Times are ISO 8601 in UTC, latencies microseconds, sizes octets.  Spreadsheets take a cell that begins with `=`, `+`,
`-` or `@` for a formula, and clients choose the names here; such a text has an apostrophe in front.
"""

from __future__ import annotations

import csv as writing
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path

from ..jobs import latency
from ..jobs.figures import KINDS, Figures, Histogram
from . import values
from .figures import EVENTS, Report, percentiles

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PERCENTILES = [f"{kind}_{name}_us" for kind in ("queue", "ack") for name in ("p50", "p95", "p99")]

Value = str | int | float | datetime | None


def csv(report: Report, folder: Path) -> list[Path]:
    """Write all files into the folder, which is made; returns them.

    Raises:
        OSError: a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(folder / f"{name}.csv", columns, rows(report)) for name, columns, rows in _SHEETS]


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> Path:
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        lines = writing.writer(file)
        lines.writerow(columns)
        lines.writerows([[_cell(value) for value in row] for row in rows])
    return path


def _cell(value: Value) -> str | int | float | None:
    if isinstance(value, datetime):
        return values.iso(value)
    if isinstance(value, str):
        text = value.replace("\0", "\\x00")
        return f"'{text}" if text.startswith(_FORMULA) else text
    return round(value, 3) if isinstance(value, float) else value


def _totals(report: Report) -> Iterable[Sequence[Value]]:
    whole = report.whole
    yield "rows", report.rows
    yield "missing_rows", report.missing
    yield "octets", whole.octets["accepted"]
    yield from sorted(report.events.items())
    yield from [(f"connected_{transport}", many) for transport, many in sorted(report.transports.items())]
    for event in sorted(report.unlisted):
        listed = sum([each.count for each in report.because(event)])
        yield f"other_reasons_{event}", report.total(event) - listed
    yield from zip(_PERCENTILES, [*percentiles(whole.queue), *percentiles(whole.ack)], strict=True)
    yield "stuck", len(report.consumers_that_were("stuck"))
    yield "slow", len(report.consumers_that_were("slow"))
    yield "destinations", len(report.destinations) + report.others


def _traffic(report: Report) -> Iterable[Sequence[Value]]:
    return [(step.start, step.end, *_flow(step.figures)) for step in report.steps]


def _destinations(report: Report) -> Iterable[Sequence[Value]]:
    return [(each.name, each.waiting, *_flow(each.figures)) for each in report.destinations]


def _flow(had: Figures) -> list[Value]:
    counts = [had.counts[event] for event in EVENTS]
    return [*counts, had.octets["accepted"], *percentiles(had.queue), *percentiles(had.ack)]


def _latency(report: Report) -> Iterable[Sequence[Value]]:
    return [
        (step.start, step.end, kind, *cell)
        for kind in KINDS
        for step in report.steps
        for cell in _histogram(step.figures.queue if kind == "queue" else step.figures.ack)
    ]


def _histogram(buckets: Histogram) -> list[tuple[int, float, float, int]]:
    return [(bucket, *latency.bounds(bucket), buckets[bucket]) for bucket in sorted(buckets)]


def _dead_letters(report: Report) -> Iterable[Sequence[Value]]:
    return [
        (
            each.ts,
            each.destination,
            each.message_id,
            each.reason,
            each.delivery_count,
            each.size,
            json.dumps(dict(sorted(each.headers.items()))),
        )
        for each in report.dead_letters
    ]


def _consumers(report: Report) -> Iterable[Sequence[Value]]:
    return [
        (
            each.kind,
            each.raised,
            each.cleared,
            each.destination,
            each.pending,
            each.oldest_us,
            each.gateway,
            each.session,
            each.principal,
            each.peer,
            each.subscription,
        )
        for each in report.consumers
    ]


def _reasons(report: Report) -> Iterable[Sequence[Value]]:
    return [(each.event, each.destination, each.reason, each.count, each.first, each.last) for each in report.reasons]


def _gaps(report: Report) -> Iterable[Sequence[Value]]:
    return [(each.gateway, each.epoch, each.at, each.rows, each.reason) for each in report.gaps]


_FLOW = (*EVENTS, "octets", *_PERCENTILES)
_SHEETS: tuple[tuple[str, Sequence[str], Callable[[Report], Iterable[Sequence[Value]]]], ...] = (
    ("totals", ("figure", "value"), _totals),
    ("traffic", ("start", "end", *_FLOW), _traffic),
    ("destinations", ("destination", "waiting", *_FLOW), _destinations),
    ("latency", ("start", "end", "kind", "bucket", "from_us", "to_us", "count"), _latency),
    (
        "dead_letters",
        ("ts", "destination", "message_id", "reason", "delivery_count", "size", "headers"),
        _dead_letters,
    ),
    (
        "consumers",
        tuple("kind raised cleared destination pending oldest_us gateway session principal peer subscription".split()),
        _consumers,
    ),
    ("reasons", ("event", "destination", "reason", "count", "first", "last"), _reasons),
    ("gaps", ("gateway", "epoch", "at", "rows", "reason"), _gaps),
)
