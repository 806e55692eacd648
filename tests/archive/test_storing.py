"""Files that are there at once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gateway.archive import storing


def test_an_old_time_is_touched(tmp_path: Path) -> None:
    """Spark's file source ignores a file that is older than the newest one by some days."""
    path = tmp_path / "a.parquet"
    before = time.time() - 1
    storing.hidden(path).write_bytes(b"x")
    os.utime(storing.hidden(path), (1000, 1000))
    storing.reveal(path)
    assert path.stat().st_mtime >= before
    assert [each.name for each in tmp_path.iterdir()] == ["a.parquet"]


def test_store(tmp_path: Path) -> None:
    storing.store(tmp_path / "a", b"one")
    storing.store(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"


def test_store_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storing.store(tmp_path / "a", b"one")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        storing.store(tmp_path / "a", b"two")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("a", b"one")]


def test_make_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "c"
    storing.make_folder(folder)
    storing.make_folder(folder)
    assert folder.is_dir()
    assert not folder.stat().st_mode & 0o007
