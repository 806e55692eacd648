"""Parquet files that grow: rows gather up to a row group, and a file gets its name when it is whole.

A row group ends after so many rows or bytes: a writer holds so much in memory, and a reader must hold it at once.  zstd
at its lowest level writes as fast as no compression does, into a quarter of the bytes.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gateway.files import hidden, make_folder, opened, reveal

from . import layout
from .schema import REPEATED, SCHEMA

GROUP_ROWS = 128 * 1024
GROUP_BYTES = 64 * 1024 * 1024  # bytes of a row group, in memory


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
