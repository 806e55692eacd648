"""Spark reads the archive, and the figures of a report come out.

The files are named once, so all passes see the same rows.  They are

    traffic     what messages did: the partial rows of the job `metrics`, added up by step and by destination in one go
    extent      from when to when there are rows, and of which gateways
    census      all events but the plentiful, of which traffic knows enough
    letters     the last dead letters, if there are any; the census knows since when
    consumers   the job `consumers`, if any delivery was too old; the census knows whose

The first three go over all rows, one after the other: side by side they would all run while nothing is compiled yet,
which costs a fifth more.  Each reads its own columns and sends little to the driver: sums by step, by destination and
of the most frequent reasons.  What the job counts by minutes a report counts by its own steps: seconds, where it is
short, and days, where it is long.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from .. import reading
from ..jobs import JOBS, Limits, metrics
from ..jobs import figures as sums
from . import census, consumers, times
from .figures import DeadLetter, Destination, Gap, Report, Step

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

MOST_DESTINATIONS = 1000
"""Destinations with figures of their own."""
LETTERS = 20
"""Dead letters that are shown."""


def report(
    spark: SparkSession,
    archive: str,
    since: datetime,
    until: datetime,
    *,
    limits: Limits | None = None,
    gateways: Sequence[str] | None = None,
) -> Report:
    """The figures of a span.

    Args:
        archive: a folder, or a Hadoop URI.
        since, until: with a zone; the span ends before `until`.
        limits: from when on a consumer is stuck.
        gateways: those whose rows count; None: all.

    Raises:
        UsageFailure: there is no archive.
    """
    since, until = since.astimezone(UTC), until.astimezone(UTC)
    limits = limits or Limits()
    rows = reading.rows(spark, archive, since, until)
    if gateways is not None:
        rows = rows.where(rows["gateway"].isin(list(gateways)))
    step = times.step_of(until - since)
    made = datetime.now(UTC)
    extent = _extent(rows)
    if not extent:
        return Report(since, until, made, step, stuck_after=timedelta(seconds=limits.stuck_after))
    with contextlib.closing(census.Census(rows, limits)) as counted:
        by_step, by_destination = _traffic(rows, step)
        ranking = sums.by_destination(by_destination, MOST_DESTINATIONS)
        depths = counted.depths([name for name, _ in ranking.top])
        reasons, unlisted = counted.reasons()
        suspects = counted.suspects(consumers.MOST_SUSPECTS)
    totals = counted.totals
    return Report(
        since=since,
        until=until,
        made=made,
        step=step,
        gateways=tuple(sorted([each["gateway"] for each in extent])),
        rows=sum([each["count"] for each in extent]),
        first=min([each["first"] for each in extent]),
        last=max([each["last"] for each in extent]),
        events=_sum(totals, "event") | _plentiful(by_step),
        transports=_sum([each for each in totals if each["transport"]], "transport"),
        steps=tuple(_steps(by_step, since, until, step)),
        destinations=tuple([Destination(name, had, depths.get(name)) for name, had in ranking.top]),
        others=ranking.others,
        reasons=reasons,
        unlisted=unlisted,
        dead_letters=_letters(rows, totals),
        consumers=consumers.found(rows, limits, suspects, _lasts(totals)) if suspects else (),
        stuck_after=timedelta(seconds=limits.stuck_after),
        gaps=_gaps(totals),
    )


def _traffic(rows: DataFrame, step: timedelta) -> tuple[pyarrow.Table, pyarrow.Table]:
    """The table of `metrics`, added up by step, and by destination."""
    import pyarrow.compute as pc
    from pyspark.sql import functions as f

    partial = metrics.transform(rows.select(*metrics.COLUMNS), step // timedelta(seconds=1))
    common = ("event", "bucket")
    summed = (
        partial.groupingSets([("minute", *common), ("destination", *common)], "minute", "destination", *common)
        .agg(
            f.sum("count").alias("count"),
            f.sum("octets").alias("octets"),
            f.grouping("destination").alias("of_step"),
        )
        .toArrow()
    )
    of_step = pc.equal(summed["of_step"], 1)
    return summed.filter(of_step), summed.filter(pc.invert(of_step))


def _steps(table: pyarrow.Table, since: datetime, until: datetime, step: timedelta) -> Iterable[Step]:
    had = dict(sums.by_time(table, step))
    nothing = sums.add([])
    for start, end in times.steps(since, until, step):
        yield Step(start, end, had.get(times.floor(start, step), nothing))


def _plentiful(by_step: pyarrow.Table) -> dict[str, int]:
    """How many rows the plentiful events have, as far as they have any."""
    counts = sums.figures(by_step).counts
    return {event: counts[event] for event in census.PLENTIFUL if counts[event]}


def _extent(rows: DataFrame) -> list[dict[str, Any]]:
    """Of each gateway: how many rows, from when to when."""
    from pyspark.sql import functions as f

    counted = rows.groupBy("gateway").agg(
        f.count("*").alias("count"), f.min("ts").alias("first"), f.max("ts").alias("last")
    )
    found: list[dict[str, Any]] = counted.toArrow().to_pylist()
    return found


def _sum(counted: Iterable[dict[str, Any]], key: str) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for each in counted:
        totals[each[key]] += each["count"]
    return dict(totals)


def _gaps(counted: Iterable[dict[str, Any]]) -> tuple[Gap, ...]:
    found = [
        Gap(each["gateway"], each["epoch"], each["at"], each["dropped_rows"] or 0, each["gap"])
        for each in counted
        if each["event"] == "journal_dropped"
    ]
    return tuple(sorted(found, key=lambda gap: (gap.at, gap.gateway)))


def _letters(rows: DataFrame, counted: Iterable[dict[str, Any]]) -> tuple[DeadLetter, ...]:
    """The last ones, the latest first."""
    from pyspark.sql import functions as f

    minutes: Counter[datetime] = Counter()
    for each in counted:
        if each["event"] == "dead_lettered":
            minutes[each["at"]] += each["count"]
    if not minutes:
        return ()
    # Headers are large, so only those minutes are read that have the last ones.
    seen = 0
    for start in sorted(minutes, reverse=True):
        seen += minutes[start]
        if seen >= LETTERS:
            break
    job = JOBS["deadletters"]
    letters = job.transform(rows.where(f.col("ts") >= f.lit(start)).select(*job.columns))
    latest = letters.orderBy(f.desc("ts"), f.desc("gateway"), f.desc("seq")).limit(LETTERS).toArrow()
    names = DeadLetter.__dataclass_fields__.keys() - {"headers"}
    return tuple(
        [
            DeadLetter(**{name: each[name] for name in names}, headers=dict(each["headers"] or ()))
            for each in latest.to_pylist()
        ]
    )


def _lasts(counted: Iterable[dict[str, Any]]) -> dict[consumers.Process, datetime]:
    """When the last row of each process was, as far as the census knows."""
    lasts: dict[consumers.Process, datetime] = {}
    for each in counted:
        process = each["gateway"], each["epoch"]
        lasts[process] = max(lasts.get(process, each["last"]), each["last"])
    return lasts
