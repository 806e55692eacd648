"""Which files a batch has, also where Spark has forgotten it; what a job can read no more is said once, and kept."""

from __future__ import annotations

import dataclasses
import io
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.archive import history
from gateway.pipeline import tables
from gateway.pipeline.errors import JobFailure
from gateway.pipeline.streaming import checkpoints, file_log, runner
from gateway.pipeline.streaming.progress import MissingData, Progress

from ..spark_log import SparkLog
from .test_runner import METRICS, Place, Watched, place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["place"]


def test_the_files_of_a_batch_are_those_of_its_looks(tmp_path: Path) -> None:
    log = SparkLog(tmp_path)
    log.look(0, "date=1/hour=1/a", "date=1/hour=1/b")
    log.look(1, "date=1/hour=1/c")
    log.look(2, "date=1/hour=1/d", compact=True)
    log.look(3, "date=1/hour=2/e")
    for batch, last in enumerate((0, 2, 3)):
        log.plan(batch, last)
    assert set(file_log.planned(tmp_path, 0) or ()) == {"date=1/hour=1/a", "date=1/hour=1/b"}
    assert set(file_log.planned(tmp_path, 1) or ()) == {"date=1/hour=1/c", "date=1/hour=1/d"}
    assert set(file_log.planned(tmp_path, 2) or ()) == {"date=1/hour=2/e"}
    done = [sorted(each[-1] for each in file_log.done_by(tmp_path, batch)) for batch in (None, 0, 1, 2, 3)]
    assert ["".join(each) for each in done] == ["", "ab", "abcd", "abcde", "abcde"]
    (tmp_path / "sources" / "0" / "1").unlink()  # Spark has removed it
    assert sorted(file_log.read_by(tmp_path)) == [f"date=1/hour={1 + (each == 'e')}/{each}" for each in "abcde"]
    assert file_log.digest(["a", "b"]) == file_log.digest({"b", "a"}) != file_log.digest(["a"])


def test_an_invalid_plan_is_ignored(tmp_path: Path) -> None:
    SparkLog(tmp_path).look(0, "date=1/hour=1/a")
    assert file_log.planned(tmp_path, 0) is None
    for content in ("", "v1", "v1\n{}\n-", "v1\n{}\n{}", "v1\n{}\n7", 'v1\n{}\n{"logOffset":9}'):
        (tmp_path / "offsets" / "0").write_text(content)
        assert file_log.planned(tmp_path, 0) is None
        file_log.settle(tmp_path, 0)


def test_files_deleted_unread_are_those_of_the_history(tmp_path: Path) -> None:
    log = SparkLog(tmp_path / "checkpoint")
    hour = "date=2026-03-01/hour=12"
    for name in (hour, "date=2026-03-01/hour=13"):
        (tmp_path / "history" / name).mkdir(parents=True)
    history.write(tmp_path / "history" / hour, history.Manifest(frozenset({"a.parquet", "b.parquet", "c.parquet"})))
    (tmp_path / "raw" / hour).mkdir(parents=True)
    (tmp_path / "raw" / hour / "a.parquet").touch()
    log.look(0, f"{hour}/b.parquet")
    assert file_log.missed(tmp_path, tmp_path / "checkpoint") == {hour: 1}
    asked = [f"{hour}/a.parquet", f"{hour}/z", f"{hour}/b.parquet"]
    assert file_log.deleted(tmp_path, asked) == [f"{hour}/b.parquet", f"{hour}/z"]
    assert file_log.in_history(tmp_path, [f"{hour}/b.parquet", f"{hour}/z"]) == 1
    (tmp_path / "history" / hour / history.MANIFEST).write_text("nonsense")
    assert file_log.missed(tmp_path, tmp_path / "checkpoint") == {}
    shutil.rmtree(tmp_path / "history")
    assert file_log.missed(tmp_path, tmp_path / "checkpoint") == {}


@pytest.mark.spark
@pytest.mark.long
def test_a_batch_that_is_planned_anew_takes_the_place_of_the_first(spark: SparkSession, place: Place) -> None:
    place.add(2)
    place.run(spark)
    checkpoint = checkpoints.folder(place.tables, "metrics")
    for log in ("offsets", "commits", "sources/0"):  # as a power cut may leave Spark's checkpoint
        (checkpoint / log / "1").unlink()
        (checkpoint / log / ".1.crc").unlink()
    place.add(2)
    progress = Watched()
    place.run(spark, files=200, progress=progress)
    assert place.counted == place.accepted
    assert [each.number for each in progress.seen] == [1]
    assert "metrics: batch 1 has other files than before" in progress.told.getvalue()


@pytest.mark.spark
def test_the_plan_of_a_batch_is_on_the_disk_before_its_file(
    spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    synchronized: set[str] = set()
    fsync = os.fsync

    def keep(file: int) -> None:
        synchronized.add(os.readlink(f"/proc/self/fd/{file}"))
        fsync(file)

    def see() -> None:
        folder = str(checkpoints.folder(place.tables, "metrics"))
        of_spark = {each.removeprefix(folder) for each in synchronized if each.startswith(folder + "/")}
        assert {"/offsets", "/sources/0", "/offsets/0", "/offsets/.0.crc", "/sources/0/0"} <= of_spark

    monkeypatch.setattr(os, "fsync", keep)
    place.add(1)
    place.run(spark, progress=Watched(0, see))


@pytest.mark.spark
def test_files_of_spark_are_understood(spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runner.SPARK_CONF, "spark.sql.streaming.fileSource.log.compactInterval", "2")
    place.add(4)
    place.run(spark)
    checkpoint = checkpoints.folder(place.tables, "metrics")
    names = sorted(["/".join(path.parts[-3:]) for path in place.archive.glob("raw/*/*/*.parquet")])
    assert (checkpoint / "sources" / "0" / "3.compact").exists()
    assert sorted([name for batch in range(4) for name in file_log.planned(checkpoint, batch) or ()]) == names
    assert sorted(file_log.read_by(checkpoint)) == names
    told = [piece.summary().digest for piece in tables.of(place.tables, METRICS).files()]
    assert told == [file_log.digest(file_log.planned(checkpoint, batch) or ()) for batch in range(4)]


def test_an_archive_that_is_remote_or_taken_away_is_no_loss(tmp_path: Path) -> None:
    asked, told = frozenset({"date=1/hour=1/a"}), io.StringIO()
    remote = MissingData("metrics", tmp_path, None, Progress(err=told))
    remote.look_back()
    remote.tell(1, [*asked])
    assert (remote.deleted(asked), told.getvalue(), remote.found) == ([], "", [])
    missing = MissingData("metrics", tmp_path, tmp_path / "archive", Progress())
    assert missing.deleted(frozenset()) == []
    with pytest.raises(FileNotFoundError, match="the archive has gone"):
        missing.deleted(asked)
    (tmp_path / "archive" / "raw").mkdir(parents=True)
    assert missing.deleted(asked) == [*asked]


@pytest.mark.spark
def test_files_deleted_before_their_batch_are_reported(spark: SparkSession, place: Place) -> None:
    def fail(_: DataFrame) -> DataFrame:
        raise OSError(5, "Input/output error")

    place.add(2)
    with pytest.raises(JobFailure):
        place.run(spark, dataclasses.replace(METRICS, transform=fail), files=2)
    place.expire()
    progress = Watched()
    lost = "metrics: batch 0 ran without 2 files, deleted before, whose rows are not in the table: date="
    with pytest.raises(JobFailure, match=lost):
        place.run(spark, progress=progress)
    assert f"{lost}2026-03-01/hour=12/" in progress.told.getvalue()
    assert "; in history/, which `report` and `replay` read: 2 of them" in progress.told.getvalue()
    assert tables.of(place.tables, METRICS).summary().missing == 2
    place.add(1)
    place.run(spark)  # it was told once, and goes on
    assert place.counted == 4


@pytest.mark.spark
@pytest.mark.long
def test_a_job_that_was_away_too_long_reports_missed_files(spark: SparkSession, place: Place) -> None:
    place.add(3)
    place.run(spark)
    place.add(3)
    place.expire()
    sentence = "metrics: deleted from raw/ before the job saw them: 3 files of 3 hours, whose rows are not in the table"
    progress = Watched()
    with pytest.raises(JobFailure, match=sentence):
        place.run(spark, progress=progress)
    assert sentence in progress.told.getvalue()
    progress = Watched()
    place.run(spark, progress=progress)
    assert sentence not in progress.told.getvalue()
    assert sum(checkpoints.missed(place.tables, "metrics").values()) == 3
