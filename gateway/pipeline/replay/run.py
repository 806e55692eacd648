"""A replay: accepted messages are sent again, in their order.

    plan(...)    which rows, how many, and obstacles: nothing is sent
    run(...)     sends them, and records how far it got

The rows of one run of a gateway come in the order of their numbers, and the runs one after the other.  They are cut
into parts; each part is one Spark job that sorts its rows and writes them by `format("stomp")` in one task, so that the
order is kept and one task holds the rate.

**Nothing twice.**  The record (`plan`) keeps for ever what is done.  A part that was being sent when a run was killed
is in doubt; of that, rows that the archive shows as accepted from this replay are left out, and the others are sent
again under the same ids, which our gateway remembers for `dedup_window`: a part takes less time.  So messages come
twice only if a killed run is begun again later than that, against a broker without a journal here.
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ..errors import JobFailure, PipelineFailure, UsageFailure, reason
from ..options import BrokerUrl, span
from ..spark.dataframe import rows as read
from . import messages
from .plan import ReplayOptions, ReplayPart, ReplayPlan, ReplayRecord, ReplayRecords

__all__ = ["ReplayOptions", "ReplayPlan", "plan", "run"]

# Limits of a part.  With a rate it takes so many seconds, which must be much less than a broker remembers ids, and much
# more than the second or two that Spark needs for each part.
_ROWS = 50_000
_BYTES = 256 * 1024**2
_SECONDS = 60
_TOP = 10
_EXAMPLES = 5
_LONGEST = 100
_SLACK = timedelta(minutes=5)  # how much the clocks of two machines may differ


def plan(
    spark: SparkSession, archive: str, tables: Path, options: ReplayOptions, now: datetime, *, dry_run: bool = False
) -> ReplayPlan:
    """The plan of a replay; with `dry_run` the broker need not be there, and the plan has examples.

    `UsageFailure`: an option is wrong, or differs from those that the replay was begun with.  `JobFailure`: the broker
    or the archive cannot be used.
    """
    options.check()
    broker = BrokerUrl.of(options.broker)
    if broker.destination:
        raise UsageFailure(f"--broker has {broker.destination} behind the port: give the destination with --to")
    if not dry_run:
        broker.check()
    records = ReplayRecords(tables)
    bare = ReplayPlan(options, broker, archive, records, _record(records, options, broker, now))
    try:
        return _counted(spark, bare, with_examples=dry_run)
    except PipelineFailure:
        raise
    except Exception as error:  # any error of Spark becomes one sentence
        raise JobFailure(reason(error)) from error


def run(
    spark: SparkSession,
    plan: ReplayPlan,
    say: Callable[[str], None] = lambda _: None,
    stopping: threading.Event | None = None,
) -> int:
    """Send the messages of a plan, and `say` the progress after each part; returns how many were sent.

    `UsageFailure`: the plan cannot be carried out.  `JobFailure`: the broker refused, or was lost.
    """
    plan.check()
    sent, began = 0, time.monotonic()
    with plan.records.held(plan.record.id):
        record = _unchanged(plan)
        for part in plan.parts:
            if stopping is not None and stopping.is_set():
                break
            doubts = [each for each in record.doubts if each.touches(part)]
            record = record.begun(part, datetime.now(UTC).isoformat())
            plan.records.write(record)
            try:
                _send(spark, plan, part, doubts)
            except PipelineFailure:
                raise
            except Exception as error:  # as above
                raise JobFailure(reason(error)) from error
            record = record.done(part)
            plan.records.write(record)
            sent += part.rows
            say(f"replay {record.id}: {sent:,} of {plan.rows:,} sent, {sent / (time.monotonic() - began):,.0f}/s")
    return sent


# the record


def _record(records: ReplayRecords, options: ReplayOptions, broker: BrokerUrl, now: datetime) -> ReplayRecord:
    """The record of a replay, begun before or fresh; its span is that of its first run."""
    since, until = [each.isoformat() for each in span(options.since, options.until, now)]
    where = {"destination": options.destination, "where": options.where, "to": options.to, "broker": str(broker)}
    own = hashlib.sha256(json.dumps([since, until, where, options.partial]).encode()).hexdigest()[:12]
    name = options.id or own
    asked = {"since": options.since, "until": options.until, **where, "partial-bodies": options.partial}
    before = records.read(name)
    if before is None:
        return ReplayRecord(name, asked, since, until)
    if options.id:
        before.check(asked)
    return before


def _unchanged(plan: ReplayPlan) -> ReplayRecord:
    """The record, if no other process has continued the replay since the plan was made."""
    now = plan.records.read(plan.record.id)
    if now is not None and now != plan.record:
        raise JobFailure(f"another process continued replay {plan.record.id} meanwhile: run it again")
    return plan.record


# the rows


def _selected(
    spark: SparkSession, plan: ReplayPlan, since: datetime, until: datetime, *, behind: bool = False
) -> DataFrame:
    """The rows of a span that are left to send, partial ones among them; or those that are `behind`.

    These have numbers that the record says are passed: rows that were sent, and rows that came too late.
    """
    options, sent = plan.options, plan.record.sent
    frame = read(spark, plan.archive, since, until, events=["accepted"]).where(messages.is_of(options.destination))
    if options.where:
        try:
            frame = frame.where(options.where)
            frame.schema  # noqa: B018 - Spark Connect looks at the expression only now
        except AnalysisException as error:
            raise UsageFailure(f"--where {options.where[:80]!r} is no valid expression: {reason(error)}") from None
    if sent:
        done = f.create_map(*[f.lit(each) for pair in sent.items() for each in pair])
        run = f.concat_ws("/", "gateway", "epoch")
        is_left = f.col("seq") > f.coalesce(f.try_element_at(done, run), f.lit(0))
        frame = frame.where(~is_left if behind else is_left)
    return frame


def _counted(spark: SparkSession, plan: ReplayPlan, *, with_examples: bool) -> ReplayPlan:
    """The plan with the rows to send."""
    options, record = plan.options, plan.record
    since, until = datetime.fromisoformat(record.since), datetime.fromisoformat(record.until)
    frame = _selected(spark, plan, since, until)
    late = 0
    if record.sent:
        passed = _selected(spark, plan, since, until, behind=True)
        passed = passed.where(~messages.is_partial()) if options.partial == "skip" else passed
        late = max(0, passed.count() - record.rows)
    counts = [f.count("*"), f.count_if(messages.is_partial()), f.count_if(~messages.is_sendable(options.to))]
    # The row of all destinations comes first.  There may be very many temporary ones: those with most are named.
    names = frame.rollup("destination").agg(f.grouping_id().alias("all"), *counts)
    named = names.orderBy(f.desc("all"), f.desc(f.col(names.columns[2])), "destination").limit(_TOP + 1).collect()
    sums = named[0][2:] if named else (0, 0, 0)
    top = [(row[0], int(row[2])) for row in named[1:]]
    if options.partial == "skip":
        frame = frame.where(~messages.is_partial())
    return replace(
        plan,
        parts=tuple(_limited(frame, _parts(frame, options.rate), options.limit, record.rows)),
        partial=int(sums[1]),
        nowhere=int(sums[2]),
        late=late,
        destinations=tuple(top),
        others=int(sums[0]) - sum([count for _, count in top]),
        examples=tuple(_examples(frame)) if with_examples else (),
    )


def _parts(frame: DataFrame, rate: int) -> Iterator[ReplayPart]:
    """The rows in parts.  Spark counts them in steps of numbers; whole steps are put together here."""
    most = min(_ROWS, rate * _SECONDS) if rate else _ROWS
    step = f.floor(f.col("seq") / max(1, most // 10)).alias("step")
    micros = [f.unix_micros(f.min("ts")), f.unix_micros(f.max("ts"))]
    counted = frame.groupBy("gateway", "epoch", step).agg(
        f.min("seq"), f.max("seq"), *micros, f.count("*"), f.sum(f.col("size").cast("bigint"))
    )
    part: ReplayPart | None = None
    for gateway, epoch, _, *numbers in counted.orderBy("gateway", "epoch", "step").collect():
        more = ReplayPart(gateway, epoch, *numbers)
        if part is not None and (part.run != more.run or part.rows + more.rows > most or part.size > _BYTES):
            yield part
            part = None
        part = more if part is None else part.joined(more)
    if part is not None:
        yield part


def _limited(frame: DataFrame, parts: Iterator[ReplayPart], limit: int, before: int) -> Iterator[ReplayPart]:
    """The parts up to the limit; the last one may be cut."""
    left = limit - before
    for part in parts:
        if not limit or part.rows <= left:
            yield part
        elif left > 0:
            first = _of(frame, part).orderBy("seq").limit(left).select("seq", "size", "ts")
            (row,) = first.agg(f.max("seq"), f.unix_micros(f.max("ts")), f.sum("size")).collect()
            yield replace(part, last=row[0], newest=row[1], size=int(row[2]), rows=left)
        left -= part.rows


def _of(frame: DataFrame, part: ReplayPart) -> DataFrame:
    run = (f.col("gateway") == part.gateway) & (f.col("epoch") == part.epoch)
    return frame.where(run & f.col("seq").between(part.first, part.last))


def _examples(frame: DataFrame) -> Iterator[str]:
    rows = frame.orderBy(*messages.KEYS).select("ts", "destination", "message_id", "size", "headers")
    for row in rows.limit(_EXAMPLES).collect():
        headers = ", ".join([f"{name}:{value}" for name, value in sorted((row.headers or {}).items())])
        text = f"{row.message_id} of {row.destination}, {row.size:,} bytes, {headers}"
        yield f"example  {text[:_LONGEST]}"


# sending


def _send(spark: SparkSession, plan: ReplayPlan, part: ReplayPart, doubts: list[ReplayPart]) -> None:
    options, replay = plan.options, plan.record.id
    since, until = [datetime.fromtimestamp(micros / 1e6, UTC) for micros in (part.oldest, part.newest)]
    edge = timedelta(milliseconds=1)  # a float may miss a microsecond
    frame = _of(_selected(spark, plan, since - edge, until + edge), part)
    if options.partial == "skip":
        frame = frame.where(~messages.is_partial())
    if doubts:
        known = _known(spark, plan, doubts)
        frame = frame.withColumn("dedup_id", messages.dedup_id(replay)).join(known, "dedup_id", "left_anti")
    ordered = frame.repartition(1).sortWithinPartitions(*messages.KEYS)
    outgoing = messages.messages(ordered, replay, options.to, options.rate)
    writer = outgoing.write.format("stomp").mode("append").options(**plan.broker.options())
    if options.rate:
        writer = writer.option("maxRowsPerSecond", str(options.rate))
    writer.save()


def _known(spark: SparkSession, plan: ReplayPlan, doubts: list[ReplayPart]) -> DataFrame:
    """The ids of this replay that the archive shows as accepted since the parts in doubt were begun."""
    since = min([datetime.fromisoformat(part.begun) for part in doubts]) - _SLACK
    frame = read(spark, plan.archive, since, datetime.now(UTC) + _SLACK, events=["accepted"], columns=["headers"])
    own = f.col("headers")["x-dedup-id"]
    return frame.where(f.startswith(own, f.lit(f"{plan.record.id}:"))).select(own.alias("dedup_id")).distinct()
