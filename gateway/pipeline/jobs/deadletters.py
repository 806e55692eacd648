"""Dead letters, one by one; docs/pipeline.md lists the columns of the table."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from .job import SIZE, Job, cut, fitting, iso, last_day

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

COLUMNS = ("ts", "gateway", "epoch", "seq", "destination", "message_id", "reason", "delivery_count", "size", "headers")

# Dead letters of a snapshot, at most, headers of one, and places with a reason.
_MOST = 200
_MOST_HEADERS = 32
_MOST_PLACES = 1000


def transform(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return rows.where(f.col("event") == "dead_lettered").select(*COLUMNS)


def snapshot(table: pyarrow.Table, now: datetime, size: int = SIZE) -> dict[str, Any]:
    """What the console shows.

    total                     number of dead letters
    places, places_left_out   `destination`, `reason`, `count`, time of the `last`, most frequent first; how many more
    newest, newest_left_out   the last ones, with cut texts and `headers_left_out`; how many more there are
    """
    recent = last_day(table, JOB.time, now)
    if not recent.num_rows:
        return {"total": 0, "places": [], "places_left_out": 0, "newest": [], "newest_left_out": 0}
    groups = recent.group_by(["destination", "reason"]).aggregate([("ts", "max"), ("ts", "count")])
    order = [("ts_count", "descending"), ("destination", "ascending"), ("reason", "ascending")]
    most = groups.sort_by(order).slice(0, _MOST_PLACES).to_pylist()
    places, places_left = fitting(map(_place, most), groups.num_rows, size // 4)
    last = recent.sort_by([("ts", "descending"), ("seq", "descending")]).slice(0, _MOST)
    newest, newest_left = fitting(map(_letter, last.to_pylist()), recent.num_rows, size // 4)
    return {
        "total": recent.num_rows,
        "places": places,
        "places_left_out": places_left,
        "newest": newest,
        "newest_left_out": newest_left,
    }


def _place(row: dict[str, Any]) -> dict[str, Any]:
    names = {name: cut(row[name]) for name in ("destination", "reason")}
    return {**names, "count": row["ts_count"], "last": iso(row["ts_max"])}


def _letter(row: dict[str, Any]) -> dict[str, Any]:
    headers: list[tuple[str, str]] = row["headers"] or []
    return {
        "ts": iso(row["ts"]),
        **{name: cut(row[name]) for name in ("destination", "message_id", "reason")},
        "delivery_count": row["delivery_count"],
        "size": row["size"],
        "headers": {cut(name): cut(value) for name, value in headers[:_MOST_HEADERS]},
        "headers_left_out": max(0, len(headers) - _MOST_HEADERS),
    }


JOB = Job("deadletters", 1, ("dead_lettered",), ("event", *COLUMNS), transform, time="ts", snapshot=snapshot)
