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
from tests.pyspark_stomp.test_receiver import bodies, wait_until

pytestmark = pytest.mark.spark


def of(frame: DataFrame) -> list[str]:
    return [bytes(row.body).decode() for row in frame.select("body").collect()]


def stream(spark: SparkSession, broker: Broker, **options: str) -> DataFrame:
    return spark.readStream.format("stomp").options(**broker.where, **options).load()


def to_files(frame: DataFrame, folder: Path, *, once: bool = True) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("path", str(folder / "out"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="100 milliseconds")).start()


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
    assert reading.load().count() == 3  # browsing leaves all there
    assert reading.option("ack", "true").option("idleTimeoutMs", "200").load().count() == 3
    assert broker.waiting(queue) == []


def test_browsing_without_a_browser(spark: SparkSession, broker: Broker, name: str) -> None:
    queue = f"/queue/{name}"
    broker.send(queue, bodies(20))
    reading = spark.read.format("stomp").options(**broker.where, destination=queue, browser="false")
    assert of(reading.option("idleTimeoutMs", "200").load()) == bodies(20)
    assert broker.waiting(queue) == bodies(20)


def test_sql(spark: SparkSession, broker: Broker, name: str) -> None:
    broker.send(f"/queue/{name}", bodies(5), colour="red")
    where = f"host '{broker.where['host']}', port '{broker.where['port']}', destination '/queue/{name}'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW waiting USING stomp OPTIONS ({where})")
    row = spark.sql("SELECT count(*) AS n, max(headers['colour']) AS colour FROM waiting").collect()[0]
    assert (row.n, row.colour) == (5, "red")


def test_a_log_as_a_table(spark: SparkSession, broker: Broker, name: str) -> None:
    topic = f"/topic/log.{name}"
    broker.send(topic, bodies(5000))
    frame = spark.read.format("stomp").options(**broker.where, destination=topic, mode="offset").load()
    assert sorted(of(frame)) == sorted(bodies(5000))
    assert frame.rdd.getNumPartitions() == 2
    assert frame.select(F.max("seq") - F.min("seq")).collect()[0][0] == 4999


@pytest.mark.parametrize("mode", ["spool", "ack", "offset"])
def test_available_now(spark: SparkSession, broker: Broker, name: str, tmp_path: Path, mode: str) -> None:
    destination = f"/topic/log.{name}" if mode == "offset" else f"/queue/{name}"
    more = {"maxRowsPerTrigger": "1000", "idleTimeoutMs": "300"}
    if mode == "spool":
        more["spoolDir"] = str(tmp_path / "spool")
    for turn in range(2):
        broker.send(destination, bodies(1500, 1500 * turn))
        ended(to_files(stream(spark, broker, destination=destination, mode=mode, **more), tmp_path))
        assert sorted(kept(tmp_path / "out")) == sorted(bodies(1500 * (turn + 1)))
        if mode != "offset":
            assert broker.waiting(destination) == []


@pytest.mark.parametrize("mode", ["spool", "ack", "offset"])
def test_processing_time(spark: SparkSession, broker: Broker, name: str, tmp_path: Path, mode: str) -> None:
    """The queue is empty while the query runs and has nothing to do: its last batch is acknowledged, too."""
    destination = f"/topic/log.{name}" if mode == "offset" else f"/queue/{name}"
    more = {"includeBody": "true", "numPartitions": "2"}
    if mode == "spool":
        more |= {"spoolDir": str(tmp_path / "spool"), "sharedSpool": "true"}
    query = to_files(stream(spark, broker, destination=destination, mode=mode, **more), tmp_path, once=False)
    try:
        for turn in range(2):
            broker.send(destination, bodies(100, 100 * turn))

            def arrived(turn: int = turn) -> bool:
                assert query.exception() is None
                return bool(sum([each["numInputRows"] for each in query.recentProgress]) == 100 * (turn + 1))

            wait_until(arrived, 30)
        if mode != "offset":
            wait_until(lambda: broker.waiting(destination) == [])
            assert query.isActive
            assert query.recentProgress[-1]["numInputRows"] in (0, 100)
    finally:
        query.stop()
    assert sorted(kept(tmp_path / "out")) == sorted(bodies(200))


def test_a_stream_from_queue_to_queue(spark: SparkSession, broker: Broker, name: str, tmp_path: Path) -> None:
    broker.send(f"/queue/{name}", bodies(100), colour="red")
    source = stream(spark, broker, destination=f"/queue/{name}", spoolDir=str(tmp_path / "spool"), idleTimeoutMs="200")
    writer = source.withColumn("destination", F.lit(f"/queue/{name}.out")).writeStream.format("stomp")
    writer = writer.options(**broker.where, transactionRows="30", sendHeaders='{"priority": "7"}')
    ended(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start())
    assert sorted(broker.waiting(f"/queue/{name}.out")) == sorted(bodies(100))
    row = spark.read.format("stomp").options(**broker.where, destination=f"/queue/{name}.out").load().first()
    assert row is not None
    assert (row.headers["colour"], row.headers["priority"]) == ("red", "7")


def test_ids_of_rows(spark: SparkSession, broker: Broker, name: str) -> None:
    """What is written again is not there twice."""
    rows = spark.range(10).selectExpr("cast(id as string) AS body", "id % 5 AS order_id")
    for _ in range(2):
        writer = rows.write.format("stomp").mode("append").options(**broker.where, dedupColumn="order_id")
        writer.option("destination", f"/queue/{name}").save()
    assert len(broker.waiting(f"/queue/{name}")) == 5


def test_columns_that_are_wanted(spark: SparkSession, broker: Broker, name: str) -> None:
    broker.send(f"/queue/{name}", bodies(2))
    reading = spark.read.format("stomp").options(**broker.where, destination=f"/queue/{name}")
    assert reading.schema("message_id string, body binary").load().columns == ["message_id", "body"]
    assert reading.schema("message_id string, body binary").load().count() == 2
    plain = spark.read.format("stomp").options(**broker.where, destination=f"/queue/{name}", includeBody="false")
    assert "body" not in plain.load().columns
    assert plain.load().count() == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"destinatoin": "/queue/a"}, "is destination meant?"),
        ({}, "option destination is missing"),
        ({"destination": "/nowhere/a"}, "/nowhere/a"),
        ({"destination": "/queue/a", "port": "1", "maxReconnectMs": "0"}, "cannot connect to 127.0.0.1:1"),
    ],
)
def test_what_a_reader_says(spark: SparkSession, broker: Broker, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.read.format("stomp").options(**{**broker.where, **options}).load().count()
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ("id AS body", {}, "column body has the type bigint; it must be string or binary"),
        ("'x' AS text", {}, "there is no use for a column text"),
        ("'x' AS destination", {}, "there is no column body"),
        ("'x' AS body", {"destination": ""}, "option destination"),
        ("'x' AS body", {"dedupColumn": "y"}, "dedupColumn names y"),
        ("'x' AS body, cast(null AS string) AS dedup_id", {}, "its column dedup_id is null"),
        ("'x' AS body, '/nowhere/a' AS destination", {}, "/nowhere/a"),
    ],
)
def test_what_a_writer_says(
    spark: SparkSession, broker: Broker, columns: str, options: dict[str, str], sentence: str
) -> None:
    rows = spark.range(1).selectExpr(*columns.split(", "))
    writer = rows.write.format("stomp").mode("append")
    with pytest.raises(PySparkException) as caught:
        writer.options(**{**broker.where, "destination": "/queue/never", **options}).save()
    assert sentence in str(caught.value)
    assert broker.waiting("/queue/never") == []


def test_what_a_stream_says(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    query = to_files(stream(spark, broker, destination="/nowhere/a", mode="ack"), tmp_path)
    with pytest.raises(PySparkException, match="/nowhere/a"):
        query.awaitTermination(60)


def test_a_spool_and_a_checkpoint_belong_together(
    spark: SparkSession, broker: Broker, name: str, tmp_path: Path
) -> None:
    broker.send(f"/queue/{name}", bodies(10))
    told = {"destination": f"/queue/{name}", "idleTimeoutMs": "200"}
    ended(to_files(stream(spark, broker, spoolDir=str(tmp_path / "a"), **told), tmp_path))
    query = to_files(stream(spark, broker, spoolDir=str(tmp_path / "b"), **told), tmp_path)
    with pytest.raises(PySparkException, match="the checkpoint belongs to another spool"):
        query.awaitTermination(60)
