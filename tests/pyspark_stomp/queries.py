"""The queries that are killed, and what Spark runs of them.

At the gateway and, where it is installed, at RabbitMQ:

    spool   a queue, to files
    ack     a queue, to files; at the gateway to another queue, too, by `dedupColumn`
    offset  a stream, to a queue

A file holds the bodies of one batch; a batch that is run again writes its file again.

    python -m tests.pyspark_stomp.queries CONFIG

runs queries in Spark until it is killed.  CONFIG is a file of JSON: {"folder", "queries": [the fields of `Query`],
"once": [names of those with availableNow, which are started again when they end], "standing": the query of files that
stands still when it has written a batch that Spark has not}.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import StreamingQueryException

from tests.gateway_process import HOST
from tests.pyspark_stomp.rabbitmq import LOGIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# How a queue of RabbitMQ is told to keep a stream.
STREAM = {"x-queue-type": "stream", "durable": "true", "auto-delete": "false"}
DURABLE = {"persistent": "true"}
_STAND_STILL = 600.0
_PATIENCE = 100.0


@dataclass(frozen=True)
class Query:
    name: str
    mode: str
    where: dict[str, str]  # options of the server
    source: str  # a destination
    target: str = ""  # a destination; without one it writes files alone
    more: dict[str, str] = field(default_factory=dict)  # options of the source
    files: bool = True  # it writes files
    exact: bool = True  # not a row is doubled

    def told(self, folder: Path, rows: int) -> dict[str, str]:
        told = {**self.where, "destination": self.source, "mode": self.mode, "idleTimeoutMs": "500", **self.more}
        if self.mode == "spool":
            told["spoolDir"] = str(folder / f"spool-{self.name}")
        return told | {"maxRowsPerTrigger": str(rows)}


def at_gateway(port: int, word: str) -> list[Query]:
    """The queries at a gateway whose topics under /topic/log keep a stream."""
    where = {"host": HOST, "port": str(port)}
    return [
        Query("spool", "spool", where, f"/queue/{word}.spool"),
        Query("ack", "ack", where, f"/queue/{word}.ack", f"/queue/{word}.ack.out", exact=False),
        Query("offset", "offset", where, f"/topic/log.{word}", f"/queue/{word}.offset.out", files=False),
    ]


def at_rabbitmq(port: int, word: str) -> list[Query]:
    """The queries at RabbitMQ, which does not drop what was sent twice; its senders set a header `x-id`."""
    where = {"host": HOST, "port": str(port), **LOGIN}
    stream, log = {"subscribeHeaders": json.dumps(STREAM)}, {"files": False, "exact": False}
    return [
        Query("rabbit-spool", "spool", where, f"/queue/{word}.spool", more={"dedupHeader": "x-id"}),
        Query("rabbit-ack", "ack", where, f"/queue/{word}.ack", exact=False),
        Query("rabbit-offset", "offset", where, f"/queue/{word}.stream", f"/queue/{word}.offset.out", stream, **log),
    ]


def texts(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return [body.decode() for batch in batches for body in batch.column("body").to_pylist()]


def files(folder: Path, name: str) -> list[Path]:
    return sorted((folder / "out" / name).glob("[0-9]*.json"), key=lambda path: int(path.stem))


def written(folder: Path, name: str) -> list[str]:
    return [body for path in files(folder, name) for body in json.loads(path.read_text())]


def write_file(folder: Path, name: str, number: int, bodies: list[str]) -> None:
    out = folder / "out" / name
    out.mkdir(parents=True, exist_ok=True)
    (out / f"_{number}").write_text(json.dumps(bodies))
    (out / f"_{number}").rename(out / f"{number}.json")


def start(
    spark: SparkSession, query: Query, folder: Path, *, rows: int, once: bool = False, standing: bool = False
) -> StreamingQuery:
    """Start a query; one that stands still leaves `standing` in the folder."""
    sink = {**query.where, "destination": query.target, "sendHeaders": json.dumps(DURABLE)}
    source = spark.readStream.format("stomp").options(**query.told(folder, rows)).load()
    writer = source.select("body", "message_id").writeStream.trigger(
        **({"availableNow": True} if once else {"processingTime": "50 milliseconds"})
    )
    writer = writer.queryName(query.name).option("checkpointLocation", str(folder / f"checkpoint-{query.name}"))
    if not query.files:
        return begun(writer.format("stomp").options(**sink).start)

    def write(batch: DataFrame, number: int) -> None:
        write_file(folder, query.name, number, [bytes(row.body).decode() for row in batch.collect()])
        if query.target:
            batch.write.format("stomp").mode("append").options(**sink, dedupColumn="message_id").save()
        if standing and json.loads((folder / "out" / query.name / f"{number}.json").read_text()):
            (folder / "standing").touch()
            threading.Event().wait(_STAND_STILL)

    return begun(writer.foreachBatch(write).start)


def begun(begin: Callable[[], StreamingQuery]) -> StreamingQuery:
    """The query that is started, once its reader's process is there.

    Spark gives a Python process 10 s to answer, however busy the machine is; a late one is started again.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        query = begin()
        try:
            while query.isActive and str(query.status["message"]).startswith("Initializing"):
                query.awaitTermination(1)
        except StreamingQueryException:
            pass
        failure = query.exception()
        if failure is None or "failed to connect back" not in str(failure) or time.monotonic() > deadline:
            return query


def config(folder: Path, queries: list[Query], once: list[str], standing: str) -> str:
    """The path of a new CONFIG."""
    told = {"folder": str(folder), "queries": [asdict(each) for each in queries], "once": once, "standing": standing}
    path = folder / "config.json"
    path.write_text(json.dumps(told))
    return str(path)


def main() -> None:
    """Run all queries until killed."""
    from tests.spark import start_spark

    told = json.loads(Path(sys.argv[1]).read_text())
    folder, once = Path(told["folder"]), told["once"]
    queries = [Query(**each) for each in told["queries"]]
    # The one that is waited for comes first, those that run anyway come after it.
    queries.sort(key=lambda each: each.name != told["standing"])
    spark = start_spark()

    def begin(query: Query) -> StreamingQuery:
        standing = query.name == told["standing"]
        return start(spark, query, folder, rows=300, once=query.name in once, standing=standing)

    running = {each.name: begin(each) for each in queries}
    while True:
        for query in queries:
            if running[query.name].isActive:
                continue
            if (failure := running[query.name].exception()) is not None or query.name not in once:
                print(f"{query.name} has ended: {failure}", file=sys.stderr, flush=True)
                os._exit(1)
            running[query.name] = begin(query)
        running[queries[0].name].awaitTermination(0.1)  # type: ignore[arg-type]  # it takes a part of a second, too


if __name__ == "__main__":
    main()
