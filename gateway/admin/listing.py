"""Lists: `?limit=&offset=&sort=KEY&q=` cuts a page out of 100,000 entries, while messages go on.

    all entries  --filters, keys-->  slices, each sorted  --merged as far as the page needs-->  rows of the page

Between two slices other tasks run, so no message waits for a list however long it is.  Known weakness: rows are some
milliseconds younger than their list; of an entry that has ended meanwhile the row shows its end.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, Generic, TypeVar

import trio
from pydantic import Field

from gateway.admin.endpoint import ApiModel, FromText, one_of, whole_number

DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000  # rows of one answer: some 300 bytes each
SLICE = 1_000  # entries between two checkpoints: some milliseconds, with filters, keys and sorting
ROWS = 250  # rows between two checkpoints, at some 10 us each

SORT = "the key to sort by; a - before it puts the largest first"

T = TypeVar("T")
Key = Callable[[T], str | int | float]
Test = Callable[[T], bool]
Row = dict[str, object]

_first = itemgetter(0)


class PageQuery(ApiModel):
    """Which part of a list."""

    limit: Annotated[int, whole_number(1, MAX_LIMIT)] = Field(DEFAULT_LIMIT, description="most entries")
    offset: Annotated[int, whole_number(0, 10**12)] = Field(0, description="entries to leave out before")


class ListQuery(PageQuery):
    """Which part of a list, in which order, and of which entries; each list says what it can be sorted by."""

    sort: str = Field("", description=SORT)
    q: str = ""


class ListPage(ApiModel):
    """What every list has beside its entries."""

    total: int = Field(description="entries that pass the filters")
    limit: int
    offset: int


def orders_of(keys: Iterable[str]) -> FromText:
    """The values of `sort` in a list with these keys."""
    return one_of(*[sign + key for key in keys for sign in ("", "-")])


@dataclass(frozen=True, slots=True)
class ListKind(Generic[T]):
    """A kind of list: the name of its entries, the keys that sort them, and the keys that `q` searches."""

    name: str
    keys: Mapping[str, Key[T]]
    searched: Sequence[str]

    @property
    def orders(self) -> FromText:
        return orders_of(self.keys)

    @property
    def q(self) -> Any:
        return Field("", description=f"a part of {', '.join(self.searched)}, in upper or lower case")


async def page_of(
    query: ListQuery,
    kind: ListKind[T],
    entries: Iterable[T],
    rows: Callable[[list[T]], list[Row]],
    tests: Iterable[Test[T]] = (),
) -> Row:
    """The page that the query names, of entries that pass the tests; `rows` makes the rows of a page."""
    name, is_reverse = query.sort.removeprefix("-"), query.sort.startswith("-")
    tests = [*tests, *_search(kind, query.q.lower())]
    key = kind.keys[name] if name else None
    slices, total = await _sorted_slices(list(entries), tests, key, reverse=is_reverse)
    merged = _merged(slices, key is not None, reverse=is_reverse)
    wanted = await _window(merged, query.offset, query.limit)
    found = await in_slices(wanted, rows)
    return {"total": total, "limit": query.limit, "offset": query.offset, kind.name: found}


async def in_slices(entries: list[T], rows: Callable[[list[T]], list[Row]]) -> list[Row]:
    """The rows of entries; other tasks have their turns in between."""
    found: list[Row] = []
    for start in range(0, len(entries), ROWS):
        found += rows(entries[start : start + ROWS])
        await trio.lowlevel.checkpoint()
    return found


def _search(kind: ListKind[T], text: str) -> list[Test[T]]:
    if not text:
        return []
    keys = [kind.keys[name] for name in kind.searched]
    return [lambda entry: any(text in str(key(entry)).lower() for key in keys)]


Slice = list[tuple[Any, T]]


async def _sorted_slices(
    entries: list[T], tests: Sequence[Test[T]], key: Key[T] | None, *, reverse: bool
) -> tuple[list[Slice[T]], int]:
    """The entries that pass the tests, with their keys, in sorted slices; and how many they are."""
    slices, total = [], 0
    for start in range(0, len(entries), SLICE):
        found = [each for each in entries[start : start + SLICE] if all(test(each) for test in tests)]
        piece: Slice[T] = [(key(each) if key is not None else 0, each) for each in found]
        if key is not None:
            piece.sort(key=_first, reverse=reverse)
        slices.append(piece)
        total += len(piece)
        await trio.lowlevel.checkpoint()
    return slices, total


def _merged(slices: list[Slice[T]], is_sorted: bool, *, reverse: bool) -> Iterator[tuple[Any, T]]:
    if is_sorted:
        return heapq.merge(*slices, key=_first, reverse=reverse)
    return (each for piece in slices for each in piece)


async def _window(merged: Iterator[tuple[Any, T]], offset: int, limit: int) -> list[T]:
    """Leave out `offset` entries, and take `limit`."""
    found: list[T] = []
    for place, (_, entry) in enumerate(merged):
        if place >= offset:
            found.append(entry)
            if len(found) == limit:
                break
        if place % SLICE == SLICE - 1:
            await trio.lowlevel.checkpoint()
    return found
