"""A store that held much and holds little gives the room back; and what `tidy` does when nobody waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.broker.model.changes import Batch
from gateway.stores import SQLiteStore, StoreFull, disk_space, file, sqlite
from tests.stores.batches import new, rows_of, stored
from tests.stores.test_sqlite_failure import disk_of

MIB = 1 << 20


def size_of(path: Path) -> int:
    return path.stat().st_size


def tidy(store: SQLiteStore) -> None:
    """As after many batches."""
    store._written = sqlite.TIDY_AFTER
    assert not store.tidy()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_space, "MUCH_FREE", 2 * MIB)
    monkeypatch.setattr(disk_space, "LITTLE_LEFT", MIB)


@pytest.fixture
def much(store: SQLiteStore, path: Path) -> list[int]:
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


def test_the_log_is_bounded(store: SQLiteStore, path: Path) -> None:
    log = Path(f"{path}-wal")
    for start in range(1, 20_001, 1000):
        store.write(new(range(start, start + 1000), size=1000))
    assert size_of(log) < 2 * file.LOG_PAGES * file.PAGE
    assert size_of(path) > 12 * MIB


class TestShortOfRoom:
    """Free room within the file is of no use to the log: it must be given back."""

    @pytest.fixture
    def short(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SQLiteStore]:
        """4 MiB of messages, of which ten are left; 6 MiB of the disk are free, and 16 should be."""
        store = SQLiteStore.open(path)
        rows = list(range(1, 4001))
        store.write(new(rows, size=1000))
        store.write(Batch(2, gone=rows[:-10]))
        disk_of(monkeypatch, free=6 * MIB // 4096, size=128 * MIB // 4096)
        assert store.shortage()
        yield store
        store.close(clean=True)

    def test_an_emptied_file_becomes_small_at_once(self, short: SQLiteStore, path: Path) -> None:
        assert not short.tidy()
        assert size_of(path) < MIB
        assert size_of(Path(f"{path}-wal")) == 0
        assert rows_of(short) == list(range(3991, 4001))

    def test_only_the_log_where_much_is_left(
        self, short: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(disk_space, "LITTLE_LEFT", 0)
        assert not short.tidy()
        assert size_of(path) > 4 * MIB
        assert size_of(Path(f"{path}-wal")) == 0

    def test_only_what_fits_into_what_is_free(
        self, short: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        disk_of(monkeypatch, free=1, size=128 * MIB // 4096)
        assert not short.tidy()
        assert size_of(path) > 4 * MIB

    def test_when_a_commit_fails_for_it(self, short: SQLiteStore, path: Path) -> None:
        pages = short._sql("PRAGMA page_count").fetchone()[0]
        short._sql(f"PRAGMA max_page_count = {pages}").fetchall()
        with pytest.raises(StoreFull):
            short.write(new(range(5001, 12_001), size=1000))
        assert size_of(path) < MIB
        assert size_of(Path(f"{path}-wal")) == 0
