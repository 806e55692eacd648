"""An archive of an hour that never was: made of whole columns, some million rows in a few seconds.

It is what the archiver would write of one gateway with 50 destinations and 400 sessions: one file for each minute, rows
in the order of their numbers, the columns that each event has, values that compress no better than real ones.  In a
hundred rows there are about 33 accepted, 33 delivered, 31 acked, and the others are rare.  What does not add up is the
course of a single message: nobody who only counts sees that.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gateway.archive import layout
from gateway.archive.parquet_files import REPEATED, SCHEMA
from gateway.journal import schema

START = datetime(2026, 11, 20, 9, tzinfo=UTC)
END = START + timedelta(hours=1)

_FILES = 60
_EPOCH = int(START.timestamp() * 1e6) - 3_600_000_000
_GROUP_ROWS = 128 * 1024
_SHARES = {
    "accepted": 330,
    "delivered": 330,
    "acked": 312,
    "redelivered": 8,
    "nacked": 8,
    "gauge_subscription": 4,
    "gauge_destination": 3,
    "expired": 1,
    "dead_lettered": 1,
    "dropped": 1,
    "connected": 1,
    "disconnected": 1,
}
_DESTINATIONS = 50
_SESSIONS = 400
_BODIES = 5_000
_TEXTS: dict[str, Sequence[str]] = {
    "gateway": ["bench"],
    "subscription": ["0", "1", "2"],
    "ack_mode": ["client-individual", "client", "auto"],
    "destination": [f"/queue/service.{number}" for number in range(_DESTINATIONS)],
    "reason": ["rejected", "max-attempts", "full", "the client went away"],
}
# What belongs to a session, by its number.
_OF_SESSIONS: dict[str, Sequence[str]] = {
    "transport": [("tcp", "websocket")[number % 2] for number in range(_SESSIONS)],
    "peer": [f"10.0.{number // 250}.{number % 250}:{40_000 + number}" for number in range(_SESSIONS)],
    "principal": [f"user-{number % 40}" for number in range(_SESSIONS)],
    "session": [f"s-{number}" for number in range(_SESSIONS)],
}
# Medians of what is spread like real latencies are: over powers of two, with a long tail.
_SPREAD = {"queue_us": 800.0, "ack_us": 3_000.0, "oldest_us": 2_000_000.0}
_COUNTS = {"size": (100, 101), "delivery_count": (1, 2), "pending": (1, 50), "depth": (0, 500), "dropped_rows": (1, 9)}


def make(archive: Path, rows: int, seed: int = 7) -> int:
    """Write the archive; returns its bytes."""
    random = np.random.default_rng(seed)
    folder = archive / layout.RAW / layout.folder_of(layout.hour_at(START))
    folder.mkdir(parents=True)
    nbytes = 0
    for number in range(_FILES):
        first, end = rows * number // _FILES, rows * (number + 1) // _FILES
        table = _table(random, first, end - first, number)
        path = folder / layout.Range("bench", _EPOCH, number + 1, number + 1).name
        options = {"compression": "zstd", "compression_level": 1, "use_dictionary": REPEATED}
        pq.write_table(table, path, row_group_size=_GROUP_ROWS, **options)
        nbytes += path.stat().st_size
    return nbytes


def _table(random: np.random.Generator, first: int, rows: int, minute: int) -> pa.Table:
    """The rows of a minute."""
    names = list(_SHARES)
    shares = np.array(list(_SHARES.values()), dtype=float)
    events = random.choice(len(names), size=rows, p=shares / shares.sum())
    start = int(START.timestamp() * 1e6) + minute * 60_000_000
    columns: dict[str, pa.Array] = {
        "epoch": pa.array(np.full(rows, _EPOCH)),
        "seq": pa.array(np.arange(first + 1, first + rows + 1)),
        "ts": pa.array(start + np.sort(random.integers(0, 60_000_000, rows))).cast(SCHEMA.field("ts").type),
        "event": _chosen(names, events, None),
    }
    clients = _skewed(random, _SESSIONS, rows)
    for field in SCHEMA:
        if field.name not in columns:
            has = np.array([field.name in (*schema.BY_NAME[name].columns, *schema.OF_EVERY_ROW) for name in names])
            null = ~has[events]
            if field.name in _OF_SESSIONS:
                columns[field.name] = _chosen(_OF_SESSIONS[field.name], clients, null)
            else:
                columns[field.name] = _column(random, field, null)
    return pa.Table.from_arrays([columns[field.name] for field in SCHEMA], schema=SCHEMA)


def _column(random: np.random.Generator, field: pa.Field, null: np.ndarray) -> pa.Array:
    """A column, with nulls where its event does not have it."""
    rows = len(null)
    if field.name in _TEXTS:
        return _chosen(_TEXTS[field.name], _skewed(random, len(_TEXTS[field.name]), rows), null)
    if field.name == "transaction":
        return pa.nulls(rows, field.type)
    if field.name == "message_id":
        numbers = pa.array(random.integers(1, 2**40, rows), mask=null)
        return pc.binary_join_element_wise("r", numbers.cast(pa.string()), "-")
    if field.name == "body":
        bodies = random.integers(32, 127, (_BODIES, 100), dtype=np.uint8)
        return _chosen([row.tobytes() for row in bodies], random.integers(0, _BODIES, rows), null, pa.binary())
    if field.name == "headers":
        return _headers(random, null)
    if field.name in _SPREAD:
        values = np.exp(random.normal(np.log(_SPREAD[field.name]), 1.5, rows)).astype(np.int64)
    else:
        values = random.integers(*_COUNTS[field.name], rows)
    return pa.array(values, mask=null).cast(field.type)


def _skewed(random: np.random.Generator, most: int, rows: int) -> np.ndarray:
    """Numbers below `most`: the small ones come most often."""
    return (most * random.random(rows) ** 2).astype(np.int64)


def _chosen(
    values: Sequence[str] | Sequence[bytes], which: np.ndarray, null: np.ndarray | None, kind: pa.DataType | None = None
) -> pa.Array:
    """Some of the values, by their places."""
    indices = pa.array(which.astype(np.int32), mask=null)
    kind = kind or pa.string()
    return pa.DictionaryArray.from_arrays(indices, pa.array(values, type=kind)).cast(kind)


def _headers(random: np.random.Generator, null: np.ndarray) -> pa.Array:
    """Five headers for each row that has any."""
    names = ["destination", "content-type", "kind", "region", "x-trace"]
    count = int((~null).sum())
    keys = _chosen(names, np.tile(np.arange(5), count), None)
    pool = [f"value-{number:012x}" for number in range(2_000)]
    items = _chosen(pool, random.integers(0, len(pool), 5 * count), None)
    ends = np.concatenate([[0], np.cumsum(np.where(null, 0, 5))]).astype(np.int32)
    offsets = pa.array(ends, mask=np.concatenate([null, [False]]))
    return pa.MapArray.from_arrays(offsets, keys, items)
