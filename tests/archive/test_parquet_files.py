"""Parquet files that grow, and their schema."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.archive import parquet_files
from gateway.archive.parquet_files import SCHEMA, ParquetWriter, aligned
from gateway.archive.segments import Tables
from gateway.journal import schema
from tests.archive.desk import BEGIN, Writer, journal_rows, rows_of

HOUR = int(BEGIN // 3600)
NAME = "g1-0000000000000001-00000001-00000001.parquet"


def segment(folder: Path, rows: int, apart: float = 0.001) -> Path:
    writer = Writer(folder / "journal", apart=apart)
    writer.rows(rows)
    return writer.roll()


def test_part(tmp_path: Path) -> None:
    path = tmp_path / "raw" / NAME
    part = ParquetWriter(path)
    for table in Tables(segment(tmp_path, 20)):
        part.add(table)
    part.finish()
    assert not path.exists()
    part.reveal()
    with path.open("rb") as file:
        found = pq.ParquetFile(file)
        assert found.schema_arrow.equals(SCHEMA)
        assert found.metadata.row_group(0).column(0).compression == "ZSTD"
        assert (found.metadata.num_rows, part.rows) == (20, 20)
    assert part.latest == pytest.approx((BEGIN + 0.019) * 1e6, abs=1)
    assert part.size == path.stat().st_size
    assert rows_of([path]) == journal_rows(tmp_path / "journal")


@pytest.mark.parametrize(("rows", "size", "groups"), [(8, 1 << 30, 3), (1 << 30, 1, 20), (1 << 30, 1 << 30, 1)])
def test_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, size: int, groups: int) -> None:
    monkeypatch.setattr(parquet_files, "GROUP_ROWS", rows)
    monkeypatch.setattr(parquet_files, "GROUP_BYTES", size)
    part = ParquetWriter(tmp_path / NAME)
    for table in Tables(segment(tmp_path, 20)):
        for row in range(20):
            part.add(table.slice(row, 1))
    part.finish()
    part.reveal()
    with part.path.open("rb") as file:
        assert pq.ParquetFile(file).metadata.num_row_groups == groups
    assert len(rows_of([part.path])) == 20


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
