"""`format("stomp")` as a source: rows per second into Spark's noop sink.

The synthetic server (`flood`) only sends: 100 bytes, ten headers.  The real gateway has a queue, or a topic's log,
that was filled before.  The clock runs from the start of the query, which is cold, to the end of its last batch with
rows; how long the source waits for more after that does not count.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.pipeline.measured import Figure, Watch, watch
from benchmarks.server import gateway
from gateway.client import Client, StompServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = 500_000
_QUEUE = "/queue/flood"
_LOG = "/topic/log.flood"
_HOST = "127.0.0.1"
_SETTINGS = 'memory_limit = "2GiB"\n[[policy]]\nmatch = "/topic/log.#"\nlog_messages = 2_000_000\nlog_bytes = "2GiB"\n'
_TOGETHER = 1000


def figures(scale: float) -> Iterator[Figure]:
    """The figures of this part."""
    from gateway.pipeline.spark.session import session

    rows = max(_TOGETHER, int(_ROWS * scale) // _TOGETHER * _TOGETHER)
    with tempfile.TemporaryDirectory(prefix="source-bench-") as name:
        folders = (Path(name, str(number)) for number in itertools.count())
        spark = session(None, None, "benchmark", {"spark.sql.streaming.numRecentProgressUpdates": "10000"})
        for mode, goal in (("spool", 40_000), ("ack", None)):
            with _flood(rows) as port:
                found = _query(spark, port, next(folders), destination=_QUEUE, mode=mode)
            yield _figure(f"source, synthetic server, {mode}", rows, found, goal)
        with gateway(_SETTINGS) as server:
            port = str(server.transports["tcp"].port)
            for mode, destination, goal in (
                ("spool", _QUEUE, 20_000),
                ("ack", _QUEUE, None),
                ("offset", _LOG, 20_000),
            ):
                _fill(port, destination, rows)
                before = server.cpu()
                found = _query(spark, port, next(folders), destination=destination, mode=mode)
                used = (server.cpu() - before) / rows * 1e6
                yield _figure(f"source, the gateway, {mode}", rows, found, goal, f"gateway {used:.1f} us a row")
        spark.stop()


def _figure(title: str, rows: int, found: tuple[int, float, Watch], goal: int | None, note: str = "") -> Figure:
    read, seconds, spent = found
    if read != rows:
        raise RuntimeError(f"{title}: {read:,} rows came, and {rows:,} were sent")
    return Figure(title, rows / seconds, "rows/s", goal, rows=rows, cpu=spent.cpu, note=note)


@contextmanager
def _flood(rows: int) -> Iterator[str]:
    """The port of a synthetic server."""
    command = [sys.executable, "-m", "benchmarks.pipeline.flood", str(rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None:
            raise RuntimeError("the synthetic server says nothing")
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def _fill(port: str, destination: str, rows: int) -> None:
    """Messages of 100 bytes; on return the gateway has them."""
    client = Client(StompServer(_HOST, int(port)))
    one = client.encode("SEND", {"destination": destination, "kind": "order", "region": "europe"}, b"x" * 100)
    for _ in range(rows // _TOGETHER):
        client.send(one * _TOGETHER)
    client.disconnect()


def _query(spark: SparkSession, port: str, folder: Path, **more: str) -> tuple[int, float, Watch]:
    """Rows of a stream into the noop sink, and how long they took."""
    told = {"host": _HOST, "port": port, "idleTimeoutMs": "1000", **more}
    if more["mode"] == "spool":
        told["spoolDir"] = str(folder / "spool")
    source = spark.readStream.format("stomp").options(**told).load()
    writer = source.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    with watch() as spent:
        begun = time.time()
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    rows, end = 0, begun
    for each in query.recentProgress:
        if each["numInputRows"]:
            rows += each["numInputRows"]
            start = datetime.fromisoformat(each["timestamp"]).timestamp()
            end = max(end, start + each["durationMs"]["triggerExecution"] / 1000)
    return rows, max(end - begun, 1e-3), spent
