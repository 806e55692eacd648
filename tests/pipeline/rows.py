"""Rows of the archive, made up: each function gives a row of the event that it is named for.

    accepted()                                       a message for /queue/a, 100 bytes, at START
    acked(12.5, destination="/queue/b", ack_us=3)    12.5 seconds later
    write(tmp_path, rows)                            an archive of them, as the archiver lays it out
    frame(spark, rows)                               the same as a DataFrame

A row is a dict of all columns.  Those that its event has have a usual value, unless another one is given, and the
others are None; a column that the event does not have is refused.  Each row has a number of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.parquet

from gateway.archive import layout
from gateway.archive.parquet_files import SCHEMA
from gateway.journal import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)  # when the rows begin that say nothing else
GATEWAY = "g1"
EPOCH = 1_772_366_000_000_000

_USUAL: Mapping[str, Any] = {
    "transport": "tcp",
    "peer": "127.0.0.1:50000",
    "principal": "anna",
    "session": "s1",
    "subscription": "0",
    "ack_mode": "client-individual",
    "destination": "/queue/a",
    "size": 100,
    "delivery_count": 1,
    "queue_us": 1000,
    "ack_us": 2000,
    "pending": 1,
    "depth": 1,
    "oldest_us": 1_000_000,
    "dropped_rows": 1,
    "headers": {},
}
_numbers = itertools.count(1)


def row(event: str, at: float = 0.0, **columns: Any) -> Row:
    """A row.

    Args:
        at: seconds after START.
        columns: values; `gateway`, `epoch`, `seq` and `ts` may be given, too.
    """
    has = schema.BY_NAME[event].columns
    unknown = columns.keys() - {*has, *schema.OF_EVERY_ROW}
    assert not unknown, f"{event} has no {unknown}"
    seq = columns.get("seq") or next(_numbers)
    values: Row = {column.name: _USUAL.get(column.name) if column.name in has else None for column in schema.COLUMNS}
    values |= {"gateway": GATEWAY, "epoch": EPOCH, "seq": seq, "event": event, "ts": START + timedelta(seconds=at)}
    if "message_id" in has:
        values["message_id"] = f"r-{seq}"
    if "body" in has:
        values["body"] = b"x" * columns.get("size", _USUAL["size"])
    return values | columns


accepted = partial(row, "accepted")
delivered = partial(row, "delivered")
redelivered = partial(row, "redelivered", delivery_count=2)
acked = partial(row, "acked")
nacked = partial(row, "nacked")
expired = partial(row, "expired", delivery_count=0)
dead_lettered = partial(row, "dead_lettered", reason="rejected")
connected = partial(row, "connected")
disconnected = partial(row, "disconnected")
error = partial(row, "error", reason="malformed")
gauge_subscription = partial(row, "gauge_subscription")
gauge_destination = partial(row, "gauge_destination")
journal_dropped = partial(row, "journal_dropped")


def table(rows: Iterable[Row]) -> pyarrow.Table:
    """The rows in Arrow, without the partitions."""
    return pyarrow.Table.from_pylist([dict(each) for each in rows], schema=SCHEMA)


def write(archive: Path, rows: Iterable[Row], number: int = 1) -> list[Path]:
    """One file for each hour and epoch, and where they are.

    Args:
        archive: a folder; files go below its `raw`.
        number: of the segment that the rows are said to be of: what is added later has another one.
    """
    hours: dict[tuple[int, layout.Range], list[Row]] = {}
    for each in rows:
        segment = layout.Range(each["gateway"], each["epoch"], number, number)
        hours.setdefault((layout.hour_at(each["ts"]), segment), []).append(each)
    paths = []
    for (hour, segment), part in sorted(hours.items()):
        folder = archive / layout.RAW / layout.folder_of(hour)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / segment.name
        part.sort(key=lambda each: int(each["seq"]))
        pyarrow.parquet.write_table(table(part), path, compression="zstd", compression_level=1)
        paths.append(path)
    return paths


def frame(spark: SparkSession, rows: Iterable[Row], partitions: int = 1) -> DataFrame:
    """The rows as Spark reads them from the archive, `date` and `hour` among them."""
    from pyspark.sql import functions as f

    columns = spark.createDataFrame(table(rows), schema=schema.ddl()).coalesce(partitions)
    return columns.withColumn("date", f.to_date("ts")).withColumn("hour", f.hour("ts"))
