"""Sessions: the client of each, its times, and its counts; docs/pipeline.md lists the columns of the table.

One row of each process has no session: clients that were refused before they had one.  So the sums of the columns are
those of the journal, except that `delivered` leaves out messages shown to browsers.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .job import SIZE, Job, Merge, cut, fitting, is_browsed, iso, last_day

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

COUNTS: Mapping[str, str] = {
    "accepted": "accepted",
    "delivered": "delivered",
    "redelivered": "redelivered",
    "acked": "acked",
    "nacked": "nacked",
    "subscribed": "subscribed",
    "unsubscribed": "unsubscribed",
    "committed": "tx_committed",
    "aborted": "tx_aborted",
    "errors": "error",
    "heartbeats_missed": "heartbeat_missed",
}
"""Column -> the event whose rows it counts."""

EVENTS = (*COUNTS.values(), "connected", "disconnected")
KEYS = ("gateway", "epoch", "session")
_NAMES = ("transport", "peer", "principal")
COLUMNS = (*KEYS, *_NAMES, "ts", "event", "size", "delivery_count", "reason")

STATES = ("connected", "ended", "lost")

_TIMES = ("connected_at", "disconnected_at", "first_at", "last_at")
_SUMS = (*COUNTS, "octets", "octets_delivered")
_HOW: Mapping[Merge, tuple[str, ...]] = {
    "max": (*_NAMES, "reason", "disconnected_at", "last_at"),
    "min": ("connected_at", "first_at"),
    "sum": _SUMS,
}
MERGES: Mapping[str, Merge] = {name: how for how, names in _HOW.items() for name in names}

_MOST = 1000  # sessions of a snapshot at most


def transform(rows: DataFrame) -> DataFrame:
    """Rows of the archive to partial rows.

    The names are keys at first, because Spark's fast aggregation holds no texts; in a session they never change, but
    not all of its rows have them.
    """
    from pyspark.sql import functions as f

    happened, ts = f.col("event"), f.col("ts")
    event = f.when(~is_browsed(), happened)
    size = f.coalesce(f.col("size"), f.lit(0))
    known = f.col("session").isNotNull()
    names = [f.when(known, f.col(name)).alias(name) for name in _NAMES]
    reason = f.when(event == "disconnected", f.col("reason")).alias("reason")
    grouped = (
        rows.where(happened.isin(*EVENTS))
        .groupBy(*KEYS, *names, reason)
        .agg(
            f.min(f.when(event == "connected", ts)).alias("connected_at"),
            f.max(f.when(event == "disconnected", ts)).alias("disconnected_at"),
            f.min(ts).alias("first_at"),
            f.max(ts).alias("last_at"),
            *[f.count(f.when(event == counted, 1)).alias(name) for name, counted in COUNTS.items()],
            f.sum(f.when(event == "accepted", size).otherwise(0)).alias("octets"),
            f.sum(f.when(event.isin("delivered", "redelivered"), size).otherwise(0)).alias("octets_delivered"),
        )
    )
    merge = {"min": f.min, "max": f.max, "sum": f.sum}
    return grouped.groupBy(*KEYS).agg(*[merge[how](name).alias(name) for name, how in MERGES.items()])


def snapshot(table: pyarrow.Table, now: datetime, size: int = SIZE) -> dict[str, Any]:
    """What the console shows.

    totals                sums of all rows
    states                how many sessions are `connected`, `ended`, or `lost`: their gateway has started again since
    sessions, left_out    the last active ones, `connected` first, without null and 0; and how many more there are
    """
    import pyarrow.compute as pc

    recent = last_day(table, JOB.time, now)
    states = dict.fromkeys(STATES, 0)
    if not recent.num_rows:
        return {"totals": dict.fromkeys(_SUMS, 0), "states": states, "sessions": [], "left_out": 0}
    totals = {name: pc.sum(recent[name]).as_py() for name in _SUMS}
    named = recent.filter(pc.is_valid(recent["session"]))
    named = named.append_column("state", _states(named))
    states |= {each["values"]: each["counts"] for each in pc.value_counts(named["state"]).to_pylist()}
    first = named.sort_by([("state", "ascending"), (JOB.time, "descending")]).slice(0, _MOST)
    shown, left = fitting(map(_shown, first.to_pylist()), named.num_rows, size // 2)
    return {"totals": totals, "states": states, "sessions": shown, "left_out": left}


def _states(table: pyarrow.Table) -> pyarrow.ChunkedArray:
    """The state of each session; their order is that of `STATES`."""
    import pyarrow.compute as pc

    newest = table.group_by("gateway").aggregate([("epoch", "max")])
    epoch = pc.index_in(table["gateway"], value_set=newest["gateway"].combine_chunks())
    lost = pc.less(table["epoch"], newest["epoch_max"].take(epoch))
    connected, ended, gone = STATES
    return pc.if_else(pc.is_valid(table["disconnected_at"]), ended, pc.if_else(lost, gone, connected))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    times = {name: row[name] and iso(row[name]) for name in _TIMES}
    texts = {name: cut(row[name]) for name in (*_NAMES, "reason")}
    return {name: value for name, value in {**row, **times, **texts}.items() if value}


JOB = Job("sessions", 1, EVENTS, COLUMNS, transform, keys=KEYS, merges=MERGES, time="last_at", snapshot=snapshot)
