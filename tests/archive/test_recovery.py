"""What a kill may leave, and what is made of it; test_kill makes it by kills."""

from __future__ import annotations

import pytest

from gateway import files
from gateway.archive import history, layout
from gateway.archive.history import Manifest
from gateway.journal import found
from tests.archive.desk import (
    HOUR,
    Desk,
    Writer,
    archive_rows,
    by_seq,
    desk,
    interrupting,
    journal_rows,
    raw_files,
)

__all__ = ["desk"]


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
