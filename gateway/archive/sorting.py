"""Sorting the rows of an hour in bounded memory: runs that are sorted in memory, spilled, and merged.

A merge holds one chunk of each run.  The smallest of their last rows is the bound: all rows of the chunks up to it come
next, and are sorted once more.  No run has a row before the bound behind its chunk.  So each step works on whole
columns, and never on a single row.  A single run is not spilled; very many are merged into fewer first.

The order is destination, ts, seq: a reader of one destination reads few row groups.  Rows without one come first.
"""

import bisect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .parquet_files import SCHEMA

_MIB = 1024 * 1024
RUN = 96 * _MIB  # bytes of a run; to sort it takes the same once more
CHUNK = _MIB  # bytes that a merge holds of each run; a larger row is alone
FAN = 128  # runs that are merged at once: their chunks are about as large as a run
SPILL = "_spill"

_Key = tuple[str, int, int]


def ordered(tables: Iterable[pa.Table], folder: Path, at: Callable[[str], None]) -> Iterator[pa.Table]:
    """The same rows, sorted; spilled files are in `folder` until the end, or after a kill."""
    spills: list[Path] = []

    def spill(sorted_tables: Iterable[pa.Table]) -> Path:
        path = folder / f"{SPILL}-{len(spills):06d}.arrow"
        spills.append(path)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, SCHEMA, options=_OPTIONS) as stream:
            for table in sorted_tables:
                for chunk in _chunks(table):
                    stream.write_table(chunk)
        at("run spilled")
        return path

    try:
        gathered = _gathered(tables)
        first = next(gathered, None)
        second = next(gathered, None)
        if first is None:
            return
        if second is None:
            yield from _chunks(_sorted(first))
            return
        runs = [spill([_sorted(first)]), spill([_sorted(second)])]
        del first, second
        runs += [spill([_sorted(table)]) for table in gathered]
        while len(runs) > FAN:
            runs = [*runs[FAN:], spill(_merged(runs[:FAN]))]
        yield from _merged(runs)
    finally:
        for path in spills:
            path.unlink(missing_ok=True)
        at("runs removed")


_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The tables of a run together."""
    gathered: list[pa.Table] = []
    size = 0
    for table in tables:
        if gathered and size + table.nbytes > RUN:
            yield pa.concat_tables(gathered)
            gathered, size = [], 0
        gathered.append(table)
        size += table.nbytes
    if gathered:
        yield pa.concat_tables(gathered)


def _chunks(table: pa.Table) -> Iterator[pa.Table]:
    """A table in pieces, by their bytes: the large rows of one destination may stand together."""
    if len(table) < 2 or table.nbytes <= CHUNK:
        if len(table):
            yield table
        return
    middle = len(table) // 2
    yield from _chunks(table.slice(0, middle))
    yield from _chunks(table.slice(middle))


def _sorted(table: pa.Table) -> pa.Table:
    table = table.combine_chunks()
    keys = pa.table({"destination": _destinations(table), "ts": table["ts"], "seq": table["seq"]})
    return table.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))


def _destinations(table: pa.Table) -> Any:
    """No destination is the same as an empty name."""
    return pc.fill_null(table["destination"], "")


def _merged(paths: list[Path]) -> Iterator[pa.Table]:
    """The rows of runs, sorted."""
    runs = [_Run(path) for path in paths]
    try:
        while True:
            runs = [run for run in runs if run.has_rows()]
            if not runs:
                return
            bound = min([run.last for run in runs])
            yield _sorted(pa.concat_tables([run.take(bound) for run in runs]))
    finally:
        for run in runs:
            run.close()


class _Run:
    """A run that is read; `last` is the key of the last row of its chunk."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(str(path), "rb")
        self._stream = pa.ipc.open_stream(self._file)
        self._chunk: pa.Table = SCHEMA.empty_table()
        self.last: _Key = ("", 0, 0)

    def has_rows(self) -> bool:
        """True if there are any; then there are some in its chunk."""
        if not len(self._chunk):
            try:
                self._chunk = pa.Table.from_batches([self._stream.read_next_batch()])
            except StopIteration:
                self.close()
                return False
            self.last = self._key(len(self._chunk) - 1)
        return True

    def take(self, bound: _Key) -> pa.Table:
        """The rows up to a key."""
        count = len(self._chunk)
        if self.last > bound:
            count = 0 if self._key(0) > bound else self._count(bound)
        taken = self._chunk.slice(0, count)
        self._chunk = self._chunk.slice(count)
        return taken

    def close(self) -> None:
        self._file.close()

    def _key(self, row: int) -> _Key:
        table = self._chunk
        return table["destination"][row].as_py() or "", table["ts"][row].value, table["seq"][row].as_py()

    def _count(self, bound: _Key) -> int:
        return bisect.bisect_right(range(len(self._chunk)), bound, key=self._key)
