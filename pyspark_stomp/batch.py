"""`spark.read`: the messages that wait in queues, or that a stream holds.

One task reads the queues, in one of three ways:

* **browse** (the default): our gateway and ActiveMQ give copies to `browser:true`.  From any other server the messages
  are taken and not acknowledged, and go back when the connection ends; then they may come back marked as redelivered.
  The `server` of CONNECTED decides, because a server that does not know `browser` would consume them; option `browser`
  overrides that.
* **drain** (`ack=true`): messages are acknowledged when Spark has taken all rows and nothing more has come for
  `idleTimeoutMs`; messages that come then are read, too.  A source of a batch job hears of no commit: a job that fails
  after that has lost them.  A stream with the trigger availableNow does the same safely.
* **offset** (mode offset): ranges of numbers, in up to `numPartitions` tasks; see `offset`.

Spark must not repeat a drain, because it would return less than the first time: the job fails and says so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, InputPartition

from gateway.client import Client
from gateway.codec import V10, Frame

from .errors import DataLost
from .offset import OffsetRange, Probe, read_range
from .offset_stream import split, starts
from .options import Options
from .rows import Collector

_ROWS = 8_192
_BYTES = 4 * 1024**2
_BROWSED = ("stomp-gateway", "ActiveMQ")


class OffsetReader(DataSourceReader):
    """Mode offset: the messages of the streams when the job is planned."""

    def __init__(self, options: Options, columns: list[str]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        probe = Probe(self._options)
        try:
            names = list(self._options.destination)
            last = probe.last(self._options.destination)
            begins = starts(self._options, probe, names)
        finally:
            probe.close()
        count = max(1, self._options.partitions // len(names))
        return [part for name in last for part in split(name, begins[name], last[name] + 1, count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        return read_range(self._options, partition, self._columns)


class BatchReader(DataSourceReader):
    """Queues, browsed or drained."""

    def __init__(self, options: Options, columns: list[str]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if self._options.ack and context is not None and context.attemptNumber() > 0:
            raise DataLost(
                "option ack: a task that drained failed and cannot be repeated, its messages are acknowledged; use "
                "readStream with the trigger availableNow"
            )
        client = Client(self._options.server())
        try:
            for batch in _Taking(client, self._options).batches():
                yield batch.select(self._columns)
            client.disconnect()
        finally:
            client.close()


class _Taking:
    """One reading of all queues of a query, on one connection."""

    def __init__(self, client: Client, options: Options) -> None:
        self._client = client
        self._options = options
        self._browses = not options.ack and _can_browse(client, options)
        self._collector = Collector(body=options.include_body)
        self._open: set[str] = set()
        self._handles: list[tuple[str, str]] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._subscribe()
        last_event = time.monotonic()
        while True:
            frames = self._client.receive(0.05)
            for frame in frames:
                self._take(frame)
            if frames:
                last_event = time.monotonic()
            silent = (time.monotonic() - last_event) * 1000 >= self._options.idle_timeout
            finished = silent or (self._browses and not self._open)
            if self._collector.rows and (finished or self._full()):
                if self._options.ack:
                    self._handles += self._collector.handles
                yield self._collector.batch()
                last_event = max(last_event, time.monotonic() - self._options.idle_timeout / 1000)
            elif finished:
                if not self._handles:
                    return
                self._acknowledge()
                last_event = time.monotonic()

    def _full(self) -> bool:
        return self._collector.rows >= _ROWS or self._collector.size >= _BYTES

    def _subscribe(self) -> None:
        options = self._options
        for destination in options.destination:
            headers = {"id": destination, "destination": destination}
            if self._browses:
                headers |= {"ack": "auto", "browser": "true"}
                self._open.add(destination)
            else:
                mode = "client" if self._client.version is V10 else options.ack_mode
                headers |= {"ack": mode, "prefetch-count": str(options.prefetch_count)}
            if options.selector:
                headers["selector"] = options.selector
            self._client.request("SUBSCRIBE", headers | options.subscribe_headers)

    def _take(self, frame: Frame) -> None:
        headers = frame.head.headers
        if frame.head.command != "MESSAGE":
            return
        subscription = headers.get("subscription", "")
        if self._browses and headers.get("browser") == "end":
            self._open.discard(subscription)
            return
        self._collector.add(frame)

    def _acknowledge(self) -> None:
        """Acknowledge all rows that were handed on, and wait until the server confirms."""
        by_subscription: dict[str, list[str]] = {}
        for subscription, handle in self._handles:
            by_subscription.setdefault(subscription, []).append(handle)
        self._handles = []
        for number, (subscription, handles) in enumerate(by_subscription.items()):
            receipt = f"drained{number}"
            self._client.send(self._client.acks(subscription, handles, receipt))
            self._client.wait_for(receipt, "the ACKs")


def _can_browse(client: Client, options: Options) -> bool:
    if options.browser != "auto":
        return options.browser == "true"
    return client.server.startswith(_BROWSED)
