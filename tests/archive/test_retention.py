"""What is too old goes; test_kill kills it meanwhile."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.archive import layout
from gateway.archive.archiver import Archiver
from gateway.archive.compact import compact, expire_history, expire_raw, lock_of
from tests.archive.desk import BEGIN, HOUR, Writer, archive_rows, by_seq, journal_rows, raw_files
from tests.journal.reading import Row


class Desk:
    def __init__(self, folder: Path) -> None:
        self.archive = folder / "archive"
        self.journal = folder / "journal"
        self.writer = Writer(self.journal, apart=1800)
        self.rows: list[Row] = []
        self.fill(8)
        assert len(raw_files(self.archive)) == 4
        assert compact(self.archive, layout.start_of(HOUR + 2))
        self.visible = max([path.stat().st_mtime for path in self.archive.rglob("g1-*.parquet")])

    def fill(self, count: int) -> None:
        self.writer.segments(count)
        self.rows += journal_rows(self.journal)
        with Archiver(self.journal, self.archive) as archiver:
            assert archiver.step(everything=True)

    def hours(self, root: str) -> list[int]:
        return [hour - HOUR for hour, _ in layout.hours(self.archive / root)]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_folders_of_a_week_go_together(desk: Desk) -> None:
    """Spark lists them, and ends where one goes meanwhile: that is once in a week, and long after its end."""
    assert expire_raw(desk.archive, 0, desk.visible + 1) == 2
    assert desk.hours("raw") == [0, 1, 2, 3]
    assert compact(desk.archive)
    assert expire_raw(desk.archive, 0, desk.visible + 1) == 2
    assert desk.hours("raw") == []
    assert list((desk.archive / "raw").iterdir()) == []


def test_folders_of_this_week_stay(desk: Desk) -> None:
    """2023-11-14 was a Tuesday."""
    assert compact(desk.archive)
    for name in raw_files(desk.archive):
        os.utime(desk.archive / "raw" / name, (BEGIN, BEGIN))
    over = datetime(2023, 11, 20, tzinfo=UTC).timestamp()
    assert expire_raw(desk.archive, 0, over + 86_399) == 4
    assert desk.hours("raw") == [0, 1, 2, 3]
    assert expire_raw(desk.archive, 0, over + 86_400) == 0
    assert desk.hours("raw") == []


def test_the_age_is_that_of_the_files(desk: Desk) -> None:
    """A late file was visible for no stream yet."""
    for name in raw_files(desk.archive)[:2]:
        os.utime(desk.archive / "raw" / name, (desk.visible + 90, desk.visible + 90))
    assert expire_raw(desk.archive, 100, desk.visible + 100) == 0
    late = desk.archive / "raw" / layout.folder_of(HOUR) / "late.parquet"
    late.touch()
    assert expire_raw(desk.archive, 100, desk.visible + 189) == 0
    assert expire_raw(desk.archive, 100, desk.visible + 190) == 2
    assert late.exists()
    assert [name.split("/")[1] for name in raw_files(desk.archive)] == ["hour=22", "hour=00", "hour=01"]


def test_old_hours(desk: Desk) -> None:
    expire_raw(desk.archive, 0, desk.visible + 1)
    end = layout.start_of(HOUR + 1).timestamp()
    assert expire_history(desk.archive, 100, end + 99) == 0
    assert expire_history(desk.archive, 100, end + 100) == 1
    assert desk.hours("history") == [1]
    hour = layout.MICROSECONDS
    left = [row for row in desk.rows if int(str(row[3])) // hour != HOUR]
    assert by_seq(archive_rows(desk.archive)) == left


def test_not_while_there_are_raw_files(desk: Desk) -> None:
    """Without a manifest they would count again."""
    assert expire_history(desk.archive, 0, desk.visible) == 0
    assert desk.hours("history") == [0, 1]


def test_not_while_there_is_a_compaction(desk: Desk) -> None:
    expire_raw(desk.archive, 0, desk.visible + 1)
    held = lock_of(desk.archive)
    assert expire_history(desk.archive, 0, desk.visible) == 0
    os.close(held)
    assert expire_history(desk.archive, 0, desk.visible) == 2
    assert desk.hours("history") == []
