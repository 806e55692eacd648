"""The Arrow schema against the definition."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gateway.archive.parquet_files import SCHEMA, aligned
from gateway.journal import schema

SPARK = {
    "string": "string",
    "int32": "int",
    "int64": "bigint",
    "timestamp[us, tz=UTC]": "timestamp",
    "map<string, string>": "map<string,string>",
    "binary": "binary",
}


def test_is_the_definition() -> None:
    found = [(field.name, SPARK[str(field.type)], field.nullable) for field in SCHEMA]
    assert found == [(each.name, each.type, each.nullable) for each in schema.COLUMNS]


def test_an_older_table() -> None:
    old = pa.table({"gateway": ["g"], "epoch": [1], "seq": pa.array([2], pa.int32()), "event": ["error"]})
    old = old.append_column("ts", pa.array([3], pa.timestamp("us", tz="UTC")))
    (row,) = aligned(old).to_pylist()
    assert aligned(old).schema.equals(SCHEMA, check_metadata=True)
    assert (row["gateway"], row["seq"], row["body"]) == ("g", 2, None)


def test_a_newer_table() -> None:
    with pytest.raises(ValueError, match="columns that this program does not know: later, new"):
        aligned(SCHEMA.empty_table().append_column("later", pa.nulls(0)).append_column("new", pa.nulls(0)))


def test_another_type() -> None:
    with pytest.raises(ValueError, match="column seq has another type"):
        aligned(pa.table({"seq": pa.array([{"a": 1}])}))
