"""Reading around damage: what is lost is what could not be read, and no more."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.broker.model.changes import Stored
from gateway.stores import StoreDamaged, StoreError
from gateway.stores.repair import PageReader, UnreadableKeys, readable
from tests.stores.batches import stored

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


ROWS = list(range(1, 17))
DAMAGE = StoreDamaged(PATH, "it is short")


@pytest.mark.parametrize("bad", [{3}, {1}, {16}, {3, 11}, {7, 8, 9}, set(ROWS)])
def test_damaged_messages_of_a_page_are_left_out(bad: set[int]) -> None:
    pages, page = Pages(dict.fromkeys(bad, DAMAGE)), PageReader(ROWS)
    with capture_logs() as logs:
        while not page.is_done:
            page.step(pages)  # type: ignore[arg-type]
    assert [each.row.row for each in page.found] == [row for row in ROWS if row not in bad]
    assert page.damaged == len(bad)
    assert [line["row"] for line in logs if "row" in line] == sorted(bad)[:10]
    assert len(logs) == min(len(bad), 11)
    assert pages.calls < 2 * len(ROWS)


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
