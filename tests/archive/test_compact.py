"""Raw files into history, sorted in bounded memory."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.archive import compact as module
from gateway.archive import history, layout, parquet_files, sorting
from gateway.archive.archiver import Archiver, ArchiverOptions
from gateway.archive.compact import Compacted, compact, expire_raw
from gateway.archive.layout import ArchiveError
from gateway.archive.parquet_files import SCHEMA, aligned
from gateway.archive.sorting import ordered
from tests.archive.desk import (
    HOUR,
    LATER,
    Row,
    Writer,
    archive_rows,
    by_seq,
    hidden_files,
    journal_rows,
    manifest_of,
    modes_of,
    open_to_all,
    raw_files,
    rows_of,
)


class Desk:
    def __init__(self, folder: Path) -> None:
        self.archive = folder / "archive"
        self.journal = folder / "journal"
        self.told: list[Compacted] = []
        self.said: list[str] = []
        self.rows: list[Row] = []
        self.writers: dict[str, Writer] = {}

    def fill(self, *counts: int, gateway: str = "g1", apart: float = 1, body: bytes = b"body") -> None:
        """A raw file for each segment and hour."""
        if gateway not in self.writers:
            self.writers[gateway] = Writer(self.journal, gateway)
        writer = self.writers[gateway]
        writer.apart = apart
        for count in counts:
            writer.rows(count, body)
            writer.roll()
        self.rows += journal_rows(self.journal)
        with Archiver(self.journal, self.archive, ArchiverOptions(most=1)) as archiver:
            assert archiver.step(everything=True)

    def compact(self, before: datetime = LATER, **options: object) -> bool:
        told: dict[str, object] = {"tell": self.told.append, "warn": self.said.append, **options}
        return compact(self.archive, before, **told)  # type: ignore[arg-type]

    def history(self) -> list[Path]:
        """What a reader is given, all of which is history."""
        files = history.files(self.archive)
        assert {path.relative_to(self.archive).parts[0] for path in files} == {"history"}
        return files


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_rows(desk: Desk) -> None:
    desk.fill(50, 60, 70)
    desk.fill(30, gateway="g2")
    assert desk.compact()
    (path,) = desk.history()
    found = rows_of([path])
    assert by_seq(found) == by_seq(desk.rows)
    keys = [(str(row[11] or ""), row[3], row[2]) for row in found]
    assert keys == sorted(keys)
    (told,) = desk.told
    assert (told.hour, told.raw, told.files, told.rows) == (layout.start_of(HOUR), 4, 1, 210)
    assert told.size == path.stat().st_size
    assert str(told).startswith("2023-11-14 22:00: 4 raw files into 1, 210 rows, ")
    manifest = manifest_of(desk.archive, HOUR)
    assert sorted(manifest["raw"]) == [name.rpartition("/")[2] for name in raw_files(desk.archive)]
    assert (manifest["history"], manifest["rows"]) == (["0001-0001.parquet"], 210)
    assert desk.compact()
    assert len(desk.told) == 1


def test_all_files_are_private(desk: Desk) -> None:
    """Whatever the umask: the archive is its owner's alone, and nothing in it is for others."""
    with open_to_all():
        desk.fill(5, 5)
        assert desk.compact()
    assert modes_of(desk.archive) == {0o750, 0o640, 0o600}
    assert desk.archive.stat().st_mode & 0o777 == 0o700
    assert modes_of(desk.journal) == {0o700, 0o600}


def test_hours(desk: Desk) -> None:
    desk.fill(100, 100, apart=60)
    before = layout.start_of(HOUR + 2)
    assert desk.compact(before - timedelta(microseconds=1))
    assert [told.hour for told in desk.told] == [layout.start_of(HOUR)]
    assert desk.compact(before)
    assert [told.hour for told in desk.told] == [layout.start_of(HOUR), layout.start_of(HOUR + 1)]
    assert by_seq(archive_rows(desk.archive)) == desk.rows
    assert desk.compact(stopping=lambda: len(desk.told) == 3)
    assert len(desk.told) == 3
    assert by_seq(archive_rows(desk.archive)) == desk.rows


def test_the_hour_that_is_over_just_now(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    for hours in (0, 2):
        folder = tmp_path / "raw" / layout.folder_of(layout.hour_at(now - timedelta(hours=hours)))
        folder.mkdir(parents=True)
        (folder / "x.parquet").touch()
    said: list[str] = []
    assert not compact(tmp_path, warn=said.append)
    assert len(said) == 1  # nothing of the other one was looked at: it is no Parquet file either


def test_late_files(desk: Desk) -> None:
    desk.fill(50)
    assert desk.compact()
    (first,) = desk.history()
    data = first.read_bytes()
    desk.fill(20)
    assert len(history.files(desk.archive)) == 2
    assert by_seq(archive_rows(desk.archive)) == desk.rows
    assert desk.compact()
    assert [path.name for path in desk.history()] == ["0001-0001.parquet", "0002-0001.parquet"]
    assert first.read_bytes() == data
    assert by_seq(archive_rows(desk.archive)) == desk.rows
    assert manifest_of(desk.archive, HOUR)["rows"] == 70


def test_large_hours(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "RUN", 100_000)
    monkeypatch.setattr(sorting, "CHUNK", 10_000)
    monkeypatch.setattr(parquet_files, "GROUP_ROWS", 50)
    monkeypatch.setattr(module, "FILE_BYTES", 10_000)
    for _ in range(4):
        desk.fill(100, body=os.urandom(2000))
    steps: list[str] = []
    assert desk.compact(at=steps.append)
    assert steps.count("run spilled") == 4
    files = desk.history()
    assert len(files) == desk.told[0].files > 3
    found = rows_of(files)
    assert by_seq(found) == desk.rows
    assert hidden_files(desk.archive / "history") == []


def test_nothing_else_is_there(desk: Desk) -> None:
    desk.fill(50)
    assert desk.compact()
    (path,) = desk.history()
    assert expire_raw(desk.archive, 0, LATER.timestamp()) == 1
    path.with_name(history.MANIFEST).unlink()
    with pytest.raises(ArchiveError, match=r"history files that no manifest lists: 0001-0001\.parquet;"):
        history.files(desk.archive)
    assert desk.compact(LATER)
    lost = "has history files that no manifest lists: 0001-0001.parquet"
    assert desk.said == [f"{path.parent} {lost}; a new manifest lists them, with 50 rows"]
    assert by_seq(rows_of(desk.history())) == desk.rows
    assert manifest_of(desk.archive, HOUR)["rows"] == 50
    desk.fill(5)
    assert desk.compact()
    assert by_seq(rows_of(desk.history())) == desk.rows
    assert len(desk.said) == 1


def test_raw_files_are_there(desk: Desk) -> None:
    """Whether they are in the history is unknown: that hour is left alone and reported."""
    desk.fill(50)
    assert desk.compact()
    (path,) = desk.history()
    data = path.read_bytes()
    path.with_name(history.MANIFEST).unlink()
    assert not desk.compact()
    assert path.read_bytes() == data
    assert len(desk.said) == 1
    assert "cannot be compacted: " in desk.said[0]
    assert "history files that no manifest lists: 0001-0001.parquet" in desk.said[0]
    assert "1 raw files" in desk.said[0]
    for name in raw_files(desk.archive):  # what the sentence says
        desk.archive.joinpath("raw", name).unlink()
    assert desk.compact()
    assert by_seq(rows_of(desk.history())) == desk.rows


def test_a_raw_file_that_is_damaged(desk: Desk) -> None:
    desk.fill(100, 100, apart=60)
    path = desk.archive / "raw" / raw_files(desk.archive)[0]
    data = path.read_bytes()
    path.write_bytes(data[:-20])
    assert not desk.compact()
    assert len(desk.said) == 1
    assert desk.said[0].startswith(f"{path.parent} cannot be compacted: ")
    assert not list((desk.archive / "history" / layout.folder_of(HOUR)).iterdir())
    assert len(desk.told) == len(raw_files(desk.archive)) - 2
    path.write_bytes(data)
    assert desk.compact()
    assert by_seq(rows_of(desk.history())) == desk.rows


@pytest.mark.parametrize("after", [0, 1])
def test_a_full_disk(desk: Desk, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    desk.fill(50)
    original = os.fsync
    calls = []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > after:
            raise OSError(28, "No space left on device")
        original(descriptor)

    desk.archive.joinpath("history", layout.folder_of(HOUR)).mkdir(parents=True)
    monkeypatch.setattr(os, "fsync", full)
    assert not desk.compact()
    assert "cannot be compacted: No space left on device" in desk.said[0]
    assert by_seq(archive_rows(desk.archive)) == desk.rows
    monkeypatch.undo()
    assert desk.compact()
    assert by_seq(rows_of(desk.history())) == desk.rows
    assert hidden_files(desk.archive / "history") == []


Key = tuple[str | None, int, int]

KEYS = st.tuples(st.sampled_from([None, "", "/a", "/b", "/b/c"]), st.integers(0, 3), st.integers(0, 3))


def table(keys: list[Key], body: int = 0) -> pa.Table:
    columns = {
        "gateway": ["g"] * len(keys),
        "epoch": [1] * len(keys),
        "seq": pa.array([seq for _, _, seq in keys], pa.int64()),
        "ts": pa.array([ts for _, ts, _ in keys], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        "event": ["accepted"] * len(keys),
        "destination": pa.array([destination for destination, _, _ in keys], pa.string()),
        "body": pa.array([bytes(body)] * len(keys), pa.binary()),
    }
    return aligned(pa.table(columns))


def keys_of(tables: list[pa.Table]) -> list[Key]:
    whole = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    columns = (whole["destination"], whole["ts"].cast(pa.int64()), whole["seq"])
    return list(zip(*[column.to_pylist() for column in columns], strict=True))


def shape(key: Key) -> tuple[str, int, int]:
    return key[0] or "", key[1], key[2]


def sort_all(folder: Path, tables: list[pa.Table], steps: list[str] | None = None) -> list[pa.Table]:
    steps = [] if steps is None else steps
    found = list(ordered(tables, folder, steps.append))
    assert list(folder.iterdir()) == []
    return found


@given(
    st.lists(st.lists(KEYS, min_size=1, max_size=12), max_size=6),
    st.integers(1, 4000),
    st.integers(1, 1000),
    st.integers(2, 3),
)
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[list[Key]], run: int, chunk: int, fan: int
) -> None:
    """However many runs and chunks they are, and however many are equal."""
    monkeypatch.setattr(sorting, "RUN", run)
    monkeypatch.setattr(sorting, "CHUNK", chunk)
    monkeypatch.setattr(sorting, "FAN", fan)
    found = keys_of(sort_all(tmp_path, [table(each) for each in keys]))
    everything = [key for each in keys for key in each]
    assert [shape(key) for key in found] == sorted([shape(key) for key in everything])
    assert sorted(map(repr, found)) == sorted(map(repr, everything))


def test_large_rows_that_stand_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A destination with large bodies beside one with many small rows: chunks are as large as any others."""
    monkeypatch.setattr(sorting, "RUN", 200_000)
    monkeypatch.setattr(sorting, "CHUNK", 10_000)
    small: list[Key] = [("/b", number, 0) for number in range(1000)]
    large: list[Key] = [("/a", number, 0) for number in range(30)]
    tables = [each for _ in range(4) for each in (table(small), table(large, body=4000))]
    steps: list[str] = []
    found = sort_all(tmp_path, tables, steps)
    assert steps.count("run spilled") > 2
    assert sum(len(each) for each in found) == 4 * 1030
    assert max([each.nbytes for each in found]) <= 4 * 10_000
    alone = sort_all(tmp_path, [table(small[:10]), table(large, body=4000)])
    assert max([each.nbytes for each in alone]) <= 10_000


def test_leftovers_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that stops early leaves no files."""
    monkeypatch.setattr(sorting, "RUN", 1)
    rows = ordered([table([("/a", 1, 1)]), table([("/a", 2, 2)])], tmp_path, lambda _: None)
    next(rows)
    assert len(list(tmp_path.iterdir())) == 2
    del rows
    assert list(tmp_path.iterdir()) == []
