"""What the transforms should find out, by plain loops over the rows; and the merging of partial rows."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow

from gateway.pipeline.jobs import Job, latency, sessions
from gateway.pipeline.jobs.figures import EVENTS
from gateway.pipeline.tables import JobTable
from tests.pipeline.rows import Row


def bucket_of(us: int) -> int:
    """The bucket of a time, which is 0 or more."""
    return bisect_right(latency.STARTS, us) - 1


TIME = pyarrow.timestamp("us", "UTC")
METRICS = pyarrow.schema(
    {
        "minute": TIME,
        "destination": pyarrow.string(),
        "event": pyarrow.string(),
        "bucket": pyarrow.int32(),
        "count": pyarrow.int64(),
        "octets": pyarrow.int64(),
    }
)
LOOKS = pyarrow.schema(
    {
        "gateway": pyarrow.string(),
        "epoch": pyarrow.int64(),
        "what": pyarrow.string(),
        **dict.fromkeys(("session", "principal", "peer", "subscription", "destination"), pyarrow.string()),
        **dict.fromkeys(("first", "last", "ts"), pyarrow.int64()),
        "pending": pyarrow.int32(),
        "oldest_us": pyarrow.int64(),
    }
)


def merged(job: Job, parts: Iterable[pyarrow.Table]) -> pyarrow.Table:
    """What the job's table says when it has these partial rows."""
    return JobTable(Path(), job.keys, job.merges, job.time).merged(list(parts))


def in_order(table: pyarrow.Table) -> list[dict[str, Any]]:
    """The rows of a table, whatever their order was."""
    return sorted(table.to_pylist(), key=repr)


def is_browsed(row: Row) -> bool:
    return bool(row["event"] == "delivered" and row["delivery_count"] == 0)


def folded(destination: str) -> str:
    """All temporary destinations of a kind are one."""
    return re.sub("^(/reply-(queue|topic)/).*", r"\1*", destination)


def metrics_of(rows: Iterable[Row]) -> pyarrow.Table:
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        if row["event"] in EVENTS and not is_browsed(row):
            took = row["ack_us"] if row["event"] in ("acked", "nacked") else row["queue_us"]
            if row["event"] not in ("acked", "nacked", "delivered", "redelivered"):
                took = None
            minute = row["ts"].replace(second=0, microsecond=0)
            bucket = None if took is None else bucket_of(took)
            sums = found.setdefault((minute, folded(row["destination"]), row["event"], bucket), [0, 0])
            sums[0] += 1
            sums[1] += row["size"] or 0
    listed = [dict(zip(METRICS.names, [*key, *sums], strict=True)) for key, sums in found.items()]
    return pyarrow.Table.from_pylist(listed, schema=METRICS)


def session_of(rows: list[Row]) -> dict[str, Any]:
    first = rows[0]
    named = first["session"] is not None
    got = [row for row in rows if not is_browsed(row)]
    ends = [row for row in rows if row["event"] == "disconnected"]
    starts = [row["ts"] for row in rows if row["event"] == "connected"]
    sizes = {row["seq"]: row["size"] or 0 for row in rows}
    return {
        **{name: first[name] for name in sessions.KEYS},
        **{name: _known(rows, name) if named else None for name in ("transport", "peer", "principal")},
        "reason": max([row["reason"] for row in ends if row["reason"] is not None], default=None),
        "connected_at": min(starts, default=None),
        "disconnected_at": max([row["ts"] for row in ends], default=None),
        "first_at": min([row["ts"] for row in rows]),
        "last_at": max([row["ts"] for row in rows]),
        **{name: len([1 for row in got if row["event"] == event]) for name, event in sessions.COUNTS.items()},
        "octets": sum([sizes[row["seq"]] for row in rows if row["event"] == "accepted"]),
        "octets_delivered": sum([sizes[row["seq"]] for row in got if row["event"] in ("delivered", "redelivered")]),
    }


def _known(rows: list[Row], name: str) -> str | None:
    return next((row[name] for row in rows if row[name] is not None), None)


def sessions_of(rows: Iterable[Row]) -> list[dict[str, Any]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["event"] in sessions.EVENTS:
            found.setdefault(tuple([row[name] for name in sessions.KEYS]), []).append(row)
    return [session_of(each) for each in found.values()]


def looks_of(rows: Iterable[Row]) -> pyarrow.Table:
    what = {"gauge_subscription": "look", "acked": "settled", "nacked": "settled"}
    what |= {"unsubscribed": "end", "disconnected": "gone"}
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        kind = what.get(row["event"], "time")
        names = [row[name] if kind != "time" else None for name in LOOKS.names[3:7]]
        names.append(row["destination"] if kind in ("look", "end") else None)
        part = {"time": 0, "settled": int(row["ts"].timestamp() // 5)}.get(kind, row["seq"])
        found.setdefault((row["gateway"], row["epoch"], kind, *names, part), []).append(row)
    listed = [dict(zip(LOOKS.names, [*key[:-1], *_extremes(each)], strict=True)) for key, each in found.items()]
    return pyarrow.Table.from_pylist(list(_between_looks(listed)), schema=LOOKS)


def _between_looks(listed: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """What was settled between two looks as one row."""
    whose = ("gateway", "epoch", "session", "subscription")
    open_rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(listed, key=lambda row: row["last"]):
        key = tuple([row[name] for name in whose])
        if row["what"] == "look":
            open_rows.pop(key, None)
        if row["what"] == "settled" and (last := open_rows.setdefault(key, row)) is not row:
            last["first"] = min(last["first"], row["first"])
            last["last"], last["ts"] = row["last"], max(last["ts"], row["ts"])
        else:
            yield row


def _extremes(rows: list[Row]) -> list[int | None]:
    numbers = [row["seq"] for row in rows]
    pending = [row["pending"] for row in rows if row["pending"] is not None]
    oldest = [row["oldest_us"] for row in rows if row["oldest_us"] is not None]
    latest = max([micros(row["ts"]) for row in rows])
    return [min(numbers), max(numbers), latest, max(pending, default=None), max(oldest, default=None)]


def micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)
