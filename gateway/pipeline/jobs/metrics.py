"""Metrics: how many messages each destination had in each minute, how many bytes, and how long they took.

The time of `delivered` and `redelivered` counts from when the broker accepted the message, the time of `acked` and
`nacked` from the delivery.  The minute is that of the row.  Equal minutes of several gateways are one row.  `delivered`
leaves out messages that were shown to browsers.  docs/pipeline.md lists the columns of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from . import figures, latency
from .figures import EVENTS, Figures
from .job import SIZE, Job, Merge, fitting, folded_destination, is_browsed, iso, last_day

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

KEYS = ("minute", "destination", "event", "bucket")
MERGES: Mapping[str, Merge] = {"count": "sum", "octets": "sum"}
COLUMNS = ("ts", "event", "destination", "size", "delivery_count", "queue_us", "ack_us")

# Destinations of a snapshot, at most; and the width of a column of its heat map.
_MOST = 1000
_HEAT_STEP = timedelta(minutes=15)


def transform(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    event = f.col("event")
    took = f.when(event.isin("delivered", "redelivered"), f.col("queue_us"))
    took = took.when(event.isin("acked", "nacked"), f.col("ack_us"))
    counted = (
        rows.where(event.isin(*EVENTS) & ~is_browsed())
        .groupBy(
            f.expr("unix_seconds(ts) div 60").alias("number"),
            folded_destination(),
            event,
            latency.column(took).alias("bucket"),
        )
        .agg(f.count("*").alias("count"), f.sum(f.coalesce(f.col("size"), f.lit(0))).alias("octets"))
    )
    minute = f.timestamp_seconds(f.col("number") * 60).alias("minute")
    return counted.select(minute, "destination", "event", "bucket", "count", "octets")


def snapshot(table: pyarrow.Table, now: datetime, size: int = SIZE) -> dict[str, Any]:
    """What the console shows.

    totals          the counts of all destinations, their bytes and percentiles
    minutes         a list for each of them, with a value for each minute that has rows; `at` are their starts
    heat            [start of a quarter of an hour, octave, count]; an octave n is the times from 2**n - 1 us on
    destinations    the busiest first: the keys of `totals`, and `destination`
    others          the counts of the other destinations, and how many `destinations` these are
    """
    recent = last_day(table, JOB.time, now)
    ranking = figures.by_destination(recent, _MOST)
    listed = ({"destination": name, **_shown(each)} for name, each in ranking.top)
    shown, left = fitting(listed, len(ranking.top) + ranking.others, size // 2)
    rest = figures.add([ranking.rest, *[each for _, each in ranking.top[len(shown) :]]])
    return {
        "totals": _shown(figures.figures(recent)),
        "minutes": _minutes(recent),
        "heat": {kind: _heat(recent, kind) for kind in ("queue", "ack")},
        "destinations": shown,
        "others": {"destinations": left, **_shown(rest)},
    }


def _shown(each: Figures) -> dict[str, Any]:
    return {
        **each.counts,
        "octets": each.body_bytes["accepted"],
        "octets_delivered": each.body_bytes["delivered"] + each.body_bytes["redelivered"],
        "queue": _percentiles(each.queue),
        "ack": _percentiles(each.ack),
    }


def _percentiles(counts: figures.Histogram) -> dict[str, float] | None:
    found = latency.percentiles(counts)
    return found and {name: round(us, 1) for name, us in zip(("p50_us", "p95_us", "p99_us"), found, strict=True)}


def _minutes(table: pyarrow.Table) -> dict[str, list[Any]]:
    slots = figures.by_time(table)
    lists: dict[str, list[Any]] = {"at": [iso(at) for at, _ in slots]}
    lists |= {event: [each.counts[event] for _, each in slots] for event in EVENTS}
    lists["octets"] = [each.body_bytes["accepted"] for _, each in slots]
    for kind in ("queue", "ack"):
        found = [_percentiles(getattr(each, kind)) or {} for _, each in slots]
        lists |= {f"{kind}_{name}": [each.get(name) for each in found] for name in ("p50_us", "p99_us")}
    return lists


def _heat(table: pyarrow.Table, kind: str) -> list[tuple[str, int, int]]:
    cells: dict[tuple[str, int], int] = {}
    for at, counts in figures.heat(table, kind, _HEAT_STEP).items():
        for bucket, count in counts.items():
            cell = iso(at), bucket // latency.PER_OCTAVE
            cells[cell] = cells.get(cell, 0) + count
    return [(*cell, count) for cell, count in sorted(cells.items())]


JOB = Job("metrics", 1, EVENTS, COLUMNS, transform, keys=KEYS, merges=MERGES, time="minute", snapshot=snapshot)
