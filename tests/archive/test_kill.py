"""A process is killed at each step: what is visible is valid at once, and in the end each row is there once."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from gateway.archive import sorting
from gateway.archive.archiver import Archiver, ArchiverOptions
from gateway.archive.compact import compact, expire_history, expire_raw
from gateway.journal import found
from tests.archive.desk import LATER, Writer, archive_rows, by_seq, hidden_files, journal_rows, raw_files
from tests.journal.reading import Row

pytestmark = [pytest.mark.slow, pytest.mark.long]


class Desk:
    def __init__(self, folder: Path) -> None:
        self.journal = folder / "journal"
        self.archive = folder / "archive"
        self.writer = Writer(self.journal, apart=900)

    def write(self) -> None:
        self.writer.segments(5, 3, 4)

    def killed(self, what: str, step: str, number: int) -> None:
        """A child does one thing with the archive, and dies when a step comes for that time."""
        child = os.fork()
        if not child:
            try:
                self._act(what, step, number)
            finally:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    def _act(self, what: str, step: str, number: int) -> None:
        left = [number]

        def at(name: str) -> None:
            left[0] -= name == step
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

        if what == "archive":
            with Archiver(self.journal, self.archive, ArchiverOptions(at=at)) as archiver:
                archiver.step(everything=True)
        elif what == "compact":
            sorting.RUN, sorting.CHUNK = 20_000, 2_000  # so that there are runs
            compact(self.archive, LATER, at=at)
        elif what == "raw":
            expire_raw(self.archive, 0, time.time() + 1, at)
        else:
            expire_history(self.archive, 0, time.time(), at)

    def archived(self, most: int = 1 << 20) -> None:
        with Archiver(self.journal, self.archive, ArchiverOptions(most=most)) as archiver:
            assert archiver.step(everything=True)

    def left(self) -> list[Row]:
        return journal_rows(self.journal)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize(
    ("step", "number"),
    [
        *[("segment read", number) for number in (1, 2, 3)],
        ("files written", 1),
        *[("file visible", number) for number in (1, 2, 3)],
        *[("segment deleted", number) for number in (1, 2, 3)],
    ],
)
def test_archiver(desk: Desk, step: str, number: int) -> None:
    desk.write()
    rows = desk.left()
    desk.killed("archive", step, number)
    seen, left = archive_rows(desk.archive), desk.left()
    assert len(seen) == len({row[:3] for row in seen})
    assert {row[:3] for row in seen + left} == {row[:3] for row in rows}
    if step in ("segment read", "files written"):
        assert seen == []
        assert left == rows
    desk.write()  # what comes meanwhile
    rows += journal_rows(desk.journal)[len(left) :]
    desk.killed("archive", step, number)
    desk.archived()
    assert by_seq(archive_rows(desk.archive)) == rows
    assert desk.left() == []
    assert hidden_files(desk.archive / "raw") == []


@pytest.mark.parametrize(
    ("step", "number"),
    [("run spilled", 1), ("files written", 1), ("file visible", 1), ("runs removed", 1), ("manifest written", 1)],
)
def test_compaction(desk: Desk, step: str, number: int) -> None:
    """A reader sees the same all the time, and all of it is history in the end."""
    desk.writer.apart = 1
    for _ in range(2):
        desk.writer.segments(300, 300)
        rows = by_seq(archive_rows(desk.archive)) + desk.left()
        desk.archived(most=1)
        desk.killed("compact", step, number)
        assert by_seq(archive_rows(desk.archive)) == rows
    assert compact(desk.archive, LATER)
    assert by_seq(archive_rows(desk.archive)) == rows
    assert hidden_files(desk.archive / "history") == []
    count = len(raw_files(desk.archive))
    assert expire_raw(desk.archive, 0, LATER.timestamp()) == count
    assert raw_files(desk.archive) == []
    assert by_seq(archive_rows(desk.archive)) == rows


def test_retention_of_raw_files(desk: Desk) -> None:
    desk.write()
    rows = desk.left()
    desk.archived()
    assert compact(desk.archive, LATER)
    count = len(raw_files(desk.archive))
    for number in range(1, count):
        desk.killed("raw", "raw file deleted", 1)
        assert len(raw_files(desk.archive)) == count - number
        assert by_seq(archive_rows(desk.archive)) == rows


@pytest.mark.parametrize("step", ["manifest deleted", "history file deleted"])
def test_retention_of_history(desk: Desk, step: str) -> None:
    """The rows of an hour go together."""
    desk.write()
    rows = desk.left()
    desk.archived()
    assert compact(desk.archive, LATER)
    expire_raw(desk.archive, 0, LATER.timestamp())
    desk.killed("history", step, 1)
    hour = 3_600_000_000
    first = int(str(rows[0][3])) // hour
    assert by_seq(archive_rows(desk.archive)) == [row for row in rows if int(str(row[3])) // hour != first]
    assert expire_history(desk.archive, 0, LATER.timestamp()) == len({int(str(row[3])) // hour for row in rows})
    assert list((desk.archive / "history").iterdir()) == []
    assert found(desk.journal / "g1") == []
