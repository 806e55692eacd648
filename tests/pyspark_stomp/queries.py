"""The queries of the kill test, and the process that is killed.

    spool   a queue, to files
    ack     a queue, to files
    offset  a topic's log, to a queue by our own sink

A file holds the bodies of one batch; a batch that is run again writes its file again.

    python -m tests.pyspark_stomp.queries PORT FOLDER [window]

With `window`, each query stands still as soon as its sink is done with a batch, before Spark can write down that it is
committed: it leaves a file `window-NAME` in the folder, and waits to be killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_stomp import DefaultSource
from pyspark_stomp.sink import StreamWriter, Written
from tests.gateway_process import HOST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAMES = ("spool", "ack", "offset")
TARGET = "/queue/kill.target"
_STAND_STILL = 120.0


def stand_still(folder: Path, name: str) -> None:
    """Be in the window, until killed."""
    (folder / f"window-{name}").touch()
    threading.Event().wait(_STAND_STILL)


class DyingWriter(StreamWriter):
    """A writer that stands still when all its tasks are done."""

    folder: Path

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """The last thing before Spark's own commit."""
        if any(isinstance(each, Written) and each.rows for each in messages):
            stand_still(self.folder, "offset")


class Dying(DefaultSource):
    """`format("dying")`, with the option `folder`."""

    @classmethod
    def name(cls) -> str:
        """The word in `format`."""
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """A writer that dies."""
        folder = self.options.pop("folder")
        plain = super().streamWriter(schema, overwrite)
        assert isinstance(plain, StreamWriter)
        writer = DyingWriter(plain._plan)
        writer.folder = Path(folder)
        return writer


def source_of(name: str) -> str:
    """The destination that a query reads."""
    return "/topic/log.kill" if name == "offset" else f"/queue/kill.{name}"


def files(folder: Path, name: str) -> list[Path]:
    """What a query has written, batch by batch."""
    return sorted((folder / "out" / name).glob("[0-9]*.json"), key=lambda path: int(path.stem))


def written(folder: Path, name: str) -> list[str]:
    """The bodies that a query has written."""
    return [body for path in files(folder, name) for body in json.loads(path.read_text())]


def start(
    spark: SparkSession, name: str, port: int, folder: Path, *, rows: int, once: bool = False, window: bool = False
) -> StreamingQuery:
    """Start one of the queries."""
    where = {"host": HOST, "port": str(port)}
    more = {"destination": source_of(name), "mode": name, "idleTimeoutMs": "700"}
    if name == "spool":
        more["spoolDir"] = str(folder / f"spool-{name}")
    source = spark.readStream.format("stomp").options(**where, **more, maxRowsPerTrigger=str(rows)).load()
    writer = source.select("body").writeStream.option("checkpointLocation", str(folder / f"checkpoint-{name}"))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
    if name == "offset":
        writer = writer.format("dying").option("folder", str(folder)) if window else writer.format("stomp")
        return begun(writer.options(**where, destination=TARGET).start())
    known = {path.name for path in files(folder, name)}

    def write(batch: DataFrame, number: int) -> None:
        bodies = [bytes(row.body).decode() for row in batch.collect()]
        out = folder / "out" / name
        out.mkdir(parents=True, exist_ok=True)
        (out / f"_{number}").write_text(json.dumps(bodies))
        (out / f"_{number}").rename(out / f"{number}.json")
        if window and bodies and f"{number}.json" not in known:
            stand_still(folder, name)

    return begun(writer.foreachBatch(write).start())


def begun(query: StreamingQuery) -> StreamingQuery:
    """The query, once its reader's process is there: Spark gives that 10 s, too few for four at once."""
    while query.isActive and str(query.status["message"]).startswith("Initializing"):
        query.awaitTermination(1)
    return query


def main() -> None:
    """Run all queries until killed."""
    from tests.pyspark_stomp.conftest import start_spark

    port, folder, window = int(sys.argv[1]), Path(sys.argv[2]), "window" in sys.argv
    spark = start_spark()
    spark.dataSource.register(Dying)
    running = [start(spark, name, port, folder, rows=600, window=window) for name in NAMES]
    while all(query.isActive for query in running):
        running[0].awaitTermination(1)
    print([str(query.exception()) for query in running], file=sys.stderr, flush=True)
    os._exit(1)


if __name__ == "__main__":
    # As a module of its own name, which workers can import.
    from tests.pyspark_stomp import queries

    queries.main()
