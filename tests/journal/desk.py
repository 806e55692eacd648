"""A journal without a thread, with a clock that the test moves, and what it has written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gateway.journal import Journal, found, schema
from tests.journal.reading import Segment

START = 1_700_000_000_000_000
"""Microseconds since 1970, when the clock says nothing but `EARLIER`."""

EARLIER = 5_000_000_000
GATEWAY = "g1"


class Clock:
    """Nanoseconds, monotonic."""

    def __init__(self) -> None:
        self.now = EARLIER

    def __call__(self) -> int:
        return self.now

    def wall(self) -> int:
        """Nanoseconds since 1970."""
        return START * 1000 + self.now - EARLIER

    def go(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)


def opened(folder: Path, clock: Clock | None = None, **options: Any) -> Journal:
    """A journal, not started."""
    clock = clock or Clock()
    return Journal(folder, GATEWAY, **{"run": "r", "clock": clock, "wall": clock.wall, **options})


def as_dict(row: tuple[object, ...]) -> dict[str, object]:
    """A row by names, without what it does not have."""
    names = [column.name for column in schema.COLUMNS]
    return {name: value for name, value in zip(names, row, strict=True) if value is not None}


def rows_of(folder: Path, suffix: str = ".seg") -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for path in found(folder / GATEWAY, suffix):
        segment = Segment(path)
        rows += [as_dict(row) for row in segment]
        assert segment.torn == segment.damaged == segment.unknown == 0
    return rows


def names(folder: Path) -> list[str]:
    return sorted([path.name for path in (folder / GATEWAY).iterdir()])


class Fault:
    """A function of the system that fails from some call on.  Of what `writev` gets it takes one octet before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
        self.number = number
        self.calls = 0
        self.broken = True
        self.original = getattr(os, name)
        monkeypatch.setattr(os, name, self)

    def __call__(self, file: int, *arguments: Any) -> int:
        self.calls += 1
        if not self.broken:
            return int(self.original(file, *arguments) or 0)
        if self.calls == 1 and self.original.__name__ == "writev":
            return os.write(file, arguments[0][0][:1])
        raise OSError(self.number, os.strerror(self.number))
