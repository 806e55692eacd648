"""Pages of long lists: the right entries, and never many of them between two checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from gateway.admin import listing
from gateway.admin.listing import SLICE, ListKind, ListQuery, page_of

MANY = 12_000
NUMBERS: ListKind[int] = ListKind(
    "numbers", {"value": lambda number: number, "last": lambda number: str(number)[-1]}, ("value",)
)


_checkpoint = trio.lowlevel.checkpoint


class Watch:
    """Counts what is looked at between two checkpoints."""

    def __init__(self) -> None:
        self.most = self.total = self._now = 0

    def look(self, *_: object) -> bool:
        self._now += 1
        self.total += 1
        self.most = max(self.most, self._now)
        return True

    async def checkpoint(self) -> None:
        self._now = 0
        await _checkpoint()


async def page(query: ListQuery, entries: list[int], *tests: Callable[[int], bool]) -> dict[str, Any]:
    return await page_of(query, NUMBERS, entries, lambda found: [{"n": each} for each in found], tests)


def numbers(answer: dict[str, Any]) -> list[int]:
    return [each["n"] for each in answer["numbers"]]


class TestMany:
    async def test_other_tasks_run_meanwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """While it filters, sorts and merges."""
        watch = Watch()
        keys: dict[str, Any] = {"value": lambda number: (watch.look(), number)[1]}
        kind: ListKind[int] = ListKind("numbers", keys, ("value",))
        query = ListQuery.model_construct(sort="value", q="1", offset=3_000, limit=1000)
        monkeypatch.setattr(trio.lowlevel, "checkpoint", watch.checkpoint)
        rows: list[int] = []
        answer = await page_of(query, kind, range(MANY), lambda found: rows.extend(found) or [{}], [watch.look])
        assert len(rows) == 1_000, "rows are built for the page only"
        assert answer["total"] == sum("1" in str(each) for each in range(MANY))
        assert watch.total > 2 * MANY
        assert watch.most <= 3 * SLICE  # the test, the search and the key, once for each
        merged = ((watch.look(), number) for number in range(MANY))
        assert await listing._window(merged, 9_000, 10) == list(range(9_000, 9_010))
        assert watch.most <= 3 * SLICE


@given(
    st.lists(st.integers(0, 999), max_size=60),
    st.sampled_from(["", "value", "-value", "last", "-last"]),
    st.integers(0, 70),
    st.integers(1, 70),
    st.sampled_from(["", "1", "99"]),
)
def test_a_page_is_cut_as_from_a_list_that_was_sorted_whole(
    entries: list[int], sort: str, offset: int, limit: int, q: str
) -> None:
    expected = [each for each in entries if q in str(each)]
    total = len(expected)
    if sort:
        expected.sort(key=NUMBERS.keys[sort.removeprefix("-")], reverse=sort.startswith("-"))
    query = ListQuery.model_construct(offset=offset, limit=limit, q=q, sort=sort)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "SLICE", 7)
        answer = trio.run(page, query, entries)
    assert numbers(answer) == expected[offset : offset + limit]
    assert answer["total"] == total
