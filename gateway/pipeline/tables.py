"""Tables: the results of a job, as partial rows in one Parquet file for each batch.

    TABLES/<table>/<first>-<last>.parquet      the rows of the batches first to last, ten digits each
    TABLES/_<...>.parquet                      a file that is being written; readers skip it

A table is the rows of all files, where rows with equal keys are merged: each other column is a sum, a minimum or a
maximum.  Without keys a table is a list.

**Each row of the archive counts once, wherever a job is killed.**  Spark's checkpoint says which files of the archive
batch n consists of, before it runs, and that it is over, after its file is here.  So a batch that is killed in between
runs again with the same rows, and a file that is here already stays.  (A power cut may take Spark's plan of batch n
away: the digest of the files' names tells, and the new batch replaces the file.)  Three rules keep that true:

1. A file gets its name when it is whole and on the disk.
2. Small files are merged into one, but only those of batches that Spark never runs again, below the running one.  The
   merged file gets its name first, then the files that it covers go; readers skip a file that a wider one covers.
3. Batch n is accepted only if n - 1 or n is the last one here, and n is not inside a wider file.  Otherwise the
   checkpoint belongs to another table: one of them was removed or restored.

Files of the oldest batches may be removed.  One process writes a table (`checkpoints` locks it); any number may read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gateway.files import make_folder, writing

from . import errors
from .errors import JobFailure

if TYPE_CHECKING:
    from .jobs import Job

Merge = Literal["sum", "min", "max"]

FAN = 64  # how many files become one
_LEVELS = 2
# Rows of a merged file: some hundred bytes each in memory, several times over while they are merged.
_MOST_ROWS = 4_000_000
_GROUP = 65_536  # readers skip by the least and greatest time of a group of rows; the files are sorted by time
# How often a reader begins again because files were merged while it read them.
_ATTEMPTS = 5
_NAME = re.compile(r"(\d{10})-(\d{10})\.parquet")
_SUMMARY = b"gateway"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """What a file says of its batches beside its rows."""

    rows: int = 0  # rows of the archive that the batches have read
    newest: int | None = None  # the latest `ts` among them, microseconds since 1970; None: there was none
    seconds: float = 0.0  # duration of the batches
    written: int = 0  # end of the last one, microseconds since 1970
    missing: int = 0  # files that the batches should have read and that had been deleted
    digest: str = ""  # of the names of the files of a batch (`file_log`); "": not known, or several batches

    def __add__(self, other: BatchSummary) -> BatchSummary:
        times = [each for each in (self.newest, other.newest) if each is not None]
        return BatchSummary(
            self.rows + other.rows,
            max(times, default=None),
            round(self.seconds + other.seconds, 3),
            max(self.written, other.written),
            self.missing + other.missing,
        )


@dataclass(frozen=True, slots=True, order=True)
class TableFile:
    """A file of a table: the rows of the batches first to last.  A damaged one raises `JobFailure`."""

    first: int
    last: int
    path: Path = field(compare=False)

    @property
    def span(self) -> int:
        """How many batches it covers."""
        return self.last - self.first + 1

    def summary(self) -> BatchSummary:
        with errors.named(self.path, errors.ANEW):
            told: dict[str, Any] = json.loads((pq.read_schema(self.path).metadata or {}).get(_SUMMARY, b"{}"))
            return BatchSummary(**told)

    def extent(self, time: str) -> tuple[int, datetime | None]:
        """Its number of rows, and the newest time in a column; None: there is none."""
        with errors.named(self.path, errors.ANEW):
            metadata = pq.read_metadata(self.path)
            place = metadata.schema.names.index(time)  # tables are flat up to there
            groups = [metadata.row_group(group).column(place).statistics for group in range(metadata.num_row_groups)]
            return metadata.num_rows, max([each.max for each in groups if each and each.has_min_max], default=None)

    def count(self) -> int:
        with errors.named(self.path, errors.ANEW):
            return int(pq.read_metadata(self.path).num_rows)

    def rows(self, which: pc.Expression | None = None) -> pa.Table:
        """Its rows, or those for which an expression is true."""
        with errors.named(self.path, errors.ANEW):
            if which is None:
                return pq.ParquetFile(self.path).read()
            return pq.read_table(self.path, filters=which, partitioning=None)


@dataclass(frozen=True, slots=True)
class JobTable:
    """A table.  Its methods raise `OSError` if a file cannot be read or written, `JobFailure` if one is damaged."""

    folder: Path
    keys: tuple[str, ...] = ()  # rows with equal keys are merged; empty: the table is a list
    merges: Mapping[str, Merge] = field(default_factory=dict)  # how each other column is merged
    time: str = ""  # the column with the time of a row; "": none

    def files(self) -> list[TableFile]:
        """The files that are read, in the order of their batches."""
        try:
            found = [_NAME.fullmatch(name) for name in os.listdir(self.folder)]
        except FileNotFoundError:
            return []
        return _not_covered([TableFile(int(each[1]), int(each[2]), self.folder / each[0]) for each in found if each])

    def check(self, batch: int) -> None:
        """Check that this batch comes next, or is the last one again.  `JobFailure`: it does not."""
        files = self.files()
        last = files[-1].last if files else -1
        if batch - 1 == last or (batch == last and files[-1].span == 1):
            return
        has = f"ends with batch {last}" if files else "is empty"
        raise JobFailure(
            f"the table {self.folder} {has}, but its checkpoint continues with batch {batch}: they do not belong "
            "together; --reset-checkpoint begins both anew"
        )

    def summary_of(self, batch: int) -> BatchSummary | None:
        """The summary of a batch; None: it has no file of its own."""
        found = [each for each in self.files() if each.first == each.last == batch]
        return found[0].summary() if found else None

    def write(self, batch: int, rows: pa.Table, summary: BatchSummary | None = None) -> Path:
        """Write the rows of a batch; the same batch again replaces its file.  `JobFailure`: see `check`."""
        self.check(batch)
        make_folder(self.folder)
        return self._write(batch, batch, self.merged([rows]), summary or BatchSummary())

    def merge(self, before: int, *, most_rows: int = _MOST_ROWS) -> int:
        """Merge files of batches before one, as long as there are enough; returns the number of new files."""
        made = 0
        for level in range(_LEVELS):
            span = FAN**level
            for run in _runs([each for each in self.files() if each.span == span and each.last < before]):
                if sum([each.count() for each in run]) <= most_rows:
                    self._write(run[0].first, run[-1].last, self.merged([each.rows() for each in run]), _total(run))
                    for each in run:
                        each.path.unlink()
                    made += 1
        return made

    def clean(self) -> None:
        """Remove the leftovers of a killed process.  Only the writer of the table may do so."""
        kept = {each.path for each in self.files()}
        for path in self.folder.glob("*.parquet"):
            if path not in kept:
                path.unlink()

    def read(self, since: datetime | None = None) -> pa.Table:
        """The merged rows, or of keys with a row as new as `since`; a table without columns if there is no file."""
        return self.steady(lambda: self.read_files(self.files(), since))

    def read_files(self, files: Sequence[TableFile], since: datetime | None = None) -> pa.Table:
        """The merged rows of some files.  `FileNotFoundError`: a file was merged meanwhile (`steady`)."""
        if not files:
            return pa.table({})
        recent = None if since is None else pc.field(self.time) >= pa.scalar(since, pa.timestamp("us", "UTC"))
        if recent is None or not self.keys or self.time in self.keys:
            return self.merged([each.rows(recent) for each in files])
        # The newest row of a key is recent, and other rows of the key may stand in older files.
        keys = pa.concat_tables([each.rows(recent).select(self.keys) for each in files])
        keys = keys.group_by(list(self.keys)).aggregate([])
        return self.merged([each.rows().join(keys, list(self.keys), join_type="left semi") for each in files])

    def summary(self) -> BatchSummary:
        """The summary of all batches whose files are there."""
        return self.steady(lambda: _total(self.files()))

    def steady(self, read: Callable[[], _T]) -> _T:
        """Read files, and begin again if they were merged meanwhile."""
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(FileNotFoundError):
                return read()
        return read()

    def merged(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The rows of several tables, merged by their keys."""
        rows = pa.concat_tables([each.replace_schema_metadata(None) for each in tables], promote_options="default")
        if self.keys:
            wanted = [(name, how) for name, how in self.merges.items() if name in rows.column_names]
            grouped = rows.group_by(list(self.keys)).aggregate(wanted)
            grouped = grouped.rename_columns([*self.keys, *[name for name, _ in wanted]])
            rows = grouped.select(rows.column_names).cast(rows.schema)  # a sum is wider than its parts
        if self.time and len(tables) > 1:
            rows = rows.sort_by(self.time)
        return rows.combine_chunks()

    def _write(self, first: int, last: int, rows: pa.Table, summary: BatchSummary) -> Path:
        path = self.folder / f"{first:010d}-{last:010d}.parquet"
        rows = rows.replace_schema_metadata({_SUMMARY: json.dumps(asdict(summary)).encode()})
        with writing(path) as file:
            pq.write_table(rows, file, compression="zstd", compression_level=1, row_group_size=_GROUP)
        return path


def of(tables: Path, job: Job) -> JobTable:
    """The table of a job."""
    return JobTable(tables / job.name, job.keys, job.merges, job.time)


def _total(files: Iterable[TableFile]) -> BatchSummary:
    return reduce(BatchSummary.__add__, [each.summary() for each in files], BatchSummary())


def _not_covered(files: Iterable[TableFile]) -> list[TableFile]:
    """The files that no wider one covers; of files that begin alike the wider one comes first."""
    found: list[TableFile] = []
    for each in sorted(files, key=lambda each: (each.first, -each.last)):
        if not found or each.last > found[-1].last:
            found.append(each)
    return found


def _runs(files: Sequence[TableFile]) -> list[list[TableFile]]:
    """Rows of `FAN` files in which each begins where the one before it ends."""
    runs: list[list[TableFile]] = []
    run: list[TableFile] = []
    for each in files:
        if run and each.first != run[-1].last + 1:
            run = []
        run.append(each)
        if len(run) == FAN:
            runs.append(run)
            run = []
    return runs
