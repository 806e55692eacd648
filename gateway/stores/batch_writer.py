"""What a batch is in statements of SQL; and how much of it can be written where the file is damaged.

Few statements, each with many values: why, is told in `sqlite`.

A message that is consumed takes its content with it, and that may stand in a page that is damaged, or beside one.  Such
a row stays, marked as one that was for this process only: no process shows it, and all else of the batch is written.
Which ones they are is found by halves, each time in a new transaction: after damage SQLite can do nothing more with the
one that it was found in.  Rows are all that is known of messages: where their table is damaged, or the end of another,
to which new ones are added, nothing can be written.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from gateway.broker.model.changes import Batch

# Rows in a statement: powers of two up to this, so that there are few statements to keep.  A kept statement holds on
# to the values that it was last run with, so large bodies go alone.
_AT_ONCE = 128
_LARGE = 16_384

_ROWS = "row IN (SELECT value FROM json_each(?))"
_PLACES = "row >= ? AND place IN (SELECT value FROM json_each(?))"

# A line break separates the headers of several messages in JSON, for within JSON's strings it is always escaped.
_encode = json.JSONEncoder(separators=(",\n", ":"), check_circular=False).encode


@dataclass(slots=True)
class _Piece:
    """Rows that are to go by one statement.

    Attributes:
        which: a condition.
        first: its first value, where it has two.
        numbers: its last one, as JSON: of rows, or of places.
        stays: they cannot go, because of damage.
    """

    which: str
    first: list[int]
    numbers: list[int]
    stays: bool = False


class BatchWriter:
    """Writes one batch, each time within a transaction.

    Attributes:
        left: rows that had to stay, because of damage.

    Args:
        sql: runs a statement.
        first: place -> a row before which it has none; a place that is not there has no rows.
        now: seconds since the epoch.
    """

    def __init__(self, sql: Callable[..., sqlite3.Cursor], batch: Batch, first: dict[int, int], now: float) -> None:
        self.left = 0
        self._sql = sql
        self._batch = batch
        self._now = now
        self._under_way: tuple[list[_Piece], int] | None = None
        places = [place for place in batch.emptied + batch.dropped if place in first]
        # First the rows that are taken by others now, the rest when it is clear whose contents are still needed.
        self._before = [_Piece(_ROWS, [], [row for row in batch.gone if row in batch.rows])]
        self._behind = [
            _Piece(_ROWS, [], [row for row in batch.gone if row not in batch.rows]),
            _Piece(_PLACES, [min([first[place] for place in places], default=0)], places),
        ]

    def write(self) -> None:
        """Put all of it into the tables."""
        self.left = 0
        self._remove(self._before)
        self._put(self._batch)
        self._remove(self._behind)
        if self._batch.dropped:
            dropped = json.dumps(self._batch.dropped)
            self._sql("DELETE FROM places WHERE place IN (SELECT value FROM json_each(?))", (dropped,))

    def narrow(self) -> bool:
        """Damage was in the way: do with less next time; False: there is no way around it."""
        if self._under_way is None:
            return False
        pieces, at = self._under_way
        piece = pieces[at]
        half = len(piece.numbers) // 2
        if half:
            parts = piece.numbers[:half], piece.numbers[half:]
            pieces[at : at + 1] = [_Piece(piece.which, piece.first, part) for part in parts]
            return True
        could_go, piece.stays = not piece.stays, True
        return could_go

    def _remove(self, pieces: list[_Piece]) -> None:
        for at, piece in enumerate(pieces):
            self._under_way = pieces, at
            values = (*piece.first, json.dumps(piece.numbers))
            if piece.stays:
                hidden = f"UPDATE rows SET transient = 1 WHERE {piece.which} AND NOT transient"
                self.left += self._sql(hidden, values).rowcount
            elif piece.numbers:
                self._sql(f"DELETE FROM rows WHERE {piece.which}", values)
        self._under_way = None

    def _put(self, batch: Batch) -> None:
        """What is new, or has changed."""
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
        """Add rows to a table, in the order of its columns; those whose numbers it has already replace what it has."""
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
    """Each as JSON, by one call of the encoder: twice as fast as one by one.  What messages share is written once."""
    if not headers:
        return []
    distinct = {id(each): each for each in headers}
    found = _encode(list(distinct.values()))[2:-2].split("},\n{")
    texts = dict(zip(distinct, found, strict=True))
    return [f"{{{texts[id(each)]}}}" for each in headers]
