"""The runner of jobs: each new file of the archive goes through them, batch by batch.

A job is a query of Spark without a state of Spark's.  A batch is some files of ARCHIVE/raw that no batch had before;
the job's `transform` makes partial rows of it, and these become one file of its table (`tables`).  Batch n of a job:

    the plan of n, which Spark has written, is synchronized to the disk
    small files of the batches below n, which are over, are merged
    transform, then fold with the state after n - 1
    the state after n, then the file of n in the table
    Spark's commit of n

If the file of n is there already, and of the same files of the archive, Spark did not reach its commit the last time,
and nothing is left to do.  Of other files: Spark has lost its plan and made another one, and n is computed anew.

All jobs of a call run at the same time in one session, each as a query with a checkpoint of its own.  A stop takes
effect between two batches: a running batch is finished, the next one is refused, which leaves it for the next run.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.observation import Observation

from gateway.archive.layout import RAW
from gateway.files import make_folder, make_private
from gateway.journal import schema

from .. import paths, tables
from ..errors import JobFailure, UsageFailure, reason
from . import checkpoints, file_log
from .progress import BatchReport, MissingData, Progress
from .snapshots import SnapshotPublisher, Snapshots

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ..jobs import AlarmLimits, Job

FILES = 200
"""Files of a batch, at most: so many that the fixed cost of a batch does not count, and so few that a batch, which a
stop waits for, is over in a minute.
"""

# A restored file has an old time, and Spark skips files that are older than this, compared to the newest one.
_FOR_EVER = "36500d"
_LOOK = 0.2  # seconds between two looks of the main thread
_GLANCE = 0.01  # seconds between two looks whether the end is asked for: before Spark has planned another batch
BATCH_TIMEOUT = 120.0  # a batch that is not over after so many seconds is interrupted, which loses nothing
_STOP = "60s"  # Spark's own limit for that
# Spark's text if the folder of an hour is removed between two steps of its listing.
_VANISHED = re.compile(r"(?:file:)?(/.*/date=[^:\s]*)(?:: Permission denied| does not exist)")
SPARK_CONF = {
    # A listing of more folders than that would be a job of its own, for some hundred hours of files on a local disk.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    # How often Spark writes the list of all files it has seen.
    "spark.sql.streaming.fileSource.log.compactInterval": "100",
    "spark.sql.streaming.stopTimeout": _STOP,
    # A folder may go while Spark lists it, and a file before it is read; each batch finds out which files are gone.
    "spark.sql.files.ignoreMissingFiles": "true",
}


class _Stopped(Exception):
    """A batch was not begun, because the run ends."""


def run(
    spark: SparkSession,
    jobs: Sequence[Job],
    archive: str,
    into: Path,
    *,
    once: bool,
    interval: float = 10.0,
    files: int = FILES,
    publish: str | None = None,
    progress: Progress,
    stopping: threading.Event,
    limits: AlarmLimits,
) -> None:
    """Run jobs, until the whole archive has been read (`once`), or until `stopping`.

    Args:
        archive: its folder, or a Hadoop URI.
        into: the folder of the tables.
        interval: seconds from the beginning of a batch to that of the next.
        files: files of the archive in a batch, at most.
        publish: where snapshots are sent, `stomp://user@host:port/destination`.

    `UsageFailure`: the checkpoint belongs to another job, the job runs elsewhere, or there is no such archive.
    `JobFailure`: a job failed; or `once`, and files were deleted before the job read them.
    `EnvironmentFailure`: the tables cannot be written.
    """
    place = prepared(archive, progress)
    folder = None if paths.is_uri(archive) else paths.folder("--archive", archive)
    with ExitStack() as stack:
        publisher = None
        if publish is not None:
            publisher = SnapshotPublisher(spark, publish, progress)
            stack.callback(publisher.close)
        works = []
        for job in jobs:
            checkpoint = stack.enter_context(checkpoints.claimed(into, job, place))
            works.append(_Work(job, into, checkpoint, folder, progress, limits))
        trigger = {"availableNow": True} if once else {"processingTime": f"{round(interval * 1000)} milliseconds"}
        for work in works:
            work.missing.look_back()
        _Run(works, publisher, progress).run(rows_of(spark, place, files), trigger, stopping)
        missing = [sentence for work in works for sentence in work.missing.found]
        if once and missing:
            raise JobFailure("; ".join(missing))


def prepared(archive: str, progress: Progress) -> str:
    """The archive as Spark names it; its folder `raw` is made.  `UsageFailure`: it cannot be made."""
    if paths.is_uri(archive):
        return archive.rstrip("/")
    folder = paths.folder("--archive", archive)
    if not (folder / RAW).is_dir():
        try:
            make_private(folder)
            make_folder(folder / RAW)
        except OSError as error:
            raise UsageFailure(f"the archive {folder} does not exist and cannot be made: {error.strerror}") from None
        progress.say(f"the archive {folder} is empty; `gateway archive` fills it from a journal")
    return f"file://{folder}"


def rows_of(spark: SparkSession, place: str, files: int) -> DataFrame:
    """The archive's rows as a stream.  `UsageFailure`: Spark finds no such folder."""
    for name, value in SPARK_CONF.items():
        spark.conf.set(name, value)
    columns = ", ".join([schema.ddl(), *[f"{each.name} {each.type}" for each in schema.PARTITIONS]])
    reader = spark.readStream.schema(columns).option("maxFileAge", _FOR_EVER).option("maxFilesPerTrigger", files)
    try:
        return reader.parquet(f"{place}/{RAW}")
    except PySparkException as error:
        raise UsageFailure(f"there is no archive in {place}: {reason(error)}") from error


class _Work:
    """A job in this run.  Spark calls it for each batch."""

    def __init__(
        self, job: Job, into: Path, checkpoint: Path, archive: Path | None, progress: Progress, limits: AlarmLimits
    ) -> None:
        self.job = job
        self.tables = into
        self.checkpoint = checkpoint
        self.missing = MissingData(job.name, into, archive, progress)
        self.closed = threading.Event()  # no batch may begin any more
        self.stopped = False  # a batch was refused or interrupted for that reason
        self.last: int | None = None  # the last batch that was finished; None: none yet
        self.failure: BaseException | None = None  # the error of a batch; None: none
        self.snapshots = Snapshots(job, into)
        self._table = tables.of(into, job)
        self._states = checkpoints.State(into, job.name)
        self._progress = progress
        self._limits = limits
        self._busy = threading.Lock()
        self._table.clean()

    def __call__(self, rows: DataFrame, batch: int) -> None:
        with self._busy:
            if self.closed.is_set():
                self.stopped = True
                raise _Stopped
            try:
                self._run(rows, batch)
            except BaseException as error:
                self.failure = error
                raise

    def start(self, rows: DataFrame, trigger: Mapping[str, Any]) -> StreamingQuery:
        wanted = list(dict.fromkeys([*self.job.columns, "ts"]))  # `ts` tells the lag
        chosen = rows.filter(F.col("event").isin(*self.job.events)).select(*wanted)
        writer = chosen.writeStream.queryName(self.job.name).foreachBatch(self).trigger(**trigger)
        return writer.option("checkpointLocation", f"file://{self.checkpoint.absolute()}").start()

    @property
    def settled(self) -> bool:
        """True if no batch runs, and Spark knows that the last one is over."""
        if self._busy.locked():
            return False
        over = checkpoints.committed(self.tables, self.job.name)
        return self.last is None or (over is not None and over >= self.last)

    def _run(self, rows: DataFrame, batch: int) -> None:
        began = time.monotonic()
        file_log.settle(self.checkpoint, batch)
        planned = file_log.planned(self.checkpoint, batch)
        self._table.check(batch)
        done = self._table.summary_of(batch)
        if done is not None and planned is not None and done.digest not in ("", file_log.digest(planned)):
            self._progress.say(
                f"{self.job.name}: batch {batch} has other files than before, because Spark has lost its plan (after a "
                "power cut, for example), so it is computed anew"
            )
            done = None
        if done is None:
            self._table.merge(before=batch)
            done = self._compute(rows, batch, planned, began)
        if self.last is None:
            checkpoints.note_failure(self.tables, self.job.name, None)
        self.last = batch
        self._progress.batch(BatchReport(self.job.name, batch, done.rows, done.seconds, done.newest, done.written))

    def _compute(
        self, rows: DataFrame, batch: int, planned: frozenset[str] | None, began: float
    ) -> tables.BatchSummary:
        before: list[str] | None = None
        missing = self.missing.deleted(planned)
        while missing != before:  # a file that is deleted meanwhile may have been read or not
            before = missing
            found, partial = self._transformed(rows)
            missing = self.missing.deleted(planned)
        if self.job.fold is not None:
            state, partial = self.job.fold(self._states.before(batch), partial, self._limits)
            self._states.write(batch, state)
        summary = tables.BatchSummary(
            found["rows"],
            found["newest"],
            round(time.monotonic() - began, 3),
            time.time_ns() // 1000,
            len(missing),
            "" if planned is None else file_log.digest(planned),
        )
        self._table.write(batch, partial, summary)
        self.missing.tell(batch, missing)
        return summary

    def _transformed(self, rows: DataFrame) -> tuple[Mapping[str, Any], pa.Table]:
        """A summary of the rows, and the partial rows."""
        seen = Observation()
        asked = [F.count(F.lit(1)).alias("rows"), F.unix_micros(F.max("ts")).alias("newest")]
        partial = self.job.transform(rows.observe(seen, *asked)).toArrow()
        # Of a batch that Spark knows to be empty it observes nothing.
        return seen.get if partial.num_rows else {"rows": 0, "newest": None}, partial


def _stumbled(work: _Work, query: StreamingQuery) -> bool:
    """True if a query ended because a folder was removed while Spark listed it; it can be started again."""
    error = None if query.isActive or work.failure else query.exception()
    gone = None if error is None else _VANISHED.search(reason(error))
    return gone is not None and not Path(gone[1]).exists()


def _rest(stopping: threading.Event) -> bool:
    """Wait until the next look; True if the end is asked for, which is seen sooner.

    By `sleep` and no `wait`: a signal handler that sets an event on which its own thread waits may hang.
    """
    until = time.monotonic() + _LOOK
    while not stopping.is_set() and time.monotonic() < until:
        time.sleep(_GLANCE)
    return stopping.is_set()


class _Run:
    def __init__(self, works: Sequence[_Work], publisher: SnapshotPublisher | None, progress: Progress) -> None:
        self._works = works
        self._publisher = publisher
        self._progress = progress
        self._queries: list[tuple[_Work, StreamingQuery]] = []
        self._told = False

    def run(self, rows: DataFrame, trigger: Mapping[str, Any], stopping: threading.Event) -> None:
        """Start the queries, and return when the last has ended.  `JobFailure`: one failed."""
        try:
            for work in self._works:
                self._queries.append((work, work.start(rows, trigger)))
            while not _rest(stopping):
                active = [query.isActive for _, query in self._queries]
                if not all(active):
                    self._check()
                if not self._resume(rows, trigger) and not any(active):
                    break
                for work in self._works:
                    if work.snapshots.due(work.last):
                        self._show(work)
        finally:
            self._stop()
        self._check()
        for work in self._works:
            self._show(work)

    def _check(self) -> None:
        """Raise the error of a query that failed."""
        for work, query in self._queries:
            error = None if query.isActive else query.exception()
            if error is None or work.stopped or _stumbled(work, query):
                continue
            why = f"{work.job.name} failed: {reason(work.failure or error)}"
            checkpoints.note_failure(work.tables, work.job.name, why)
            raise JobFailure(why) from error

    def _resume(self, rows: DataFrame, trigger: Mapping[str, Any]) -> bool:
        """Start queries again that have stumbled; True if there was one."""
        stumbled = [_stumbled(*each) for each in self._queries]
        for place, (work, _) in enumerate(self._queries):
            if stumbled[place]:
                self._queries[place] = work, work.start(rows, trigger)
        return any(stumbled)

    def _show(self, work: _Work) -> None:
        """Make a snapshot; if it cannot be written the job goes on."""
        try:
            made = work.snapshots.make()
        except OSError as error:
            if not self._told:
                self._told = True
                self._progress.say(
                    f"the snapshot of {work.job.name} cannot be written, the jobs go on: {reason(error)}"
                )
            return
        if made is not None and self._publisher is not None:
            self._publisher.offer(work.job.name, made.lately)

    def _stop(self) -> None:
        """Stop the running queries: between two batches, or inside a batch that takes too long."""
        for work in self._works:
            work.closed.set()
        until = time.monotonic() + BATCH_TIMEOUT
        for work, query in self._queries:
            while query.isActive and not work.settled and time.monotonic() < until:
                time.sleep(_LOOK / 4)
            work.stopped = work.stopped or (query.isActive and not work.settled)
            with contextlib.suppress(PySparkException, Py4JError):  # one that does not end in time ends with Spark
                query.stop()
