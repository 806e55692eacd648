"""A lock has one holder, and says which process that is."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from gateway.archive.layout import ArchiveError, lock


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "locks" / "a"
    held = lock(path, "busy")
    with pytest.raises(ArchiveError, match=rf"^busy \(process {os.getpid()}\)$"):
        lock(path, "busy")
    os.close(held)
    path.write_text("")
    with monkeypatch.context() as patch:  # the process that makes room gets the lock; only its number is not known then
        patch.setattr(os, "pwrite", full)
        held = lock(path, "busy")
    with pytest.raises(ArchiveError, match=r"busy \(process unknown\)"):
        lock(path, "busy")
    os.close(held)
    with pytest.raises(ArchiveError, match="b cannot be locked: Not a directory"):
        lock(path / "b", "busy")
    monkeypatch.setattr(fcntl, "flock", full)
    with pytest.raises(ArchiveError, match="a cannot be locked: No space left on device"):
        lock(path, "busy")
