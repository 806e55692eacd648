"""A job: how rows of the archive become rows of its table, and these a snapshot for the console.

    rows of a batch  --transform-->  partial rows  --merge-->  table  --snapshot-->  JSON
                                          |                      ^
                                          +--------fold----------+
                                      with the state of the batch before

`transform` is a pure aggregate.  The partial rows of batches are merged by `keys` and `merges`, so the table is the
same however the rows were split.  Results that depend on earlier rows are `fold`ed on the driver.  Nothing here needs
pyspark or pyarrow until a job runs, so that commands know the names of jobs without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

Merge = Literal["sum", "min", "max"]
State = dict[str, Any]  # plain JSON


@dataclass(frozen=True, slots=True)
class AlarmLimits:
    stuck_after: float = 60.0  # seconds that a delivery may be without ACK


class MakeSnapshot(Protocol):
    """A function that makes the snapshot of a job."""

    def __call__(self, table: pyarrow.Table, now: datetime, size: int = ...) -> dict[str, Any]:
        """Plain JSON of the last day's rows, `size` bytes at most; times are ISO 8601, lists say what is left out."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """A job."""

    name: str
    version: int  # another version cannot continue the tables and the state of this one
    events: tuple[str, ...]  # it reads the rows of these
    columns: tuple[str, ...]  # the columns of these rows that it reads
    transform: Callable[[DataFrame], DataFrame]  # rows of the archive to partial rows
    _: KW_ONLY
    time: str  # the column with the time of a row of the table
    snapshot: MakeSnapshot  # what the console shows
    keys: tuple[str, ...] = ()  # partial rows with equal keys are merged; empty: the table is a list
    merges: Mapping[str, Merge] = field(default_factory=dict)  # how each other column is merged; nulls are ignored
    # The state after the batch before (at first empty) and the partial rows of this one make the next, and table rows.
    fold: Callable[[State, pyarrow.Table, AlarmLimits], tuple[State, pyarrow.Table]] | None = None
