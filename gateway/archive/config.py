"""The options of an archiver, and the report of a file."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file that is in the archive now."""

    path: Path
    gateway: str
    rows: int
    size: int  # bytes
    segments: int  # how many are in its range
    rate: float  # rows a second, of all files of this range
    lag: float  # seconds since its last row

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
    """The options of an archiver, and its callbacks."""

    roll: float = 60.0  # seconds since its first row, after which a group does not wait for more
    most: int = 64 * 1024 * 1024  # bytes of segments that become one file; a larger one is alone
    tell: Callable[[ArchivedFile], None] = lambda _: None  # called with each file
    warn: Callable[[str], None] = lambda _: None  # called with a sentence on an error
    stopping: Callable[[], bool] = lambda: False  # True: end before the next group
    at: Callable[[str], None] = lambda _: None  # called after each step that a kill may follow
    clock: Callable[[], float] = time.time  # seconds since 1970
