"""`format("stomp")` in Spark: reading and writing, batch and stream, all modes and triggers, and what errors say."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tests.pyspark_stomp.conftest import Broker
from tests.pyspark_stomp.queries import begun
from tests.pyspark_stomp.test_receiver import bodies, wait_until

pytestmark = pytest.mark.spark


def of(frame: DataFrame) -> list[str]:
    return [bytes(row.body).decode() for row in frame.select("body").collect()]


def stream(spark: SparkSession, broker: Broker, **options: str) -> DataFrame:
    return spark.readStream.format("stomp").options(**broker.where, **options).load()


def to_files(frame: DataFrame, folder: Path, *, once: bool = True) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("path", str(folder / "out"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return begun(
        (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="100 milliseconds")).start
    )


def kept(folder: Path) -> list[str]:
    """The bodies in a file sink's folder: the sink's log names its files."""
    log = [line for path in (folder / "_spark_metadata").glob("[0-9]*") for line in path.read_text().splitlines()[1:]]
    names = {Path(json.loads(line)["path"]).name for line in log if not line.startswith("v")}
    tables = [pq.read_table(folder / name, columns=["body"]) for name in names]
    return [body.decode() for table in tables for body in table.column("body").to_pylist()]


def ended(query: StreamingQuery) -> None:
    assert query.awaitTermination(60)
    assert query.exception() is None


def test_batch_there_and_back(spark: SparkSession, broker: Broker, name: str) -> None:
    queue = f"/queue/{name}"
    rows = spark.createDataFrame(
        [("one", {"colour": "red: dark"}, "text/plain"), ("two", None, None), (None, {}, None)],
        "body string, headers map<string,string>, content_type string",
    ).coalesce(1)
    rows.write.format("stomp").mode("append").options(**broker.where, destination=queue).save()
    reading = spark.read.format("stomp").options(**broker.where, destination=queue)
    got = reading.load().collect()
    assert [(bytes(row.body), row.content_type) for row in got] == [(b"one", "text/plain"), (b"two", None), (b"", None)]
    assert got[0].headers["colour"] == "red: dark"
    assert len({row.headers["x-dedup-id"] for row in got}) == 3
    assert reading.load().count() == 3  # browsing leaves all there, also where the server has no browser
    assert reading.option("browser", "false").option("idleTimeoutMs", "200").load().count() == 3
    assert reading.option("ack", "true").option("idleTimeoutMs", "200").load().count() == 3
    assert broker.waiting(queue) == []


def test_a_log_as_a_table(spark: SparkSession, broker: Broker, name: str) -> None:
    topic = f"/topic/log.{name}"
    broker.send(topic, bodies(5000))
    frame = spark.read.format("stomp").options(**broker.where, destination=topic, mode="offset").load()
    assert sorted(of(frame)) == sorted(bodies(5000))
    assert frame.rdd.getNumPartitions() == 2
    assert frame.select(F.max("seq") - F.min("seq")).collect()[0][0] == 4999


MODES = ("spool", "ack", "offset")


@pytest.mark.long
def test_all_modes_and_triggers(spark: SparkSession, broker: Broker, name: str, tmp_path: Path) -> None:
    """Queues are empty when a query has ended, and while it runs and has nothing to do: also of the last batch."""
    sources = {mode: f"/topic/log.{name}" if mode == "offset" else f"/queue/{name}.{mode}" for mode in MODES}
    sent = 0

    def send(count: int) -> None:
        nonlocal sent
        for source in sources.values():
            broker.send(source, bodies(count, sent))
        sent += count

    def start(mode: str, *, once: bool, **more: str) -> StreamingQuery:
        folder = tmp_path / mode
        more |= {"spoolDir": str(folder / "spool"), "idleTimeoutMs": "300", "numPartitions": "2", "mode": mode}
        return to_files(stream(spark, broker, destination=sources[mode], **more), folder, once=once)

    def all_there(running: list[StreamingQuery]) -> bool:
        assert [query.exception() for query in running] == [None] * len(running)
        return all(len(kept(tmp_path / mode / "out")) == sent for mode in MODES)

    send(1500)
    for query in [start(mode, once=True, maxRowsPerTrigger="1000") for mode in MODES]:
        ended(query)
    assert all_there([])
    assert broker.waiting(sources["spool"]) == broker.waiting(sources["ack"]) == []
    send(100)
    running = [start(mode, once=False, sharedSpool="true") for mode in MODES]
    try:
        wait_until(lambda: all_there(running), 60, 0.1)
        send(100)
        wait_until(lambda: all_there(running), 60, 0.1)
        for mode in ("spool", "ack"):
            wait_until(lambda mode=mode: broker.waiting(sources[mode]) == [])  # type: ignore[misc]
        assert all(query.isActive for query in running)
    finally:
        for query in running:
            query.stop()
    for mode in MODES:
        assert sorted(kept(tmp_path / mode / "out")) == sorted(bodies(sent))


def test_a_stream_from_queue_to_queue(spark: SparkSession, broker: Broker, name: str, tmp_path: Path) -> None:
    broker.send(f"/queue/{name}", bodies(100), colour="red")
    source = stream(spark, broker, destination=f"/queue/{name}", spoolDir=str(tmp_path / "spool"), idleTimeoutMs="200")
    writer = source.writeStream.queryName("move").format("stomp").option("destination", f"/queue/{name}.out")
    writer = writer.options(**broker.where, transactionRows="30", sendHeaders='{"priority": "7"}')
    ended(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start())
    assert sorted(broker.waiting(f"/queue/{name}.out")) == sorted(bodies(100))
    row = spark.read.format("stomp").options(**broker.where, destination=f"/queue/{name}.out").load().first()
    assert row is not None
    assert (row.headers["colour"], row.headers["priority"]) == ("red", "7")


def test_ids_of_rows(spark: SparkSession, broker: Broker, name: str) -> None:
    rows = spark.range(10).selectExpr("cast(id as string) AS body", "id % 5 AS order_id")
    for _ in range(2):
        writer = rows.write.format("stomp").mode("append").options(**broker.where, dedupColumn="order_id")
        writer.option("destination", f"/queue/{name}").save()
    assert len(broker.waiting(f"/queue/{name}")) == 5


def test_errors_of_a_reader(spark: SparkSession, broker: Broker) -> None:
    cases: list[tuple[dict[str, str], str]] = [
        ({"destinatoin": "/queue/a"}, "is destination meant?"),
        ({}, "option destination is missing"),
        ({"destination": "/nowhere/a"}, "/nowhere/a"),
        ({"destination": "/queue/a", "port": "1", "maxReconnectMs": "0"}, "cannot connect to 127.0.0.1:1"),
    ]
    for options, sentence in cases:
        with pytest.raises(PySparkException) as caught:
            spark.read.format("stomp").options(**{**broker.where, **options}).load().count()
        assert sentence in str(caught.value)


def test_errors_of_a_writer(spark: SparkSession, broker: Broker) -> None:
    """Those of columns and options come before anything runs (test_sink); a row's and the server's from a task."""
    cases: list[tuple[str, dict[str, str], str]] = [
        ("id AS body", {"destination": "/queue/never"}, "column body has the type bigint; it must be string or binary"),
        ("'x' AS body, '/nowhere/a' AS destination", {}, "/nowhere/a"),
    ]
    for columns, options, sentence in cases:
        writer = spark.range(1).selectExpr(*columns.split(", ")).write.format("stomp").mode("append")
        with pytest.raises(PySparkException) as caught:
            writer.options(**broker.where, **options).save()
        assert sentence in str(caught.value)
    assert broker.waiting("/queue/never") == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"destination": "/nowhere/a", "mode": "ack"}, "/nowhere/a"),
        ({"destination": "/queue/a"}, "pyspark_stomp.errors.OptionError: option spoolDir is missing"),
    ],
)
def test_errors_of_a_stream(
    spark: SparkSession, broker: Broker, tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    """The error of the source is the last that Python says."""
    query = to_files(stream(spark, broker, **options), tmp_path)
    with pytest.raises(PySparkException) as caught:
        query.awaitTermination(60)
    told = str(caught.value).partition("=== Streaming Query ===")[0].strip().splitlines()
    assert sentence in [line for line in told if "Error: " in line][-1]
