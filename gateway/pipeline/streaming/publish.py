"""`--publish stomp://user@host:port/topic/gateway.pipeline`: the last minutes of each snapshot, for subscribers.

A message of a job goes to `<destination>.<job>`, by our own sink.  No job waits for a message: a thread sends, and of
the messages that wait only the newest of each job counts.  A server that is away, or refuses us, stops no job: until it
is back a cheap connection without Spark asks now and then.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ..errors import PipelineFailure, UsageFailure, reason
from ..options import BrokerUrl
from .progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
