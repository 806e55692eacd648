"""Copies of an open store: the file as it was, while commits go on; and those that come to nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from gateway.broker.core.ports import StoreError
from gateway.stores import SQLiteStore, StoreLocked, backup, tools
from gateway.stores.backup import FrozenStore

from .batches import new, opened, rows_of, stored

LARGE = 50_000


def size_of(path: Path) -> int:
    return path.stat().st_size


async def copied(store: SQLiteStore, to: Path) -> None:
    """Copy a store that is frozen."""
    with to.open("wb") as out:
        async for piece in FrozenStore(store, store.path.stat().st_size).pieces():
            out.write(piece)


async def test_a_copy_has_all_that_was_committed_before_and_nothing_behind(
    store: SQLiteStore, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "PIECE", 8_192)
    list(store.load().rows)
    store.write(new(range(1, 101), size=LARGE))
    size = store.freeze()
    assert size == size_of(path)
    copy, row = tmp_path / "copy.db", 101
    with copy.open("wb") as out:
        async for piece in FrozenStore(store, size).pieces():
            out.write(piece)
            store.write(new([row], size=LARGE))  # far more than the log may have otherwise
            store.tidy()
            row += 1
    assert size_of(path) == size
    store.thaw()
    assert row > 500
    assert tools.check(copy) == []
    other = opened(copy)
    assert rows_of(other) == list(range(1, 101))
    assert other.read([50]) == [stored(50, size=LARGE)]
    other.close(clean=False)
    store.write(new([row]))
    store.close(clean=True)
    assert size_of(path) > size
    assert tools.check(path) == []


async def test_the_lock_of_the_store_stays(store: SQLiteStore, path: Path, tmp_path: Path) -> None:
    """To close a descriptor of a file takes all locks of the process on it away."""
    for number in range(2):
        store.freeze()
        await copied(store, tmp_path / f"{number}.db")
        store.thaw()
        with pytest.raises(StoreLocked):
            opened(path)


async def test_a_shortage_of_room_ends_the_copy(store: SQLiteStore, tmp_path: Path) -> None:
    list(store.load().rows)
    store.write(new(range(1, 101), size=LARGE))
    store.freeze()
    store._room.make_room()
    with pytest.raises(StoreError, match="had to be written to: room on its disk is short"):
        await copied(store, tmp_path / "copy.db")
    store.thaw()
    assert not store.is_frozen


async def test_a_file_that_gets_shorter(store: SQLiteStore) -> None:
    size = store.freeze()
    with pytest.raises(StoreError, match="has become shorter"):
        async for _ in FrozenStore(store, size + 1).pieces():
            pass


async def test_it_thaws_when_a_copy_is_given_up(store: SQLiteStore) -> None:
    class Committer:
        async def call(self, function):  # type: ignore[no-untyped-def]
            return function()

    with trio.CancelScope() as scope:
        async with backup.frozen(store, Committer()):  # type: ignore[arg-type]
            assert store.is_frozen
            scope.cancel()
            await trio.sleep_forever()
    assert not store.is_frozen
