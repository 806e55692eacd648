"""Progress of jobs: one line for each batch, on standard error, or as JSON on standard output.

    metrics    batch 12: 120,000 rows in 0.31 s, 387,097 rows/s, lag 4.2 s
    {"job":"metrics","batch":12,"rows":120000,"seconds":0.31,"rows_per_second":387097,"lag":4.2,"at":"2026-..."}

The lag is the age of the newest row at the end of its batch; it is null if a batch had no row that the job reads.
Lines are whole and only ever added; several queries and threads write at the same time.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO


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
