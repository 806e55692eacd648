"""Files that are there at once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gateway import files


def test_an_old_time_is_touched(tmp_path: Path) -> None:
    """Spark's file source ignores a file that is older than the newest one by some days."""
    path = tmp_path / "a.parquet"
    before = time.time() - 1
    files.hidden(path).write_bytes(b"x")
    os.utime(files.hidden(path), (1000, 1000))
    files.reveal(path)
    assert path.stat().st_mtime >= before
    assert [each.name for each in tmp_path.iterdir()] == ["a.parquet"]


def test_store_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.store(tmp_path / "a", b"one")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.store(tmp_path / "a", b"two")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("a", b"one")]


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_who_may_read(tmp_path: Path, umask: int) -> None:
    """Others never, but what is made to be shown; the umask may take more away."""
    top = tmp_path / "around" / "top"
    before = os.umask(umask)
    try:
        files.make_private(top)
        files.make_folder(top / "inner")
        files.store(top / "file", b"")
        files.store(top / "page", b"", files.SHOWN)
    finally:
        os.umask(before)
    assert [_mode(each) for each in (top.parent, top, top / "inner", top / "file", top / "page")] == [
        *(0o777 & ~umask, 0o700, 0o750 & ~umask, 0o640 & ~umask, 0o666 & ~umask)
    ]


def test_nobody_sees_what_is_not_whole(tmp_path: Path) -> None:
    with pytest.raises(TypeError), files.writing(tmp_path / "a") as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert list(tmp_path.iterdir()) == []


def test_a_hidden_name_of_its_own(tmp_path: Path) -> None:
    with files.writing(tmp_path / "a", fresh=tmp_path / "_a-1") as file:
        assert [each.name for each in tmp_path.iterdir()] == ["_a-1"]
        file.write(b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777
