"""Segments to rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.journal import Segment, found
from tests.journal.desk import GATEWAY, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A segment of three records, with one row each."""
    journal = opened(tmp_path)
    for number in range(3):
        journal.record("error", journal.clock(), journal.names_of_session("tcp", "here"), reason=str(number))
        journal.worker.step()
        journal.clock.go(1)  # type: ignore[attr-defined]
    journal.close()
    (path,) = found(tmp_path / GATEWAY)
    return path


def test_rows(path: Path) -> None:
    segment = Segment(path)
    assert [row[2] for row in segment] == [1, 2, 3]
    assert [len(rows) for rows in segment.records()] == [1, 1, 1]
    assert (segment.size, segment.torn, segment.unknown) == (path.stat().st_size, 0, 0)


def test_damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    segment = Segment(path)
    assert [row[2] for row in segment] == [1, 3]
    assert (segment.torn, segment.damaged) == (0, len(data) // 3)
