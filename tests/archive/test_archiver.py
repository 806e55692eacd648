"""The journal into the archive."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.archive import layout
from gateway.archive.archiver import Archiver
from gateway.archive.layout import ArchiveError
from gateway.journal import found
from tests.archive.desk import HOUR, Desk, Writer, archive_rows, by_seq, desk, journal_rows

__all__ = ["desk"]


class TestRows:
    def test_each_once(self, desk: Desk) -> None:
        writer = Writer(desk.journal)
        writer.segments(30, 1, 20)
        rows = journal_rows(desk.journal)
        desk.now += 7
        assert desk.all()
        assert by_seq(archive_rows(desk.archive)) == rows
        assert desk.ranges() == [("hour=22", 1, 3)]
        assert desk.hidden() == desk.said == []
        assert desk.segments() == []
        (written,) = desk.written
        assert (written.gateway, written.rows, written.segments) == ("g1", 51, 3)
        assert written.size == written.path.stat().st_size
        assert written.lag == pytest.approx(7 - 0.250, abs=0.001)
        assert written.rate > 0
        assert re.fullmatch(
            r"date=2023-11-14/hour=22/g1-\d{16}-00000001-00000003\.parquet: 51 rows, [\d,]+ bytes, [\d,]+ rows/s, "
            r"lag 6\.8 s",
            str(written),
        )

    def test_hours_and_midnight(self, desk: Desk) -> None:
        """Five hours of a row a minute; segments end in the middle of an hour."""
        writer = Writer(desk.journal, apart=60)
        writer.segments(45, 100, 150)
        rows = journal_rows(desk.journal)
        assert desk.all()
        assert [hour[5:] for hour, _, _ in desk.ranges()] == ["22", "23", "00", "01", "02", "03"]
        assert {(first, last) for _, first, last in desk.ranges()} == {(1, 3)}
        assert by_seq(archive_rows(desk.archive)) == rows
        midnight = layout.start_of(HOUR + 2)
        assert midnight.hour == 0
        late = [row for row in rows if int(str(row[3])) >= midnight.timestamp() * 1e6]
        assert by_seq(archive_rows(desk.archive, midnight)) == late
        assert len(desk.written) == 6
        assert sum([written.rows for written in desk.written]) == len(rows)

    def test_several_gateways(self, desk: Desk) -> None:
        writers = [Writer(desk.journal, name) for name in ("a", "a-1", "_a", "b.c")]
        for writer in writers:
            writer.segments(3)
        writers[0].close()
        Writer(desk.journal, "a").segments(2)  # another start
        rows = journal_rows(desk.journal)
        (desk.journal / "lost found").mkdir()
        (desk.journal / "file").touch()
        assert desk.all(stopping=lambda: True)
        assert desk.written == []
        assert desk.all()
        assert by_seq(archive_rows(desk.archive)) == by_seq(rows)
        assert len(desk.ranges()) == 5

    def test_one_of_another_user(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is told of once, and the others are archived, whether it is there at the start or comes later."""
        for name in ("a", "b"):
            Writer(desk.journal, name).segments(3)
        refuse(monkeypatch, desk.journal / "a")
        with desk.archiver() as archiver:
            assert not archiver.step(everything=True)
            for name in ("c", "d"):
                Writer(desk.journal, name).segments(1)
            refuse(monkeypatch, desk.journal / "d" / "archiver.lock")
            assert not archiver.step(everything=True)
            assert {row[0] for row in archive_rows(desk.archive)} == {"b", "c"}
            owner = "the archiver must be run by the user of the gateway"
            first, second = desk.said
            assert first == f"the journal {desk.journal / 'a'} cannot be used: Permission denied; {owner}"
            assert second.endswith(f"d/archiver.lock cannot be locked: Permission denied; {owner}")
            monkeypatch.undo()
            assert archiver.step(everything=True)
        assert {row[0] for row in archive_rows(desk.archive)} == {"a", "b", "c", "d"}

    def test_a_growing_segment_is_left_alone(self, desk: Desk) -> None:
        writer = Writer(desk.journal)
        writer.segments(2)
        writer.rows(3)
        writer._journal.worker.step()
        assert desk.all()
        assert len(archive_rows(desk.archive)) == 2
        writer.roll()
        assert desk.all()
        assert desk.ranges() == [("hour=22", 1, 1), ("hour=22", 2, 2)]
        assert len(archive_rows(desk.archive)) == 5


class TestGroups:
    def test_wait_for_others(self, desk: Desk) -> None:
        writer = Writer(desk.journal, apart=1)
        with desk.archiver(roll=60) as archiver:
            writer.segments(10, 10)
            desk.now += 59.9
            assert archiver.step()
            assert desk.ranges() == []
            writer.segments(10)
            desk.now += 0.1
            assert archiver.step()
            assert desk.ranges() == [("hour=22", 1, 3)]
            assert desk.segments() == []

    def test_bytes(self, desk: Desk) -> None:
        Writer(desk.journal).segments(10, 10, 10, 10, 10)
        size = max([path.stat().st_size for path in found(desk.journal / "g1")])
        desk.now += 1
        with desk.archiver(most=2 * size, stopping=lambda: len(desk.written) == 2) as archiver:
            assert archiver.step()
        assert desk.ranges() == [("hour=22", 1, 2), ("hour=22", 3, 4)]
        assert desk.segments() == [5]

    def test_a_clock_that_was_set_back(self, desk: Desk) -> None:
        Writer(desk.journal).segments(1)
        desk.now -= 5
        with desk.archiver() as archiver:
            assert archiver.step()
        assert desk.segments() == []


class TestFailure:
    @pytest.mark.parametrize("step", ["fsync", "utime"])
    def test_a_full_disk(self, desk: Desk, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
        Writer(desk.journal, apart=1800).segments(4, 4)
        rows = journal_rows(desk.journal)
        with desk.archiver() as archiver, monkeypatch.context() as patch:
            patch.setattr(os, step, failing(getattr(os, step), after=1))
            assert not archiver.step(everything=True)
            assert not archiver.step(everything=True)
            assert len(desk.said) == 1
            assert "cannot be archived now: No space left on device" in desk.said[0]
            assert desk.hidden() == []
            assert desk.segments() == [1, 2]
            patch.undo()
            assert archiver.step(everything=True)
        assert by_seq(archive_rows(desk.archive)) == rows
        assert desk.segments() == []

    def test_a_segment_that_cannot_be_deleted(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        writer = Writer(desk.journal)
        writer.segments(3, 3, 3)
        rows = journal_rows(desk.journal)
        with desk.archiver() as archiver, monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", failing(Path.unlink, after=1, on=".seg"))
            assert not archiver.step(everything=True)
            assert desk.segments() == [2, 3]
            patch.undo()
            writer.segments(2)
            rows += journal_rows(desk.journal)[-2:]
            assert archiver.step(everything=True)
        assert by_seq(archive_rows(desk.archive)) == by_seq(rows)

    def test_no_journal(self, desk: Desk) -> None:
        with desk.archiver() as archiver:
            desk.journal.rmdir()
            for _ in range(2):
                assert not archiver.step()
            assert desk.said == [f"the journal {desk.journal} cannot be read: No such file or directory"]
            with pytest.raises(ArchiveError, match="journal cannot be read: No such file"):
                desk.archiver()
            desk.journal.mkdir()
            assert archiver.step()


class TestLock:
    def test_another_archiver(self, desk: Desk, tmp_path: Path) -> None:
        Writer(desk.journal).segments(1)
        with desk.archiver() as archiver:
            with pytest.raises(ArchiveError, match=rf"another archiver reads the journal .*\(process {os.getpid()}\)"):
                desk.archiver()
            with pytest.raises(ArchiveError, match="another archiver reads the journal"):
                Archiver(desk.journal, tmp_path / "another")
            other = tmp_path / "copy"
            other.mkdir()
            Writer(other).segments(1)
            with pytest.raises(ArchiveError, match="another archiver writes the gateway g1 into"):
                Archiver(other, desk.archive)
            assert archiver.step(everything=True)
        desk.archiver().close()


def failing(original: Callable[..., Any], after: int, on: str = "") -> Callable[..., Any]:
    """A function that fails from some call on, of those whose first argument ends so."""
    calls = []

    def call(*arguments: Any, **options: Any) -> Any:
        if str(arguments[0]).endswith(on):
            calls.append(arguments)
            if len(calls) > after:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(*arguments, **options)

    return call


def refuse(patch: pytest.MonkeyPatch, *paths: Path) -> None:
    """As the system does where something belongs to another user; root it would not refuse."""

    def refusing(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            if path in paths:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return original(path, *arguments, **options)

        return call

    for name in ("listdir", "open"):
        patch.setattr(os, name, refusing(getattr(os, name)))
