"""Who is at work."""

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


def test_it_says_no_number(tmp_path: Path) -> None:
    path = tmp_path / "a"
    held = lock(path, "busy")
    path.write_bytes(b"")
    with pytest.raises(ArchiveError, match=r"busy \(process unknown\)"):
        lock(path, "busy")
    os.close(held)


def test_it_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(ArchiveError, match=r"a cannot be locked: No locks available"):
        lock(tmp_path / "a", "busy")


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who makes room must get in; then nobody knows its number."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing)
        held = lock(tmp_path / "a", "busy")
    with pytest.raises(ArchiveError, match=r"busy \(process unknown\)"):
        lock(tmp_path / "a", "busy")
    os.close(held)


def failing(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_it_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(ArchiveError, match="b cannot be locked: Not a directory"):
        lock(tmp_path / "a" / "b", "busy")
