"""Spark reads the archive, and the figures of a report come out.

    counts      one pass over all rows, by Arrow in Spark's workers
    census      what these add up to: traffic by step and by destination, totals, the most frequent reasons
    letters     the last dead letters, if there are any; the census knows since when
    consumers   the job `consumers`, if there may be an alarm; the census knows whose

What the job `metrics` counts by minutes a report counts by its own steps: seconds, where it is short, and days, where
it is long.

Of a folder Arrow reads the files by itself, for Spark needs ten times the CPU to hand their rows over.  Only where the
archive is a Hadoop URI it does so.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from ..jobs import JOBS, AlarmLimits
from ..jobs import figures as sums
from ..spark import dataframe
from . import census, consumers, counts, times
from .figures import DestinationFigures, Gap, LastDeadLetter, Report, Step

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
    limits: AlarmLimits | None = None,
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
    limits = limits or AlarmLimits()
    rows = dataframe.rows(spark, archive, since, until)
    if gateways is not None:
        rows = rows.where(rows["gateway"].isin(list(gateways)))
    step = times.step_of(until - since)
    made = datetime.now(UTC)
    with contextlib.closing(census.Census(_counted(rows, archive, since, until, gateways, step, limits))) as counted:
        totals = counted.totals
        if not totals:
            return Report(since, until, made, step, stuck_after=timedelta(seconds=limits.stuck_after))
        by_step, by_destination = counted.traffic()
        ranking = sums.by_destination(by_destination, MOST_DESTINATIONS)
        depths = counted.depths([name for name, _ in ranking.top])
        reasons, unlisted = counted.reasons()
        suspects = counted.suspects(consumers.MOST_SUSPECTS)
    return Report(
        since=since,
        until=until,
        made=made,
        step=step,
        gateways=tuple(sorted({each["gateway"] for each in totals})),
        rows=sum([each["count"] for each in totals]),
        first=min([each["first"] for each in totals]),
        last=max([each["last"] for each in totals]),
        events=_events(totals, by_step),
        transports=_sum([each for each in totals if each["transport"]], "transport"),
        steps=tuple(_steps(by_step, since, until, step)),
        destinations=tuple([DestinationFigures(name, had, depths.get(name)) for name, had in ranking.top]),
        others=ranking.others,
        reasons=reasons,
        unlisted=unlisted,
        dead_letters=_letters(rows, totals),
        consumers=consumers.found(rows, limits, suspects, _lasts(totals)) if suspects else (),
        stuck_after=timedelta(seconds=limits.stuck_after),
        gaps=_gaps(totals),
    )


def _counted(
    rows: DataFrame,
    archive: str,
    since: datetime,
    until: datetime,
    gateways: Sequence[str] | None,
    step: timedelta,
    limits: AlarmLimits,
) -> DataFrame:
    """The partial rows of the span, merged; `rows` are all of it."""
    from pyspark import cloudpickle
    from pyspark.sql import functions as f

    cloudpickle.register_pickle_by_value(counts)  # type: ignore[no-untyped-call]
    seconds, limit = step // timedelta(seconds=1), round(limits.stuck_after * 1_000_000)
    if "://" in archive:
        found = rows.select(*counts.READ).mapInArrow(partial(counts.of_rows, seconds=seconds, limit=limit), counts.DDL)
    else:
        spark = rows.sparkSession
        paths = spark.createDataFrame([(path,) for path in dataframe.files_of(archive, since, until)], "path string")
        count = partial(counts.of_files, since=since, until=until, gateways=gateways, seconds=seconds, limit=limit)
        parts = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        found = paths.repartition(parts).mapInArrow(count, counts.DDL)
    return found.groupBy(*counts.KEYS).agg(*[getattr(f, how)(name).alias(name) for name, how in counts.MERGES.items()])


def _steps(table: pyarrow.Table, since: datetime, until: datetime, step: timedelta) -> Iterable[Step]:
    had = dict(sums.by_time(table, step))
    nothing = sums.add([])
    for start, end in times.steps(since, until, step):
        yield Step(start, end, had.get(times.floor(start, step), nothing))


def _events(totals: Iterable[dict[str, Any]], by_step: pyarrow.Table) -> dict[str, int]:
    """How many rows each event has; what a browser got was not delivered."""
    counted = sums.figures(by_step).counts
    others = _sum([each for each in totals if each["event"] not in counted], "event")
    return others | {event: many for event, many in counted.items() if many}


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


def _letters(rows: DataFrame, counted: Iterable[dict[str, Any]]) -> tuple[LastDeadLetter, ...]:
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
    names = LastDeadLetter.__dataclass_fields__.keys() - {"headers"}
    return tuple(
        [
            LastDeadLetter(**{name: each[name] for name in names}, headers=dict(each["headers"] or ()))
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
