"""An archiver, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.archive import layout
from gateway.archive.archiver import Archiver
from gateway.archive.gateway_archiver import ArchivedFile, ArchiverOptions
from gateway.journal import found
from tests.archive.desk import BEGIN, hidden_files, raw_files


class Desk:
    """An archiver, and what it says."""

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
        """Archive everything."""
        with self.archiver(**options) as archiver:
            return archiver.step(everything=True)

    def segments(self, gateway: str = "g1") -> list[int]:
        """The numbers of those that are left."""
        return [int(path.stem.rpartition("-")[2]) for path in found(self.journal / gateway)]

    def ranges(self) -> list[tuple[str, int, int]]:
        """Hour, first and last of the raw files."""
        hours = [(name.split("/")[1], layout.range_of(name.split("/")[2])) for name in raw_files(self.archive)]
        return [(hour, which.first, which.last) for hour, which in hours if which is not None]

    def hidden(self) -> list[str]:
        """Files that were left, but for locks and manifests."""
        return hidden_files(self.archive / "raw") + hidden_files(self.archive / "history")
