"""The options of an archiver, and the report of a file."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file that is in the archive now.

    Attributes:
        rows, size: rows and bytes of the file.
        segments: how many are in its range.
        rate: rows a second, of all files of this range.
        lag: seconds since its last row.
    """

    path: Path
    gateway: str
    rows: int
    size: int
    segments: int
    rate: float
    lag: float

    def __str__(self) -> str:
        """The file for people."""
        place = self.path.relative_to(self.path.parents[2])
        return f"{place}: {self.rows:,} rows, {self.size:,} bytes, {self.rate:,.0f} rows/s, lag {self.lag:,.1f} s"

    def json(self) -> dict[str, object]:
        """The file for programs."""
        return {
            "file": str(self.path),
            "gateway": self.gateway,
            "rows": self.rows,
            "octets": self.size,
            "segments": self.segments,
            "rows_per_second": round(self.rate),
            "lag": round(self.lag, 1),
        }


@dataclass(frozen=True, slots=True)
class ArchiverOptions:
    """The options of an archiver, and its callbacks.

    Attributes:
        roll: seconds since its first row, after which a group does not wait for more.
        most: bytes of segments that become one file; a larger one is alone.
        tell: called with each file.
        warn: called with a sentence on an error.
        stopping: True: end before the next group.
        at: called after each step that a kill may follow.
        clock: seconds since 1970.
    """

    roll: float = 60.0
    most: int = 64 * 1024 * 1024
    tell: Callable[[ArchivedFile], None] = lambda _: None
    warn: Callable[[str], None] = lambda _: None
    stopping: Callable[[], bool] = lambda: False
    at: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.time
