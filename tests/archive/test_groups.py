"""Which segments become one file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.archive.groups import groups
from gateway.archive.layout import Range

EPOCH = 1_700_000_000_000_000
TIME = 1_700_000_000  # twenty minutes before an hour ends


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "g1"
    path.mkdir()
    return path


def segment(folder: Path, number: int, octets: int = 10, epoch: int = EPOCH, time: float = TIME) -> Path:
    path = folder / f"{epoch}-{number:06d}.seg"
    path.write_bytes(bytes(octets))
    os.utime(path, (time, time))
    return path


def shown(paths: list[Path], most: int = 100) -> list[tuple[int, int, bool]]:
    return [(each.range.first, each.range.last, each.is_closed) for each in groups(paths, most)]


def test_none() -> None:
    assert groups([], 100) == []


def test_one_that_waits(folder: Path) -> None:
    paths = [segment(folder, number) for number in (1, 2, 3)]
    (group,) = groups(paths, 100)
    assert (group.range, group.paths, group.octets) == (Range("g1", EPOCH, 1, 3), paths, 30)
    assert not group.is_closed


def test_octets(folder: Path) -> None:
    paths = [segment(folder, number, 40) for number in range(1, 6)]
    assert shown(paths) == [(1, 2, True), (3, 4, True), (5, 5, False)]
    assert shown([segment(folder, 1, 500)]) == [(1, 1, True)]


def test_a_number_that_is_missing(folder: Path) -> None:
    """It may come yet."""
    paths = [segment(folder, number) for number in (1, 2, 4, 5)]
    assert shown(paths) == [(1, 2, True), (4, 5, False)]


def test_another_epoch(folder: Path) -> None:
    paths = [segment(folder, 1), segment(folder, 2), segment(folder, 3, epoch=EPOCH + 1)]
    assert shown(paths) == [(1, 2, True), (3, 3, False)]


def test_another_hour(folder: Path) -> None:
    paths = [segment(folder, number, time=TIME + 1000 * number) for number in (1, 2, 3, 4)]
    assert shown(paths) == [(1, 2, True), (3, 4, False)]
