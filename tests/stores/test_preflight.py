"""What `gateway check-config` says of a store: what `gateway serve` would, without touching the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.broker.core.ports import StoreError
from gateway.stores import SQLiteStore, file, preflight
from tests.stores.batches import new
from tests.stores.test_sqlite_failure import disk_of


def look(path: Path) -> None:
    preflight.look(f"sqlite:{path}")


@pytest.fixture
def closed(store: SQLiteStore, path: Path) -> Path:
    store.write(new(range(1, 101), size=1000))
    store.close(clean=True)
    return path


class TestLook:
    def test_of_a_new_one(self, path: Path) -> None:
        look(path)
        assert not path.exists()

    def test_of_a_store(self, closed: Path) -> None:
        before = closed.read_bytes()
        look(closed)
        assert closed.read_bytes() == before
        assert list(closed.parent.iterdir()) == [closed]

    def test_of_one_that_a_gateway_has(self, store: SQLiteStore, path: Path) -> None:
        store.write(new([1]))
        look(path)
        store.write(new([2]))

    @pytest.mark.parametrize(
        ("name", "data", "sentence"),
        [
            ("no/a.db", None, r"a\.db cannot be made: there is no folder .*/no$"),
            ("a.db-wal", b"x", "only its log"),
            ("a.db", b"", "it is empty"),
            ("a.db", b"nonsense" * 100, "it is no file of SQLite"),
            ("a.db", b"SQLite format 3\0", "it is no file of SQLite"),
        ],
    )
    def test_of_what_is_no_store(self, tmp_path: Path, name: str, data: bytes | None, sentence: str) -> None:
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(StoreError, match=sentence):
            look(path.with_suffix(".db"))

    def test_of_one_that_is_cut_off(self, closed: Path) -> None:
        size = closed.stat().st_size
        os.truncate(closed, size - file.PAGE)
        with pytest.raises(StoreError, match=f"cut off: it has {size - file.PAGE} bytes of {size}"):
            look(closed)
        Path(f"{closed}-wal").write_bytes(b"the rest may be here")
        look(closed)

    def test_of_a_small_disk(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        disk_of(monkeypatch, free=4096, size=6144)
        sentence = "its disk has 24 MiB, and a store needs one of 40 MiB at least"
        with pytest.raises(StoreError, match=sentence):
            look(path)
        with pytest.raises(StoreError, match=sentence):
            SQLiteStore.open(path)


class TestUnkept:
    @pytest.mark.parametrize(
        "values", [{}, {"durable": None}, {"durable": False}, {"max_messages": 1}, {"log_messages": 0}]
    )
    def test_nothing(self, values: dict[str, object]) -> None:
        assert preflight.unkept([("/queue/a", values)]) == ""

    @pytest.mark.parametrize("values", [{"durable": True}, {"log_messages": 1}, {"log_bytes": 1}, {"log_age": 0.5}])
    def test_names_the_patterns(self, values: dict[str, object]) -> None:
        found = preflight.unkept([("/topic/a", values), ("/topic/b", {}), ("/topic/c", values)])
        assert "policies of /topic/a, /topic/c ask for durable" in found
