"""What a job is: how rows of the archive become rows of its table, and these what the console shows.

    rows of a batch  --transform-->  partial rows  --merge-->  table  --snapshot-->  JSON
                                          |                      ^
                                          +--------fold----------+
                                      with the state of the batch before

`transform` is a pure aggregate: it knows nothing of batches, files or time.  What batches find out is merged by `keys`
and `merges`, so it makes no difference how the rows were split: the table says the same as one batch of all of them.

What cannot be merged, because it depends on what came before, is `fold`ed on the driver: plain Python over few rows.

Nothing here needs pyspark or pyarrow until a job runs, so that the commands know their names without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

Merge = Literal["sum", "min", "max"]
State = dict[str, Any]
"""Plain JSON."""


@dataclass(frozen=True, slots=True)
class AlarmLimits:
    """From when on something is wrong.

    Attributes:
        stuck_after: seconds that a delivery may be without ACK.
    """

    stuck_after: float = 60.0


class MakeSnapshot(Protocol):
    """What the console shows of a job."""

    def __call__(self, table: pyarrow.Table, now: datetime, octets: int = ...) -> dict[str, Any]:
        """Plain JSON; times are ISO 8601 in UTC.

        Args:
            table: merged rows; those of the last day count.
            octets: that it may have as JSON; lists are cut, and tell how much they leave out.
        """
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """A job.

    Attributes:
        version: another one cannot go on with the tables and the state of this.
        events: whose rows it reads.
        columns: which columns of them.
        transform: rows of the archive to partial rows.
        keys: columns by which partial rows are one; empty: the table is a list.
        merges: how each other column of such rows is merged; null is as if it were not there.
        time: the column that says of when a row of the table is.
        snapshot: what the console shows.
        fold: the state behind the batch before (at first empty) and the partial rows of this one; the state behind it,
            and the rows that the table gets.
    """

    name: str
    version: int
    events: tuple[str, ...]
    columns: tuple[str, ...]
    transform: Callable[[DataFrame], DataFrame]
    keys: tuple[str, ...]
    merges: Mapping[str, Merge]
    time: str
    snapshot: MakeSnapshot
    fold: Callable[[State, pyarrow.Table, AlarmLimits], tuple[State, pyarrow.Table]] | None = None
