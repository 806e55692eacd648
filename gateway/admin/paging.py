"""A page of a list, sorted and filtered: `?limit=&offset=&sort=KEY&q=`, of 100,000 entries, while messages go on.

    all there are  --filters, keys-->  slices, each sorted  --merged as far as the page needs-->  rows of the page

Between two slices others get a turn.  So no message waits for a list, and what a page costs while nobody else gets one
is the same however long the list is.  Rows are built for the page only.

Known weakness: a list is a picture of the moment in which it was asked for, and its entries are those of some
milliseconds later; what has gone meanwhile is told as it was at its end.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, TypeVar

import trio
from starlette.requests import Request

from gateway.admin import asked
from gateway.admin.endpoint import Parameter

DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000
"""Rows of one answer: some 300 octets each."""

SLICE = 1_000
"""Entries between two checkpoints: some milliseconds, with filters, keys and sorting."""

ROWS = 250
"""Rows between two checkpoints, at some 10 us each."""

T = TypeVar("T")
Key = Callable[[T], str | int | float]
Test = Callable[[T], bool]

_first = itemgetter(0)


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A kind of list.

    Attributes:
        name: of its entries, in the answer.
        keys: what it can be sorted by.
        searched: the keys that `q` looks into.
    """

    name: str
    keys: Mapping[str, Key[T]]
    searched: Sequence[str]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Those of every list."""
        orders = tuple(sign + key for key in self.keys for sign in ("", "-"))
        return (
            *WINDOW,
            Parameter("sort", "the key to sort by, with - in front the largest first", enum=orders),
            Parameter("q", f"a part of {' or '.join(self.searched)}, in small letters or large ones"),
        )


WINDOW = (
    Parameter("limit", "entries at most", "integer", DEFAULT_LIMIT, least=1, most=MAX_LIMIT),
    Parameter("offset", "entries to leave out before", "integer", 0, least=0, most=10**12),
)


async def page_of(
    request: Request,
    listing: Listing[T],
    entries: Iterable[T],
    rows: Callable[[list[T]], list[dict[str, object]]],
    tests: Iterable[Test[T]] = (),
) -> dict[str, object]:
    """The page that is asked for.

    Args:
        entries: all there are; taken at once, before anybody else gets a turn.
        rows: makes rows of those of the page.
        tests: what an entry must pass, beside `q`.
    """
    limit, offset = asked.number(request, "limit"), asked.number(request, "offset")
    sort = asked.text(request, "sort")
    tests = [*tests, *_search(listing, asked.text(request, "q").lower())]
    key = listing.keys[sort.removeprefix("-")] if sort else None
    slices, total = await _sorted_slices(list(entries), tests, key, reverse=sort.startswith("-"))
    merged = _merged(slices, key is not None, reverse=sort.startswith("-"))
    wanted = await _window(merged, offset, limit)
    found: list[dict[str, object]] = []
    for start in range(0, len(wanted), ROWS):
        found += rows(wanted[start : start + ROWS])
        await trio.lowlevel.checkpoint()
    return {"total": total, "limit": limit, "offset": offset, listing.name: found}


def _search(listing: Listing[T], text: str) -> list[Test[T]]:
    if not text:
        return []
    keys = [listing.keys[name] for name in listing.searched]
    return [lambda entry: any(text in str(key(entry)).lower() for key in keys)]


Slice = list[tuple[Any, T]]


async def _sorted_slices(
    entries: list[T], tests: Sequence[Test[T]], key: Key[T] | None, *, reverse: bool
) -> tuple[list[Slice[T]], int]:
    """What passes the tests, with its key, in slices that are sorted; and how much that is."""
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
