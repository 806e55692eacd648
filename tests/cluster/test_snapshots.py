"""Snapshots come back as they were put, and two are kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gateway.cluster.log import LogUnavailable
from gateway.cluster.nats.faults import NatsUnavailable
from gateway.cluster.nats.jetstream import JetStream
from gateway.cluster.servers import Servers
from gateway.cluster.snapshots import Snapshots


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


def nbytes(snapshots: Snapshots) -> int:
    """What the bucket holds."""
    return int(snapshots._jets.call(f"STREAM.INFO.{snapshots._stream}")["state"]["bytes"])


def test_what_a_lost_node_uploaded_is_removed(servers: Servers, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = servers.snapshots()
    file = folder / "file"
    file.write_bytes(os.urandom(5 * 512 * 1024))
    left, append = [4], JetStream.append

    def lost(jets: JetStream, *arguments: Any, **more: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise NatsUnavailable("it is lost")
        return append(jets, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(JetStream, "append", lost)
        with pytest.raises(LogUnavailable, match="it is lost"):
            snapshots.put(file, 3, 0)
    assert nbytes(snapshots) > 4 * 512 * 1024
    file.write_bytes(b"small")
    made = snapshots.put(file, 7, 900)
    snapshots.forget_old()
    assert nbytes(snapshots) > 4 * 512 * 1024, "another node may be at work on it"
    monkeypatch.setattr("gateway.cluster.snapshots.UPLOAD", -1.0)
    snapshots.forget_old()
    assert nbytes(snapshots) < 4096
    snapshots.get(made, folder / "copy")


def test_one_whose_chunks_are_gone_is_not_announced(
    servers: Servers, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node was stopped for so long that another one took it for lost."""
    snapshots = servers.snapshots()
    file = folder / "file"
    file.write_bytes(os.urandom(3 * 512 * 1024))
    left, append = [2], JetStream.append

    def stopped(jets: JetStream, *arguments: Any, **more: Any) -> int:
        left[0] -= 1
        if not left[0]:
            monkeypatch.setattr("gateway.cluster.snapshots.UPLOAD", -1.0)
            servers.snapshots().forget_old()
        return append(jets, *arguments, **more)

    monkeypatch.setattr(JetStream, "append", stopped)
    with pytest.raises(LogUnavailable, match="the snapshot of 3 was removed while it was made"):
        snapshots.put(file, 3, 0)
    assert snapshots.all() == []
