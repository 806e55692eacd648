"""Parquet files of the archive: the journal's columns as Arrow types, and files that grow.

The partitions, `date` and `hour`, are in the names of the folders.  Rows gather up to a row group, and a file gets its
name when it is whole.

A row group ends after so many rows or bytes: a writer holds so much in memory, and a reader must hold it at once.  zstd
at its lowest level writes as fast as no compression does, into a quarter of the bytes.
"""

import contextlib
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gateway.files import hidden, make_folder, opened, reveal
from gateway.journal import schema

from . import layout

GROUP_ROWS = 128 * 1024
GROUP_BYTES = 64 * 1024 * 1024  # bytes of a row group, in memory

_TYPES = {
    schema.STRING: pa.string(),
    schema.INT: pa.int32(),
    schema.BIGINT: pa.int64(),
    schema.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    schema.MAP: pa.map_(pa.string(), pa.string()),
    schema.BINARY: pa.binary(),
}

SCHEMA = pa.schema(
    [pa.field(each.name, _TYPES[each.type], nullable=each.nullable) for each in schema.COLUMNS],
    metadata={"gateway.journal": str(schema.VERSION)},
)

REPEATED = [
    *("gateway", "event", "transport", "peer", "principal", "session", "subscription", "ack_mode", "destination"),
    *("message_id", "transaction", "reason", "headers.key_value.key", "headers.key_value.value"),
]
"""Columns whose values repeat: a Parquet file has them in a dictionary."""


def aligned(table: pa.Table) -> pa.Table:
    """A table of an older version of the schema with the columns of this one.  `ValueError`: it is newer, or other."""
    newer = [name for name in table.column_names if name not in SCHEMA.names]
    if newer:
        raise ValueError(f"it has columns that this program does not know: {', '.join(newer)}")
    columns: list[Any] = []
    for field in SCHEMA:
        if field.name not in table.column_names:
            columns.append(pa.nulls(len(table), field.type))
            continue
        try:
            columns.append(table.column(field.name).cast(field.type))
        except pa.ArrowNotImplementedError as error:
            raise ValueError(f"its column {field.name} has another type") from error
    return pa.table(columns, schema=SCHEMA)


class ParquetWriter:
    """A Parquet file that is written, under a hidden name.  `OSError`: it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path  # its name when it is complete
        self.rows = self.size = 0  # in the file so far
        self.latest = 0  # the `ts` of the last row, microseconds since 1970
        self._gathered: list[pa.Table] = []
        self._gathered_rows = self._gathered_bytes = 0
        make_folder(path.parent)
        # We open the file ourselves, to bring it to the disk, and to get an OSError with its reason.
        self._file = opened(hidden(path))
        try:
            self._writer = pq.ParquetWriter(
                self._file, SCHEMA, compression="zstd", compression_level=1, use_dictionary=REPEATED
            )
        except OSError:
            self._remove()
            raise

    def add(self, table: pa.Table) -> None:
        """Add rows, one at least."""
        self._gathered.append(table)
        self._gathered_rows += len(table)
        self._gathered_bytes += table.nbytes
        if self._gathered_rows >= GROUP_ROWS or self._gathered_bytes >= GROUP_BYTES:
            self._write()

    def finish(self) -> None:
        """All rows are added: complete the file, and bring it to the disk."""
        self._write()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self.size = self._file.tell()
        self._file.close()

    def reveal(self) -> None:
        reveal(self.path)

    def discard(self) -> None:
        self._gathered.clear()
        with contextlib.suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            hidden(self.path).unlink(missing_ok=True)

    def _write(self) -> None:
        if not self._gathered:
            return
        table = pa.concat_tables(self._gathered)
        self._gathered.clear()
        self.rows += self._gathered_rows
        self._gathered_rows = self._gathered_bytes = 0
        self.latest = max(self.latest, pc.max(table["ts"]).value)
        self._writer.write_table(table, row_group_size=len(table))
        self.size = self._file.tell()


class HourlyWriters:
    """The files of a range of segments, in the folder `raw`: one for each hour."""

    def __init__(self, raw: Path, name: str, there: frozenset[int]) -> None:
        self._raw = raw
        self._name = name  # of each of the files
        self._there = there  # hours that have theirs already
        self._parts: dict[int, ParquetWriter] = {}

    @property
    def all(self) -> list[ParquetWriter]:
        """The files, by hour."""
        return [self._parts[hour] for hour in sorted(self._parts)]

    def add(self, table: pa.Table) -> None:
        """Add rows.  `OSError`: a file cannot be written.  So does `finish`."""
        if not len(table):
            return
        times = table["ts"].cast(pa.int64())
        bounds = pc.min_max(times).as_py()
        first, last = bounds["min"] // layout.MICROSECONDS, bounds["max"] // layout.MICROSECONDS
        if first == last:
            self._add(first, table)
            return
        hours = pc.divide(times, layout.MICROSECONDS)  # no time is before 1970
        for hour in pc.unique(hours).to_pylist():
            self._add(hour, table.filter(pc.equal(hours, hour)))

    def finish(self) -> None:
        for part in self.all:
            part.finish()

    def discard(self) -> None:
        for part in self.all:
            part.discard()

    def _add(self, hour: int, table: pa.Table) -> None:
        if hour in self._there:
            return
        if hour not in self._parts:
            self._parts[hour] = ParquetWriter(self._raw / layout.folder_of(hour) / self._name)
        self._parts[hour].add(table)
