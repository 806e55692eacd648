"""A job: how rows of the archive become rows of its table, and these a snapshot for the console.

    rows of a batch  --transform-->  partial rows  --merge-->  table  --snapshot-->  JSON
                                          |                      ^
                                          +--------fold----------+
                                      with the state of the batch before

`transform` is a pure aggregate.  The partial rows of batches are merged by `keys` and `merges`, so the table is the
same however the rows were split.  Results that depend on earlier rows are `fold`ed on the driver.  Nothing here needs
pyspark or pyarrow until a job runs, so that commands know the names of jobs without them.

A snapshot fits into so many bytes of JSON, and its lists say how much was left out.

A temporary destination lasts for one session, and has a name of its own: a table with a row for each would grow with
the sessions.  So all of a kind are one, `/reply-queue/*` or `/reply-topic/*`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol

from gateway.broker.model.destinations import REPLY_QUEUE, REPLY_TOPIC

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

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


SIZE = 2 * 1024 * 1024
"""Bytes of a snapshot, as JSON.  Its lists get half of them, and everything else needs less than the other half."""

MOST_TEXT = 256  # characters of a text that a client chose


def fitting(items: Iterable[dict[str, Any]], count: int, size: int) -> tuple[list[dict[str, Any]], int]:
    """The first of `count` items, as many as fit into so many bytes of ASCII JSON, and how many more there are."""
    fit: list[dict[str, Any]] = []
    for item in items:
        size -= len(json.dumps(item)) + 2
        if size < 0:
            break
        fit.append(item)
    return fit, count - len(fit)


def last_day(table: pyarrow.Table, column: str, now: datetime) -> pyarrow.Table:
    """The rows of the last day; a table without rows may have no columns, either."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not table.num_rows:
        return table
    start = pa.scalar(now - timedelta(days=1), pa.timestamp("us", "UTC"))
    return table.filter(pc.greater_equal(table[column], start))


def cut(value: str | None) -> str | None:
    """A text, cut if it is too long."""
    return value if value is None or len(value) <= MOST_TEXT else value[: MOST_TEXT - 1] + "…"


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC, with milliseconds unless it is a whole second."""
    moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")


def folded_destination() -> Column:
    """The destination, or the kind of temporary ones."""
    from pyspark.sql import functions as f

    name = f.col("destination")
    folded = name
    for start in (REPLY_QUEUE, REPLY_TOPIC):
        folded = f.when(f.startswith(name, f.lit(start)), f.lit(f"{start}*")).otherwise(folded)
    return folded.alias("destination")


def is_browsed() -> Column:
    """True for a message that was shown to a browser."""
    from pyspark.sql import functions as f

    return (f.col("event") == "delivered") & f.col("delivery_count").eqNullSafe(0)
