"""Reading around damage: pages of messages for the broker, whole tables for `gateway store`.

SQLite finds damage only when it comes to the page.  A page of messages is then read by halves, until only the damaged
messages are left out.  In a table the next readable key is searched: first in steps that double, then by halves.  A
page of the file holds keys that follow each other, so all keys between the last readable key and the next are lost.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from gateway.broker.core.ports import Store, StoreError
from gateway.broker.model.changes import Stored
from gateway.stores.errors import is_damage, told

log = structlog.get_logger("gateway.store")

_HIGHEST = 2**63 - 1
# Damaged messages of a page that the log names.
_MOST_NAMED = 10


class PageReader:
    """Reads a page of messages; `step` until `is_done`.

    `found`: the messages, in the order of `rows`.  `damaged`: number of messages that cannot be read.
    """

    def __init__(self, rows: Sequence[int]) -> None:
        self.found: list[Stored] = []
        self.damaged = 0
        self._pieces = [rows]  # the next piece last

    @property
    def is_done(self) -> bool:
        return not self._pieces

    @property
    def next_rows(self) -> Sequence[int]:
        """The rows that the next step reads."""
        return self._pieces[-1]

    def step(self, store: Store) -> None:
        """Read one piece; of a damaged piece the halves come next.

        Raises StoreError: the store cannot be read for another reason than damage; the next step reads the same piece.
        """
        rows = self._pieces[-1]
        try:
            self.found += store.read(rows)
        except StoreError as error:
            if not error.is_damage:
                raise
            self._pieces.pop()
            half = len(rows) // 2
            if half:
                self._pieces += [rows[half:], rows[:half]]
            else:
                self._leave_out(rows[0], error)
        else:
            self._pieces.pop()

    def _leave_out(self, row: int, error: StoreError) -> None:
        self.damaged += 1
        if self.damaged <= _MOST_NAMED:
            log.error("a message in the store is damaged", row=row, place=error.place, reason=str(error))
        elif self.damaged == _MOST_NAMED + 1:
            log.error("more messages that were read with it are damaged", place=error.place)


class UnreadableKeys(NamedTuple):
    """A stretch of keys that cannot be read.

    `first`: the first key that the table may have had.  `last`: the last one; None: up to the end.
    """

    first: int
    last: int | None


def readable(
    path: Path, connection: sqlite3.Connection, table: str, columns: str
) -> Iterator[tuple[Any, ...] | UnreadableKeys]:
    """The rows of a table in the order of their keys, with the stretches that cannot be read.

    `columns`: of the rows; the integer primary key, which is above 0, comes first.  Raises StoreError: the table cannot
    be read for another reason than damage.
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
            # Python reads a row ahead, and drops the row before a failure.
            if row := _first(connection, behind, start):
                start = row[0] + 1
                yield row
                continue
            good = _next_readable(connection, behind, start)
            yield UnreadableKeys(start, None if good is None else good - 1)
            if good is None:
                return
            start = good


def _first(connection: sqlite3.Connection, query: str, start: int) -> tuple[Any, ...] | None:
    """The first row from that key on; empty: the table ends before it.  None: damage."""
    try:
        return connection.execute(f"{query} LIMIT 1", (start,)).fetchone() or ()
    except sqlite3.Error as error:
        if is_damage(error):
            return None
        raise


def _next_readable(connection: sqlite3.Connection, query: str, bad: int) -> int | None:
    """The first readable key behind the damaged key `bad`; None: the rest of the table is lost."""
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
