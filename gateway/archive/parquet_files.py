"""Parquet files that grow: rows gather until they are worth a row group, and the file is not there before it is whole.

A row group ends after so many rows or octets, whichever comes first: that is what a writer holds in memory, and what a
reader must hold at once.  zstd at its lowest level writes as fast as none does, into a quarter of the octets.
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
GROUP_OCTETS = 64 * 1024 * 1024
"""Of a row group, in memory."""


class ParquetWriter:
    """A Parquet file that is written, under a hidden name.

    Attributes:
        path: its name when it is complete.
        rows, octets: that are in the file so far.
        latest: the `ts` of the last of them, microseconds since 1970.

    Raises:
        OSError: it cannot be written.  So do all methods, but `discard`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = self.octets = 0
        self.latest = 0
        self._gathered: list[pa.Table] = []
        self._rows = self._size = 0
        make_folder(path.parent)
        # A file of ours, for it can be brought to the disk, and an error of it is an OSError with its reason.
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
        self._rows += len(table)
        self._size += table.nbytes
        if self._rows >= GROUP_ROWS or self._size >= GROUP_OCTETS:
            self._write()

    def finish(self) -> None:
        """All rows are added: the file is whole, and on the disk."""
        self._write()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self.octets = self._file.tell()
        self._file.close()

    def reveal(self) -> None:
        """It is finished: it gets its name."""
        reveal(self.path)

    def discard(self) -> None:
        """Whatever is there of it under its hidden name goes."""
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
        self.rows += self._rows
        self._rows = self._size = 0
        self.latest = max(self.latest, pc.max(table["ts"]).value)
        self._writer.write_table(table, row_group_size=len(table))
        self.octets = self._file.tell()


class HourlyWriters:
    """The files that a range of segments becomes: one for each hour.

    Args:
        raw: the folder of all raw files.
        name: of each of the files.
        there: hours that have theirs already.
    """

    def __init__(self, raw: Path, name: str, there: frozenset[int]) -> None:
        self._raw = raw
        self._name = name
        self._there = there
        self._parts: dict[int, ParquetWriter] = {}

    @property
    def all(self) -> list[ParquetWriter]:
        """The files, by hour."""
        return [self._parts[hour] for hour in sorted(self._parts)]

    def add(self, table: pa.Table) -> None:
        """Add rows.

        Raises:
            OSError: a file cannot be written.  So does `finish`.
        """
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
        """All rows are added."""
        for part in self.all:
            part.finish()

    def discard(self) -> None:
        """Whatever is there of them under hidden names goes."""
        for part in self.all:
            part.discard()

    def _add(self, hour: int, table: pa.Table) -> None:
        if hour in self._there:
            return
        if hour not in self._parts:
            self._parts[hour] = ParquetWriter(self._raw / layout.folder_of(hour) / self._name)
        self._parts[hour].add(table)
