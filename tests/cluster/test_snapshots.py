"""Snapshots come back as they were put, and two are kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.cluster.servers import Servers


@pytest.mark.parametrize("size", [1, 512 * 1024, 20 * 512 * 1024 + 7])
def test_come_back(servers: Servers, folder: Path, size: int) -> None:
    snapshots = servers.snapshots()
    file = folder / "file"
    file.write_bytes(os.urandom(size))
    made = snapshots.put(file, 7, 900)
    assert snapshots.all() == [made]
    snapshots.get(made, folder / "copy")
    assert (folder / "copy").read_bytes() == file.read_bytes()


def test_two_are_kept(servers: Servers, folder: Path) -> None:
    snapshots = servers.snapshots()
    file = folder / "file"
    oldest = []
    for sequence in (0, 5, 30, 200):
        file.write_bytes(b"%d" % sequence)
        snapshots.put(file, sequence, 10 * sequence)
        oldest.append(snapshots.forget_old())
    assert [each and each.sequence for each in oldest] == [None, 0, 5, 30]
    assert [(each.sequence, each.position) for each in snapshots.all()] == [(200, 2000), (30, 300)]
    for each in snapshots.all():
        snapshots.get(each, folder / f"{each.sequence}")
