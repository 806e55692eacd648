"""What the console shows: the last day of a table, kept up to date without reading it anew."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gateway.pipeline import tables
from gateway.pipeline.jobs import JOBS
from gateway.pipeline.streaming.snapshots import Snapshots

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")


def counts(table: pa.Table, now: datetime, limit: int = 0) -> dict[str, Any]:
    hours = [(now - minute).total_seconds() / 3600 for minute in table.column("minute").to_pylist()]
    return {"count": sum(table.column("count").to_pylist()), "hours": max(hours, default=None), "limit": limit}


JOB = dataclasses.replace(JOBS["metrics"], keys=("minute",), merges={"count": "sum"}, time="minute", snapshot=counts)


def partial(*hours_and_counts: tuple[float, int]) -> pa.Table:
    """Rows of the table, hours before NOW."""
    minutes = [NOW - timedelta(hours=hours) for hours, _ in hours_and_counts]
    return pa.table({"minute": pa.array(minutes, TIME), "count": [count for _, count in hours_and_counts]})


@pytest.fixture
def table(tmp_path: Path) -> tables.JobTable:
    return tables.of(tmp_path, JOB)


def shown(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "_console" / "metrics.json").read_text())
    return found


def test_it_is_of_the_last_day(tmp_path: Path, table: tables.JobTable) -> None:
    assert Snapshots(JOB, tmp_path).make(NOW) is None
    assert not (tmp_path / "_console").exists()
    table.write(0, partial((25, 1), (23, 2), (1, 4), (0.1, 8)))
    made = Snapshots(JOB, tmp_path).make(NOW)
    assert shown(tmp_path) == {
        "job": "metrics",
        "at": "2026-03-01T12:00:00Z",
        "since": "2026-02-28T12:00:00Z",
        "count": 14,
        "hours": 23,
        "limit": 2 * 1024**2 - 200,
    }
    assert made is not None
    assert json.loads(made.all) == shown(tmp_path)
    lately = json.loads(made.lately)  # what subscribers get
    assert (lately["count"], lately["since"], lately["limit"]) == (8, "2026-03-01T11:50:00Z", 256 * 1024 - 200)


def test_new_batches_are_added_to_what_is_held(
    tmp_path: Path, table: tables.JobTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    whole: Callable[..., pa.Table] = tables.JobTable.read_files

    def reading(self: tables.JobTable, pieces: list[tables.TableFile], since: datetime) -> pa.Table:
        read.append(len(pieces))
        return whole(self, pieces, since)

    monkeypatch.setattr(tables.JobTable, "read_files", reading)
    snapshot = Snapshots(JOB, tmp_path)
    for batch in range(3):
        table.write(batch, partial((23.5, 1), (1, 2)))
        snapshot.make(NOW)
        assert shown(tmp_path)["count"] == 3 * (batch + 1)
    snapshot.make(NOW)
    assert shown(tmp_path)["count"] == 9
    assert read == [1, 1, 1]
    snapshot.make(NOW + timedelta(hours=1))
    assert shown(tmp_path)["count"] == 6


def test_merged_files_are_not_counted_twice(
    tmp_path: Path, table: tables.JobTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "FAN", 4)
    snapshot = Snapshots(JOB, tmp_path, pause=0)
    for batch in range(30):
        table.merge(before=batch)
        table.write(batch, partial((1, 1)))
        if batch % 7 in (0, 1, 4):  # before, across and after each merge
            snapshot.make(NOW)
            assert shown(tmp_path)["count"] == batch + 1


def test_a_day_of_too_many_rows_is_shorter(tmp_path: Path, table: tables.JobTable) -> None:
    for batch in range(10):
        table.write(batch, partial((20 - batch, 1), (20 - batch - 0.5, 1)))
    Snapshots(JOB, tmp_path, most_rows=5).make(NOW)
    found = shown(tmp_path)
    # The newest two files have four rows; what is as old as the third one's newest is left out.
    assert (found["count"], found["hours"]) == (4, 12)
    assert found["since"].startswith("2026-02-28T23:30:00")
    everything = Snapshots(JOB, tmp_path, most_rows=1)
    everything.make(NOW)
    assert shown(tmp_path)["count"] == 2  # one file is held in any case
    table.write(10, partial((9, 1)))
    everything.make(NOW)
    assert shown(tmp_path)["count"] == 1


def test_it_is_due_when_there_is_a_batch_and_some_time_is_over(
    tmp_path: Path, table: tables.JobTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([100.0, 100.0, 100.0, 104.0, 108.9, 109.0, 200.0, 200.0, 200.0, 200.1, 200.1 + 4.99, 206.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    snapshot = Snapshots(JOB, tmp_path, pause=5)
    assert not snapshot.due(None)
    table.write(0, partial((1, 1)))
    assert snapshot.due(0)
    snapshot.make(NOW)  # takes 4 s, and so the next one may come 40 s later
    assert not snapshot.due(0)
    assert not snapshot.due(1)
    assert not snapshot.due(1)
    assert snapshot.due(1)
