"""The figures of a report, out of the archive.

    counts          one pass over all rows, by Arrow in Spark's workers
    `_Counted`      Spark keeps what they add up to, and answers the questions of the report
    dead letters    the last ones; the counts know in which minutes they were
    consumers       the job `consumers` over the sessions that may have had an alarm; the counts know which

Clients make as many reasons, destinations and sessions as they like: only few rows come from Spark to the driver.
"""

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from gateway.archive import history

from ..errors import named, of_archive
from ..jobs import JOBS, AlarmLimits
from ..jobs import figures as sums
from ..jobs.consumers import CLEARED
from ..spark import dataframe
from . import counts
from .counts import DESTINATIONS, EVENTS, REASONED, STEPS
from .figures import (
    EPOCH,
    MINUTE,
    SECOND,
    ConsumerAlarm,
    Counts,
    DestinationFigures,
    Gap,
    LastDeadLetter,
    Reason,
    Report,
    Step,
    floor,
    step_of,
    steps,
)

MOST_DESTINATIONS = 1000  # destinations with figures of their own
MOST_REASONS = 1000  # of an event, with their destinations
MOST_SUSPECTS = 1000  # sessions that Spark looks up by name; if there are more it reads all sessions
LETTERS = 20  # dead letters that are shown
_OF_ALARMS = ("gauge_subscription", "acked", "nacked", "unsubscribed", "disconnected")
_WHOSE = ("gateway", "epoch", "session", "subscription", "destination", "kind", "since")
_MICROSECOND = timedelta(microseconds=1)
# A shorter span is cut to the second, a longer one to the minute: up to here steps are shorter than a minute.
_SHORT = 45 * MINUTE

Process = tuple[str, int]  # gateway and epoch


def fitted(archive: Path, since: datetime, until: datetime) -> tuple[datetime, datetime]:
    """The part of a span that has rows, by the Parquet files' statistics; the whole span if there are none."""
    first, last = until, since
    for path in history.files(archive, since, until):
        with named(path, of_archive(path)):
            metadata = pq.read_metadata(path)
        place = metadata.schema.names.index("ts")
        for number in range(metadata.num_row_groups):
            known = metadata.row_group(number).column(place).statistics
            if known is None or not known.has_min_max:
                return since, until
            first, last = min(first, known.min.astimezone(UTC)), max(last, known.max.astimezone(UTC))
    first, last = max(first, since), min(last, until)
    if first > last:
        return since, until
    to = SECOND if last - first < _SHORT else MINUTE
    return max(floor(first, to), since), min(floor(last, to) + to, until)


def report(
    spark: SparkSession, archive: str, since: datetime, until: datetime, *, limits: AlarmLimits | None = None
) -> Report:
    """The figures of a span, which ends before `until`.  `UsageFailure`: there is no such folder, or Hadoop URI."""
    since, until = since.astimezone(UTC), until.astimezone(UTC)
    limits = limits or AlarmLimits()
    stuck_after = timedelta(seconds=limits.stuck_after)
    rows = dataframe.rows(spark, archive, since, until)
    step = step_of(until - since)
    made = datetime.now(UTC)
    with contextlib.closing(_Counted(_counted(rows, archive, since, until, step, limits))) as counted:
        totals = counted.totals
        if not totals:
            return Report(since, until, made, step, stuck_after=stuck_after)
        by_step, by_destination = counted.traffic()
        ranking = sums.by_destination(by_destination, MOST_DESTINATIONS)
        depths = counted.depths([name for name, _ in ranking.top])
        reasons, unlisted = counted.reasons()
        suspects = counted.suspects(MOST_SUSPECTS)
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
        dead_letters=_dead_letters(rows, totals),
        consumers=_consumers(rows, limits, suspects, _lasts(totals)) if suspects else (),
        stuck_after=stuck_after,
        gaps=_gaps(totals),
    )


def _counted(
    rows: DataFrame, archive: str, since: datetime, until: datetime, step: timedelta, limits: AlarmLimits
) -> DataFrame:
    """The merged partial rows of `rows`, which are those of the span."""
    cloudpickle.register_pickle_by_value(counts)  # type: ignore[no-untyped-call]
    seconds, limit = step // timedelta(seconds=1), round(limits.stuck_after * 1_000_000)
    if "://" in archive:
        found = rows.select(*counts.READ).mapInArrow(partial(counts.of_rows, seconds=seconds, limit=limit), counts.DDL)
    else:
        spark = rows.sparkSession
        paths = spark.createDataFrame([(path,) for path in dataframe.files_of(archive, since, until)], "path string")
        count = partial(counts.of_files, since=since, until=until, seconds=seconds, limit=limit)
        parts = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        found = paths.repartition(parts).mapInArrow(count, counts.DDL)
    return found.groupBy(*counts.KEYS).agg(*[getattr(f, how)(name).alias(name) for name, how in counts.MERGES.items()])


class _Counted:
    """The counts, merged partial rows, which Spark keeps until `close`.

    `totals` are dicts of `gateway`, `epoch`, `event`, `transport`, `at` (the time of a gap, the minute of a dead
    letter), `gap` (its reason), `count`, `first`, `last`, `dropped_rows`, and `suspects`: how many subscriptions had a
    delivery that was too old, at two looks or more.
    """

    def __init__(self, counted: DataFrame) -> None:
        # The first of two looks raises no alarm.
        self._is_suspect = f.col("session").isNotNull() & (f.col("count") > 1)
        self._all = counted.persist()
        self._counted = self._all.where(f.col("of") == EVENTS)
        gap = f.when(f.col("event") == "journal_dropped", f.col("reason")).alias("gap")
        totals = self._counted.groupBy("gateway", "epoch", "event", "transport", "at", gap).agg(
            *[getattr(f, counts.MERGES[name])(name).alias(name) for name in ("count", "first", "last", "dropped_rows")],
            f.count_if(self._is_suspect).alias("suspects"),
        )
        self.totals: list[dict[str, Any]] = totals.toArrow().to_pylist()
        self._events = {each["event"] for each in self.totals}

    def close(self) -> None:
        self._all.unpersist()

    def traffic(self) -> tuple[pa.Table, pa.Table]:
        """The table of `metrics`, added up by step, and by destination."""
        names = ("of", "at", "destination", "event", "bucket", "count", "octets")
        found = self._all.where(self._all["of"] != EVENTS).select(*names).withColumnRenamed("at", "minute").toArrow()
        of_step, of_destination = [found.filter(pc.equal(found["of"], each)) for each in (STEPS, DESTINATIONS)]
        return of_step, of_destination

    def reasons(self) -> tuple[tuple[Reason, ...], Counts]:
        """The most frequent reasons of all gateways together; and how many more each event has."""
        if self._events.isdisjoint(REASONED):
            return (), {}
        keys = ("event", "destination", "reason")
        merged = [getattr(f, counts.MERGES[name])(name).alias(name) for name in ("count", "first", "last")]
        summed = self._counted.where(f.col("event").isin(*REASONED)).groupBy(*keys).agg(*merged)
        of_event = Window.partitionBy("event")
        order = of_event.orderBy(f.desc("count"), f.asc("destination"), f.asc("reason"))
        ranked = summed.select(
            "*", f.row_number().over(order).alias("place"), f.count("*").over(of_event).alias("different")
        )
        found = ranked.where(f.col("place") <= MOST_REASONS).toArrow().to_pylist()
        reasons = [Reason(**{name: each[name] for name in (*keys, "count", "first", "last")}) for each in found]
        beyond = {each["event"]: each["different"] - MOST_REASONS for each in found}
        return (
            tuple(sorted(reasons, key=lambda each: (-each.count, each.destination or "", each.reason or ""))),
            {event: many for event, many in beyond.items() if many > 0},
        )

    def depths(self, names: Sequence[str]) -> dict[str, int]:
        """The most messages that waited at each destination; a destination without waiting messages is left out."""
        if "gauge_destination" not in self._events or not names:
            return {}
        wanted = self._counted.where((f.col("event") == "gauge_destination") & f.col("destination").isin(list(names)))
        found = wanted.groupBy("destination").agg(f.max("depth")).collect()
        return {name: depth for name, depth in found if depth is not None}

    def suspects(self, most: int) -> Collection[str]:
        """Sessions that may have an alarm; one more than `most` if there are more."""
        if not any(each["suspects"] for each in self.totals):
            return ()
        named = self._counted.where(self._is_suspect).select("session")
        return [session for (session,) in named.distinct().limit(most + 1).collect()]


def _steps(table: pa.Table, since: datetime, until: datetime, step: timedelta) -> Iterable[Step]:
    had = dict(sums.by_time(table, step))
    nothing = sums.add([])
    for start, end in steps(since, until, step):
        yield Step(start, end, had.get(floor(start, step), nothing))


def _events(totals: Iterable[dict[str, Any]], by_step: pa.Table) -> dict[str, int]:
    """How many rows each event has; a message that a browser got was not delivered."""
    counted = sums.figures(by_step).counts
    others = _sum([each for each in totals if each["event"] not in counted], "event")
    return others | {event: many for event, many in counted.items() if many}


def _sum(totals: Iterable[dict[str, Any]], key: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in totals:
        found[each[key]] += each["count"]
    return dict(found)


def _gaps(totals: Iterable[dict[str, Any]]) -> tuple[Gap, ...]:
    found = [
        Gap(each["gateway"], each["epoch"], each["at"], each["dropped_rows"] or 0, each["gap"])
        for each in totals
        if each["event"] == "journal_dropped"
    ]
    return tuple(sorted(found, key=lambda gap: (gap.at, gap.gateway)))


def _dead_letters(rows: DataFrame, totals: Iterable[dict[str, Any]]) -> tuple[LastDeadLetter, ...]:
    """The last dead letters, the latest first."""
    minutes: Counter[datetime] = Counter()
    for each in totals:
        if each["event"] == "dead_lettered":
            minutes[each["at"]] += each["count"]
    if not minutes:
        return ()
    # Headers are large, so only the minutes are read that have the last ones.
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


def _lasts(totals: Iterable[dict[str, Any]]) -> dict[Process, datetime]:
    lasts: dict[Process, datetime] = {}
    for each in totals:
        process = each["gateway"], each["epoch"]
        lasts[process] = max(lasts.get(process, each["last"]), each["last"])
    return lasts


def _consumers(
    rows: DataFrame, limits: AlarmLimits, suspects: Collection[str], lasts: Mapping[Process, datetime]
) -> tuple[ConsumerAlarm, ...]:
    """The alarms of the span, the latest first.

    `suspects`: sessions that may have one, at least one; `lasts`: the last row of each process, which ends its alarms.
    """
    job = JOBS["consumers"]
    assert job.fold is not None
    wanted = rows.where(rows["event"].isin(*_OF_ALARMS))
    if len(suspects) <= MOST_SUSPECTS:
        wanted = wanted.where(wanted["session"].isin(sorted(suspects)))
    partial = job.transform(wanted.select(*job.columns)).toArrow()
    told = [
        {"gateway": gateway, "epoch": epoch, "what": "time", "ts": (last - EPOCH) // _MICROSECOND}
        for (gateway, epoch), last in lasts.items()
    ]
    times = pa.Table.from_pylist(told, schema=partial.schema)
    _, table = job.fold({}, pa.concat_tables([partial, times]), limits)
    return alarms(table.to_pylist())


def alarms(rows: Iterable[dict[str, Any]]) -> tuple[ConsumerAlarm, ...]:
    """One alarm for the rows with the same subscription, kind and beginning; the latest first."""
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
