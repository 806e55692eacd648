"""Segments as the archiver reads them."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from gateway.archive.segments import SegmentError, Tables, began
from gateway.journal.record import bodies, size_of
from tests.archive.desk import BEGIN, Writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A segment of two records, with five rows each."""
    return Writer(tmp_path).records(5, 5)


def test_whole(path: Path) -> None:
    tables = Tables(path)
    assert [len(table) for table in tables] == [5, 5]
    assert (tables.torn, tables.unknown) == (0, 0)


def test_torn_at_every_octet(path: Path) -> None:
    octets = path.read_bytes()
    with path.open("rb") as file:
        size = size_of(next(bodies(file, len(octets))))
    for cut in range(1, len(octets), 7):
        path.write_bytes(octets[:cut])
        tables = Tables(path)
        if cut < size:
            with pytest.raises(SegmentError, match="it has no record that is whole") as caught:
                list(tables)
            assert caught.value.is_senseless
        else:
            assert [len(table) for table in tables] == [5]
            assert tables.torn == cut - size


def test_damaged_at_every_octet(path: Path) -> None:
    """Of what follows nothing is lost, and what is left out is counted."""
    octets = path.read_bytes()
    with path.open("rb") as file:
        size = size_of(next(bodies(file, len(octets))))
    for place in range(0, len(octets), 5):
        damaged = bytearray(octets)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        tables = Tables(path)
        assert [len(table) for table in tables] == [5]
        assert tables.damaged + tables.torn == (size if place < size else len(octets) - size)
        if place < size or place >= size + 8:
            assert tables.damaged


def test_damaged_before_another_version(path: Path) -> None:
    octets = bytearray(path.read_bytes())
    with path.open("rb") as file:
        first, second = bodies(file, len(octets))
    place = size_of(first) + 8
    octets[place] = 9
    octets[place - 4 : place] = zlib.crc32(octets[place : place + len(second)]).to_bytes(4, "little")
    octets[20] ^= 1
    path.write_bytes(octets)
    tables = Tables(path)
    with pytest.raises(SegmentError, match="it has no record that is whole"):
        list(tables)
    assert tables.damaged == len(octets)


def test_empty(path: Path) -> None:
    path.write_bytes(b"")
    assert list(Tables(path)) == []


def test_another_version(path: Path) -> None:
    octets = bytearray(path.read_bytes())
    with path.open("rb") as file:
        first, second = bodies(file, len(octets))
    place = size_of(first) + 8
    octets[place] = 9
    octets[place - 4 : place] = zlib.crc32(octets[place : place + len(second)]).to_bytes(4, "little")
    path.write_bytes(octets)
    tables = iter(Tables(path))
    assert len(next(tables)) == 5
    with pytest.raises(SegmentError, match=f"octet {size_of(first)}: the record has version 9") as caught:
        next(tables)
    assert caught.value.is_senseless


def test_it_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SegmentError, match="No such file") as caught:
        list(Tables(tmp_path / "1-1.seg"))
    assert not caught.value.is_senseless


def test_began(path: Path, tmp_path: Path) -> None:
    assert began(path) == pytest.approx(BEGIN, abs=1)
    assert began(tmp_path / "1-1.seg") is None
    path.write_bytes(b"")
    assert began(path) is None
