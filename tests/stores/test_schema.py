"""The schema's number: older files are brought up, newer ones are left alone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.stores import SQLiteStore, StoreDamaged, StoreError
from tests.stores.batches import new, opened


@pytest.fixture
def old(path: Path) -> Path:
    store = opened(path)
    store.write(new([1, 2, 3]))
    store.close(clean=True)
    return path


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        number: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return number


def test_a_newer_one(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(
        StoreError, match=r"store\.db was made by a newer gateway: it has schema 7, and this one reads 1$"
    ):
        SQLiteStore.open(old)
    assert version_of(old) == 7


def test_one_that_never_was(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("PRAGMA user_version = 0")
    with pytest.raises(StoreDamaged, match="there never was a schema 0"):
        SQLiteStore.open(old)
