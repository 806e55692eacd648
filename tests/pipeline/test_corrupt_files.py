"""Files that make no sense, and other errors: one sentence names the file and what to do, without a traceback."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.archive.compact import compact
from gateway.pipeline.errors import JobFailure, of_archive, reason
from gateway.pipeline.jobs import JOBS
from gateway.pipeline.report import build
from gateway.pipeline.streaming import checkpoints, file_log
from gateway.pipeline.streaming.progress import MissingData, Progress
from gateway.pipeline.tables import JobTable

from . import rows
from .commands import folders, invoke
from .spark_log import SparkLog

__all__ = ["folders"]


JOB = JOBS["metrics"]
ANEW = "restore it, or compute the table anew with --reset-checkpoint"
WITHOUT = "restore it, or move it away and run again, without its rows"


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def torn(data: bytes) -> bytes:
    """The end is there, and what it points to makes no sense."""
    start = len(data) // 2
    return data[:start] + bytes(len(data) - start - 8) + data[-8:]


DAMAGES = pytest.mark.parametrize("damaged", [half, torn, lambda data: b"", lambda data: b"\0\xff{" * len(data)])
Damage = Callable[[bytes], bytes]


@DAMAGES
def test_a_file_of_a_table(folders: Path, damaged: Damage) -> None:
    (folders / "metrics").mkdir()
    path = folders / "metrics" / "0000000000-0000000000.parquet"
    pq.write_table(pa.table({"count": list(range(1000))}), path)
    path.write_bytes(damaged(path.read_bytes()))
    table = JobTable(path.parent, ("count",), {}, "count")
    (piece,) = table.files()
    for read in (table.read, table.summary, piece.count, lambda: piece.extent("count"), lambda: table.summary_of(0)):
        with pytest.raises(JobFailure) as caught:
            read()
        assert str(caught.value).startswith(f"{path} is damaged (")
        assert str(caught.value).endswith(f"); {ANEW}")
        assert "\n" not in str(caught.value)
    result = invoke("status", "--archive", "archive", "--tables", str(folders))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {path} is damaged (")


@DAMAGES
def test_files_of_the_archive(folders: Path, damaged: Damage) -> None:
    (raw,) = rows.write(folders / "archive", [rows.accepted(number) for number in range(50)])
    data = raw.read_bytes()
    raw.write_bytes(damaged(data))
    until = rows.START + timedelta(days=1)
    with pytest.raises(JobFailure, match=rf"^{raw} is damaged \(.*\); {WITHOUT}$"):
        build.fitted(folders / "archive", rows.START, until)
    raw.write_bytes(data)
    assert compact(folders / "archive", until)
    history = folders / "archive" / "history" / "date=2026-03-01" / "hour=12" / "0001-0001.parquet"
    history.write_bytes(damaged(history.read_bytes()))
    sentence = "restore it, or move it away, take its name out of the _manifest.json beside it and run again, without"
    with pytest.raises(JobFailure, match=rf"^{history} is damaged \(.*\); {sentence} its rows$"):
        build.fitted(folders / "archive", rows.START, until)
    # Then the rest is read.
    manifest = history.with_name("_manifest.json")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"history": []}))
    history.unlink()
    assert build.fitted(folders / "archive", rows.START, until) == (rows.START, until)


def test_a_manifest(folders: Path) -> None:
    now = datetime.now(UTC)
    path = folders / "archive" / "history" / f"date={now:%Y-%m-%d}" / f"hour={now:%H}" / "_manifest.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    result = invoke("report", "--archive", "archive")
    assert result.exit_code == 1
    assert f"{path} is damaged" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def checkpoint(into: Path) -> Path:
    """That of a job after two batches, as Spark writes it."""
    with checkpoints.claimed(into, JOB, "hdfs://a") as path:
        (path / "metadata").write_text('{"id":"x"}')
        log = SparkLog(path)
        for batch in range(2):
            log.look(batch, f"date=2026-03-01/hour=12/{batch}.parquet")
            log.plan(batch, batch)
            log.commit(batch)
    return path


@DAMAGES
@pytest.mark.parametrize("name", ["metadata", "offsets/0", "offsets/1", "commits/0", "commits/1"])
def test_files_of_a_checkpoint(tmp_path: Path, name: str, damaged: Damage) -> None:
    path = checkpoint(tmp_path) / name
    checkpoints.check_readable(checkpoints.folder(tmp_path, JOB.name))
    path.write_bytes(damaged(path.read_bytes()) if damaged is not torn else b"v1\n\xff")
    (tmp_path / JOB.name).mkdir()
    (tmp_path / JOB.name / "0000000000-0000000001.parquet").touch()
    with pytest.raises(JobFailure) as caught, checkpoints.claimed(tmp_path, JOB, "hdfs://a"):
        pass
    assert str(caught.value).startswith(f"{path} is damaged (")
    assert str(caught.value).endswith(f"); {ANEW}")


@DAMAGES
def test_files_that_a_job_has_read(tmp_path: Path, damaged: Damage) -> None:
    path = checkpoint(tmp_path) / "sources" / "0" / "1"
    assert len(list(file_log.read_by(path.parents[2]))) == 2
    path.write_bytes(damaged(path.read_bytes()) if damaged is not torn else b'v1\n{"path":"a"}')
    with pytest.raises(JobFailure, match=rf"^{path} is damaged \(.*\); {ANEW}$"):
        list(file_log.read_by(path.parents[2]))
    with pytest.raises(JobFailure, match=rf"^{path} is damaged \("):
        file_log.planned(path.parents[2], 1)


def test_an_empty_file_of_a_batch(tmp_path: Path) -> None:
    (path,) = rows.write(tmp_path / "archive", [rows.accepted()])
    missing = MissingData("metrics", tmp_path, tmp_path / "archive", Progress(err=io.StringIO()))
    name = f"date=2026-03-01/hour=12/{path.name}"
    assert missing.deleted(frozenset({name})) == []
    path.write_bytes(b"")
    with pytest.raises(JobFailure, match=f"^{path} is damaged: it is empty; {WITHOUT}$"):
        missing.deleted(frozenset({name}))


RAW, HISTORY = "/a/b.parquet", "/a/history/d/h/b.parquet"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("one\ntwo", "one"),
        ("", "RuntimeError"),
        ("[STREAM_FAILED] Query [id = 1] terminated with exception: oops SQLSTATE: XXKST\n=== Plan", "oops"),
        ("[X.Y] Traceback (most recent call last):\nValueError: too small\n", "too small"),
        ("[TABLE_NOT_FOUND] There is no t. SQLSTATE: 42P01; line 1\nplan", "There is no t."),
        ("a.b.XException: outer\n\tat x\nCaused by: a.b.Y: inner: too large\n\tat y", "inner: too large"),
        (
            f"An error.\n: org.X: [A.B] while reading file file://{RAW}.  SQLSTATE: KD001\nCaused by: a.B: it is short",
            f"{RAW} cannot be read: it is short; if it is damaged {of_archive(Path(RAW))}",
        ),
        (
            f"ValueError: Could not open Parquet input source '{HISTORY}': it is short.\nwhile reading file {HISTORY}",
            f"{HISTORY} cannot be read: it is short; if it is damaged {of_archive(Path(HISTORY))}",
        ),
    ],
)
def test_the_sentence_in_an_exception(text: str, sentence: str) -> None:
    assert reason(RuntimeError(text)) == sentence
    assert reason(OSError(28, "No space left on device")) == "No space left on device"
