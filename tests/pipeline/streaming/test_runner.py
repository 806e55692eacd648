"""Jobs as streams: each row counts once, whatever fails, stops or is killed in between."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.archive.compact import compact, expire_raw
from gateway.pipeline import tables
from gateway.pipeline.errors import JobFailure, UsageFailure
from gateway.pipeline.jobs import JOBS, AlarmLimits, Job
from gateway.pipeline.streaming import checkpoints, runner
from gateway.pipeline.streaming.progress import BatchReport, Progress

from .. import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

METRICS = JOBS["metrics"]


class Watched(Progress):
    """Keeps what it is told, and does something after some batch: the table has it, and Spark does not know yet."""

    def __init__(self, number: int = -1, then: Callable[[], None] = lambda: None) -> None:
        self.told = io.StringIO()
        super().__init__(err=self.told)
        self.seen: list[BatchReport] = []
        self._number = number
        self._then = then

    def batch(self, batch: BatchReport) -> None:
        super().batch(batch)
        self.seen.append(batch)
        if batch.number == self._number:
            self._then()


class Place:
    """An archive with some files, and tables."""

    def __init__(self, folder: Path) -> None:
        self.archive = folder / "archive"
        self.tables = folder / "tables"
        self._written = 0
        self.accepted = 0

    def add(self, files: int) -> None:
        """More files, each with another number of rows, in several hours."""
        for _ in range(files):
            self._written += 1
            some = [rows.accepted(60 * number) for number in range(50 * self._written, 50 * self._written + 10)]
            rows.write(self.archive, some[: self._written + 1], self._written)
            self.accepted += len(some[: self._written + 1])

    def run(self, spark: SparkSession, *jobs: Job, progress: Progress | None = None, **more: Any) -> None:
        told: dict[str, Any] = {"once": True, "files": 1, "stopping": threading.Event(), "limits": AlarmLimits()}
        told |= {"progress": progress or Watched(), **more}
        runner.run(spark, jobs or (METRICS,), str(self.archive), self.tables, **told)

    def expire(self) -> None:
        """All that is there is compacted, and deleted from `raw`."""
        assert compact(self.archive, rows.START + timedelta(days=9))
        assert expire_raw(self.archive, 0, time.time() + 60)

    @property
    def counted(self) -> int:
        table = tables.of(self.tables, METRICS).read()
        return sum(table.column("count").to_pylist()) if table.num_rows else 0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def rows_of(table: pa.Table, now: object, size: int = 0) -> dict[str, Any]:
    return {"rows": table.num_rows}


@pytest.mark.spark
def test_all_jobs_read_all_there_is_and_go_on_with_what_comes(spark: SparkSession, place: Place) -> None:
    progress = Watched()
    place.run(spark, progress=progress)  # nothing is there, not even the folder
    assert "is empty; `gateway archive` fills it" in progress.told.getvalue()
    assert place.counted == 0
    place.add(2)
    # A file of an older gateway lacks columns, one of a newer has more.
    (path,) = rows.write(place.archive, [rows.accepted(7200)], 90)
    old = pq.read_table(path, partitioning=None)
    pq.write_table(old.drop_columns(["size", "body", "transaction"]), path)
    pq.write_table(old.append_column("invented", pa.array([1])), path.with_name(path.name.replace("090", "091")))
    progress = Watched()
    place.run(spark, *JOBS.values(), progress=progress, files=10)
    assert place.counted == place.accepted + 2 == 7
    assert {each.job for each in progress.seen} >= {"metrics", "consumers", "sessions"}
    (batch,) = [each for each in progress.seen if each.job == "metrics"]
    assert (batch.number, batch.rows) == (0, 7)
    assert batch.newest == int(rows.START.timestamp() + 7200) * 1_000_000
    place.add(1)
    place.run(spark, *JOBS.values())
    assert place.counted == place.accepted + 2 == 11
    for name in JOBS:
        shown = json.loads((place.tables / "_console" / f"{name}.json").read_text())
        assert shown["job"] == name


@pytest.mark.spark
def test_a_failure_before_the_file_and_one_before_the_commit(
    spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError(5, "Input/output error", "/somewhere")

    place.add(3)
    with pytest.raises(JobFailure, match=r"^metrics failed: /somewhere: Input/output error$"):
        place.run(spark, progress=Watched(1, fail))
    assert checkpoints.committed(place.tables, "metrics") == 0  # and the table has batch 1
    failure = checkpoints.failure(place.tables, "metrics")
    assert failure is not None
    assert failure["reason"] == "metrics failed: /somewhere: Input/output error"
    monkeypatch.setattr(tables.JobTable, "_write", full)
    with pytest.raises(JobFailure, match=r"^metrics failed: No space left on device$"):
        place.run(spark)
    assert checkpoints.committed(place.tables, "metrics") == 1
    monkeypatch.undo()
    place.run(spark)
    assert place.counted == place.accepted
    assert [piece.span for piece in tables.of(place.tables, METRICS).files()] == [1, 1, 1]
    assert checkpoints.failure(place.tables, "metrics") is None


@pytest.mark.spark
def test_stopping_completes_the_current_batch(spark: SparkSession, place: Place) -> None:
    place.add(3)
    for once in (True, False):
        stopping = threading.Event()
        progress = Watched(0 if once else 1, stopping.set)
        place.run(spark, progress=progress, once=once, stopping=stopping, interval=0.1)
        last = progress.seen[-1].number
        assert [each.number for each in progress.seen] == ([0] if once else [1])
        assert checkpoints.committed(place.tables, "metrics") == last
        assert tables.of(place.tables, METRICS).files()[-1].last == last
        assert json.loads((place.tables / "_console" / "metrics.json").read_text())["job"] == "metrics"
    place.run(spark)
    assert place.counted == place.accepted


@pytest.mark.spark
@pytest.mark.long
def test_a_batch_that_takes_too_long_is_aborted(
    spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "BATCH_TIMEOUT", 0.1)
    monkeypatch.setitem(runner.SPARK_CONF, "spark.sql.streaming.stopTimeout", "500ms")
    stopping, release = threading.Event(), threading.Event()

    def hang() -> None:
        stopping.set()
        assert release.wait(60)

    place.add(2)
    place.run(spark, progress=Watched(0, hang), stopping=stopping)
    (query,) = spark.streams.active
    release.set()
    assert query.awaitTermination(60)
    monkeypatch.undo()
    place.run(spark)
    assert place.counted == place.accepted


@pytest.mark.spark
@pytest.mark.long
def test_a_file_that_cannot_be_read_is_named(spark: SparkSession, place: Place) -> None:
    place.add(1)
    place.run(spark, JOBS["sessions"], METRICS)
    (path,) = rows.write(place.archive, [rows.accepted()], 77)
    path.write_bytes(b"PAR1 this is no Parquet file PAR1")
    with pytest.raises(JobFailure, match=rf"^(metrics|sessions) failed: .*{path.name}.*") as caught:
        place.run(spark, JOBS["sessions"], METRICS)
    assert "\n" not in str(caught.value)


class Ended:
    isActive = False

    def __init__(self, error: str = "") -> None:
        self._error = error

    def exception(self) -> Exception | None:
        return RuntimeError(self._error) if self._error else None

    def stop(self) -> None:
        pass


@pytest.mark.parametrize(
    "said", ["Caused by: java.nio.file.AccessDeniedException: {}: Permission denied", "File file:{} does not exist"]
)
def test_a_folder_deleted_while_spark_lists(place: Place, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    folder = place.archive / "raw" / "date=2026-03-01" / "hour=12"
    progress, started = Watched(), []
    work = runner._Work(METRICS, place.tables, place.tables / "c", place.archive, progress, AlarmLimits())

    def start(*_: object) -> Ended:
        started.append(True)
        return Ended(said.format(folder)) if len(started) == 1 else Ended()

    def run() -> None:
        runner._Run([work], None, progress).run(MagicMock(), {}, threading.Event())

    monkeypatch.setattr(work, "start", start)
    run()
    assert len(started) == 2
    folder.mkdir(parents=True)  # it is there, so it is something else
    started.clear()
    with pytest.raises(JobFailure, match="hour=12"):
        run()
    assert len(started) == 1


@pytest.mark.spark
@pytest.mark.long
def test_a_job_with_a_state_finds_it_again(spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fold(state: dict[str, Any], partial: pa.Table, limits: AlarmLimits) -> tuple[dict[str, Any], pa.Table]:
        total = state.get("total", 0) + sum(partial.column("count").to_pylist())
        ts = pa.array([rows.START], pa.timestamp("us", "UTC"))
        return {"total": total}, pa.table({"ts": ts, "total": [total], "after": [limits.stuck_after]})

    folding = dataclasses.replace(METRICS, name="folding", keys=(), merges={}, time="ts", snapshot=rows_of, fold=fold)
    place.add(3)
    monkeypatch.setattr(tables.JobTable, "_write", full)  # the state of batch 0 is written then, its file is not
    with pytest.raises(JobFailure, match=r"^folding failed: No space left"):
        place.run(spark, folding)
    monkeypatch.undo()
    place.run(spark, folding)
    table = tables.of(place.tables, folding).read()
    assert table.column("total").to_pylist() == [2, 5, 9]
    assert table.column("after").to_pylist() == [60.0] * 3
    assert sorted(os.listdir(place.tables / "_state" / "folding")) == ["1.json", "2.json"]


def test_an_archive_has_one_name(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "file").touch()
    told = io.StringIO()
    for written in (str(tmp_path), f"{tmp_path}/", f"file://{tmp_path}", os.path.relpath(tmp_path)):
        assert runner.prepared(written, Progress(err=told)) == f"file://{tmp_path}"
    assert runner.prepared("hdfs://name/archive/", Progress(err=told)) == "hdfs://name/archive"
    assert told.getvalue() == ""
    with pytest.raises(UsageFailure, match="file/archive does not exist and cannot be made: "):
        runner.prepared(str(tmp_path / "file" / "archive"), Progress())
