"""Segments as the archiver reads them."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from gateway.archive.segments import SegmentError, Tables, began, groups
from gateway.journal.record import bodies, size_of
from tests.archive.desk import BEGIN, Writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A segment of two records, with five rows each."""
    return Writer(tmp_path).records(5, 5)


def test_torn_at_every_byte(path: Path) -> None:
    data = path.read_bytes()
    with path.open("rb") as file:
        size = size_of(next(bodies(file, len(data))))
    for cut in range(1, len(data), 7):
        path.write_bytes(data[:cut])
        tables = Tables(path)
        if cut < size:
            with pytest.raises(SegmentError, match="it has no whole record") as caught:
                list(tables)
            assert caught.value.is_unusable
        else:
            assert [len(table) for table in tables] == [5]
            assert tables.torn == cut - size


def test_damaged_at_every_byte(path: Path) -> None:
    """Of what follows nothing is lost, and what is left out is counted."""
    data = path.read_bytes()
    with path.open("rb") as file:
        size = size_of(next(bodies(file, len(data))))
    for place in range(0, len(data), 5):
        damaged = bytearray(data)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        tables = Tables(path)
        assert [len(table) for table in tables] == [5]
        assert tables.damaged + tables.torn == (size if place < size else len(data) - size)
        if place < size or place >= size + 8:
            assert tables.damaged


def test_unknown_version(path: Path) -> None:
    data = bytearray(path.read_bytes())
    with path.open("rb") as file:
        first, second = bodies(file, len(data))
    place = size_of(first) + 8
    data[place] = 9
    data[place - 4 : place] = zlib.crc32(data[place : place + len(second)]).to_bytes(4, "little")
    path.write_bytes(data)
    tables = iter(Tables(path))
    assert len(next(tables)) == 5
    with pytest.raises(SegmentError, match=f"byte {size_of(first)}: the record has version 9") as caught:
        next(tables)
    assert caught.value.is_unusable


def test_began(path: Path, tmp_path: Path) -> None:
    assert began(path) == pytest.approx(BEGIN, abs=1)
    assert began(tmp_path / "1-1.seg") is None
    with pytest.raises(SegmentError, match="No such file") as caught:
        list(Tables(tmp_path / "1-1.seg"))
    assert not caught.value.is_unusable
    path.write_bytes(b"")
    assert began(path) is None


EPOCH = 1_700_000_000_000_000
TIME = 1_700_000_000  # twenty minutes before an hour ends


@pytest.mark.parametrize(
    ("segments", "ranges"),
    [
        ([], []),
        ([(1, 40), (2, 40), (3, 40), (4, 40), (5, 40)], [(1, 2, True), (3, 4, True), (5, 5, False)]),
        ([(1, 500)], [(1, 1, True)]),
        ([(1, 10), (2, 10), (4, 10), (5, 10)], [(1, 2, True), (4, 5, False)]),  # number 3 may still come
        ([(1, 10), (2, 10), (3, 10, EPOCH + 1)], [(1, 2, True), (3, 3, False)]),
        ([(1, 10, EPOCH, 1000), (2, 10, EPOCH, 2000), (3, 10, EPOCH, 3000)], [(1, 2, True), (3, 3, False)]),
    ],
)
def test_groups(tmp_path: Path, segments: list[tuple[int, ...]], ranges: list[tuple[int, int, bool]]) -> None:
    """Number, size, epoch and seconds of each segment; at most 100 bytes of them are a group."""
    paths = []
    for number, size, *more in segments:
        epoch, later = (*more, EPOCH, 0)[:2] if more else (EPOCH, 0)
        paths.append(tmp_path / f"{epoch}-{number:06d}.seg")
        paths[-1].write_bytes(bytes(size))
        os.utime(paths[-1], (TIME + (later if len(more) == 2 else 0),) * 2)
    found = groups(paths, 100)
    assert [(each.range.first, each.range.last, each.is_closed) for each in found] == ranges
    assert [path for each in found for path in each.paths] == paths
