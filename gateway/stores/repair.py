"""Reads a table of which some pages are damaged: all that is before, between and behind them.

SQLite finds damage only when it comes to the page.  Where that happens, the next key that can be read is searched for:
first in steps that double, then by halves.  A page holds keys that follow each other, so what lies between the last key
before and the first one behind is what was lost.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gateway.stores.errors import is_damage, told

_HIGHEST = 2**63 - 1


class UnreadableKeys(NamedTuple):
    """A stretch of keys that cannot be read.

    Attributes:
        first: the first one that may have been there.
        last: the last one; None: up to the end.
    """

    first: int
    last: int | None


def readable(
    path: Path, connection: sqlite3.Connection, table: str, columns: str
) -> Iterator[tuple[Any, ...] | UnreadableKeys]:
    """The rows of a table by their key, and what is missing between them.

    Args:
        columns: what is wanted; its integer primary key, which is above 0, comes first.

    Raises:
        StoreError: it cannot be read for other reasons than damage.
    """
    key = columns.partition(",")[0]
    behind = f"SELECT {columns} FROM {table} WHERE {key} >= ? ORDER BY {key}"
    start = 1
    with told(path):
        while True:
            try:
                for row in connection.execute(behind, (start,)):
                    start = row[0] + 1
                    yield row
                return
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
            # Python reads a row ahead, and where that fails it drops the one that it has.
            if row := _first(connection, behind, start):
                start = row[0] + 1
                yield row
                continue
            good = _good(connection, behind, start)
            yield UnreadableKeys(start, None if good is None else good - 1)
            if good is None:
                return
            start = good


def _first(connection: sqlite3.Connection, query: str, start: int) -> tuple[Any, ...] | None:
    """The first row from that key on; empty: there is none.  None: damage."""
    try:
        return connection.execute(f"{query} LIMIT 1", (start,)).fetchone() or ()
    except sqlite3.Error as error:
        if is_damage(error):
            return None
        raise


def _good(connection: sqlite3.Connection, query: str, bad: int) -> int | None:
    """The first key behind `bad`, where there is damage, that can be read; None: there is nothing more."""
    step = 1
    while (row := _first(connection, query, min(bad + step, _HIGHEST))) is None:
        if bad + step > _HIGHEST:
            return None
        bad, step = bad + step, 2 * step
    good, end = row, bad + step
    while end - bad > 1:
        middle = (end + bad) // 2
        row = _first(connection, query, middle)
        if row is None:
            bad = middle
        else:
            good, end = row, middle
    return good[0] if good else None
