"""What is whole of a segment, wherever it is cut off or damaged."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from gateway.journal.record import LAYOUTS, RecordFacts, record, start_of, strings
from gateway.journal.repair import RecordBodies

EPOCH = 1_700_000_000_000_000
NAMES = strings("tcp", "here", "me", "s")
ROW = LAYOUTS["connected"].pack(LAYOUTS["connected"].rest + len(NAMES), 14, len(NAMES), 1) + NAMES


def of(first: int, *, epoch: int = EPOCH) -> bytes:
    return b"".join(record(RecordFacts("g1", "r", epoch, 0), first, 2, [ROW, ROW]))


FIRST, SECOND, THIRD = of(1), of(3), of(5)
EACH = len(FIRST)


class Found:
    def __init__(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        bodies = RecordBodies(path, EPOCH)
        self.seqs = [start_of(body)[1] for body in bodies]
        self.lost = bodies.torn, bodies.damaged
        assert bodies.size == bodies.place == len(data)
        assert bodies.is_empty == (not self.seqs)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "segment"


@pytest.mark.parametrize("end", [b"", bytes(3), bytes(5000)])
def test_torn_at_every_octet(end: bytes, path: Path) -> None:
    """What a power cut leaves behind it: nothing, or zeros."""
    for cut in range(1, EACH):
        found = Found(path, FIRST + SECOND[:cut] + end)
        assert found.seqs == [1]
        assert sum(found.lost) == cut + len(end)
        if len(end) < 5000 and cut + len(end) < EACH:
            assert found.lost[1] == 0


def test_a_flipped_bit_anywhere_loses_one_record(path: Path) -> None:
    nbytes = FIRST + SECOND + THIRD
    for place in range(2 * EACH):
        damaged = bytearray(nbytes)
        damaged[place] ^= 1
        found = Found(path, bytes(damaged))
        assert found.seqs == ([3, 5] if place < EACH else [1, 5])
        assert found.lost == (0, EACH)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", bytes(4), b"\x64\0\0\0"])
def test_a_length_that_leads_nowhere(length: bytes, path: Path) -> None:
    found = Found(path, length + FIRST[4:] + SECOND)
    assert (found.seqs, found.lost) == ([3], (0, EACH))


def test_no_record_comes_twice(path: Path) -> None:
    """What is found behind damage has rows that are later, and of this start of the gateway."""
    found = Found(path, FIRST + b"?" * 100 + FIRST + of(3, epoch=EPOCH + 1) + SECOND)
    assert (found.seqs, found.lost) == ([1, 3], (0, 100 + 2 * EACH))


def another_version(data: bytes) -> bytes:
    body = bytes([9]) + data[9:]
    return data[:4] + zlib.crc32(body).to_bytes(4, "little") + body


def test_another_version(path: Path) -> None:
    """It is for the caller to refuse; behind damage it is not searched for, and nothing is cut that may be one."""
    assert Found(path, FIRST + another_version(SECOND) + THIRD).seqs == [1, 3, 5]
    found = Found(path, b"?" * EACH + another_version(SECOND))
    assert (found.seqs, found.lost) == ([], (0, 2 * EACH))


def test_the_search_is_no_long_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much looks like the start of a record: then the rest is left out, and counted as damaged."""
    monkeypatch.setattr("gateway.journal.repair.EFFORT", 1)
    start = FIRST[:4] + bytes(4) + SECOND[8:40]
    rest = b"?" * 8 + start * 200 + SECOND
    found = Found(path, FIRST + rest)
    assert (found.seqs, found.lost) == ([1], (0, len(rest)))
