"""The figures as CSV files for spreadsheets and programs: one for each table of the page, with all rows.

Times are ISO 8601 in UTC, latencies microseconds, sizes bytes.  Spreadsheets take a cell that begins with `=`, `+`, `-`
or `@` for a formula, and clients choose the names here; such a text has an apostrophe in front.
"""

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path

from ..jobs import latency
from ..jobs.figures import Figures
from . import formats
from .figures import EVENTS, Report, percentiles

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PERCENTILES = [f"{kind}_{name}_us" for kind in ("queue", "ack") for name in ("p50", "p95", "p99")]
_FLOW = (*EVENTS, "octets", *_PERCENTILES)
_DEAD_LETTER = ("ts", "destination", "message_id", "reason", "delivery_count", "size")
_CONSUMER = "kind raised cleared destination pending oldest_us gateway session principal peer subscription".split()
_REASON = ("event", "destination", "reason", "count", "first", "last")
_GAP = ("gateway", "epoch", "at", "rows", "reason")

Value = str | int | float | datetime | None
Rows = Iterable[Sequence[Value]]


def write(report: Report, folder: Path) -> list[Path]:
    """Write all files into the folder, which is made; returns them.  `OSError`: a file cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, (columns, rows) in _FILES.items():
        path = folder / f"{name}.csv"
        with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(columns)
            lines.writerows([[_cell(value) for value in row] for row in rows(report)])
        written.append(path)
    return written


def _cell(value: Value) -> str | int | float | None:
    if isinstance(value, datetime):
        return formats.iso(value)
    if isinstance(value, str):
        text = value.replace("\0", "\\x00")
        return f"'{text}" if text.startswith(_FORMULA) else text
    return round(value, 3) if isinstance(value, float) else value


def _totals(report: Report) -> Rows:
    whole = report.whole
    yield "rows", report.rows
    yield "missing_rows", report.missing
    yield "octets", whole.body_bytes["accepted"]
    yield from sorted(report.events.items())
    yield from [(f"connected_{transport}", many) for transport, many in sorted(report.transports.items())]
    for event in sorted(report.unlisted):
        listed = sum([each.count for each in report.because(event)])
        yield f"other_reasons_{event}", report.total(event) - listed
    yield from zip(_PERCENTILES, [*percentiles(whole.queue), *percentiles(whole.ack)], strict=True)
    yield "stuck", len(report.consumers_that_were("stuck"))
    yield "slow", len(report.consumers_that_were("slow"))
    yield "destinations", len(report.destinations) + report.others


def _flow(had: Figures) -> list[Value]:
    counts = [had.counts[event] for event in EVENTS]
    return [*counts, had.body_bytes["accepted"], *percentiles(had.queue), *percentiles(had.ack)]


def _latency(report: Report) -> Rows:
    for kind in ("queue", "ack"):
        for step in report.steps:
            for bucket, many in sorted(getattr(step.figures, kind).items()):
                yield step.start, step.end, kind, bucket, *latency.bounds(bucket), many


def _fields(each: object, names: Sequence[str]) -> list[Value]:
    return [getattr(each, name) for name in names]


_FILES: dict[str, tuple[Sequence[str], Callable[[Report], Rows]]] = {
    "totals": (("figure", "value"), _totals),
    "traffic": (
        ("start", "end", *_FLOW),
        lambda report: [(step.start, step.end, *_flow(step.figures)) for step in report.steps],
    ),
    "destinations": (
        ("destination", "waiting", *_FLOW),
        lambda report: [(each.name, each.waiting, *_flow(each.figures)) for each in report.destinations],
    ),
    "latency": (("start", "end", "kind", "bucket", "from_us", "to_us", "count"), _latency),
    "dead_letters": (
        (*_DEAD_LETTER, "headers"),
        lambda report: [
            (*_fields(each, _DEAD_LETTER), json.dumps(dict(sorted(each.headers.items()))))
            for each in report.dead_letters
        ],
    ),
    "consumers": (_CONSUMER, lambda report: [_fields(each, _CONSUMER) for each in report.consumers]),
    "reasons": (_REASON, lambda report: [_fields(each, _REASON) for each in report.reasons]),
    "gaps": (_GAP, lambda report: [_fields(each, _GAP) for each in report.gaps]),
}
