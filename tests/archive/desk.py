"""Journals to archive, and what is in an archive."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gateway.archive import history, layout
from gateway.archive.archiver import ArchivedFile, Archiver, ArchiverOptions
from gateway.journal import Journal, found, schema
from tests.journal.desk import START, Clock
from tests.journal.reading import Row, Segment, rows_in

NAMES = [each.name for each in schema.COLUMNS]
BEGIN = START / 1e6  # seconds since 1970, when a journal begins: 2023-11-14 22:13:20
HOUR = int(BEGIN // 3600)  # its number
LATER = datetime(2030, 1, 1, tzinfo=UTC)


class Writer:
    """A gateway that writes a journal, with rows that are so many seconds `apart`."""

    def __init__(self, folder: Path, gateway: str = "g1", *, apart: float = 0.001, clock: Clock | None = None) -> None:
        self.folder = folder / gateway
        self.clock = clock or Clock()
        self.apart = apart
        self.number = 0
        self._journal = Journal(folder, gateway, run="r", clock=self.clock, wall=self.clock.wall)
        self._session = self._journal.names_of_session("tcp", "127.0.0.1:1", "me", "s-1")

    @property
    def epoch(self) -> int:
        return self._journal.epoch

    def rows(self, count: int, body: bytes = b"body") -> None:
        """Some messages, on three destinations, and what becomes of them."""
        for _ in range(count):
            self.number += 1
            destination = f"/queue/{'abc'[self.number % 3]}"
            kind = self.number % 4
            now = self.clock()
            names = self._journal.names_of_subscription(self._session, "0", "client", destination)
            if kind == 0:
                self._journal.record("connected", now, self._session)
            elif kind == 1:
                self._journal.delivered(now, names, self.number, len(body), 1, 5)
            else:
                headers = {"destination": destination, "number": str(self.number)}
                self._journal.accepted(now, self._session, destination, self.number, headers, body)
            self.clock.go(self.apart)

    def roll(self) -> Path:
        """The rows so far are a segment, a tenth of a second later."""
        self.clock.go(0.1)
        self._journal.worker.step()
        self._journal.segments.complete()
        return found(self.folder)[-1]

    def segments(self, *counts: int) -> None:
        """Segments of so many rows each."""
        for count in counts:
            self.rows(count)
            self.roll()

    def records(self, *counts: int) -> Path:
        """A segment of some records, with so many rows each."""
        for count in counts:
            self.rows(count)
            self.clock.go(1)
            self._journal.worker.step()
        return self.roll()

    def close(self) -> None:
        self._journal.close()


class Desk:
    """A journal and its archive, and what the archiver says."""

    def __init__(self, folder: Path) -> None:
        self.journal = folder / "journal"
        self.archive = folder / "archive"
        self.written: list[ArchivedFile] = []
        self.said: list[str] = []
        self.now = BEGIN
        self.journal.mkdir()

    def archiver(self, **options: Any) -> Archiver:
        told: dict[str, Any] = {"tell": self.written.append, "warn": self.said.append, "clock": lambda: self.now}
        return Archiver(self.journal, self.archive, ArchiverOptions(**{**told, **options}))

    def all(self, **options: Any) -> bool:
        with self.archiver(**options) as archiver:
            return archiver.step(everything=True)

    def segments(self, gateway: str = "g1") -> list[int]:
        return [int(path.stem.rpartition("-")[2]) for path in found(self.journal / gateway)]

    def ranges(self) -> list[tuple[str, int, int]]:
        """Hour, first and last of the raw files."""
        hours = [(name.split("/")[1], layout.range_of(name.split("/")[2])) for name in raw_files(self.archive)]
        return [(hour, which.first, which.last) for hour, which in hours if which is not None]

    def hidden(self) -> list[str]:
        return hidden_files(self.archive / "raw") + hidden_files(self.archive / "history")


def flip(path: Path, place: int) -> bytes:
    """One bit of a file is another; returns its data."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    return bytes(data)


@contextmanager
def open_to_all() -> Iterator[None]:
    """In the block the umask takes nothing away."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def modes_of(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in folder.rglob("*")}


def journal_rows(folder: Path) -> list[Row]:
    paths = [path for own in sorted(folder.iterdir()) for path in found(own)]
    return [row for path in paths for row in Segment(path)]


def rows_of(paths: Iterable[Path]) -> list[Row]:
    """The rows of Parquet files, like those of a journal."""
    rows: list[Row] = []
    for path in paths:
        # A file object: a path with `date=` in it would add columns.
        with path.open("rb") as file:
            table = pq.read_table(file)
        rows += rows_in(table.select(NAMES))
    return rows


def archive_rows(archive: Path, since: datetime | None = None, until: datetime | None = None) -> list[Row]:
    return rows_of(history.files(archive, since, until))


def by_seq(rows: Iterable[Row]) -> list[Row]:
    """Sorted by what makes a row unique."""
    return sorted(rows, key=lambda row: row[:3])


def raw_files(archive: Path) -> list[str]:
    root = archive / layout.RAW
    return [f"{folder.relative_to(root)}/{name}" for _, folder in layout.hours(root) for name in layout.visible(folder)]


def hidden_files(archive: Path) -> list[str]:
    """Files that are not there for a reader, but for the manifests."""
    found = [path for path in archive.rglob("_*") if path.is_file() and path.name != history.MANIFEST]
    return sorted([path.name for path in found])


def manifest_of(archive: Path, hour: int) -> dict[str, Any]:
    """As it stands in the file."""
    path = archive / layout.HISTORY / layout.folder_of(hour) / history.MANIFEST
    content: dict[str, Any] = json.loads(path.read_bytes())
    return content


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def interrupting(step: str) -> Callable[[str], None]:
    def at(name: str) -> None:
        if name == step:
            raise KeyboardInterrupt

    return at
