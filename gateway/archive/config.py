"""How an archiver works, and what it tells."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file that is in the archive now.

    Attributes:
        rows, octets: in the file.
        segments: in whose range it is.
        rate: rows a second, of all files of this range.
        lag: seconds since its last row.
    """

    path: Path
    gateway: str
    rows: int
    octets: int
    segments: int
    rate: float
    lag: float

    def __str__(self) -> str:
        """One line for people."""
        place = self.path.relative_to(self.path.parents[2])
        return f"{place}: {self.rows:,} rows, {self.octets:,} octets, {self.rate:,.0f} rows/s, lag {self.lag:,.1f} s"

    def json(self) -> dict[str, object]:
        """The same for programs."""
        return {
            "file": str(self.path),
            "gateway": self.gateway,
            "rows": self.rows,
            "octets": self.octets,
            "segments": self.segments,
            "rows_per_second": round(self.rate),
            "lag": round(self.lag, 1),
        }


@dataclass(frozen=True, slots=True)
class ArchiverOptions:
    """How an archiver works, and whom it tells.

    Attributes:
        roll: seconds since its first row, after which a group does not wait for more.
        most: octets of segments that become one file; one that is larger is alone.
        tell: called with each file.
        warn: called with a sentence on what is wrong.
        stopping: whether to end before the next group.
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
