"""Progress of jobs: one line for each batch, on standard error, or as JSON on standard output.

    metrics    batch 12: 120,000 rows in 0.31 s, 387,097 rows/s, lag 4.2 s
    {"job":"metrics","batch":12,"rows":120000,"seconds":0.31,"rows_per_second":387097,"lag":4.2,"at":"2026-..."}

The lag is the age of the newest row at the end of its batch; it is null if a batch had no row that the job reads.
Lines are whole and only ever added; several queries and threads write at the same time.

Missing data.  A job reads `raw`, from which files go that have been in the history for long enough.  A file that goes
before a job has read it is missing in its table for ever; the job goes on, tells it once, and keeps it for `status`; a
run with `--once` fails.  There are two ways:

    no batch has seen the file      the job was away for too long, or is new.  `missed` keeps it (`checkpoints`)
    a batch has planned it          a kill, and then the job was away too long.  The batch's file keeps it (`tables`)
"""

import json
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import ENOENT
from pathlib import Path
from typing import Any, TextIO

from gateway.archive import layout

from .. import errors
from . import checkpoints, file_log

_NAMED = 3  # files that a sentence names


@dataclass(frozen=True, slots=True)
class BatchReport:
    job: str
    number: int
    rows: int  # rows of the archive that the job has read
    seconds: float  # duration
    newest: int | None  # the latest `ts` among the rows, microseconds since 1970; None: there was none
    at: int  # the end, microseconds since 1970

    @property
    def speed(self) -> int:
        return round(self.rows / self.seconds) if self.seconds > 0 else 0

    @property
    def lag(self) -> float | None:
        """Seconds from the newest row to the end of the batch; None: there was no row."""
        return None if self.newest is None else round((self.at - self.newest) / 1e6, 1)

    def line(self) -> str:
        parts = [f"{self.job:<11} batch {self.number}: {self.rows:,} rows in {self.seconds:.2f} s"]
        if self.rows:
            parts.append(f"{self.speed:,} rows/s")
        if self.lag is not None:
            parts.append(f"lag {self.lag:,.1f} s")
        return ", ".join(parts)

    def json(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "batch": self.number,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "rows_per_second": self.speed,
            "lag": self.lag,
            "at": iso(self.at),
        }


def iso(microseconds: int) -> str:
    """A time since 1970 in ISO 8601, with milliseconds."""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Progress:
    def __init__(self, as_json: bool = False, *, err: TextIO | None = None, out: TextIO | None = None) -> None:
        self._as_json = as_json
        self._err = sys.stderr if err is None else err
        self._out = sys.stdout if out is None else out
        self._lock = threading.RLock()  # a signal handler may print in the middle of a line

    def batch(self, batch: BatchReport) -> None:
        with self._lock:
            if self._as_json:
                _print(self._out, json.dumps(batch.json(), separators=(",", ":")))
            else:
                _print(self._err, batch.line())

    def say(self, sentence: str) -> None:
        """Print another sentence, for people."""
        with self._lock:
            _print(self._err, sentence)


def _print(where: TextIO, line: str) -> None:
    where.write(line + "\n")
    where.flush()  # a pipe keeps lines back otherwise


class MissingData:
    """The missing files of a job in this run; `archive` is None if it cannot be looked at."""

    def __init__(self, job: str, tables: Path, archive: Path | None, progress: Progress) -> None:
        self.found: list[str] = []  # sentences on files found missing for the first time, without those of a new job
        self._job = job
        self._tables = tables
        self._archive = archive
        self._progress = progress

    def look_back(self) -> None:
        """Tell which files were deleted before any batch saw them.  `OSError`: it cannot be kept."""
        if self._archive is None:
            return
        checkpoint = checkpoints.folder(self._tables, self._job)
        hours = file_log.missed(self._archive, checkpoint)
        if not checkpoints.note_missed(self._tables, self._job, hours):
            return
        what = f"{_count(sum(hours.values()), 'file')} of {_count(len(hours), 'hour')}, whose rows are not in the table"
        if next(file_log.read_by(checkpoint), None) is None:
            self._progress.say(
                f"{self._job}: in history/ alone, which no job reads: {what}; `report` and `replay` read them, and "
                "a longer --raw-retention of the archiver keeps files longer for jobs"
            )
            return
        self._say(
            f"{self._job}: deleted from raw/ before the job saw them: {what}; `report` and `replay` read them "
            "in history/, and a longer --raw-retention of the archiver gives jobs more time"
        )

    def deleted(self, planned: frozenset[str] | None) -> list[str]:
        """The files of a batch that no longer exist.  `JobFailure`: one is empty.  `FileNotFoundError`: all went."""
        if planned is None or self._archive is None:
            return []
        gone = file_log.deleted(self._archive, planned)
        for name in planned.difference(gone):
            errors.refuse_empty(self._archive / layout.RAW / name)
        if gone and not (raw := self._archive / layout.RAW).is_dir():
            raise FileNotFoundError(ENOENT, "the archive has gone", str(raw))
        return gone

    def tell(self, batch: int, deleted: Sequence[str]) -> None:
        """Tell which files a batch did not find."""
        if self._archive is None or not deleted:
            return
        loss = (
            f"{self._job}: batch {batch} ran without {_count(len(deleted), 'file')}, deleted before, whose rows are "
            f"not in the table: {', '.join(deleted[:_NAMED])}{', ...' * (len(deleted) > _NAMED)}"
        )
        if known := file_log.in_history(self._archive, deleted):
            loss += f"; in history/, which `report` and `replay` read: {known:,} of them"
        self._say(loss)

    def _say(self, loss: str) -> None:
        self._progress.say(loss)
        self.found.append(loss)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
