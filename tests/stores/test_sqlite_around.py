"""A store goes on around damage: what does not touch it is written, and nobody loses what he was told."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from gateway.broker.model.changes import Batch
from gateway.stores import SQLiteStore, StoreDamaged, StoreError, file, tools
from tests.stores.batches import body_of, new, opened, rows_of, stored

ROWS = list(range(1, 401))
WHOLE = range(file.PAGE)
SECOND_HALF = range(file.PAGE // 2, file.PAGE)


def harm(path: Path, row: int, part: range = WHOLE, seed: int = 1) -> None:
    """Overwrite the page, or a part of it, in which the body of that message begins."""
    data = bytearray(path.read_bytes())
    start = data.index(body_of(row, 1000)) // file.PAGE * file.PAGE
    data[start + part.start : start + part.stop] = random.Random(seed).randbytes(len(part))
    path.write_bytes(data)


@pytest.fixture
def closed(store: SQLiteStore, path: Path) -> Path:
    """Messages of 1,000 bytes, seven to a page."""
    store.write(new(ROWS, size=1000))
    store.close(clean=True)
    return path


def readable(store: SQLiteStore) -> list[int]:
    found = []
    for row in ROWS:
        try:
            found += [each.row.row for each in store.read([row])]
        except StoreDamaged:
            continue
    return found


class TestMessagesWithoutContent:
    @pytest.mark.parametrize("seed", range(3))
    def test_half_a_page(self, closed: Path, tmp_path: Path, seed: int) -> None:
        """Some sectors of a page: SQLite then finds nothing wrong, most of the time, and just not the messages."""
        harm(closed, 200, SECOND_HALF, seed)
        lines = io.StringIO()
        missing = tools.export(closed, lines)
        store = opened(closed)
        assert rows_of(store) == ROWS
        there = readable(store)
        store.close(clean=False)
        assert len(ROWS) - 8 < len(there) < len(ROWS)
        assert missing[-1].endswith("messages have no content")
        assert tools.check(closed)
        tools.import_(tmp_path / "new.db", lines.getvalue().splitlines())
        saved = opened(tmp_path / "new.db")
        assert set(there) <= set(rows_of(saved)) < set(ROWS)
        saved.close(clean=True)


class TestWritingAroundDamage:
    @pytest.mark.parametrize("part", [WHOLE, SECOND_HALF])
    def test_what_is_consumed_leaves(self, closed: Path, part: range) -> None:
        harm(closed, 200, part)
        store = opened(closed)
        store.load()
        there = readable(store)
        for start in range(0, len(there), 30):
            store.write(Batch(start, gone=there[start : start + 30]))
        store.write(new([1001, 1002], size=1000))
        store.close(clean=False)
        again = opened(closed)
        left = rows_of(again)
        assert set(left) == {*ROWS, 1001, 1002} - set(there)
        if part == WHOLE:  # else SQLite does not see it, and takes up garbage in what it writes
            assert again.read([1001, 1002]) == [stored(row, size=1000) for row in (1001, 1002)]
        again.close(clean=True)

    @pytest.mark.parametrize("end", ["emptied", "dropped"])
    def test_places_end(self, closed: Path, end: str) -> None:
        harm(closed, 200)
        store = opened(closed)
        store.load()
        batch = new([1001], into=2)
        getattr(batch, end).append(1)
        store.write(batch)
        assert rows_of(store) == [1001]
        assert len(store.load().places) == (2 if end == "emptied" else 1)
        store.close(clean=True)

    def test_tidying_passes_over_it_and_the_operator_is_told(self, closed: Path) -> None:
        harm(closed, 200)
        store = opened(closed)
        assert store.notice() == ""
        store.write(Batch(1, gone=ROWS))
        assert store.notice().startswith(f"{closed} is damaged")
        assert store.notice() == ""
        store.close(clean=True)
        store = opened(closed)
        assert rows_of(store) == []
        while store.tidy():
            pass
        store.write(new([1001]))
        assert rows_of(store) == [1001]
        store.close(clean=True)

    def test_what_touches_rows_fails(self, store: SQLiteStore, path: Path) -> None:
        """Of the rows nothing can be left out: they are all that is known of messages."""
        store.write(new(range(1, 3001)))
        (page,) = store._sql("SELECT rootpage FROM sqlite_master WHERE name = 'rows'").fetchone()
        store.close(clean=True)
        data = bytearray(path.read_bytes())
        data[(page - 1) * file.PAGE : page * file.PAGE] = random.Random(1).randbytes(file.PAGE)
        path.write_bytes(data)
        store = opened(path)
        with pytest.raises(StoreDamaged):
            store.write(Batch(1, gone=[1, 2]))
        store.close(clean=False)


class TestPlaceOfTheFile:
    """Somebody deletes it, or moves it away, while the gateway has it."""

    @pytest.mark.parametrize("end", ["", "-wal"])
    def test_that_is_deleted(self, store: SQLiteStore, path: Path, end: str) -> None:
        store.write(new([1]))
        Path(f"{path}{end}").unlink()
        with pytest.raises(StoreError, match=rf"store\.db{end} is gone"):
            store.write(new([2]))
        with pytest.raises(StoreError, match=rf"store\.db{end} is gone"):
            store.shortage()

    def test_that_is_another_now(self, store: SQLiteStore, path: Path) -> None:
        store.write(new([1]))
        path.rename(f"{path}.old")
        path.write_bytes(b"")
        with pytest.raises(StoreError, match=r"store\.db is another file now"):
            store.write(new([2]))

    def test_that_comes_back(self, store: SQLiteStore, path: Path) -> None:
        path.rename(f"{path}.old")
        batch = new([1])
        with pytest.raises(StoreError):
            store.write(batch)
        Path(f"{path}.old").rename(path)
        store.write(batch)
        assert store.shortage() == ""
        assert rows_of(store) == [1]
