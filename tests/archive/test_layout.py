"""Names and folders of the archive."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.archive import layout
from gateway.archive.layout import Range
from gateway.files import HIDDEN

GATEWAYS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", fullmatch=True)
NUMBERS = st.integers(0, 10**12)
RANGES = st.builds(Range, GATEWAYS, st.integers(0, 10**18), NUMBERS, NUMBERS)
HOURS = st.integers(0, 24 * 365 * 200)


class TestRange:
    @given(RANGES)
    def test_round_trip(self, which: Range) -> None:
        assert layout.range_of(which.name) == which

    @given(RANGES, RANGES)
    def test_each_has_a_name_of_its_own(self, one: Range, other: Range) -> None:
        assert (one.name == other.name) == (one == other)

    @given(RANGES)
    def test_is_visible(self, which: Range) -> None:
        """Also where the gateway's id would hide it; while it is written it is not."""
        assert which.name[0] not in "_."
        assert layout.range_of(HIDDEN + which.name) is None

    @given(st.text(max_size=60))
    def test_other_names(self, name: str) -> None:
        assert layout.range_of(name) is None

    @pytest.mark.parametrize("name", ["g-1-2-3.parquet", "--g-0000000000000001-00000002-00000003.parquet"])
    def test_another_spelling(self, name: str) -> None:
        assert layout.range_of(name) is None

    def test_the_order_of_names_is_that_of_rows(self) -> None:
        epoch = 1_700_000_000_000_000
        ranges = [Range("g", epoch, 9, 9), Range("g", epoch, 10, 100), Range("g", epoch + 1, 1, 1)]
        assert sorted([each.name for each in ranges]) == [each.name for each in ranges]
        assert ranges[0].name == "g-1700000000000000-00000009-00000009.parquet"

    @pytest.mark.parametrize(("name", "is_one"), [("g-1", True), ("_g", True), ("lost found", False), (".git", False)])
    def test_gateway(self, name: str, is_one: bool) -> None:
        assert layout.is_gateway(name) is is_one


class TestHour:
    @given(HOURS)
    def test_round_trip(self, hour: int) -> None:
        assert layout.hour_of(Path("archive/raw") / layout.folder_of(hour)) == hour
        assert layout.hour_at(layout.start_of(hour)) == hour
        assert layout.hour_at(layout.start_of(hour + 1) - timedelta(microseconds=1)) == hour

    @given(HOURS, HOURS)
    def test_order(self, one: int, other: int) -> None:
        assert (layout.folder_of(one) < layout.folder_of(other)) == (one < other)

    def test_folder(self) -> None:
        hour = layout.hour_at(datetime(2026, 11, 21, 14, 59, 59, tzinfo=UTC))
        assert layout.folder_of(hour) == "date=2026-11-21/hour=14"
        assert hour * layout.MICROSECONDS == layout.start_of(hour).timestamp() * 1e6

    def test_another_time_zone(self) -> None:
        there = timezone(timedelta(hours=5, minutes=30))
        assert layout.folder_of(layout.hour_at(datetime(2026, 1, 1, tzinfo=there))) == "date=2025-12-31/hour=18"

    def test_no_time_zone(self) -> None:
        with pytest.raises(ValueError, match="needs a time zone"):
            layout.hour_at(datetime(2026, 11, 21))

    @pytest.mark.parametrize("folder", ["date=2026-13-01/hour=00", "date=2026-01-01/hour=24", "a/hour=01", "hour=01"])
    def test_no_hour(self, folder: str) -> None:
        assert layout.hour_of(Path(folder)) is None


class TestFolders:
    def test_hours(self, tmp_path: Path) -> None:
        for name in ("date=2026-11-21/hour=14", "date=2026-11-20/hour=23", "date=2026-11-21/hour=99", "_x/hour=01"):
            (tmp_path / name).mkdir(parents=True)
        assert [str(folder.relative_to(tmp_path)) for _, folder in layout.hours(tmp_path)] == [
            "date=2026-11-20/hour=23",
            "date=2026-11-21/hour=14",
        ]
        assert list(layout.hours(tmp_path / "none")) == []

    def test_visible(self, tmp_path: Path) -> None:
        for name in ("b.parquet", "a.parquet", "_c.parquet", ".d.parquet", "e.crc"):
            (tmp_path / name).touch()
        assert layout.visible(tmp_path) == ["a.parquet", "b.parquet"]
        assert layout.visible(tmp_path / "none") == []
