"""How fast the source is: rows per second into Spark's noop sink, and the CPU that a row costs.

    python -m tests.pyspark_stomp.bench [ROWS]

`flood`: a synthetic server that only sends (100 octets, ten headers); `gateway`: a real one whose queue was filled
before (100 octets).  The rate is that from the first trigger, cold start included, to the end of the last batch.
`receiver` is the receiving thread alone, without Spark: rows per second, and CPU microseconds per row of its process.
"""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_stomp.client import Client
from pyspark_stomp.memory import Memory
from pyspark_stomp.options import Options
from pyspark_stomp.receiver import Receiver
from pyspark_stomp.spool import Spool
from tests.gateway_process import HOST
from tests.pyspark_stomp.conftest import running_gateway, start_spark

_QUEUE = "/queue/flood"
_LOG = "/topic/log.flood"


@contextmanager
def flood(rows: int) -> Iterator[str]:
    """The port of a synthetic server."""
    command = [sys.executable, "-m", "tests.pyspark_stomp.flood", str(rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def fill(port: str, destination: str, rows: int) -> None:
    """Messages of 100 octets."""
    client = Client(Options.of({"host": HOST, "port": port}))
    one = client.encode("SEND", {"destination": destination, "kind": "order", "region": "europe"}, b"x" * 100)
    for _ in range(rows // 1000):
        client.send(one * 1000)
    client.disconnect()


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def receiver(port: str, mode: str, rows: int, folder: Path, **more: str) -> str:
    """The receiving thread alone."""
    told = {"host": HOST, "port": port, "destination": _QUEUE, "mode": mode, **more}
    options = Options.of(told)
    store = Spool(folder / "spool", options.prefetch) if mode == "spool" else Memory(0, options.prefetch)
    started, cpu = time.monotonic(), time.process_time()
    thread = Receiver(options, store)
    while store.end < rows and thread.failure is None:
        thread.wait_beyond(store.end, 1)
        store.release(store.end)
    seconds, used = time.monotonic() - started, time.process_time() - cpu
    thread.stop()
    return f"{store.end / seconds:9,.0f} rows/s  {used / rows * 1e6:5.1f} us/row of CPU"


def query(spark: SparkSession, port: str, folder: Path, **more: str) -> str:
    """A stream into the noop sink."""
    told = {"host": HOST, "port": port, "spoolDir": str(folder / "spool"), "idleTimeoutMs": "1000"}
    source = spark.readStream.format("stomp").options(**told, **more).load()
    writer = source.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    ends = []
    for each in running.recentProgress:
        if count := each["numInputRows"]:
            begun = datetime.datetime.fromisoformat(each["timestamp"]).timestamp()
            ends.append((begun, begun + each["durationMs"]["triggerExecution"] / 1000, count))
    rows = sum([count for _, _, count in ends])
    return f"{rows / (ends[-1][1] - ends[0][0]):9,.0f} rows/s  ({rows:,} rows in {len(ends)} batches)"


def show(what: str, told: str) -> None:
    """One line of the result."""
    print(f"{what:42} {told}  load {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    """Measure."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    with tempfile.TemporaryDirectory() as name:
        folders = (Path(name) / str(number) for number in range(100))
        for mode in ("spool", "ack"):
            with flood(rows) as port:
                show(f"receiver, flood, {mode}", receiver(port, mode, rows, next(folders)))
        (home := next(folders)).mkdir()
        with running_gateway(home) as process:
            port = str(process.tcp_port)
            for ack_mode in ("client-individual", "client"):
                fill(port, _QUEUE, rows)
                before = cpu_of(process.pid)
                told = receiver(port, "spool", rows, next(folders), ackMode=ack_mode)
                used = (cpu_of(process.pid) - before) / rows * 1e6
                show(f"receiver, gateway, spool, {ack_mode}", f"{told}, gateway {used:.1f}")
            spark = start_spark()
            for mode, shared in (("spool", "false"), ("spool", "true"), ("ack", "false")):
                with flood(rows) as flooding:
                    more = {"destination": _QUEUE, "mode": mode, "sharedSpool": shared}
                    show(f"query, flood, {mode}, sharedSpool={shared}", query(spark, flooding, next(folders), **more))
            for more in ({"mode": "spool"}, {"mode": "spool", "ackMode": "client"}, {"mode": "ack"}):
                fill(port, _QUEUE, rows)
                show(
                    f"query, gateway, {' '.join(more.values())}",
                    query(spark, port, next(folders), destination=_QUEUE, **more),
                )
            fill(port, _LOG, rows)
            more = {"mode": "offset", "destination": _LOG}
            show("query, gateway, offset", query(spark, port, next(folders), **more))
            spark.stop()


if __name__ == "__main__":
    main()
