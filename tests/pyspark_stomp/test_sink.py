"""The sink against the real gateway, without Spark: how fast it may send, and what no frame can say."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from gateway.client import Client
from gateway.codec import Frame
from pyspark_stomp.errors import OptionError
from pyspark_stomp.options import Options
from pyspark_stomp.sink import BatchWriter, Plan, Written
from tests.pyspark_stomp.conftest import Broker
from tests.pyspark_stomp.test_receiver import bodies


@pytest.mark.parametrize(("rate", "least"), [("20", 0.4), ("4", 0.0), ("0", 0.0)])
def test_rows_a_second(broker: Broker, name: str, rate: str, least: float) -> None:
    """Ten rows, two in a transaction at 20 a second: the fifth transaction is due after 0.4 s."""
    count = 1 if rate == "4" else 10
    rows = pa.RecordBatch.from_pydict({"body": bodies(count)})
    writer = BatchWriter(Plan(broker.options(destination=f"/queue/{name}", maxRowsPerSecond=rate), ["body"], name))
    started = time.monotonic()
    assert writer.write(iter([rows])) == Written(count)
    assert least <= time.monotonic() - started < least + 5
    assert broker.waiting(f"/queue/{name}") == bodies(count)


def write(broker: Broker, queue: str, version: str, **columns: object) -> None:
    """Three rows of which the second has these columns, and the others have a plain one."""
    plain: dict[str, object] = {"body": "b", "destination": queue, "headers": [("colour", "red")]}
    kind = pa.map_(pa.string(), pa.string())
    rows = [plain, plain | columns, plain]
    schema = pa.schema(
        [(name, kind if name == "headers" else pa.string()) for name in {**plain, "dedup_id": "", **columns}]
    )
    batch = pa.RecordBatch.from_pylist(
        [{"dedup_id": f"{queue}{place}", **row} for place, row in enumerate(rows)], schema=schema
    )
    BatchWriter(Plan(broker.options(version=version), batch.schema.names, "job")).write(iter([batch]))


@pytest.mark.parametrize("told", [{"x": "abc\r"}, {"x": "a\r\nb:c\\d"}, {"n\ram\re": "\t"}])
def test_control_characters_arrive(broker: Broker, name: str, told: dict[str, str]) -> None:
    """A CR at the end of a line is no part of it, unless it is escaped."""
    write(broker, f"/queue/{name}", "1.2", headers=list(told.items()))
    client = Client(broker.options().server())
    client.request("SUBSCRIBE", {"id": "0", "destination": f"/queue/{name}", "ack": "auto"})
    frames: list[Frame] = []
    while len(frames) < 3:
        frames += client.receive(5)
    client.close()
    assert {key: frames[1].headers[key] for key in told} == told


@pytest.mark.parametrize(
    ("version", "columns", "column", "reason"),
    [
        ("1.2", {"headers": [("x", "a\0b")]}, "column headers, 'x'", "NUL"),
        ("1.2", {"headers": [("", "a")]}, "column headers, ''", "a header without a name"),
        ("1.1", {"headers": [("x", "a\r")]}, "column headers, 'x'", "CR"),
        ("1.1", {"content_type": "a\r"}, "column content_type", "CR"),
        ("1.0", {"headers": [("x", "a\nb")]}, "column headers, 'x'", "control character"),
        ("1.0", {"headers": [("x:y", "a")]}, "column headers, 'x:y'", "colon"),
        ("1.2", {"destination": "/queue/a\0"}, "column destination", "NUL"),
        ("1.2", {"dedup_id": "a\0"}, "column dedup_id", "NUL"),
    ],
)
def test_an_error_names_the_header_that_cannot_be_sent(
    broker: Broker, name: str, version: str, columns: dict[str, object], column: str, reason: str
) -> None:
    with pytest.raises(OptionError, match=f"row 1 of partition 0, {column}: .*{reason}"):
        write(broker, f"/queue/{name}", version, **columns)
    assert broker.waiting(f"/queue/{name}") == []


@pytest.mark.parametrize(
    ("ddl", "options", "sentence"),
    [
        ("text string", {}, "there is no use for a column text"),
        ("destination string", {}, "there is no column body"),
        ("body long", {}, "column body has the type bigint; it must be string or binary"),
        ("body string", {"destination": "/queue/a,/queue/b"}, "option destination of a sink must be one"),
        ("body string", {"dedupColumn": "y"}, "dedupColumn names y"),
        ("body string", {"sendHeaders": '{"receipt": "1"}'}, "option sendHeaders cannot set receipt"),
    ],
)
def test_a_plan_that_cannot_be_carried_out(ddl: str, options: dict[str, str], sentence: str) -> None:
    schema = StructType()
    for column in ddl.split(", "):
        schema = schema.add(*column.split())
    with pytest.raises(OptionError, match=sentence):
        Plan.of(Options.of({"destination": "/queue/never", **options}), schema, overwrite=False)
    with pytest.raises(OptionError, match="overwrite has no meaning"):
        Plan.of(Options.of({"destination": "/queue/never"}), StructType().add("body", "string"), overwrite=True)


def test_a_row_without_an_id_is_refused(broker: Broker, name: str) -> None:
    rows = pa.RecordBatch.from_pylist([{"body": "b", "dedup_id": None}])
    plan = Plan(broker.options(destination=f"/queue/{name}"), ["body", "dedup_id"], "job")
    with pytest.raises(OptionError, match="its column dedup_id is null"):
        BatchWriter(plan).write(iter([rows]))
