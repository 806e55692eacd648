"""An open store in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.stores import SQLiteStore, StoreError
from tests.stores.batches import opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    store = opened(path)
    yield store
    with suppress(StoreError):  # most tests leave that to the fixture, some do it themselves
        store.close(clean=True)
