"""The benchmarks of the pipeline run, and say what they should.  Their figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from benchmarks.pipeline import synthetic
from gateway.archive import history, layout
from gateway.archive.schema import SCHEMA
from gateway.journal import schema


@pytest.mark.long
def test_a_short_run(tmp_path: Path) -> None:
    """Of what needs no Spark."""
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "benchmarks.pipeline", "--scale", "0.01", "--json", str(report), "loop", "archive"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(report.read_text())["figures"]
    assert [figure["name"] for figure in figures][-1] == "archiver"
    assert all(figure["value"] > 0 and figure["name"] in done.stdout for figure in figures)
    assert "pyspark" in done.stdout
    assert "load average" in done.stdout


def test_a_missing_part() -> None:
    command = [sys.executable, "-m", "benchmarks.pipeline", "lop"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert "no part lop; there are loop, gateway" in done.stderr


@pytest.mark.long
def test_the_synthetic_archive(tmp_path: Path) -> None:
    """It is what the archiver would have written: names, columns, and nulls where an event has none."""
    size = synthetic.make(tmp_path, 6_001)
    paths = history.files(tmp_path, synthetic.START, synthetic.END)
    assert len(paths) == 60
    assert all(layout.range_of(path.name) for path in paths)
    assert sum([path.stat().st_size for path in paths]) == size
    table = pyarrow.concat_tables([pyarrow.parquet.ParquetFile(path).read() for path in paths])
    assert table.schema.equals(SCHEMA)
    table.validate(full=True)
    rows = table.to_pylist()
    assert [row["seq"] for row in rows] == list(range(1, 6_002))
    assert [row["ts"] for row in rows] == sorted([row["ts"] for row in rows])
    assert synthetic.START <= rows[0]["ts"] < rows[-1]["ts"] < synthetic.END
    for row in rows:
        has = {*schema.OF_EVERY_ROW, *schema.BY_NAME[row["event"]].columns} - {"transaction"}
        assert {name for name, value in row.items() if value is not None} == has
