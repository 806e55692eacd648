"""A store that held much and holds little gives the room back; and what `tidy` does when nobody waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.batch import Batch
from gateway.stores import SQLiteStore, file, sqlite
from tests.stores.batches import new, rows_of, stored

MIB = 1 << 20


def size_of(path: Path) -> int:
    return path.stat().st_size


def tidy(store: SQLiteStore) -> None:
    """As after many batches."""
    store._written = sqlite._TIDY_AFTER
    assert not store.tidy()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_MUCH_FREE", 2 * MIB)
    monkeypatch.setattr(sqlite, "_LITTLE_LEFT", MIB)


@pytest.fixture
def much(store: SQLiteStore, path: Path) -> list[int]:
    """4 MiB of messages."""
    rows = list(range(1, 4001))
    store.write(new(rows, size=1000))
    tidy(store)
    assert size_of(path) > 4 * MIB
    return rows


def test_nothing_is_given_back_while_much_is_left(store: SQLiteStore, path: Path, much: list[int]) -> None:
    store.write(Batch(2, gone=much[:2500]))
    tidy(store)
    assert size_of(path) > 4 * MIB


def test_a_file_that_is_nearly_empty_becomes_small(store: SQLiteStore, path: Path, much: list[int]) -> None:
    store.write(Batch(2, gone=much[:-10]))
    tidy(store)
    assert size_of(path) < MIB
    assert store.read(much) == [stored(row, size=1000) for row in much[-10:]]
    store.write(new([5000]))
    assert rows_of(store) == [*much[-10:], 5000]


def test_so_it_does_at_a_stop(store: SQLiteStore, path: Path, much: list[int]) -> None:
    store.write(Batch(2, emptied=[1]))
    store.close(clean=True)
    assert size_of(path) < MIB
    assert list(path.parent.iterdir()) == [path]


def test_free_pages_are_used_again(store: SQLiteStore, path: Path, much: list[int]) -> None:
    before = size_of(path)
    store.write(Batch(2, gone=much[:2500]))
    for start in range(5000, 7000, 500):
        store.write(new(range(start, start + 500), size=1000))
    tidy(store)
    assert size_of(path) == before


def test_the_log_is_moved_after_many_batches(store: SQLiteStore, path: Path) -> None:
    tidy(store)
    before = size_of(path)
    for row in range(1, sqlite._TIDY_AFTER + 1):
        assert not store.tidy()
        assert size_of(path) == before
        store.write(new([row], size=10_000))
    assert not store.tidy()
    assert size_of(path) > before


def test_the_log_is_bounded(store: SQLiteStore, path: Path) -> None:
    log = Path(f"{path}-wal")
    for start in range(1, 20_001, 1000):
        store.write(new(range(start, start + 1000), size=1000))
    assert size_of(log) < 2 * file.LOG_PAGES * file.PAGE
    assert size_of(path) > 12 * MIB
