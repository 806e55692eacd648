"""Damaged files: found when they are used, never taken for empty ones, and saved as far as they go."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from gateway.broker.model.changes import Batch, StoredRow
from gateway.stores import SQLiteStore, StoreDamaged, file, tools
from tests.stores.batches import content_of, new, opened, place, stored

ROWS = list(range(1, 1201))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store with some pages of everything."""
    path = tmp_path_factory.mktemp("sound") / "store.db"
    store = opened(path)
    for start in range(0, len(ROWS), 400):
        store.write(new(ROWS[start : start + 400], size=100))
    store.close(clean=True)
    return path.read_bytes()


def damaged(sound: bytes, page: int) -> bytes:
    """The file with one page of garbage, counted from 0."""
    garbage = random.Random(page).randbytes(file.PAGE)
    return sound[: page * file.PAGE] + garbage + sound[(page + 1) * file.PAGE :]


def use(path: Path) -> list[int]:
    store = opened(path)
    try:
        rows = [row.row for row in store.load().rows]
        assert store.read(rows) == [stored(row, size=100) for row in rows]
        return rows
    finally:
        store.close(clean=False)


def test_every_page_is_reported(sound: bytes, path: Path) -> None:
    path.write_bytes(sound)
    assert tools.check(path) == []
    for page in range(len(sound) // file.PAGE):
        path.write_bytes(damaged(sound, page))
        assert tools.check(path)


def test_an_index_that_is_wrong_is_reported(store: SQLiteStore, path: Path) -> None:
    store.write(Batch(1, places={1: place()}, contents={9: content_of(9)}, rows={1: StoredRow(1, 1, 9, 5, 300)}))
    store._sql("PRAGMA writable_schema = ON")
    store._sql("UPDATE sqlite_master SET sql = replace(sql, '<>', '>') WHERE name = 'sharing'")
    store._sql("UPDATE sqlite_master SET sql = replace(sql, '> row', '< row') WHERE name = 'sharing'")
    store.close(clean=True)
    assert tools.check(path) == [f"{path}: wrong # of entries in index sharing"]


def saved(path: Path, to: Path) -> tuple[list[int], list[str]]:
    """What goes through export and import, and what the export says that it misses."""
    lines = io.StringIO()
    missing = tools.export(path, lines)
    tools.import_(to, lines.getvalue().splitlines())
    return use(to), missing


def test_what_can_be_read_is_saved(sound: bytes, path: Path, tmp_path: Path) -> None:
    counts = []
    for page in range(1, len(sound) // file.PAGE, 3):
        path.write_bytes(damaged(sound, page))
        try:
            rows, missing = saved(path, tmp_path / f"{page}.db")
        except StoreDamaged:  # one of those that SQLite needs for anything at all
            rows, missing = [], ["all"]
        assert set(rows) <= set(ROWS)
        assert missing or rows == ROWS
        counts.append(len(rows))
    # A page is a few dozen messages; only those at the root of a table take many with them.
    assert sorted(counts)[len(counts) // 2] > 1000


def test_ids_that_cannot_be_read(path: Path, tmp_path: Path) -> None:
    store = opened(path)
    batch = new([1])
    batch.seen = {b"a": 1e12}
    store.write(batch)
    (page,) = store._sql("SELECT rootpage FROM sqlite_master WHERE name = 'seen'").fetchone()
    store.close(clean=True)
    path.write_bytes(damaged(path.read_bytes(), page - 1))
    lines = io.StringIO()
    (missing,) = tools.export(path, lines)
    assert missing.startswith("seen: de-duplication ids are damaged: ")
    assert tools.import_(tmp_path / "other.db", lines.getvalue().splitlines()) == []


class TestPlace:
    """Of one message that was asked for alone."""

    def test_is_told(self, store: SQLiteStore) -> None:
        batch = new([1, 2])
        store.write(batch)
        (name,) = {place.name for place in batch.places.values()}
        store._sql("UPDATE contents SET headers = x'ff' WHERE content = 1")
        with pytest.raises(StoreDamaged) as alone:
            store.read([1])
        assert alone.value.place == name
        with pytest.raises(StoreDamaged) as together:
            store.read([1, 2])
        assert together.value.place == ""
        assert store.read([2]) == [stored(2)]
