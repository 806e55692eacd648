"""A checkpoint is good for one job, one version and one archive, and one process has it."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

from gateway.pipeline import paths
from gateway.pipeline.errors import EnvironmentFailure, UsageFailure
from gateway.pipeline.jobs import JOBS, Job
from gateway.pipeline.streaming import checkpoints
from gateway.pipeline.streaming.checkpoints import State, claimed, committed, note_failure, reset
from gateway.pipeline.tables import JobTable
from tests.archive.desk import modes_of, open_to_all

JOB, OTHER = JOBS["metrics"], JOBS["sessions"]
ARCHIVE = "file:///archive"
NEWER = dataclasses.replace(JOB, version=JOB.version + 1)


def begun(tables: Path) -> Path:
    with claimed(tables, JOB, ARCHIVE) as path:
        (path / "offsets").mkdir()
        (path / "commits").mkdir()
        for name in ("0", "1", "10", ".10.crc", "2"):
            (path / "commits" / name).write_text("v1\n{}")
    (tables / JOB.name).mkdir()
    (tables / JOB.name / "0000000000-0000000010.parquet").touch()
    return path


def test_a_checkpoint_names_its_job_and_one_process_has_it(tmp_path: Path) -> None:
    assert committed(tmp_path, JOB.name) is None
    path = begun(tmp_path)
    assert path == tmp_path / "_checkpoints" / "metrics"
    assert json.loads((path / "job.json").read_text()) == {"job": "metrics", "version": JOB.version, "archive": ARCHIVE}
    assert committed(tmp_path, JOB.name) == 10
    with claimed(tmp_path, JOB, ARCHIVE) as again, claimed(tmp_path, OTHER, ARCHIVE):
        assert again == path
        with pytest.raises(UsageFailure, match="metrics runs already"), claimed(tmp_path, JOB, ARCHIVE):
            pass
        with pytest.raises(UsageFailure, match="metrics runs already"):
            reset(tmp_path, JOB.name)


def test_all_files_are_private(tmp_path: Path) -> None:
    with open_to_all():
        tables = paths.make("--tables", tmp_path / "tables")
        with claimed(tables, JOB, ARCHIVE):
            State(tables, JOB.name).write(0, {})
            note_failure(tables, JOB.name, "why")
            JobTable(tables / JOB.name).write(0, pyarrow.table({"column": [1]}))
    assert modes_of(tables) == {0o750, 0o640, 0o600}
    assert tables.stat().st_mode & 0o777 == 0o700


def without_checkpoint(path: Path) -> None:
    (path / "job.json").unlink()
    (path / "offsets").rmdir()


def without_table(path: Path) -> None:
    """A file that is older, and one that was not finished."""
    table = path.parents[1] / JOB.name
    (table / "0000000000-0000000010.parquet").rename(table / "_0000000000-0000000010.parquet")
    (table / "0000000000-0000000009.parquet").touch()


LACKS = r"the table of metrics lacks batch 10, which .*/metrics says is over; --reset-checkpoint"


@pytest.mark.parametrize(
    ("spoil", "job", "archive", "sentence"),
    [
        (lambda path: None, NEWER, ARCHIVE, r"belongs to metrics, version 1, and this is metrics, version 2; --reset"),
        (lambda path: None, JOB, "file:///b", "to the archive file:///archive, and this is file:///b: .*--reset"),
        (lambda path: (path / "job.json").unlink(), JOB, ARCHIVE, r"cannot be used: it has no job\.json"),
        (without_checkpoint, JOB, ARCHIVE, r"has rows, but the checkpoint .* is gone"),
        (without_table, JOB, ARCHIVE, LACKS),
    ],
)
def test_the_checkpoint_of_something_else_is_refused(
    tmp_path: Path, spoil: Callable[[Path], object], job: Job, archive: str, sentence: str
) -> None:
    spoil(begun(tmp_path))
    with pytest.raises(UsageFailure, match=sentence), claimed(tmp_path, job, archive):
        pass


def test_reset_removes_all_of_a_job_and_nothing_else(tmp_path: Path) -> None:
    begun(tmp_path)
    State(tmp_path, JOB.name).write(10, {"a": 1})
    (tmp_path / "_console").mkdir()
    for name in ("metrics", "sessions"):
        (tmp_path / "_console" / f"{name}.json").touch()
    note_failure(tmp_path, JOB.name, "why")
    checkpoints.note_missed(tmp_path, JOB.name, {"date=1/hour=1": 2})
    with claimed(tmp_path, OTHER, ARCHIVE):
        reset(tmp_path, JOB.name)
    left = sorted([str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()])
    of_other = ["_checkpoints/sessions.lock", "_checkpoints/sessions/job.json", "_console/sessions.json"]
    assert left == ["_checkpoints/metrics.lock", *of_other]
    reset(tmp_path, JOB.name)  # what is not there need not be removed
    with claimed(tmp_path, NEWER, "hdfs://elsewhere"):
        pass


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_errors_of_the_system_are_named(tmp_path: Path) -> None:
    note_failure(tmp_path / "none", JOB.name, "cannot be kept, and does no harm")
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailure, match=r"metrics.lock cannot be locked: Not a directory"):
        reset(tmp_path / "file", JOB.name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", full)
        with pytest.raises(EnvironmentFailure, match="cannot be removed: No space left"):
            reset(tmp_path, JOB.name)
        patch.setattr(os, "fsync", full)
        sentence = "the checkpoint cannot be in .*/metrics: No space left on device$"
        with pytest.raises(EnvironmentFailure, match=sentence), claimed(tmp_path, JOB, ARCHIVE):
            pass


def test_missed_files_are_recorded(tmp_path: Path) -> None:
    begun(tmp_path)
    assert checkpoints.missed(tmp_path, JOB.name) == {}
    assert not checkpoints.note_missed(tmp_path, JOB.name, {})
    assert checkpoints.note_missed(tmp_path, JOB.name, {"date=1/hour=1": 2})
    assert not checkpoints.note_missed(tmp_path, JOB.name, {"date=1/hour=1": 2})
    assert checkpoints.note_missed(tmp_path, JOB.name, {"date=1/hour=2": 3})  # the history of the first one has gone
    assert checkpoints.missed(tmp_path, JOB.name) == {"date=1/hour=1": 2, "date=1/hour=2": 3}


def test_a_state_is_there_for_the_batch_that_may_run_again(tmp_path: Path) -> None:
    state = State(tmp_path, "consumers")
    assert state.before(0) == {}
    for batch in range(4):
        state.write(batch, {"batch": batch, "names": ["ä"]})
    assert state.before(3) == {"batch": 2, "names": ["ä"]}
    assert state.before(4) == {"batch": 3, "names": ["ä"]}
    state.write(3, {"batch": "again"})
    assert sorted([path.name for path in (tmp_path / "_state" / "consumers").iterdir()]) == ["2.json", "3.json"]
    again = "restore it; or else --reset-checkpoint"
    with pytest.raises(UsageFailure, match=rf"the state before batch 2, .*/1\.json, is missing: {again}"):
        state.before(2)
    (tmp_path / "_state" / "consumers" / "2.json").write_text('{"a":')
    with pytest.raises(UsageFailure, match=rf"the state before batch 3, .*/2\.json, is damaged: {again}"):
        state.before(3)
