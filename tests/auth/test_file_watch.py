"""Watched files are read again when they change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.typing import EventDict

from gateway.auth.file_watch import WatchedFile
from gateway.config.settings import SettingsError
from gateway.files import FileFault, read_text

from .issuer import write


def read(path: Path) -> str:
    text = read_text(path, 20, "a small file")
    if "bad" in text:
        raise FileFault(f"{path} is bad")
    return text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    write(path, "one")
    return path


def watched(path: Path) -> WatchedFile[str]:
    return WatchedFile("jwt_keys", path, read)


def test_at_the_start_a_fault_is_a_wrong_setting(path: Path) -> None:
    write(path, "bad")
    with pytest.raises(SettingsError, match=r"^jwt_keys \(GATEWAY_JWT_KEYS\) is wrong: .*file is bad$"):
        watched(path)


async def test_a_changed_file_is_read(path: Path, logged: list[EventDict]) -> None:
    file = watched(path)
    assert file.is_current
    assert await file.fresh() == "one"
    assert logged == []
    write(path, "other")
    assert not file.is_current
    assert await file.fresh() == "other"
    assert file.is_current
    assert [line["event"] for line in logged] == ["jwt_keys read again"]
    write(path, "two")
    assert file.reload() is None
    assert file.value == "two"
    write(path, "bad")
    assert file.reload() == f"jwt_keys (GATEWAY_JWT_KEYS) is wrong: {path} is bad"
    assert file.value == "two"


@pytest.mark.parametrize("damage", ["bad!", None])
async def test_the_last_good_contents_stay(path: Path, damage: str | None, logged: list[EventDict]) -> None:
    file = watched(path)
    if damage is None:
        os.unlink(path)
    else:
        write(path, damage)
    for _ in range(2):
        assert file.refresh() == await file.fresh() == "one"
    assert [line["log_level"] for line in logged] == ["error"], "logged once"
    assert str(path) in logged[0]["reason"]
    write(path, "three")
    os.utime(path, ns=(1, 1))
    assert await file.fresh() == "three"


def test_a_slow_reading_does_not_replace_a_newer_one(path: Path) -> None:
    file = watched(path)
    is_slow = True

    def read_slowly(path: Path) -> str:
        nonlocal is_slow
        text = read(path)
        if is_slow:
            is_slow = False
            write(path, "the newest")
            file.reload()  # as another thread would, or SIGHUP
        return text

    file._read = read_slowly
    write(path, "newer")
    assert file.refresh() == "the newest"
    assert file.is_current
