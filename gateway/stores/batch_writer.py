"""SQL of a batch: few statements, each with many values, because Python gives up its lock with every statement
(`sqlite`).

A consumed message takes its content with it, and the content may stand in a damaged page, or beside one.  Then the
statements cannot delete the consumed rows of this batch: they mark them as `transient`, so no process delivers them,
and all else of the batch is written.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any

from gateway.broker.model.changes import Batch

# Rows in a statement: powers of two up to this, so that the cache has few statements.  A cached statement keeps the
# values of its last run, so large bodies go alone.
_AT_ONCE = 128
_LARGE = 16_384

_ROWS = "row IN (SELECT value FROM json_each(?))"
_PLACES = "row >= ? AND place IN (SELECT value FROM json_each(?))"

# A line break separates the headers of several messages: inside of a JSON string it is always escaped.
_encode = json.JSONEncoder(separators=(",\n", ":"), check_circular=False).encode


class BatchWriter:
    """Writes one batch, within a transaction.

    Args:
        sql: runs a statement.
        first: place -> a row number that no row of the place is below; a place without an entry has no rows.
        now: seconds since the epoch.
        deletes: consumed rows are deleted; False: they are marked, because of damage.
    """

    def __init__(
        self,
        sql: Callable[..., sqlite3.Cursor],
        batch: Batch,
        first: dict[int, int],
        now: float,
        *,
        deletes: bool = True,
    ) -> None:
        self.hidden = 0  # consumed rows that were marked instead of deleted
        self._sql = sql
        self._batch = batch
        self._first = first
        self._now = now
        self._deletes = deletes

    def write(self) -> None:
        batch = self._batch
        # First the rows whose numbers the batch uses again; the others when their contents may be in use by new rows.
        self._remove(_ROWS, [row for row in batch.gone if row in batch.rows])
        self._put(batch)
        self._remove(_ROWS, [row for row in batch.gone if row not in batch.rows])
        places = [place for place in batch.emptied + batch.dropped if place in self._first]
        self._remove(_PLACES, places, min([self._first[place] for place in places], default=0))
        if batch.dropped:
            dropped = json.dumps(batch.dropped)
            self._sql("DELETE FROM places WHERE place IN (SELECT value FROM json_each(?))", (dropped,))

    def _remove(self, condition: str, numbers: list[int], *first: int) -> None:
        if not numbers:
            return
        values = (*first, json.dumps(numbers))
        if self._deletes:
            self._sql(f"DELETE FROM rows WHERE {condition}", values)
        else:
            marked = self._sql(f"UPDATE rows SET transient = 1 WHERE {condition} AND NOT transient", values)
            self.hidden += marked.rowcount

    def _put(self, batch: Batch) -> None:
        self._insert("places", list(batch.places.values()))
        texts = _texts([content.headers for content in batch.contents.values()])
        contents = list(zip(batch.contents, texts, [content.body for content in batch.contents.values()], strict=True))
        # Python's module asks each `bytes` how it wants to be adapted, and no `bytearray`: a copy is 0.3 us cheaper.
        small = [(number, text, bytearray(body)) for number, text, body in contents if len(body) <= _LARGE]
        self._insert("contents", small)
        self._insert("contents", [each for each in contents if len(each[2]) > _LARGE], 1)
        self._insert("rows", list(batch.rows.values()))
        if batch.facts:
            self._sql(
                "UPDATE rows SET facts = each.value FROM json_each(?) AS each WHERE row = CAST(each.key AS INTEGER)",
                (json.dumps(batch.facts),),
            )
        if batch.seen:
            self._sql("DELETE FROM seen WHERE until <= ?", (self._now,))
            self._insert("seen", [(until, digest) for digest, until in batch.seen.items()])

    def _insert(self, table: str, values: Sequence[Sequence[Any]], at_once: int = _AT_ONCE) -> None:
        """Insert rows into a table, in the order of its columns; a row replaces the one with its number."""
        at = 0
        while at < len(values):
            while at_once > len(values) - at:
                at_once //= 2
            some = values[at : at + at_once]
            self._sql(_insertion(table, len(some[0]), at_once), list(chain.from_iterable(some)))
            at += at_once


@cache
def _insertion(table: str, width: int, count: int) -> str:
    values = f"({','.join('?' * width)})"
    return f"INSERT OR REPLACE INTO {table} VALUES {','.join([values] * count)}"


def _texts(headers: list[dict[str, str]]) -> list[str]:
    """Each as JSON, by one call of the encoder: twice as fast.  Headers that messages share are encoded once."""
    if not headers:
        return []
    distinct = {id(each): each for each in headers}
    found = _encode(list(distinct.values()))[2:-2].split("},\n{")
    texts = dict(zip(distinct, found, strict=True))
    return [f"{{{texts[id(each)]}}}" for each in headers]
