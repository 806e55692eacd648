"""A lock has one holder, and says which process that is."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from gateway.archive.errors import ArchiveError
from gateway.archive.locks import lock


def test_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "a"
    held = lock(path, "busy")
    with pytest.raises(ArchiveError, match=rf"^busy \(process {os.getpid()}\)$"):
        lock(path, "busy")
    os.close(held)
    os.close(lock(path, "busy"))


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that makes room gets the lock; only its number is not known then."""

    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing)
        held = lock(tmp_path / "a", "busy")
    with pytest.raises(ArchiveError, match=r"busy \(process unknown\)"):
        lock(tmp_path / "a", "busy")
    os.close(held)


def test_it_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, how: int) -> None:
        raise OSError(37, "No locks available")

    (tmp_path / "a").touch()
    with pytest.raises(ArchiveError, match="b cannot be locked: Not a directory"):
        lock(tmp_path / "a" / "b", "busy")
    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(ArchiveError, match="a cannot be locked: No locks available"):
        lock(tmp_path / "a", "busy")
