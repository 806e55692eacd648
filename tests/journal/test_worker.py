"""What the thread does, step by step, without a thread."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from gateway.journal import Journal, Sync
from tests.journal.desk import Clock, Fault, opened, rows_of


class Desk:
    def __init__(self, folder: Path, **options: object) -> None:
        self.folder = folder
        self.clock = Clock()
        self.calls: list[str] = []
        self.journal: Journal = opened(
            folder,
            self.clock,
            on_relief=lambda: self.calls.append("relief"),
            on_state=lambda: self.calls.append(self.journal.failure or "works"),
            **options,
        )

    def tell(self, count: int = 1) -> None:
        for _ in range(count):
            self.journal.record("connected", self.clock(), b"".join([b"\0\0\0\0"] * 4))

    def step(self) -> float | None:
        return self.journal.worker.step()

    @property
    def written(self) -> int:
        return self.journal.worker.rows


class TestGathering:
    def test_the_first_row_goes_at_once(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path)
        desk.tell()
        assert desk.step() == pytest.approx(0.05)
        assert desk.written == 1
        assert desk.step() == pytest.approx(10)  # nothing came: until the segment is complete
        desk.journal.close()

    def test_then_rows_gather_for_50_ms(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path)
        desk.tell()
        desk.step()
        desk.clock.go(0.02)
        desk.tell(3)
        assert desk.step() == pytest.approx(0.03)
        assert desk.written == 1
        desk.clock.go(0.03)
        assert desk.step() == pytest.approx(0.05)
        assert desk.written == 4
        desk.journal.close()

    def test_or_until_there_is_much(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, limit=80_000)
        desk.tell()
        desk.step()
        desk.tell(500)
        assert desk.journal.queued > 10_000
        while desk.step() == 0:
            pass
        assert desk.journal.queued < 10_000
        assert desk.written > 300
        desk.journal.close()

    def test_segments_are_completed_while_rows_gather(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, segment_seconds=0.04)
        desk.tell()
        desk.step()
        desk.tell()
        assert desk.step() == pytest.approx(0.04)
        desk.clock.go(0.04)
        assert desk.step() == pytest.approx(0.01)
        assert len(rows_of(tmp_path)) == 1
        desk.journal.close()


class TestFailing:
    def test_nothing_is_lost_by_a_short_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        desk = Desk(tmp_path)
        fault = Fault(monkeypatch, "writev", errno.ENOSPC)
        desk.tell(3)
        assert desk.step() == pytest.approx(1)
        assert desk.journal.failure == "the journal cannot be written: No space left on device"
        desk.tell(2)
        desk.clock.go(0.5)
        assert desk.step() == pytest.approx(0.5)
        desk.clock.go(0.5)
        assert desk.step() == pytest.approx(1)  # once more in vain
        fault.broken = False
        desk.clock.go(1)
        assert desk.step() == pytest.approx(0.05)
        assert desk.calls == ["the journal cannot be written: No space left on device", "works"]
        assert desk.journal.close() == 0
        assert [row["seq"] for row in rows_of(tmp_path)] == [1, 2, 3, 4, 5]

    def test_a_long_one_is_counted(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        desk = Desk(tmp_path, limit=80_000)
        fault = Fault(monkeypatch, "open", errno.EROFS)
        desk.tell()
        desk.step()
        desk.tell(5000)
        dropped = desk.journal.rows_dropped
        assert dropped > 1000
        fault.broken = False
        desk.clock.go(1)
        while desk.step() == 0:
            desk.clock.go(0.05)
        desk.tell()
        assert desk.journal.close() == 0
        rows = rows_of(tmp_path)
        assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
        assert len(rows) == 5002 - dropped + 1
        told = rows[-2]
        assert (told["event"], told["dropped_rows"]) == ("journal_dropped", dropped)
        assert told["reason"] == "the journal cannot be written: Read-only file system"
        assert desk.journal.queued == 0

    def test_what_is_due_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is healthy again when what was set aside is complete, also if no row comes."""
        desk = Desk(tmp_path, sync=Sync.INTERVAL)
        desk.tell()
        desk.step()
        sync = Fault(monkeypatch, "fdatasync", errno.EIO)
        desk.clock.go(11)
        assert desk.step() == pytest.approx(1)
        assert desk.journal.failure == "the journal cannot be written: Input/output error"
        desk.clock.go(0.5)
        assert desk.step() == pytest.approx(0.5)
        sync.broken = False
        desk.clock.go(0.5)
        desk.step()
        assert desk.calls[-1] == "works"
        assert desk.step() is None
        desk.journal.close()

    def test_completing_at_the_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The next start completes it."""
        desk = Desk(tmp_path)
        desk.tell()
        desk.step()
        fault = Fault(monkeypatch, "rename", errno.EROFS)
        assert desk.journal.close() == 0
        assert desk.calls == ["the journal cannot be written: Read-only file system"]
        fault.broken = False
        opened(tmp_path).close()
        assert len(rows_of(tmp_path)) == 1


class TestHolding:
    def test_relief_when_it_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        desk = Desk(tmp_path, limit=80_000, holds=True)
        while not desk.journal.is_behind:
            desk.tell()
        fault = Fault(monkeypatch, "writev", errno.ENOSPC)
        desk.step()
        assert desk.calls == ["the journal cannot be written: No space left on device", "relief"]
        fault.broken = False
        desk.journal.close()
