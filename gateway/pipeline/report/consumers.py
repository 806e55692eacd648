"""The stuck and slow consumers of a span: the job `consumers` over all of it, and of each alarm one `ConsumerAlarm`.

Only sessions that had a delivery which was too old, at two looks, can have an alarm, and the census knows them: so
Spark looks for their rows alone.  The census also knows how late it was for each gateway, by which the job sees that an
alarm is over.

An alarm's rows have the same subscription, kind and beginning; the one that says `cleared` is its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ..jobs import JOBS, AlarmLimits
from ..jobs.alarms import CLEARED
from .figures import ConsumerAlarm
from .times import EPOCH

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

_EVENTS = ("gauge_subscription", "acked", "nacked", "unsubscribed", "disconnected")
_WHOSE = ("gateway", "epoch", "session", "subscription", "destination", "kind", "since")
MOST_SUSPECTS = 1000
"""Names that Spark looks up in a set; with more of them it reads all sessions."""

Process = tuple[str, int]
"""Gateway and epoch."""


def found(
    rows: DataFrame, limits: AlarmLimits, suspects: Iterable[str], lasts: Mapping[Process, datetime]
) -> tuple[ConsumerAlarm, ...]:
    """The latest first.

    Args:
        rows: of the archive.
        suspects: sessions that may have one; there is one at least.
        lasts: when the last row of each process was.
    """
    job = JOBS["consumers"]
    assert job.fold is not None
    names = sorted(set(suspects))
    wanted = rows.where(rows["event"].isin(*_EVENTS))
    if len(names) <= MOST_SUSPECTS:
        wanted = wanted.where(wanted["session"].isin(names))
    partial = job.transform(wanted.select(*job.columns)).toArrow()
    _, table = job.fold({}, _with_time(partial, lasts), limits)
    return alarms(table.to_pylist())


def _with_time(partial: pyarrow.Table, lasts: Mapping[Process, datetime]) -> pyarrow.Table:
    """And the rows that would have told that time has gone by."""
    import pyarrow as pa

    told = [
        {"gateway": gateway, "epoch": epoch, "what": "time", "ts": (last - EPOCH) // timedelta(microseconds=1)}
        for (gateway, epoch), last in lasts.items()
    ]
    return pa.concat_tables([partial, pa.Table.from_pylist(told, schema=partial.schema)])


def alarms(rows: Iterable[dict[str, Any]]) -> tuple[ConsumerAlarm, ...]:
    """Of the rows of the job's table; the latest first."""
    known: dict[tuple[Any, ...], ConsumerAlarm] = {}
    for row in rows:
        key = tuple([row[name] for name in _WHOSE])
        before = known.get(key) or _begun(row)
        known[key] = replace(
            before,
            cleared=row["ts"] if row["state"] == CLEARED else before.cleared,
            pending=max(before.pending, row["pending"]),
            oldest_us=max(before.oldest_us, row["oldest_us"]),
        )
    return tuple(sorted(known.values(), key=lambda each: each.raised, reverse=True))


def _begun(row: dict[str, Any]) -> ConsumerAlarm:
    names = ("kind", "gateway", "session", "principal", "peer", "subscription", "destination", "pending", "oldest_us")
    return ConsumerAlarm(raised=row["since"], cleared=None, **{name: row[name] for name in names})
