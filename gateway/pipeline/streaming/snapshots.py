"""Snapshots: what the console shows of a job, TABLES/_console/<job>.json, and the last minutes of it for subscribers.

A snapshot is what `job.snapshot` makes of the table's last 24 hours, with three keys beside: `job`, `at` (when it was
made) and `since` (from when on it is complete: later than a day ago if a day has too many rows to hold).

Reading a day of the table for each batch would cost more than the job.  So its rows are kept here, and those of new
files are merged into them; they are read anew once an hour.  Snapshots never cost more than a tenth of the time.

With `--publish stomp://user@host:port/topic/gateway.pipeline` a message of a job goes to `<destination>.<job>`, by our
own sink.  No job waits for a message: a thread sends, and of the messages that wait only the newest of each job counts.
A server that is away, or refuses us, stops no job: until it is back a cheap connection without Spark asks now and then.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from gateway.files import make_folder, store

from .. import tables
from ..errors import PipelineFailure, UsageFailure, reason
from ..jobs.job import iso
from ..options import BrokerUrl
from . import checkpoints
from .progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..jobs import Job

DAY = timedelta(hours=24)
MOST_BYTES = 2 * 1024**2  # bytes of a snapshot
LATELY = timedelta(minutes=10)
"""The span of a snapshot for subscribers: all that may have changed since the one before, and some more."""

_MOST_MESSAGE = 256 * 1024  # bytes of a message to a browser, at most
_BESIDE = 200  # bytes of these for the keys that the job does not make
# Rows that are held; a row of metrics has about 60 bytes, and merging needs them twice.
_MOST_ROWS = 5_000_000
_AGAIN = 3600.0
_PAUSE = 5.0
_SHARE = 0.1  # the share of the time that snapshots may cost


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot as JSON: `all` of the last day, as in the file, and `lately` of the last minutes."""

    all: bytes
    lately: bytes


class Snapshots:
    def __init__(
        self, job: Job, into: Path, *, pause: float = _PAUSE, most_rows: int = _MOST_ROWS, most_bytes: int = MOST_BYTES
    ) -> None:
        self._job = job
        self._path = into / checkpoints.CONSOLE / f"{job.name}.json"
        self._most_bytes = most_bytes
        self._pause = pause
        self._due = 0.0
        self._shown = -1
        self._recent = _Recent(tables.of(into, job), most_rows)

    def due(self, last: int | None) -> bool:
        """True if there is a new batch, and the last snapshot is old enough."""
        return last is not None and last > self._shown and time.monotonic() >= self._due

    def make(self, now: datetime | None = None) -> Snapshot | None:
        """Make one, and write it; None: the table has no rows yet."""
        began = time.monotonic()
        now = now or datetime.now(UTC)
        rows, since = self._recent.update(now - DAY)
        self._shown = self._recent.last
        made = None
        if rows is not None:
            made = Snapshot(
                self._json(rows, since, now, self._most_bytes),
                self._json(rows, max(since, now - LATELY), now, _MOST_MESSAGE),
            )
            make_folder(self._path.parent)
            store(self._path, made.all)
        ended = time.monotonic()
        self._due = ended + max(self._pause, (ended - began) / _SHARE)
        return made

    def _json(self, rows: pa.Table, since: datetime, now: datetime, most: int) -> bytes:
        body = {"job": self._job.name, "at": iso(now), "since": iso(since)}
        body |= self._job.snapshot(_newer(rows, self._job.time, since), now, most - _BESIDE)
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


class _Recent:
    """The rows of a table's last day, merged; `last` is the last batch among them."""

    def __init__(self, table: tables.JobTable, most: int) -> None:
        self.last = -1
        self._table = table
        self._most = most
        self._rows: pa.Table | None = None
        self._since = datetime.min.replace(tzinfo=UTC)
        self._again = 0.0

    def update(self, since: datetime) -> tuple[pa.Table | None, datetime]:
        """The rows as they are now, and from when on they are complete; None: there is no file."""
        self._rows = self._table.steady(lambda: self._updated(since))
        return self._rows, self._since

    def _updated(self, since: datetime) -> pa.Table | None:
        files = self._table.files()
        if not files:
            return None
        new = [each for each in files if each.first > self.last]
        straddles = any(each.first <= self.last < each.last for each in files)
        if self._rows is None or straddles or time.monotonic() >= self._again or self._rows.num_rows > self._most:
            rows = self._read(files, since)
            self._again = time.monotonic() + _AGAIN
        else:
            self._since = max(self._since, since)
            added = [self._table.read_files(new, self._since)] if new else []
            rows = _newer(self._table.merged([self._rows, *added]), self._table.time, self._since)
        self.last = files[-1].last
        return rows

    def _read(self, files: Sequence[tables.TableFile], since: datetime) -> pa.Table:
        """The rows of the newest files, as many as can be held."""
        self._since = since
        held = 0
        for place in reversed(range(len(files))):
            rows, newest = files[place].extent(self._table.time)
            if newest is None or newest < self._since:
                continue
            held += rows
            if held > self._most and place + 1 < len(files):
                # Rows as old as the newest one left out may be incomplete.
                self._since = max(self._since, newest + timedelta(microseconds=1))
                files = files[place + 1 :]
                break
        return self._table.read_files(files, self._since)


def _newer(rows: pa.Table, column: str, since: datetime) -> pa.Table:
    return rows.filter(pc.field(column) >= pa.scalar(since, pa.timestamp("us", "UTC")))


# A silent server holds a thread, and one of Spark's, for so many milliseconds.
_TIMES = {"connectTimeoutMs": "5000", "receiptTimeoutMs": "10000", "maxReconnectMs": "0"}
_SOON = 5.0
_LATE = 60.0
_PATIENCE = 60.0  # Spark starts Python for the first message


class SnapshotPublisher:
    """Sends snapshots while the jobs go on.  `UsageFailure`: the URL names no server or no destination.

    `soon`: seconds until a server that was away is tried again, doubled each time; `patience`: seconds for the last
    messages at the end.
    """

    def __init__(
        self, spark: SparkSession, url: str, progress: Progress, *, soon: float = _SOON, patience: float = _PATIENCE
    ) -> None:
        self.failed = 0  # messages that the server did not get
        self._broker = BrokerUrl.of(url)
        if not self._broker.destination:
            raise UsageFailure(f"{url!r} names no destination: write {self._broker}/topic/gateway.pipeline")
        self._spark = spark
        self._progress = progress
        self._waiting: dict[str, bytes] = {}
        self._changed = threading.Condition()
        self._ending = False
        self._away: str | None = None  # why; None: the last attempt went well
        self._known = False  # the server has accepted us since it was away
        self._soon = self._pause = soon
        self._patience = patience
        self._not_before = 0.0
        self._thread = threading.Thread(target=self._work, name="publisher", daemon=True)
        self._thread.start()

    def offer(self, job: str, body: bytes) -> None:
        """Send a message soon, in place of one of the same job that waits."""
        with self._changed:
            self.failed += job in self._waiting and self._away is not None
            self._waiting[job] = body
            self._changed.notify()

    def close(self) -> None:
        """Send the waiting messages, if that is possible soon, and end."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(self._patience)
        if self._thread.is_alive():
            told = f"they took longer than {self._patience:g} s"
            self._progress.say(f"the last messages for {self._broker} are dropped: {told}")
        if self.failed:
            self._progress.say(f"{self.failed} messages for {self._broker} were not sent")

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._ending and (not self._waiting or time.monotonic() < self._not_before):
                    rest = self._not_before - time.monotonic()
                    self._changed.wait(rest if self._waiting and rest > 0 else None)
                if not self._waiting:
                    return
                messages, self._waiting = self._waiting, {}
            self._attempt(messages)

    def _attempt(self, messages: dict[str, bytes]) -> None:
        try:
            if not self._known:
                self._broker.check()
                self._known = True
            self._send(messages)
        except (PipelineFailure, PySparkException, Py4JError, OSError) as error:
            self._failed(len(messages), reason(error))
        else:
            if self._away is not None:
                self._progress.say(f"{self._broker} answers again")
            self._away = None
            self._pause = self._soon

    def _failed(self, count: int, why: str) -> None:
        self.failed += count
        self._known = False
        self._not_before = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LATE)
        if self._away is None:
            self._progress.say(f"publishing to {self._broker} fails, the jobs go on: {why}")
        self._away = why

    def _send(self, messages: dict[str, bytes]) -> None:
        rows = [(f"{self._broker.destination}.{job}", body.decode()) for job, body in messages.items()]
        frame = self._spark.createDataFrame(rows, "destination string, body string").coalesce(1)
        options = self._broker.options() | _TIMES | {"contentType": "application/json"}
        frame.write.format("stomp").options(**options).mode("append").save()
