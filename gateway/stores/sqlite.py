"""The store in a file of SQLite.  One `Batch` is one transaction, and with `synchronous=FULL` it is on the disk when
`write` returns.  A failed batch can be written again, even if the first attempt reached the disk after all.

All calls block, and one worker thread makes them.  Python gives up its lock with every step of a statement, and gets it
back late while the event loop is busy.  Therefore there are few statements, each with many values.

`write` and `read` do only urgent work.  `tidy` does the rest while the store is idle: it moves the write-ahead log into
the file, deletes the rows of the last process that `load` hides, and shrinks a file that has become nearly empty.

Row numbers are never used twice: the file names a number above all of them, and raises it in large steps.

A consumed message takes its content with it, and the content may stand in a damaged page, or beside one.  Then the
statements of a batch cannot delete its consumed rows: they mark them as `transient`, so no process delivers them, and
all else of the batch is written.
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
from typing import Any, NamedTuple

from gateway.broker.model.changes import Batch, Container, Payload, Stored, StoredRow
from gateway.stores import file
from gateway.stores.disk_space import RESERVE, DiskSpace, refuse_small
from gateway.stores.errors import StoreDamaged, StoreFull, told

AHEAD = 65_536  # row numbers that are reserved at a time

# Batches after which the log is moved into the file: that costs as much as a commit.
TIDY_AFTER = 50

# Rows of the last process that are deleted at a time: 25 ms.
STALE_PER_SLICE = 5000

_FETCHED = 1000

_ALL = "SELECT row, place, content, rank, size, 0, facts FROM rows WHERE NOT transient ORDER BY row"
_NOWHERE = "SELECT row, place FROM rows WHERE NOT transient AND place NOT IN (SELECT place FROM places) LIMIT 1"
_SOME_STALE = """
    SELECT max(row) FROM (SELECT row FROM rows WHERE transient AND row BETWEEN ? AND ? ORDER BY row LIMIT ?)
"""
_CONTENTS = """
    SELECT row, place, content, rank, size, transient, facts, headers, body
    FROM json_each(?) AS wanted CROSS JOIN rows ON row = wanted.value LEFT JOIN contents USING (content)
"""


Statement = tuple[str, Sequence[str | int]]  # of SQL, and its values


class Recovered(NamedTuple):
    """The content of a store when it was opened."""

    places: list[Container]  # of all containers
    rows: Iterator[StoredRow]  # in order; to be read to the end before the first write
    highest: int  # no row or content ever had a higher number
    seen: dict[bytes, float]  # de-duplication ids, digest -> seconds since the epoch until which they count
    clean: bool  # the last gateway stopped in order


class SQLiteStore:
    """A store, open and locked.  `token`: random name of the store.  `is_new`: the file was made by `open`."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, *, is_new: bool, clock: Callable[[], float], reserve: int
    ) -> None:
        self.path = path
        self.is_new = is_new
        self._connection = connection
        self._sql = connection.execute
        self._clock = clock
        # place -> a row number that no row of the place is below.  A place without an entry has only hidden rows.
        self._first: dict[int, int] = {}
        self._written = TIDY_AFTER  # batches since the log was last moved
        self._hidden = 0  # consumed rows that could not be deleted, since `notice`
        self._stale: tuple[int, int] | None = None  # first and last of the hidden rows of the last process
        with self._transaction():
            self._first = dict.fromkeys([place for (place,) in self._sql("SELECT place FROM places")], 0)
            self.token, self._reserved, self._was_clean = self._identity()
            self._sql("UPDATE store SET clean = 0")
        self._descriptor: int | None = None  # of the file, for copies
        self._room = DiskSpace(path, lambda *statement: self._sql(*statement), reserve)
        self._files = file.identities(path)  # now the log exists, too

    def _identity(self) -> tuple[str, int, bool]:
        """The row of the table `store`: the token, the highest number, and whether the last gateway stopped in order.

        Raises StoreDamaged: a gateway did not write it.
        """
        found = self._sql("SELECT token, highest, clean FROM store").fetchone()
        if found is None or [type(value) for value in found] != [str, int, int]:
            raise StoreDamaged(self.path, f"its table store holds {str(found)[:80]}")
        token, highest, clean = found
        return token, highest, bool(clean)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        reserve: int = RESERVE,
        synchronous: str = "FULL",
    ) -> SQLiteStore:
        """Open a store, or make one.

        Args:
            clock: seconds since the epoch.
            reserve: bytes that new messages leave free on the disk.
            synchronous: SQLite's setting.  With `OFF` the file survives the end of the process, and no power cut.

        Raises:
            StoreLocked: another process has it open.
            StoreDamaged: the file is damaged.
            StoreError: the file cannot be opened, made or written.
        """
        is_new = not file.is_there(path)
        if reserve:
            refuse_small(path)
        if is_new:
            file.make(path)
        connection = file.connect(path, synchronous=synchronous)
        try:
            return cls(path, connection, is_new=is_new, clock=clock, reserve=reserve)
        except BaseException:
            connection.close()
            raise

    def load(self) -> Recovered:
        """Load the content, without rows that were for the last process only.  To be called once, first.

        Raises StoreDamaged: also while `rows` is read; StoreError: the file cannot be read or written.
        """
        with self._transaction():
            self._sql("DELETE FROM seen WHERE until <= ?", (self._clock(),))
            first, last = self._sql("SELECT min(row), max(row) FROM rows WHERE transient").fetchone()
        self._stale = None if first is None else (first, last)
        with told(self.path):
            places = [
                self._place(each) for each in self._sql("SELECT place, kind, name, facts FROM places ORDER BY place")
            ]
            for row, place in self._sql(_NOWHERE):
                raise StoreDamaged(self.path, f"message {row} stands in place {place}, which is missing")
            seen = dict(self._sql("SELECT digest, until FROM seen ORDER BY until"))
        return Recovered(places, self._rows(), self._reserved, seen, self._was_clean)

    def _place(self, values: tuple[object, ...]) -> Container:
        if [type(value) for value in values] != [int, str, str, str]:
            raise StoreDamaged(self.path, f"its table places holds {str(values)[:80]}")
        return Container._make(values)

    def _rows(self) -> Iterator[StoredRow]:
        # As StoredRow._make, without its check of the length: 0.3 us of 1.4.
        new: Callable[[Sequence[object]], StoredRow] = partial(tuple.__new__, StoredRow)
        first: dict[int, int] = {}
        with told(self.path):
            found = self._sql(_ALL)
            while some := found.fetchmany(_FETCHED):
                for each in some:
                    first.setdefault(each[1], each[0])
                yield from map(new, some)
        self._first = first

    def write(self, batch: Batch, *also: Statement) -> None:
        """Write the batch to the disk.  A failure leaves the store as it was.

        `also`: statements that belong to the same transaction.

        Raises StoreFull: the disk is full; StoreDamaged: rows cannot be written because of damage; StoreError: the
        write failed for another reason, or the file is not in its place: the batch is not safe.
        """
        for row in batch.rows.values():
            self._first.setdefault(row.place, row.row)
        reserved = max(self._reserved, *batch.rows, *batch.contents, 0)
        if reserved > self._reserved:
            reserved += AHEAD
        try:
            self._write(batch, reserved, also)
        except StoreDamaged:
            self._write(batch, reserved, also, deletes=False)
        # Writes to a file that was deleted or moved succeed, by the descriptor, and are lost with the process.
        file.refuse_others(self.path, self._files)
        self._reserved = reserved
        self._written += 1
        for place in batch.emptied + batch.dropped:
            self._first.pop(place, None)

    def _write(self, batch: Batch, reserved: int, also: Sequence[Statement], *, deletes: bool = True) -> None:
        writer = BatchWriter(self._sql, batch, self._first, self._clock(), deletes=deletes)
        try:
            with self._transaction():
                if reserved > self._reserved:
                    self._sql("UPDATE store SET highest = ?", (reserved,))
                writer.write()
                for statement, values in also:
                    self._sql(statement, values)
        except StoreFull:
            self._room.try_to_make_room()  # for the next attempt
            raise
        self._hidden += writer.hidden

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows that a statement of SQL finds.  Raises StoreError: the file cannot be read."""
        with told(self.path):
            return self._sql(sql).fetchall()

    def change(self, *statements: Statement) -> None:
        """Run statements in a transaction of their own.  Raises StoreError: nothing was changed."""
        with self._transaction():
            for statement, values in statements:
                self._sql(statement, values)

    def copy(self, path: Path) -> None:
        """Copy the whole store into a new file, without free pages.  Raises StoreError: it could not be written."""
        with told(path):
            self._sql("VACUUM INTO ?", (str(path),))

    @property
    def is_frozen(self) -> bool:
        """The file stays as it is: see `gateway.stores.backup`."""
        return self._room.is_frozen

    def freeze(self) -> int:
        """Let commits go into the log alone; returns the size of the file, which has all of them so far.

        Raises StoreError: the log cannot be moved into the file.
        """
        if self._descriptor is None:
            with told(self.path):
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return self._room.freeze()

    def thaw(self) -> None:
        """Let the file change again."""
        if self.is_frozen:
            self._room.thaw()

    def descriptor(self) -> int:
        """A descriptor of the file, which has been frozen; it is closed with the store."""
        assert self._descriptor is not None
        return self._descriptor

    def interrupt(self) -> None:
        """End the call that is under way, if any, with a StoreError; from any thread."""
        self._connection.interrupt()

    def notice(self) -> str:
        """News for the operator since the last call; empty: none."""
        hidden, self._hidden = self._hidden, 0
        if not hidden:
            return ""
        found = f"{hidden} messages that were consumed cannot be deleted; they are hidden, and no consumer gets them"
        return str(StoreDamaged(self.path, found))

    def shortage(self) -> str:
        """The reason to refuse new messages; empty: none.  Batches can still be written.

        Raises StoreError: the disk cannot be asked, or the file is not in its place.
        """
        file.refuse_others(self.path, self._files)
        return self._room.shortage()

    def read(self, rows: Sequence[int]) -> list[Stored]:
        """Rows with their contents, in the order of `rows`; a missing row is left out.

        Raises StoreDamaged: a content cannot be read; for a single row, `place` is the name of its place; StoreError:
        the disk cannot be read.
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
        for row in [each[0] for each in found if each[7] is None]:
            raise StoreDamaged(self.path, f"message {row} has no content")
        try:
            return {each[0]: _stored(*each) for each in found}
        except (ValueError, TypeError) as error:
            raise StoreDamaged(self.path, f"headers cannot be read: {error}") from error

    def _place_of(self, row: int) -> str:
        """The name of a row's place; empty: it cannot be read."""
        with suppress(sqlite3.Error):
            for (name,) in self._sql("SELECT name FROM rows JOIN places USING (place) WHERE row = ?", (row,)):
                return str(name)
        return ""

    def tidy(self) -> bool:
        """Do some of the work of an idle store: mostly nothing, else it takes milliseconds.

        True: more work is left.  Raises StoreError: it failed, for another reason than a full disk.
        """
        try:
            if self._stale is not None:
                self._forget_some(self._stale)
            elif self._room.is_short:
                self._room.make_room()
            elif self._written >= TIDY_AFTER:
                self._written = 0
                self._room.make_small()
        except StoreFull:
            return False
        return self._stale is not None

    def _forget_some(self, stale: tuple[int, int]) -> None:
        with told(self.path):
            (end,) = self._sql(_SOME_STALE, (*stale, STALE_PER_SLICE)).fetchone()
        self._stale = None if end is None else (end + 1, stale[1])
        # Damaged ones stay hidden in the file.
        with suppress(StoreDamaged), self._transaction():
            self._sql("DELETE FROM rows WHERE transient AND row BETWEEN ? AND ?", (stale[0], end))

    def close(self, *, clean: bool) -> None:
        """Close the file.

        `clean`: the gateway stops in order; the next `load` returns it.  Raises StoreError: `clean` could not be
        written.  The file is closed all the same.
        """
        try:
            if clean:
                with self._transaction():
                    self._sql("UPDATE store SET clean = 1")
                with suppress(StoreFull, StoreDamaged):
                    self._room.make_small()
        finally:
            with told(self.path):
                self._connection.close()
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with told(self.path):
            self._sql("BEGIN IMMEDIATE")
            try:
                yield
                self._sql("COMMIT")
            except BaseException:
                # SQLite has rolled back by itself, most of the time.
                with suppress(sqlite3.Error):
                    self._connection.rollback()
                raise


def _stored(*values: Any) -> Stored:
    *row, transient, metadata, headers, body = values
    return Stored(StoredRow._make([*row, bool(transient), metadata]), Payload(json.loads(headers), body))


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
