"""A table: what its files say together, whatever was killed, merged or repeated."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gateway.pipeline import tables
from gateway.pipeline.errors import JobFailure
from gateway.pipeline.tables import FAN, BatchSummary, JobTable

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("minute", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
        ("bucket", pa.int32()),
        ("count", pa.int64()),
        ("least", pa.int32()),
        ("most", pa.string()),
    ]
)


def table(folder: Path) -> JobTable:
    """A table of counts."""
    return JobTable(folder, ("minute", "name", "bucket"), {"count": "sum", "least": "min", "most": "max"}, "minute")


def sessions(folder: Path) -> JobTable:
    return JobTable(folder, ("name",), {"first": "min", "last": "max"}, "last")


def partial(minute: int, count: int = 1, name: str = "a", **more: Any) -> pa.Table:
    row = {"minute": START + timedelta(minutes=minute), "name": name, "bucket": None, "count": count}
    return pa.Table.from_pylist([row | {"least": count, "most": name} | more], SCHEMA)


def seen(name: str, first: int, last: int) -> pa.Table:
    """One partial row of a session, minutes from the start."""
    row = {"name": name, "first": START + timedelta(minutes=first), "last": START + timedelta(minutes=last)}
    time = pa.timestamp("us", "UTC")
    return pa.Table.from_pylist([row], pa.schema([("name", pa.string()), ("first", time), ("last", time)]))


def counts(rows: pa.Table) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows.to_pylist():
        found[row["name"]] = found.get(row["name"], 0) + row["count"]
    return found


def names(folder: Path) -> list[str]:
    return sorted([path.name for path in folder.iterdir()])


def test_a_batch_that_is_repeated_takes_the_place_of_its_file(tmp_path: Path) -> None:
    written = table(tmp_path)
    written.write(0, partial(0, 3))
    written.write(1, partial(0, 4), BatchSummary(10, 5, 0.5, 7))
    assert written.summary_of(2) is None
    assert written.summary_of(1) == BatchSummary(10, 5, 0.5, 7)
    written.write(1, partial(0, 4), BatchSummary(10, 5, 0.25, 8))
    assert counts(written.read()) == {"a": 7}
    assert written.summary() == BatchSummary(10, 5, 0.25, 8)
    assert names(tmp_path) == ["0000000000-0000000000.parquet", "0000000001-0000000001.parquet"]


def test_a_batch_that_is_not_next_is_refused(tmp_path: Path) -> None:
    written = table(tmp_path)
    with pytest.raises(JobFailure, match="is empty, but its checkpoint continues with batch 7"):
        written.write(7, partial(0))
    for batch in range(3):
        written.write(batch, partial(batch))
    for batch in (0, 1, 4):
        with pytest.raises(JobFailure, match=rf"ends with batch 2, .* continues with batch {batch}: .*--reset"):
            written.write(batch, partial(0))
    written.files()[0].path.unlink()  # the oldest files may go, and columns may come later
    written.write(3, partial(3).drop_columns(["most"]))
    assert counts(written.read()) == {"a": 3}
    assert written.read().column("most").to_pylist() == ["a", "a", None]
    assert counts(written.read(START + timedelta(minutes=2))) == {"a": 2}
    assert written.files()[2].extent("minute") == (1, START + timedelta(minutes=3))


def test_small_files_of_finished_batches_are_merged(tmp_path: Path) -> None:
    written = table(tmp_path)
    for batch in range(FAN):
        written.write(batch, partial(0), BatchSummary(1, batch, 0.001, batch))
    assert written.merge(before=FAN - 1) == 0
    assert written.merge(before=FAN) == 1
    assert names(tmp_path) == [f"{0:010d}-{FAN - 1:010d}.parquet"]
    assert counts(written.read()) == {"a": FAN}
    assert written.summary() == BatchSummary(FAN, FAN - 1, round(FAN * 0.001, 3), FAN - 1)
    with pytest.raises(JobFailure, match="do not belong together"):
        written.write(FAN - 1, partial(0))  # Spark never runs a batch that is over again
    written.write(FAN, partial(1))
    assert counts(written.read()) == {"a": FAN + 1}


def test_merged_files_are_merged_again_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FAN", 3)
    written = table(tmp_path)
    for batch in range(40):
        written.merge(before=batch)
        written.write(batch, partial(batch))
    spans = [piece.span for piece in written.files()]
    assert spans == [9, 9, 9, 9, 3, 1]  # 27 would be a third level
    for batch in range(40, 46):
        written.merge(before=batch, most_rows=2)
        written.write(batch, partial(batch))
    assert [piece.span for piece in written.files()] == [9, 9, 9, 9, 3, *[1] * 7]
    assert counts(written.read()) == {"a": 46}


def test_a_kill_during_a_merge_changes_nothing(tmp_path: Path) -> None:
    written = table(tmp_path)
    for batch in range(FAN + 2):
        written.write(batch, partial(0))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    written.merge(before=FAN)
    merged = tmp_path / f"{0:010d}-{FAN - 1:010d}.parquet"
    whole = merged.read_bytes()
    for left in (0, 1, FAN // 2, FAN):  # so many of the small files had not gone yet
        for name, data in sorted(before.items(), reverse=True)[: left + 2]:
            (tmp_path / name).write_bytes(data)
        (tmp_path / ("_" + merged.name)).write_bytes(whole[:100])
        assert counts(written.read()) == {"a": FAN + 2}
        assert written.merge(before=FAN + 1) == 0
        written.clean()
        assert names(tmp_path) == [merged.name, *sorted(before)[-2:]]
    merged.unlink()  # killed before it had its name
    for name, data in before.items():
        (tmp_path / name).write_bytes(data)
    assert counts(written.read()) == {"a": FAN + 2}


def test_since_brings_all_recent_rows(tmp_path: Path) -> None:
    written = sessions(tmp_path)
    written.write(0, pa.concat_tables([seen("long", 0, 1), seen("over", 0, 2)]))
    written.write(1, pa.concat_tables([seen("long", 50, 60), seen("new", 55, 56)]))
    rows = sorted(written.read(START + timedelta(minutes=50)).to_pylist(), key=lambda row: str(row["name"]))
    minutes = [(row["name"], (row["first"] - START).seconds // 60, (row["last"] - START).seconds // 60) for row in rows]
    assert minutes == [("long", 0, 60), ("new", 55, 56)]
    written.write(2, written.read().slice(0, 0))
    assert written.files()[2].extent("last") == (0, None)


def test_a_merge_does_not_disturb_a_reader(tmp_path: Path) -> None:
    written = table(tmp_path)
    over = threading.Event()
    found: list[int] = []

    def read() -> None:
        while not over.is_set():
            found.append(sum(counts(written.read()).values()))

    written.write(0, partial(0))
    reader = threading.Thread(target=read)
    reader.start()
    for batch in range(1, 2 * FAN + 1):
        written.merge(before=batch)
        written.write(batch, partial(0))
    over.set()
    reader.join()
    assert found == sorted(found)  # never less than before
    assert counts(written.read()) == {"a": 2 * FAN + 1}
