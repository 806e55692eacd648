"""The store in a file of SQLite: writes what the broker decided, and reads it back.

It understands nothing of that.  One `Batch` is one transaction, and with `synchronous=FULL` it is on the disk when
`write` returns.  What fails leaves the file as it was; the same batch can then be written again, and does no harm
should it have reached the disk after all.

Blocking, and for one thread at a time: one worker thread calls everything.  Python gives up its lock with every step of
a statement, and gets it back late while the event loop is busy: that is what few statements are for, each with many
values.  A hundred messages by `executemany` would wait for the lock four hundred times.

`write` and `read` do only what must be done at once.  `tidy` is for the time when nobody waits.  It moves the
write-ahead log into the file, so that the commits of busier times need not.  It takes out what was kept for the last
process only, which `load` just does not show: with a million messages that takes longer than a start should.  And it
gives back the room of a file that has become nearly empty, by writing the little anew: 0.3 s for 1.1 GB.  SQLite's own
way, `incremental_vacuum`, takes 46 s for the same, and makes every write dearer.

Taking messages out needs room too, in the log: from a disk that is full to the last octet nothing can be consumed any
more.  So `shortage` says in time that no more should be taken in.  Room that messages left in the file counts as free:
where the store has the disk for itself, there is no other way to make room than to consume.

Numbers that were once given are not given again, though nothing in the file may show them any more.  So the file names
a number that is ahead of all of them, and moves it on in large steps.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from gateway.broker.batch import Batch, Content, Place, Row, Stored
from gateway.stores import file
from gateway.stores.errors import StoreDamaged, StoreFull, told

AHEAD = 65_536
"""Numbers that are reserved at a time."""

RESERVE = 64 << 20
"""Octets that should stay free on the disk, or an eighth of it if it is small: for the log, for moving it, and for what
is under way when room becomes short."""

# Rows in a statement: powers of two up to this, so that there are few statements to keep.  A kept statement holds on
# to the values that it was last run with, so large bodies go alone.
_AT_ONCE = 128
_LARGE = 16_384

# Of the reserve a quarter must be free on the disk itself, for the log, however much room there is within the file.
# And an eighth more than all of it must be free again, once it was short, or messages would be refused by turns.
_LEAST, _MORE = 4, 8

# When the room of an emptied file is given back, in octets: enough is free, and so little is left that writing all of
# it anew takes less than half a second.
_MUCH_FREE = 64 << 20
_LITTLE_LEFT = 32 << 20

# Batches after which moving the log is worth the while: it costs what a commit costs.
_TIDY_AFTER = 50

# Rows of the last process that go at a time: 25 ms.
_SLICE = 5000

_FETCHED = 1000

# A line break separates the headers of several messages in JSON, for within JSON's strings it is always escaped.
_encode = json.JSONEncoder(separators=(",\n", ":"), check_circular=False).encode

_ALL = "SELECT row, place, content, rank, size, 0, facts FROM rows WHERE NOT transient ORDER BY row"
_NOWHERE = "SELECT row, place FROM rows WHERE NOT transient AND place NOT IN (SELECT place FROM places) LIMIT 1"
_SOME_STALE = """
    SELECT max(row) FROM (SELECT row FROM rows WHERE transient AND row BETWEEN ? AND ? ORDER BY row LIMIT ?)
"""
_CONTENTS = """
    SELECT row, place, content, rank, size, transient, facts, headers, body
    FROM json_each(?) AS wanted CROSS JOIN rows ON row = wanted.value JOIN contents USING (content)
"""


class Recovered(NamedTuple):
    """What a store held when it was opened.

    Attributes:
        places: all of them.
        rows: all of them, in order.  To be read through before anything is written.
        highest: no row or content ever had a higher number.
        seen: de-duplication ids that still count, digest -> seconds since the epoch until which they do.
        clean: the last gateway stopped in order.
    """

    places: list[Place]
    rows: Iterator[Row]
    highest: int
    seen: dict[bytes, float]
    clean: bool


class SQLiteStore:
    """A store, open and locked.

    Attributes:
        token: the store's own name, made once.
        is_new: there was none before.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, *, is_new: bool, clock: Callable[[], float], reserve: int
    ) -> None:
        self.path = path
        self.is_new = is_new
        self._reserve = reserve
        self._connection = connection
        self._sql = connection.execute
        self._clock = clock
        # place -> a row before which it has none.  A place that is not here has no rows at all.
        self._first: dict[int, int] = {}
        self._written = _TIDY_AFTER  # batches since the log was last moved
        self._is_short = False  # of room, when that was last asked
        self._stale: tuple[int, int] | None = None  # the first and the last row that the last process left behind
        with self._transaction():
            self._first = dict.fromkeys([place for (place,) in self._sql("SELECT place FROM places")], 0)
            self.token, self._reserved, clean = self._sql("SELECT token, highest, clean FROM store").fetchone()
            self._was_clean = bool(clean)
            self._sql("UPDATE store SET clean = 0")

    @classmethod
    def open(cls, path: Path, *, clock: Callable[[], float] = time.time, reserve: int = RESERVE) -> SQLiteStore:
        """Open a store, or make one.

        Args:
            clock: seconds since the epoch.
            reserve: octets that new messages leave free on the disk.

        Raises:
            StoreLocked: another process has it.
            StoreDamaged: it is one no more.
            StoreError: it cannot be opened, made or written.
        """
        is_new = not file.is_there(path)
        if is_new:
            file.make(path)
        connection = file.connect(path)
        try:
            return cls(path, connection, is_new=is_new, clock=clock, reserve=reserve)
        except BaseException:
            connection.close()
            raise

    def load(self) -> Recovered:
        """What the store holds, without what was there only as long as the last process.  To be called once, first.

        Raises:
            StoreDamaged: also while the rows are read.
            StoreError: it cannot be read or written.
        """
        with self._transaction():
            self._sql("DELETE FROM seen WHERE until <= ?", (self._clock(),))
            first, last = self._sql("SELECT min(row), max(row) FROM rows WHERE transient").fetchone()
        self._stale = None if first is None else (first, last)
        with told(self.path):
            places = [Place(*each) for each in self._sql("SELECT place, kind, name, facts FROM places ORDER BY place")]
            for row, place in self._sql(_NOWHERE):
                raise StoreDamaged(self.path, f"message {row} stands in place {place}, which is not there")
            seen = dict(self._sql("SELECT digest, until FROM seen ORDER BY until"))
        return Recovered(places, self._rows(), self._reserved, seen, self._was_clean)

    def _rows(self) -> Iterator[Row]:
        # As Row._make, without asking each whether it has seven values: 0.3 us of 1.4.
        new: Callable[[Sequence[object]], Row] = partial(tuple.__new__, Row)
        with told(self.path):
            found = self._sql(_ALL)
            while some := found.fetchmany(_FETCHED):
                yield from map(new, some)

    def write(self, batch: Batch) -> None:
        """Put the batch on the disk.  The store is as it was when that fails.

        Raises:
            StoreFull: there is no room.
            StoreError: it cannot be done for another reason.
        """
        for row in batch.rows.values():
            self._first.setdefault(row.place, row.row)
        reserved = max(self._reserved, *batch.rows, *batch.contents, 0)
        if reserved > self._reserved:
            reserved += AHEAD
        with self._transaction():
            if reserved > self._reserved:
                self._sql("UPDATE store SET highest = ?", (reserved,))
            # First the rows that are taken by others now, the rest when it is clear whose contents are still needed.
            self._remove([row for row in batch.gone if row in batch.rows])
            self._put(batch)
            self._remove([row for row in batch.gone if row not in batch.rows])
            self._clear(batch)
        self._reserved = reserved
        self._written += 1
        for place in batch.emptied + batch.dropped:
            self._first.pop(place, None)

    def shortage(self) -> str:
        """Why no more messages should come for now; empty: they may.  What is under way can still be written.

        Raises:
            StoreError: the disk does not say.
        """
        with told(self.path):
            disk = os.statvfs(self.path.parent)
            free, wanted = disk.f_bavail * disk.f_frsize, min(self._reserve, disk.f_blocks * disk.f_frsize // 8)
            needed = wanted + wanted // _MORE * self._is_short
            within = self._free_within() if wanted // _LEAST <= free < needed else 0
        self._is_short = free + within < needed
        if not self._is_short:
            return ""
        return f"{free} octets are free on the disk of {self.path}, and {needed} should be"

    def _free_within(self) -> int:
        """Octets in the file that messages have left: what comes next needs no more of the disk, but for the log."""
        pages: int = self._sql("PRAGMA freelist_count").fetchone()[0]
        return pages * file.PAGE

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
            self._sql("DELETE FROM seen WHERE until <= ?", (self._clock(),))
            self._insert("seen", [(until, digest) for digest, until in batch.seen.items()])

    def _remove(self, rows: list[int]) -> None:
        if rows:
            self._sql("DELETE FROM rows WHERE row IN (SELECT value FROM json_each(?))", (json.dumps(rows),))

    def _clear(self, batch: Batch) -> None:
        """What is no more as a whole."""
        places = [place for place in batch.emptied + batch.dropped if place in self._first]
        if places:
            self._sql(
                "DELETE FROM rows WHERE row >= ? AND place IN (SELECT value FROM json_each(?))",
                (min([self._first[place] for place in places]), json.dumps(places)),
            )
        if batch.dropped:
            self._sql(
                "DELETE FROM places WHERE place IN (SELECT value FROM json_each(?))", (json.dumps(batch.dropped),)
            )

    def _insert(self, table: str, values: Sequence[Sequence[object]], at_once: int = _AT_ONCE) -> None:
        """Add rows to a table, in the order of its columns; those whose numbers it has already replace what it has."""
        at = 0
        while at < len(values):
            while at_once > len(values) - at:
                at_once //= 2
            some = values[at : at + at_once]
            self._sql(_insertion(table, len(some[0]), at_once), list(chain.from_iterable(some)))
            at += at_once

    def read(self, rows: Sequence[int]) -> list[Stored]:
        """Rows with their contents, in the order asked; those that are not there are left out.

        Raises:
            StoreDamaged: a content cannot be read; where one row was asked for, it says in which place that stands.
            StoreError: neither can the disk.
        """
        try:
            stored = self._read(rows)
        except StoreDamaged as error:
            if len(rows) == 1:
                error.place = self._place_of(rows[0])
            raise
        return [stored[row] for row in rows if row in stored]

    def _read(self, rows: Sequence[int]) -> dict[int, Stored]:
        with told(self.path):
            found = self._sql(_CONTENTS, (json.dumps(rows),)).fetchall()
        try:
            return {each[0]: _stored(*each) for each in found}
        except (ValueError, TypeError) as error:
            raise StoreDamaged(self.path, f"headers are not what was written: {error}") from error

    def _place_of(self, row: int) -> str:
        """The name of the place where a row stands; empty: that cannot be read."""
        with suppress(sqlite3.Error):
            for (name,) in self._sql("SELECT name FROM rows JOIN places USING (place) WHERE row = ?", (row,)):
                return str(name)
        return ""

    def tidy(self) -> bool:
        """Do some of what can wait until nobody else does: mostly nothing, else it takes milliseconds.

        Returns:
            there is more of it.

        Raises:
            StoreError: it cannot be done, for other reasons than that there is no room.
        """
        try:
            if self._stale is not None:
                self._forget_some(self._stale)
            elif self._written >= _TIDY_AFTER:
                self._make_small()
                self._written = 0
        except StoreFull:
            return False
        return self._stale is not None

    def _forget_some(self, stale: tuple[int, int]) -> None:
        with self._transaction():
            (end,) = self._sql(_SOME_STALE, (*stale, _SLICE)).fetchone()
            if end is not None:
                self._sql("DELETE FROM rows WHERE transient AND row BETWEEN ? AND ?", (stale[0], end))
        self._stale = None if end is None else (end + 1, stale[1])

    def _make_small(self) -> None:
        """Move the log into the file, and give back the room of a file that is nearly empty."""
        with told(self.path):
            pages = self._sql("PRAGMA page_count").fetchone()[0]
            free = self._free_within()
            if free >= _MUCH_FREE and pages * file.PAGE - free <= _LITTLE_LEFT:
                self._sql("VACUUM")
            self._sql("PRAGMA wal_checkpoint").fetchall()

    def close(self, *, clean: bool) -> None:
        """Close the file; nothing can be done with the store any more.

        Args:
            clean: the gateway stops in order, and `load` shall say so next time.

        Raises:
            StoreError: that could not be written.  The file is closed all the same.
        """
        try:
            if clean:
                with self._transaction():
                    self._sql("UPDATE store SET clean = 1")
                with suppress(StoreFull):
                    self._make_small()
        finally:
            with told(self.path):
                self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with told(self.path):
            self._sql("BEGIN IMMEDIATE")
            try:
                yield
                self._sql("COMMIT")
            except BaseException:
                # SQLite has undone it by itself, most of the time.
                with suppress(sqlite3.Error):
                    self._connection.rollback()
                raise


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


def _stored(
    row: int,
    place: int,
    content: int,
    rank: int,
    size: int,
    transient: int,
    facts: str | None,
    headers: str,
    body: bytes,
) -> Stored:
    return Stored(Row(row, place, content, rank, size, bool(transient), facts), Content(json.loads(headers), body))
