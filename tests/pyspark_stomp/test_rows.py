"""Messages as Arrow batches, and how they are known again."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gateway.codec import Frame, Head
from pyspark_stomp.errors import OptionError
from pyspark_stomp.rows import SCHEMA, Block, Collector, check_columns, ddl, keys_of


def message(number: int, **headers: str) -> Frame:
    names = {"subscription": "/queue/a", "message-id": f"m{number}", "destination": "/queue/a", "ack": f"h{number}"}
    return Frame(Head("MESSAGE", names | {"content-length": "3"} | headers), b"b%d" % number)


def block(numbers: range, *, dedup_header: str = "", **headers: str) -> Block:
    collector = Collector(dedup_header=dedup_header)
    for number in numbers:
        frame = message(number, **headers)
        collector.add(frame, collector.key(frame))
    return collector.take()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_schema_equals_that_of_spark() -> None:
    schema = StructType.fromDDL(ddl(body=True))
    assert isinstance(schema, StructType)
    assert to_arrow_schema(schema, timezone="UTC").equals(SCHEMA)
    assert [field.name for field in schema.fields] == SCHEMA.names
    assert "body" not in ddl(body=False).split()


def test_a_row() -> None:
    collector = Collector()
    frame = message(1, redelivered="true", seq="17", colour="red", **{"content-type": "text/plain"})
    key = collector.key(frame)
    collector.add(frame, key)
    assert (collector.rows, collector.handles) == (1, [("/queue/a", "h1")])
    row = collector.batch().to_pylist()[0]
    assert row.pop("received_at").tzinfo is not None
    assert row == {
        "destination": "/queue/a",
        "message_id": "m1",
        "subscription": "/queue/a",
        "redelivered": True,
        "content_type": "text/plain",
        "headers": [("colour", "red")],
        "body": b"b1",
        "seq": 17,
    }
    assert collector.rows == 0


def test_missing_headers() -> None:
    collector = Collector(body=False)
    collector.add(Frame(Head("MESSAGE", {"message-id": "m", "seq": "x"}), b"b"))
    row = collector.batch().to_pylist()[0]
    assert (row["destination"], row["content_type"], row["body"], row["seq"]) == (None, None, None, None)
    assert (row["headers"], row["subscription"], row["redelivered"]) == ([], "", False)
    older = Frame(Head("MESSAGE", {"message-id": "m", "subscription": "s"}), b"")
    collector.add(older)
    assert collector.handles == [("s", "m")]  # older versions are acknowledged by message-id
    assert Collector(dedup_header="x-id").key(message(1)) == ""
    collector = Collector()
    collector.add(message(1, **{"x-stream-offset": "5"}))
    collector.add(message(2, **{"x-stream-offset": "5", "seq": "6"}))
    batch = collector.batch()
    assert (batch.column("seq").to_pylist(), batch.column("headers").to_pylist()) == ([5, 6], [[], []])


@pytest.mark.parametrize("dedup_header", ["", "x-id"])
def test_keys_are_the_same_before_and_after(dedup_header: str) -> None:
    made = block(range(3), dedup_header=dedup_header, **{"x-id": "7"})
    batch = pa.ipc.open_stream(made.data).read_next_batch()
    assert keys_of(batch, dedup_header) == made.keys
    assert made.keys[0] == ("/queue/a\n7" if dedup_header else "/queue/a\nm0")
    assert (made.rows, len(made.handles)) == (3, 3)


def test_columns_of_a_query() -> None:
    assert check_columns([("seq", "bigint"), ("body", "binary")]) == ["seq", "body"]
    with pytest.raises(OptionError, match="names a column colour; there are destination"):
        check_columns([("colour", "string")])
    with pytest.raises(OptionError, match="column body the type string; it is binary"):
        check_columns([("body", "string")])
