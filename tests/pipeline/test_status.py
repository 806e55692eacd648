"""How far everything is, seen without Spark."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from gateway.pipeline import tables
from gateway.pipeline.jobs import JOBS
from gateway.pipeline.status import ArchiveStatus, JobStatus, JournalStatus, PipelineStatus, status
from gateway.pipeline.streaming import checkpoints
from gateway.pipeline.tables import BatchSummary

from . import rows
from .jobs.reference import METRICS
from .spark_log import SparkLog

NOW = datetime(2026, 3, 1, 14, tzinfo=UTC)
JOB = JOBS["metrics"]


def journal(folder: Path) -> Path:
    """Two gateways, one of which has nothing to archive."""
    for name, age in (("17-000001.seg", 20), ("17-000002.seg", 10), ("17-000003.open", 0), ("lock", 0), ("other", 0)):
        path = folder / "g1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1024)
        os.utime(path, (NOW.timestamp() - age,) * 2)
    (folder / "g2").mkdir()
    (folder / "g2" / "lock").touch()
    (folder / "something").mkdir()
    return folder


def jobs_of(found: PipelineStatus) -> tuple[JobStatus, ...]:
    """Those of tables that are known."""
    assert found.jobs is not None
    return found.jobs


def worked(into: Path, archive: Path, batches: list[list[Path]]) -> SparkLog:
    """A job that has read files of the archive, in some batches; the first ones are in one list, as Spark has it."""
    with checkpoints.claimed(into, JOB, f"file://{archive}") as checkpoint:
        log = SparkLog(checkpoint, (archive / "raw").as_uri())
    table = tables.of(into, JOB)
    for batch, paths in enumerate(batches):
        log.look(batch, *[str(path.relative_to(archive / "raw")) for path in paths], compact=batch in (1, 3))
        newest = int(rows.START.timestamp() * 1e6) + batch
        table.write(batch, METRICS.empty_table(), BatchSummary(10, newest, 0.5, newest + 4_200_000))
    return log


def test_all_of_it(tmp_path: Path) -> None:
    paths = [
        *rows.write(tmp_path / "archive", [rows.accepted(hour * 3600) for hour in range(3)], 1),
        *rows.write(tmp_path / "archive", [rows.accepted(hour * 3600) for hour in range(3)], 2),
    ]
    (paths[0].parent / ("_" + paths[0].name)).touch()
    (tmp_path / "archive/history/date=2026-03-01/hour=11").mkdir(parents=True)
    worked(tmp_path / "tables", tmp_path / "archive", [[paths[0]], [paths[1]], [], [paths[2]], [paths[4]]])
    found = status(journal(tmp_path / "journal"), str(tmp_path / "archive"), tmp_path / "tables", NOW)
    assert found.journal == (JournalStatus("g1", 2, 2048, 20.0, 1), JournalStatus("g2", 0, 0, None, 0))
    size = sum([path.stat().st_size for path in paths])
    assert found.archive == ArchiveStatus(str(tmp_path / "archive"), True, 6, size, "2026-03-01T14:00:00+00:00", 1)
    assert [each.job for each in jobs_of(found)] == list(JOBS)
    assert jobs_of(found)[0] == JobStatus(
        "metrics", 4, 50, "2026-03-01T12:00:00.000Z", 4.2, "2026-03-01T12:00:04.200Z", 2, 5, None
    )
    assert jobs_of(found)[1] == JobStatus("consumers", None, 0, None, None, None, 6, 0, None)
    assert found.lines()[:4] == [
        "journal      g1: 2 segments wait, 2.0 KiB, the oldest for 20 s; 1 not complete",
        "journal      g2: nothing waits",
        f"archive      the newest hour is 2026-03-01 14:00; raw: 6 files, {size / 1024:.1f} KiB; history: 1 hours",
        "metrics      batch 4, 50 rows, up to 2026-03-01 12:00:00, lag 4.2 s, 2 files wait",
    ]
    assert found.json()["archive"]["newest_hour"] == "2026-03-01T14:00:00+00:00"
    assert found.lines()[4] == "consumers    never ran, 6 files wait"
    assert json.loads(json.dumps(found.json()))["jobs"][0]["waiting"] == 2


def test_files_of_an_unfinished_batch_wait(tmp_path: Path) -> None:
    """Spark plans a batch before it runs: so the files of one that failed are known to it, and not in the table."""
    paths = rows.write(tmp_path / "archive", [rows.accepted(hour * 3600) for hour in range(3)])
    log = worked(tmp_path, tmp_path / "archive", [[paths[0]]])
    log.look(1, str(paths[1].relative_to(tmp_path / "archive" / "raw")))
    for batch in range(2):
        log.plan(batch, batch)
    assert jobs_of(status(None, str(tmp_path / "archive"), tmp_path, NOW))[0].waiting == 2
    (tables.of(tmp_path, JOB).files()[0].path).unlink()
    found = status(None, str(tmp_path / "archive"), tmp_path, NOW)
    assert found.lines()[2].endswith("never ran, 3 files wait")
    assert not found.failed


def test_nothing_is_there(tmp_path: Path) -> None:
    found = status(tmp_path / "journal", str(tmp_path / "archive"), tmp_path / "tables", NOW)
    assert found.lines()[:3] == [
        "journal      no gateway has written one",
        f"archive      the folder {tmp_path}/archive does not exist; --archive or the setting `archive` names it",
        "metrics      never ran, nothing waits",
    ]
    assert found.json()["archive"]["exists"] is False
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "archive").mkdir()
    found = status(None, str(tmp_path / "archive"), tmp_path / "tables", NOW)
    assert found.lines()[1] == "archive      no rows yet; raw: 0 files, 0 B; history: 0 hours"


def test_unread_files_are_shown(tmp_path: Path) -> None:
    worked(tmp_path, tmp_path / "archive", [[]])
    tables.of(tmp_path, JOB).write(1, METRICS.empty_table(), BatchSummary(0, None, 0.1, 1, missing=2, digest="d"))
    assert checkpoints.note_missed(tmp_path, JOB.name, {"date=2026-03-01/hour=12": 1000})
    found = status(None, str(tmp_path / "archive"), tmp_path, NOW)
    assert jobs_of(found)[0].missing == 1002
    assert found.lines()[2].endswith(", without the rows of 1,002 files, which were deleted before the job read them")
    assert tables.of(tmp_path, JOB).summary().digest == ""
