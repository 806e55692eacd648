"""Segments that are torn, damaged or left by a kill: what is whole is archived, and nothing goes without a word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway import files
from gateway.archive import history, layout
from gateway.archive.history import Manifest
from gateway.journal import found
from tests.archive.desk import (
    HOUR,
    Desk,
    Row,
    Writer,
    archive_rows,
    by_seq,
    desk,
    flip,
    interrupting,
    journal_rows,
    raw_files,
)

__all__ = ["desk"]


@pytest.fixture
def second(desk: Desk) -> Path:
    """Of three segments, with 2, 3 and 4 rows, the one between the others."""
    Writer(desk.journal).segments(2, 3, 4)
    return found(desk.journal / "g1")[1]


@pytest.fixture
def rows(second: Path) -> list[Row]:
    return journal_rows(second.parents[1])


def test_a_torn_end(desk: Desk, second: Path, rows: list[Row]) -> None:
    with second.open("ab") as file:
        file.write(bytes(100))
    assert desk.all()
    assert archive_rows(desk.archive) == rows
    assert desk.said == [f"{second} ended with 100 bytes that are no whole record; they are left out"]


def test_a_byte_in_the_middle(desk: Desk) -> None:
    """Whatever is whole is archived, and the segment is kept; it has a file of its own."""
    writer = Writer(desk.journal)
    writer.segments(2)
    path = writer.records(4, 4, 4)
    writer.segments(3)
    rows = journal_rows(desk.journal)
    data = flip(path, path.stat().st_size // 2)
    assert desk.all()
    assert desk.ranges() == [("hour=22", 1, 1), ("hour=22", 2, 2), ("hour=22", 3, 3)]
    assert by_seq(archive_rows(desk.archive)) == [*rows[:6], *rows[10:]]
    (said,) = desk.said
    assert re.fullmatch(
        rf"{path} is damaged: \d+ bytes of it are left out, and it is kept as {path.stem}\.bad; all other rows of it "
        "are archived",
        said,
    )
    assert path.with_suffix(".bad").read_bytes() == data
    assert desk.segments() == []
    path.with_suffix(".bad").rename(path)
    assert desk.all()
    assert by_seq(archive_rows(desk.archive)) == [*rows[:6], *rows[10:]]
    assert path.with_suffix(".bad").exists()


def test_a_segment_without_sense(desk: Desk, second: Path, rows: list[Row]) -> None:
    data = second.read_bytes()
    second.write_bytes(b"nonsense" * 10)
    assert desk.all()
    assert desk.ranges() == [("hour=22", 1, 1), ("hour=22", 3, 3)]
    assert archive_rows(desk.archive) == [*rows[:2], *rows[5:]]
    assert desk.said == [
        f"{second} is unusable, and is kept as {second.stem}.bad; the others are archived (it has no whole record)"
    ]
    assert desk.segments() == []
    second.with_suffix(".bad").unlink()
    second.write_bytes(data)
    assert desk.all()
    assert by_seq(archive_rows(desk.archive)) == rows


def test_a_segment_that_is_damaged_meanwhile(desk: Desk) -> None:
    writer = Writer(desk.journal, apart=1800)
    writer.segments(2)
    path = writer.records(2, 2)
    rows = journal_rows(desk.journal)
    with pytest.raises(KeyboardInterrupt):
        desk.all(at=interrupting("file visible"))
    flip(path, 20)
    assert desk.all()
    assert by_seq(archive_rows(desk.archive)) == [*rows[:2], *rows[4:]]
    assert "is damaged" in desk.said[0]
    assert path.with_suffix(".bad").exists()
    assert desk.segments() == []


def test_a_range_in_the_history(desk: Desk) -> None:
    """Its raw file is compacted and gone, and its segments are still there."""
    Writer(desk.journal).segments(2, 2)
    with pytest.raises(KeyboardInterrupt):
        desk.all(at=interrupting("file visible"))
    (name,) = raw_files(desk.archive)
    raw = desk.archive / "raw" / name
    history_folder = desk.archive / "history" / layout.folder_of(HOUR)
    files.make_folder(history_folder)
    raw.rename(history_folder / "0001-0001.parquet")
    history.write(history_folder, Manifest(frozenset({raw.name}), ("0001-0001.parquet",), 4))
    assert desk.all()
    assert raw_files(desk.archive) == []
    assert desk.segments() == []
    assert len(archive_rows(desk.archive)) == 4


def test_a_segment_that_cannot_be_read_now(desk: Desk) -> None:
    """Nothing of the range may be in another one meanwhile."""
    Writer(desk.journal, apart=1800).segments(2, 2, 2)
    rows = journal_rows(desk.journal)
    with pytest.raises(KeyboardInterrupt):
        desk.all(at=interrupting("file visible"))
    path = found(desk.journal / "g1")[1]
    data = path.read_bytes()
    path.unlink()
    path.mkdir()
    with desk.archiver() as archiver:
        assert not archiver.step(everything=True)
        assert desk.segments() == [1, 2, 3]
        path.rmdir()
        path.write_bytes(data)
        assert archiver.step(everything=True)
    assert by_seq(archive_rows(desk.archive)) == rows


def test_hidden_files_of_others(desk: Desk) -> None:
    Writer(desk.journal).segments(1)
    folder = desk.archive / "raw" / layout.folder_of(HOUR)
    files.make_folder(folder)
    for gateway in ("g1", "g2"):
        (folder / f"_{layout.Range(gateway, 1, 1, 1).name}").touch()
    assert desk.all()
    assert desk.hidden() == [f"_{layout.Range('g2', 1, 1, 1).name}"]
