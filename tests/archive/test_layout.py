"""Names and folders of the archive, and its locks."""

from __future__ import annotations

import fcntl
import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.archive import layout
from gateway.archive.layout import ArchiveError, Range, lock
from gateway.files import HIDDEN

GATEWAYS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", fullmatch=True)
NUMBERS = st.integers(0, 10**12)
RANGES = st.builds(Range, GATEWAYS, st.integers(0, 10**18), NUMBERS, NUMBERS)
HOURS = st.integers(0, 24 * 365 * 200)


@given(RANGES, RANGES)
def test_each_range_has_a_visible_name_of_its_own(one: Range, other: Range) -> None:
    """Even if the gateway's id would hide it; only while the file is written it is hidden."""
    assert layout.range_of(one.name) == one
    assert (one.name == other.name) == (one == other)
    assert one.name[0] not in "_."
    assert layout.range_of(HIDDEN + one.name) is None


def test_the_order_of_names_is_that_of_rows() -> None:
    epoch = 1_700_000_000_000_000
    ranges = [Range("g", epoch, 9, 9), Range("g", epoch, 10, 100), Range("g", epoch + 1, 1, 1)]
    assert sorted([each.name for each in ranges]) == [each.name for each in ranges]
    assert ranges[0].name == "g-1700000000000000-00000009-00000009.parquet"
    names = {"g-1": True, "_g": True, "lost found": False, ".git": False}
    assert {name: layout.is_gateway(name) for name in names} == names


@given(HOURS, HOURS)
def test_hours_and_their_folders(hour: int, other: int) -> None:
    assert layout.hour_of(Path("archive/raw") / layout.folder_of(hour)) == hour
    assert layout.hour_at(layout.start_of(hour)) == hour
    assert layout.hour_at(layout.start_of(hour + 1) - timedelta(microseconds=1)) == hour
    assert (layout.folder_of(hour) < layout.folder_of(other)) == (hour < other)
    assert hour * layout.MICROSECONDS == layout.start_of(hour).timestamp() * 1e6


def test_the_hour_is_utc() -> None:
    there = timezone(timedelta(hours=5, minutes=30))
    assert layout.folder_of(layout.hour_at(datetime(2026, 1, 1, tzinfo=there))) == "date=2025-12-31/hour=18"
    assert layout.folder_of(layout.hour_at(datetime(2026, 11, 21, 14, 59, 59, tzinfo=UTC))) == "date=2026-11-21/hour=14"
    with pytest.raises(ValueError, match="needs a time zone"):
        layout.hour_at(datetime(2026, 11, 21))


def test_what_is_in_a_folder(tmp_path: Path) -> None:
    for folder in ("date=2026-13-01/hour=00", "date=2026-01-01/hour=24", "a/hour=01", "hour=01"):
        assert layout.hour_of(Path(folder)) is None
    for name in ("date=2026-11-21/hour=14", "date=2026-11-20/hour=23", "date=2026-11-21/hour=99", "_x/hour=01"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("b.parquet", "a.parquet", "_c.parquet", ".d.parquet", "e.crc"):
        (tmp_path / name).touch()
    folders = [str(folder.relative_to(tmp_path)) for _, folder in layout.hours(tmp_path)]
    assert folders == ["date=2026-11-20/hour=23", "date=2026-11-21/hour=14"]
    assert layout.visible(tmp_path) == ["a.parquet", "b.parquet"]
    assert list(layout.hours(tmp_path / "none")) == layout.visible(tmp_path / "none") == []


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "locks" / "a"
    held = lock(path, "busy")
    with pytest.raises(ArchiveError, match=rf"^busy \(process {os.getpid()}\)$"):
        lock(path, "busy")
    os.close(held)
    path.write_text("")
    with monkeypatch.context() as patch:  # the process that makes room gets the lock; only its number is not known then
        patch.setattr(os, "pwrite", full)
        held = lock(path, "busy")
    with pytest.raises(ArchiveError, match=r"busy \(process unknown\)"):
        lock(path, "busy")
    os.close(held)
    with pytest.raises(ArchiveError, match="b cannot be locked: Not a directory"):
        lock(path / "b", "busy")
    monkeypatch.setattr(fcntl, "flock", full)
    with pytest.raises(ArchiveError, match="a cannot be locked: No space left on device"):
        lock(path, "busy")
