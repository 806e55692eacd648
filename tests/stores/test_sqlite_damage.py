"""Damaged files: found when they are used, never taken for empty ones, saved as far as they go, and written around."""

from __future__ import annotations

import io
import random
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.broker.model.changes import Batch, Stored, StoredRow
from gateway.stores import SQLiteStore, StoreDamaged, StoreError, file, tools
from gateway.stores.repair import PageReader, UnreadableKeys, readable
from tests.stores.batches import body_of, content_of, new, opened, place, rows_of, stored

MANY = list(range(1, 1201))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store with some pages of everything."""
    path = tmp_path_factory.mktemp("sound") / "store.db"
    store = opened(path)
    for start in range(0, len(MANY), 400):
        store.write(new(MANY[start : start + 400], size=100))
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
        assert set(rows) <= set(MANY)
        assert missing or rows == MANY
        counts.append(len(rows))
    # A page is a few dozen messages; only those at the root of a table take many with them.
    assert sorted(counts)[len(counts) // 2] > 1000


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


def readable_rows(store: SQLiteStore) -> list[int]:
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
        there = readable_rows(store)
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
        there = readable_rows(store)
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


PATH = Path("store.db")


class Table:
    """Stands in for a connection to a table with some keys, of which some cannot be read."""

    def __init__(self, keys: Iterable[int], bad: Sequence[range], code: int = sqlite3.SQLITE_CORRUPT) -> None:
        self.keys = sorted(keys)
        self.bad = bad
        self.code = code
        self.asked = 0

    def execute(self, query: str, values: tuple[int]) -> Table:
        assert query.startswith("SELECT a, b FROM t WHERE a >= ? ORDER BY a")
        self.asked += 1
        self.rows = self.read(values[0])
        return self

    def read(self, start: int) -> Iterator[tuple[int, str]]:
        for key in self.keys:
            if key >= start:
                if any(key in each for each in self.bad):
                    error = sqlite3.DatabaseError("malformed")
                    error.sqlite_errorcode = self.code
                    raise error
                yield key, "b"

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self.rows

    def fetchone(self) -> tuple[int, str] | None:
        return next(self.rows, None)


def found(table: Table) -> list[int | UnreadableKeys]:
    rows = readable(PATH, table, "t", "a, b")  # type: ignore[arg-type]
    return [row if isinstance(row, UnreadableKeys) else row[0] for row in rows]


@pytest.mark.parametrize(
    ("keys", "bad", "expected"),
    [
        ([1, 2, 9], [], [1, 2, 9]),
        ([1, 2, 3], [range(1, 2)], [UnreadableKeys(1, 1), 2, 3]),
        ([1, 2, 3], [range(3, 4)], [1, 2, UnreadableKeys(3, None)]),
        ([1, 2, 3], [range(1, 4)], [UnreadableKeys(1, None)]),
        ([10, 20, 30, 40], [range(20, 31)], [10, UnreadableKeys(11, 39), 40]),
        ([10, 2**62, 2**63 - 1], [range(10, 11)], [UnreadableKeys(1, 2**62 - 1), 2**62, 2**63 - 1]),
        ([10, 2**63 - 1], [range(2**63 - 1, 2**63)], [10, UnreadableKeys(11, None)]),
    ],
)
def test_keys(keys: list[int], bad: list[range], expected: list[int | UnreadableKeys]) -> None:
    assert found(Table(keys, bad)) == expected


def test_a_row_that_was_read_before_the_next_one_failed() -> None:
    """Python's module reads one row ahead, and then raises instead of handing out the one that it has."""

    class Ahead(Table):
        def __iter__(self) -> Iterator[tuple[int, str]]:
            rows = iter(self.rows)
            ahead = next(rows, None)
            while ahead is not None:
                row, ahead = ahead, next(rows, None)
                yield row

    assert found(Ahead(range(1, 10), [range(4, 6)])) == [1, 2, 3, UnreadableKeys(4, 5), 6, 7, 8, 9]


def test_many_places() -> None:
    bad = [range(100, 200), range(250, 251), range(400, 900)]
    table = Table(range(1, 1001), bad)
    keys = [key for key in found(table) if not isinstance(key, UnreadableKeys)]
    assert keys == [key for key in table.keys if not any(key in each for each in bad)]
    assert table.asked < 100


def test_other_errors_are_told_in_the_search_too() -> None:
    class Failing(Table):
        def read(self, start: int) -> Iterator[tuple[int, str]]:
            if self.asked > 2:
                self.code = sqlite3.SQLITE_NOMEM
            return super().read(start)

    with pytest.raises(StoreError, match=r"^store\.db: malformed"):
        found(Failing([1, 2, 3, 4, 5], [range(2, 5)]))


class Pages:
    """A store of messages, of which some are damaged, or cannot be read for another reason."""

    def __init__(self, bad: dict[int, StoreError]) -> None:
        self.bad = bad
        self.calls = 0

    def read(self, rows: Sequence[int]) -> list[Stored]:
        self.calls += 1
        for row in rows:
            if row in self.bad:
                raise self.bad[row]
        return [stored(row) for row in rows]


SIXTEEN = list(range(1, 17))
DAMAGE = StoreDamaged(PATH, "it is short")


@pytest.mark.parametrize("bad", [{3}, {1}, {16}, {3, 11}, {7, 8, 9}, set(SIXTEEN)])
def test_damaged_messages_of_a_page_are_left_out(bad: set[int]) -> None:
    pages, page = Pages(dict.fromkeys(bad, DAMAGE)), PageReader(SIXTEEN)
    with capture_logs() as logs:
        while not page.is_done:
            page.step(pages)  # type: ignore[arg-type]
    assert [each.row.row for each in page.found] == [row for row in SIXTEEN if row not in bad]
    assert page.damaged == len(bad)
    assert [line["row"] for line in logs if "row" in line] == sorted(bad)[:10]
    assert len(logs) == min(len(bad), 11)
    assert pages.calls < 2 * len(SIXTEEN)


def test_a_disk_that_fails_is_read_again() -> None:
    pages, page = Pages({2: DAMAGE, 3: StoreError("a bad block")}), PageReader([1, 2, 3, 4])
    for _ in range(10):
        with suppress(StoreError):
            page.step(pages)  # type: ignore[arg-type]
    assert (page.is_done, page.damaged, list(page.next_rows)) == (False, 1, [3, 4])
    del pages.bad[3]
    while not page.is_done:
        page.step(pages)  # type: ignore[arg-type]
    assert [each.row.row for each in page.found] == [1, 3, 4]
