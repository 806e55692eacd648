"""A checkpoint is good for one job, one version and one archive, and one process has it."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import shutil
from pathlib import Path

import pyarrow
import pytest

from gateway.pipeline import paths
from gateway.pipeline.errors import EnvironmentFailure, UsageFailure
from gateway.pipeline.jobs import JOBS
from gateway.pipeline.streaming import checkpoints
from gateway.pipeline.streaming.checkpoints import State, claimed, committed, failure, note_failure, reset
from gateway.pipeline.tables import JobTable
from tests.archive.desk import modes_of, open_to_all

JOB = JOBS["metrics"]
ARCHIVE = "file:///archive"


def begun(tables: Path) -> Path:
    """A job that has run."""
    with claimed(tables, JOB, ARCHIVE) as path:
        (path / "offsets").mkdir()
        (path / "commits").mkdir()
        for name in ("0", "1", "10", ".10.crc", "2"):
            (path / "commits" / name).write_text("v1\n{}")
    (tables / JOB.name).mkdir()
    (tables / JOB.name / "0000000000-0000000010.parquet").touch()
    return path


def test_a_checkpoint_names_its_job(tmp_path: Path) -> None:
    assert committed(tmp_path, JOB.name) is None
    path = begun(tmp_path)
    assert path == tmp_path / "_checkpoints" / "metrics"
    assert json.loads((path / "job.json").read_text()) == {"job": "metrics", "version": JOB.version, "archive": ARCHIVE}
    assert committed(tmp_path, JOB.name) == 10
    with claimed(tmp_path, JOB, ARCHIVE) as again:
        assert again == path


def test_all_files_are_private(tmp_path: Path) -> None:
    """Whatever the umask."""
    with open_to_all():
        tables = paths.make("--tables", tmp_path / "tables")
        with claimed(tables, JOB, ARCHIVE):
            State(tables, JOB.name).write(0, {})
            note_failure(tables, JOB.name, "why")
            JobTable(tables / JOB.name).write(0, pyarrow.table({"column": [1]}))
    assert modes_of(tables) == {0o750, 0o640, 0o600}
    assert tables.stat().st_mode & 0o777 == 0o700


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path) -> None:
    begun(tmp_path)
    other = dataclasses.replace(JOB, version=JOB.version + 1)
    both = rf"belongs to metrics, version {JOB.version}, and this is metrics, version {other.version}; --reset"
    with pytest.raises(UsageFailure, match=both), claimed(tmp_path, other, ARCHIVE):
        pass


def test_a_checkpoint_of_another_job_is_refused(tmp_path: Path) -> None:
    begun(tmp_path).rename(tmp_path / "_checkpoints" / "sessions")
    both = r"belongs to metrics, version \d+, and this is sessions, version \d+; --reset-checkpoint"
    with pytest.raises(UsageFailure, match=both), claimed(tmp_path, JOBS["sessions"], ARCHIVE):
        pass


def test_a_checkpoint_of_another_archive_is_refused(tmp_path: Path) -> None:
    begun(tmp_path)
    both = "belongs to the archive file:///archive, and this is file:///moved: .*--reset-checkpoint"
    with pytest.raises(UsageFailure, match=both), claimed(tmp_path, JOB, "file:///moved"):
        pass


@pytest.mark.parametrize("content", [None, "", "[]", "nonsense"])
def test_a_checkpoint_without_a_name_is_refused(tmp_path: Path, content: str | None) -> None:
    path = begun(tmp_path)
    (path / "job.json").unlink()
    if content is not None:
        (path / "job.json").write_text(content)
    with pytest.raises(UsageFailure, match=r"cannot be used: it has no job\.json"), claimed(tmp_path, JOB, ARCHIVE):
        pass


def test_a_table_without_its_checkpoint_is_refused(tmp_path: Path) -> None:
    path = begun(tmp_path)
    (path / "job.json").unlink()
    (path / "offsets").rmdir()
    with pytest.raises(UsageFailure, match=r"has rows, but the checkpoint .* is gone"), claimed(tmp_path, JOB, ARCHIVE):
        pass


@pytest.mark.parametrize("left", [None, "0000000000-0000000009.parquet", "_0000000000-0000000010.parquet"])
def test_a_checkpoint_without_its_table_is_refused(tmp_path: Path, left: str | None) -> None:
    begun(tmp_path)
    (tmp_path / JOB.name / "0000000000-0000000010.parquet").unlink()
    if left is not None:
        (tmp_path / JOB.name / left).touch()
    sentence = r"the table of metrics lacks batch 10, which .*/metrics says is over; --reset-checkpoint"
    with pytest.raises(UsageFailure, match=sentence), claimed(tmp_path, JOB, ARCHIVE):
        pass


def test_one_process_runs_a_job(tmp_path: Path) -> None:
    with claimed(tmp_path, JOB, ARCHIVE):
        with pytest.raises(UsageFailure, match="metrics runs already"), claimed(tmp_path, JOB, ARCHIVE):
            pass
        with pytest.raises(UsageFailure, match="metrics runs already"):
            reset(tmp_path, JOB.name)
        with claimed(tmp_path, JOBS["sessions"], ARCHIVE):
            pass


def test_reset_removes_all_of_a_job_and_nothing_else(tmp_path: Path) -> None:
    begun(tmp_path)
    State(tmp_path, JOB.name).write(10, {"a": 1})
    (tmp_path / "_console").mkdir()
    for name in ("metrics", "sessions"):
        (tmp_path / "_console" / f"{name}.json").touch()
    note_failure(tmp_path, JOB.name, "why")
    with claimed(tmp_path, JOBS["sessions"], ARCHIVE):
        reset(tmp_path, JOB.name)
    left = sorted([str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()])
    assert left == [
        "_checkpoints/metrics.lock",
        "_checkpoints/sessions.lock",
        "_checkpoints/sessions/job.json",
        "_console/sessions.json",
    ]
    reset(tmp_path, JOB.name)  # what is not there need not be removed
    with claimed(tmp_path, dataclasses.replace(JOB, version=7), "hdfs://elsewhere"):
        pass


def test_tables_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailure, match=r"metrics.lock cannot be locked: Not a directory"):
        reset(tmp_path / "file", JOB.name)


def test_a_checkpoint_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "_checkpoints").mkdir()
    monkeypatch.setattr(os, "fsync", full)
    sentence = "the checkpoint cannot be in .*/metrics: No space left on device$"
    with pytest.raises(EnvironmentFailure, match=sentence), claimed(tmp_path, JOB, ARCHIVE):
        pass


def test_a_file_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(EnvironmentFailure, match="/metrics cannot be removed: Permission denied"):
        reset(tmp_path, JOB.name)


def test_a_lock_that_cannot_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(EnvironmentFailure, match="cannot be locked: No locks available"):
        reset(tmp_path, JOB.name)


def test_why_the_last_run_failed(tmp_path: Path) -> None:
    note_failure(tmp_path / "none", JOB.name, "cannot be kept, and does no harm")
    begun(tmp_path)
    assert failure(tmp_path, JOB.name) is None
    note_failure(tmp_path, JOB.name, "the disk is full")
    found = failure(tmp_path, JOB.name)
    assert found is not None
    assert found["reason"] == "the disk is full"
    assert found["at"].endswith("+00:00")
    note_failure(tmp_path, JOB.name, None)
    assert failure(tmp_path, JOB.name) is None


def test_missed_files_are_recorded(tmp_path: Path) -> None:
    begun(tmp_path)
    assert checkpoints.missed(tmp_path, JOB.name) == {}
    assert not checkpoints.note_missed(tmp_path, JOB.name, {})
    assert checkpoints.note_missed(tmp_path, JOB.name, {"date=1/hour=1": 2})
    assert not checkpoints.note_missed(tmp_path, JOB.name, {"date=1/hour=1": 2})
    assert checkpoints.note_missed(tmp_path, JOB.name, {"date=1/hour=2": 3})  # the history of the first one has gone
    assert checkpoints.missed(tmp_path, JOB.name) == {"date=1/hour=1": 2, "date=1/hour=2": 3}
    reset(tmp_path, JOB.name)
    assert checkpoints.missed(tmp_path, JOB.name) == {}


def test_a_state_is_there_for_the_batch_that_may_run_again(tmp_path: Path) -> None:
    state = State(tmp_path, "consumers")
    assert state.before(0) == {}
    for batch in range(4):
        state.write(batch, {"batch": batch, "names": ["ä"]})
    assert state.before(3) == {"batch": 2, "names": ["ä"]}
    assert state.before(4) == {"batch": 3, "names": ["ä"]}
    state.write(3, {"batch": "again"})
    assert sorted([path.name for path in (tmp_path / "_state" / "consumers").iterdir()]) == ["2.json", "3.json"]
    with pytest.raises(UsageFailure, match=r"the state before batch 2, .*/1\.json, is missing: .*--reset-checkpoint"):
        state.before(2)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints.write_json(tmp_path / "a.json", {"a": 1})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoints.write_json(tmp_path / "a.json", {"a": 2})
    assert checkpoints.read_json(tmp_path / "a.json") == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
