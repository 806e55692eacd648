"""What a job can read no more is said once, and kept."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.pipeline import tables
from gateway.pipeline.errors import JobFailure
from gateway.pipeline.streaming import checkpoints
from gateway.pipeline.streaming.missing_data import MissingData
from gateway.pipeline.streaming.progress import Progress

from .test_runner import METRICS, Place, Watched, place

__all__ = ["place"]

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_a_remote_archive_is_not_checked(tmp_path: Path) -> None:
    told = io.StringIO()
    missing = MissingData("metrics", tmp_path, None, Progress(err=told))
    missing.look_back()
    assert missing.deleted(frozenset({"date=1/hour=1/a"})) == []
    missing.tell(1, ["date=1/hour=1/a"])
    assert (told.getvalue(), missing.found) == ("", [])


def test_an_archive_that_is_taken_away_is_no_loss(tmp_path: Path) -> None:
    missing = MissingData("metrics", tmp_path, tmp_path / "archive", Progress())
    assert missing.deleted(frozenset()) == []
    with pytest.raises(FileNotFoundError, match="the archive has gone"):
        missing.deleted(frozenset({"date=1/hour=1/a"}))
    (tmp_path / "archive" / "raw").mkdir(parents=True)
    assert missing.deleted(frozenset({"date=1/hour=1/a"})) == ["date=1/hour=1/a"]


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
def test_a_file_that_goes_while_its_batch_runs(spark: SparkSession, place: Place) -> None:
    def losing(rows: DataFrame) -> DataFrame:
        if len(paths := sorted(place.archive.glob("raw/*/*/*.parquet"))) == 2:
            paths[0].unlink()
        return METRICS.transform(rows)

    place.add(2)
    progress = Watched()
    with pytest.raises(JobFailure, match="batch 0 ran without 1 file, deleted before"):
        place.run(spark, dataclasses.replace(METRICS, transform=losing), files=2, progress=progress)
    assert place.counted == 3 == progress.seen[0].rows
    assert "history" not in progress.told.getvalue()


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
