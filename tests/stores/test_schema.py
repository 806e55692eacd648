"""The schema's number: older files are brought up, newer ones are left alone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.stores import SQLiteStore, StoreDamaged, StoreError, schema
from tests.stores.batches import new, opened, rows_of


@pytest.fixture
def old(path: Path) -> Path:
    """A store with three messages."""
    store = opened(path)
    store.write(new([1, 2, 3]))
    store.close(clean=True)
    return path


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        number: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return number


def test_it_is_in_the_file(old: Path) -> None:
    assert version_of(old) == schema.VERSION == 1


def test_a_newer_one(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(
        StoreError,
        match=r"store\.db was made by a newer gateway: it has schema 7, and this gateway knows those up to 1$",
    ):
        SQLiteStore.open(old)
    assert version_of(old) == 7


def test_one_that_never_was(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("PRAGMA user_version = 0")
    with pytest.raises(StoreDamaged, match="there never was a schema 0"):
        SQLiteStore.open(old)


def test_an_older_one_is_brought_up_step_by_step(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def to_2(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE places ADD COLUMN colour TEXT")

    def to_3(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE places DROP COLUMN colour")
        connection.execute("DELETE FROM rows WHERE row = 2")

    monkeypatch.setattr(schema, "VERSION", 3)
    monkeypatch.setattr(schema, "MIGRATIONS", {1: to_2, 2: to_3})
    store = opened(old)
    assert rows_of(store) == [1, 3]
    store.close(clean=True)
    assert version_of(old) == 3
    opened(old).close(clean=True)


def test_what_fails_halfway_has_not_begun(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def to_2(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM rows")

    def to_3(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM none_such")

    with monkeypatch.context() as later:
        later.setattr(schema, "VERSION", 3)
        later.setattr(schema, "MIGRATIONS", {1: to_2, 2: to_3})
        with pytest.raises(StoreError, match="no such table: none_such"):
            SQLiteStore.open(old)
    store = opened(old)
    assert rows_of(store) == [1, 2, 3]
    store.close(clean=True)
