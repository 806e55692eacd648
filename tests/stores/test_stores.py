"""The store by its name in the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.stores import SQLiteStore, StoreError, open_store


def test_memory() -> None:
    assert open_store("memory") is None


@pytest.mark.parametrize("absolute", [True, False])
def test_a_file(absolute: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(f"sqlite:{tmp_path / 'a.db' if absolute else 'a.db'}")
    assert isinstance(store, SQLiteStore)
    store.close(clean=True)
    assert (tmp_path / "a.db").stat().st_size


@pytest.mark.parametrize("name", ["a b.db", "a?mode=memory", "a#b", "ä%20.db"])
def test_names_mean_nothing(name: str, tmp_path: Path) -> None:
    store = open_store(f"sqlite:{tmp_path / name}")
    assert store is not None
    store.close(clean=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("url", ["", "sqlite", "sqlite:", "memory:", "redis:host", "/var/lib/store.db"])
def test_others(url: str) -> None:
    with pytest.raises(StoreError, match=r"^there is no store .*: write memory, or sqlite:PATH"):
        open_store(url)
