"""Which files hold the rows of which hours."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.archive import history, layout
from gateway.archive.history import MANIFEST, Manifest
from gateway.archive.layout import ArchiveError

NOON = layout.hour_at(datetime(2026, 11, 21, 12, tzinfo=UTC))


def touch(archive: Path, root: str, hour: int, *names: str) -> Path:
    folder = archive / root / layout.folder_of(hour)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def names(paths: list[Path]) -> list[str]:
    return [f"{path.parent.name[5:]}/{path.name}" for path in paths]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Noon is compacted, and a late file partly; the hour before is history alone; the next one is raw."""
    touch(tmp_path, "raw", NOON, "a.parquet", "late.parquet", "_b.parquet")
    folder = touch(tmp_path, "history", NOON, "0001-0001.parquet", "0002-0001.parquet", "_c.parquet")
    history.write(folder, Manifest(frozenset({"a.parquet"}), ("0001-0001.parquet",), 3))
    history.announce(folder, ["0002-0001.parquet"])
    folder = touch(tmp_path, "history", NOON - 1, "0001-0001.parquet")
    history.write(folder, Manifest(frozenset({"gone.parquet"}), ("0001-0001.parquet",), 3))
    touch(tmp_path, "raw", NOON + 1, "a.parquet")
    return tmp_path


def test_all(archive: Path) -> None:
    found = names(history.files(archive))
    assert found == ["11/0001-0001.parquet", "12/0001-0001.parquet", "12/late.parquet", "13/a.parquet"]


@pytest.mark.parametrize(
    ("since", "until", "hours"),
    [
        (0, 60, "12"),
        (59, 61, "12 13"),
        (-1, None, "11 12 13"),
        (None, -60, ""),
        (0, 0, ""),
    ],
)
def test_span(archive: Path, since: int | None, until: int | None, hours: str) -> None:
    moments = [None if each is None else layout.start_of(NOON) + timedelta(minutes=each) for each in (since, until)]
    found = history.files(archive, *moments)
    assert sorted({path.parent.name[5:] for path in found}) == hours.split()


def test_no_files_and_no_time_zone(archive: Path) -> None:
    assert history.files(archive / "none") == []
    with pytest.raises(ValueError, match="time zone"):
        history.files(archive, datetime(2026, 11, 21))


def test_a_file_that_goes_between(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compacted and deleted after `raw` was listed: its rows are those of the history."""
    read = history.read

    def compacted(folder: Path) -> Manifest:
        (archive / "raw" / layout.folder_of(NOON) / "late.parquet").unlink(missing_ok=True)
        old = read(folder)
        return Manifest(old.raw | {"late.parquet"}, (*old.history, "0002-0001.parquet"), 4)

    monkeypatch.setattr(history, "read", compacted)
    assert names(history.files_of(archive, NOON)) == ["12/0001-0001.parquet", "12/0002-0001.parquet"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 1, "raw": 3, "history": [], "rows": 0}'])
def test_a_damaged_manifest(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(ArchiveError, match=r"_manifest\.json is damaged"):
        history.read(tmp_path)
    (tmp_path / MANIFEST).write_text('{"version": 2}')
    with pytest.raises(ArchiveError, match="has version 2, and this program reads 1 only"):
        history.read(tmp_path)


def test_pending_files(tmp_path: Path) -> None:
    assert history.pending(tmp_path) == frozenset()
    history.announce(tmp_path, ["b", "a"])
    assert history.pending(tmp_path) == {"a", "b"}
    for data in (b"{", b"1", b"\xff"):
        (tmp_path / history.PENDING).write_bytes(data)
        with pytest.raises(ArchiveError, match=r"_pending\.json is damaged"):
            history.pending(tmp_path)


class TestUnlisted:
    def test_names(self, tmp_path: Path) -> None:
        folder = touch(tmp_path, "history", NOON, *[f"000{number}-0001.parquet" for number in range(1, 6)], "a.parquet")
        history.announce(folder, ["0001-0001.parquet"])
        lost = [f"000{number}-0001.parquet" for number in range(2, 6)]
        assert history.unlisted(folder, Manifest()) == lost
        with pytest.raises(ArchiveError, match=r"lists: 0002-0001\.parquet, .* and 1 more; `gateway"):
            history.files_of(tmp_path, NOON)

    @pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
    @pytest.mark.parametrize("made", [True, False])
    def test_while_files_come_and_go(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, made: bool
    ) -> None:
        """Whatever a reader looks at meanwhile."""
        folder = touch(tmp_path, "history", NOON, "0001-0001.parquet")

        def announce() -> None:
            history.announce(folder, ["0001-0001.parquet"])
            (folder / history.MANIFEST).unlink(missing_ok=True)

        def commit() -> None:
            history.write(folder, Manifest(frozenset(), ("0001-0001.parquet",)))
            (folder / history.PENDING).unlink(missing_ok=True)

        before, meanwhile = (announce, commit) if made else (commit, announce)
        before()
        between(monkeypatch, at, meanwhile)
        assert history.unlisted(folder, Manifest()) == []


def between(patch: pytest.MonkeyPatch, at: int, act: Callable[[], None]) -> None:
    """Do something before the look of that number: at the files, what is pending, or the manifest."""
    looks = []

    def looking(original: Callable[..., Any]) -> Callable[..., Any]:
        def look(*arguments: Any) -> Any:
            looks.append(original)
            if len(looks) == at:
                act()
            return original(*arguments)

        return look

    for name in ("_others", "pending", "read"):
        patch.setattr(history, name, looking(getattr(history, name)))
