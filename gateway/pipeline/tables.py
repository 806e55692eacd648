"""What a job has found out: partial rows, in one Parquet file for each batch.

    TABLES/<table>/<first>-<last>.parquet      what the batches from first to last add, ten digits each
    TABLES/<table>/_<...>.parquet              one that is being written; readers do not see it

What the table says is the rows of all files, where those with equal keys are one: its columns are summed up, or the
least or the greatest of them counts.  Without keys a table is a list.

**Each row of the archive counts once, wherever a job is killed.**  Spark's checkpoint says which files of the archive
batch n consists of, before it runs, and that it is over, after its file is here.  So one that is killed in between runs
again and has the same rows; where its file is here already, it stays.  Spark leaves its checkpoint to the system's
cache, so a power cut may take away what it has said of batch n, and batch n has other files then: the digest of their
names tells, and such a batch takes the place of the one that is here.  Three rules keep that true:

1. A file gets its name when it is whole and on the disk.
2. Small files become one, so that there are never many, but only those of batches which Spark never runs again.  Batch
   n begins when n - 1 is over for Spark, so while n runs these are the batches below n.  The new file gets its name
   first, then what it covers goes; a file that a wider one covers is not read, so a kill in between changes nothing.
3. Batch n is taken only where n - 1 or n is the last one here, and n is not inside a wider file.  Otherwise the
   checkpoint is not the one of this table: one of them was removed or restored, and rows would be lost or count twice.

Files of the oldest batches may be removed by whoever does not need them.  64 files become one, 64 of these another one,
as long as that has no more rows than fit into memory with ease.  One process writes a table (`checkpoints` sees to it);
any number may read it meanwhile.
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

from . import corrupt_files
from .errors import JobFailure

if TYPE_CHECKING:
    from .jobs import Job

Merge = Literal["sum", "min", "max"]

FAN = 64
"""How many files become one."""

_LEVELS = 2
# Rows of a merged file: some hundred octets each in memory, several times over while they are merged.
_MOST_ROWS = 4_000_000
# Readers skip by the least and greatest time of a group of rows; the files are sorted by time.
_GROUP = 65_536
# How often a reader begins again because files became one while it read them.
_ATTEMPTS = 5
_NAME = re.compile(r"(\d{10})-(\d{10})\.parquet")
_FACTS = b"gateway"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """What a file says of its batches beside its rows.

    Attributes:
        rows: of the archive, that the batches have read.
        newest: the latest `ts` among them, microseconds since 1970; None: there was none.
        seconds: that they took.
        written: when the last one was over, microseconds since 1970.
        missing: files that they should have read and that had been deleted.
        digest: of the names of the files of a batch (`sources`); "": it is not known, or of more than one.
    """

    rows: int = 0
    newest: int | None = None
    seconds: float = 0.0
    written: int = 0
    missing: int = 0
    digest: str = ""

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
    """A file of a table: what the batches from first to last add."""

    first: int
    last: int
    path: Path = field(compare=False)

    @property
    def span(self) -> int:
        """How many batches it covers."""
        return self.last - self.first + 1

    def facts(self) -> BatchSummary:
        """What it says of its batches.

        Raises:
            OSError: it cannot be read.
            JobFailure: it is damaged.
        """
        with corrupt_files.named(self.path, corrupt_files.ANEW):
            return _facts_of(pq.read_schema(self.path))

    def extent(self, time: str) -> tuple[int, datetime | None]:
        """How many rows it has, and the newest time in a column; None: there is none.

        Raises:
            OSError: it cannot be read.
            JobFailure: it is damaged.
        """
        with corrupt_files.named(self.path, corrupt_files.ANEW):
            metadata = pq.read_metadata(self.path)
            place = metadata.schema.names.index(time)  # tables are flat up to there
            groups = [metadata.row_group(group).column(place).statistics for group in range(metadata.num_row_groups)]
            return metadata.num_rows, max([each.max for each in groups if each and each.has_min_max], default=None)

    def count(self) -> int:
        """How many rows it has.

        Raises:
            OSError: it cannot be read.
            JobFailure: it is damaged.
        """
        with corrupt_files.named(self.path, corrupt_files.ANEW):
            return int(pq.read_metadata(self.path).num_rows)


@dataclass(frozen=True, slots=True)
class JobTable:
    """A table.

    Attributes:
        keys: columns by which rows are one; empty: the table is a list.
        merges: how each other column is merged.
        time: the column that says of when a row is; "": there is none.
    """

    folder: Path
    keys: tuple[str, ...] = ()
    merges: Mapping[str, Merge] = field(default_factory=dict)
    time: str = ""

    def files(self) -> list[TableFile]:
        """The files that are read, in the order of their batches."""
        try:
            found = [_NAME.fullmatch(name) for name in os.listdir(self.folder)]
        except FileNotFoundError:
            return []
        return _in_force([TableFile(int(each[1]), int(each[2]), self.folder / each[0]) for each in found if each])

    def check(self, batch: int) -> None:
        """See that this batch comes next, or is the last one again.

        Raises:
            JobFailure: it is not, so the checkpoint belongs to another state of the table.
        """
        files = self.files()
        last = files[-1].last if files else -1
        if batch - 1 == last or (batch == last and files[-1].span == 1):
            return
        has = f"ends with batch {last}" if files else "is empty"
        raise JobFailure(
            f"the table {self.folder} {has}, but its checkpoint goes on with batch {batch}: they do not belong "
            "together, and --reset-checkpoint begins both anew"
        )

    def facts_of(self, batch: int) -> BatchSummary | None:
        """What the file of a batch says; None: there is none, as far as it has not become one with others.

        Raises:
            OSError: it cannot be read.
        """
        found = [piece for piece in self.files() if piece.first == piece.last == batch]
        return found[0].facts() if found else None

    def write(self, batch: int, rows: pa.Table, facts: BatchSummary | None = None) -> Path:
        """Write what a batch adds; the same batch again would take the place of its file.

        Raises:
            JobFailure: it is not this batch's turn (`check`).
            OSError: it cannot be written.
        """
        self.check(batch)
        make_folder(self.folder)
        return self._write(batch, batch, self.merged([rows]), facts or BatchSummary())

    def merge(self, before: int) -> int:
        """Make one file of many, as often as there are enough.

        Args:
            before: batches from this one on may run again, and stay as they are.

        Returns:
            how many files are new.

        Raises:
            OSError: it cannot be read or written.
        """
        made = 0
        for level in range(_LEVELS):
            span = FAN**level
            for run in _runs([piece for piece in self.files() if piece.span == span and piece.last < before]):
                if sum([piece.count() for piece in run]) <= _MOST_ROWS:
                    self._merge(run)
                    made += 1
        return made

    def clean(self) -> None:
        """Remove what a killed process has left.  Only who writes the table may do so."""
        force = {piece.path for piece in self.files()}
        for path in self.folder.glob("*.parquet"):
            if path not in force:
                path.unlink()

    def read(self, since: datetime | None = None) -> pa.Table:
        """The merged rows.

        Args:
            since: only those of whose keys a row is as new as this, by the column `time`.

        Returns:
            a table without columns, where there is no file.

        Raises:
            OSError: a file cannot be read.
        """
        return self.steady(lambda: self.read_files(self.files(), since))

    def read_files(self, pieces: Sequence[TableFile], since: datetime | None = None) -> pa.Table:
        """The merged rows of some files.

        Raises:
            OSError: one cannot be read; `FileNotFoundError` where it became one with others meanwhile (`steady`).
        """
        if not pieces:
            return pa.table({})
        recent = None if since is None else pc.field(self.time) >= pa.scalar(since, pa.timestamp("us", "UTC"))
        if recent is None or not self.keys or self.time in self.keys:
            return self.merged([_rows_of(piece.path, recent) for piece in pieces])
        # The newest row of some keys is recent, and what belongs to it may stand in files that are older.
        keys = pa.concat_tables([_rows_of(piece.path, recent).select(self.keys) for piece in pieces])
        keys = keys.group_by(list(self.keys)).aggregate([])
        found = [_rows_of(piece.path).join(keys, list(self.keys), join_type="left semi") for piece in pieces]
        return self.merged(found)

    def facts(self) -> BatchSummary:
        """What all batches were, as far as their files are there.

        Raises:
            OSError: a file cannot be read.
        """
        return self.steady(
            lambda: reduce(BatchSummary.__add__, [piece.facts() for piece in self.files()], BatchSummary())
        )

    def steady(self, read: Callable[[], _T]) -> _T:
        """Read files, and begin again where they became one meanwhile.

        Raises:
            OSError: one cannot be read.
        """
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(FileNotFoundError):
                return read()
        return read()

    def merged(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Rows of several tables, of which those with equal keys are one."""
        rows = pa.concat_tables([each.replace_schema_metadata(None) for each in tables], promote_options="default")
        if self.keys:
            wanted = [(name, how) for name, how in self.merges.items() if name in rows.column_names]
            grouped = rows.group_by(list(self.keys)).aggregate(wanted)
            grouped = grouped.rename_columns([*self.keys, *[name for name, _ in wanted]])
            rows = grouped.select(rows.column_names).cast(rows.schema)  # a sum is wider than what it sums up
        if self.time and len(tables) > 1:
            rows = rows.sort_by(self.time)
        return rows.combine_chunks()

    def _merge(self, run: Sequence[TableFile]) -> None:
        facts = reduce(BatchSummary.__add__, [piece.facts() for piece in run], BatchSummary())
        rows = self.merged([_rows_of(piece.path) for piece in run])
        self._write(run[0].first, run[-1].last, rows, facts)
        for piece in run:
            piece.path.unlink()

    def _write(self, first: int, last: int, rows: pa.Table, facts: BatchSummary) -> Path:
        path = self.folder / f"{first:010d}-{last:010d}.parquet"
        rows = rows.replace_schema_metadata({_FACTS: json.dumps(asdict(facts)).encode()})
        with writing(path) as file:
            pq.write_table(rows, file, compression="zstd", compression_level=1, row_group_size=_GROUP)
        return path


def of(tables: Path, job: Job) -> JobTable:
    """The table of a job."""
    return JobTable(tables / job.name, job.keys, job.merges, job.time)


def _in_force(pieces: Iterable[TableFile]) -> list[TableFile]:
    """Those that no wider one covers; of files that begin alike the wider one is first."""
    force: list[TableFile] = []
    for piece in sorted(pieces, key=lambda each: (each.first, -each.last)):
        if not force or piece.last > force[-1].last:
            force.append(piece)
    return force


def _runs(pieces: Sequence[TableFile]) -> list[list[TableFile]]:
    """As many rows of `FAN` files as there are in which each one begins where the one before it ends."""
    runs: list[list[TableFile]] = []
    run: list[TableFile] = []
    for piece in pieces:
        if run and piece.first != run[-1].last + 1:
            run = []
        run.append(piece)
        if len(run) == FAN:
            runs.append(run)
            run = []
    return runs


def _rows_of(path: Path, which: pc.Expression | None = None) -> pa.Table:
    with corrupt_files.named(path, corrupt_files.ANEW):
        return pq.ParquetFile(path).read() if which is None else pq.read_table(path, filters=which, partitioning=None)


def _facts_of(schema: pa.Schema) -> BatchSummary:
    told: dict[str, Any] = json.loads((schema.metadata or {}).get(_FACTS, b"{}"))
    return BatchSummary(**told)
