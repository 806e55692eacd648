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

A file that is deleted or moved away goes on to be written, by its descriptor: what comes then would be gone with the
process.  So each commit looks whether the files are still where they were: 5 us.

Numbers that were once given are not given again, though nothing in the file may show them any more.  So the file names
a number that is ahead of all of them, and moves it on in large steps.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gateway.broker.model.changes import Batch, Container, Payload, Stored, StoredRow
from gateway.stores import file
from gateway.stores.batch_writer import BatchWriter
from gateway.stores.disk_space import RESERVE, DiskSpace, refuse_small
from gateway.stores.errors import StoreDamaged, StoreFull, told

AHEAD = 65_536
"""Numbers that are reserved at a time."""

# Batches after which moving the log is worth the while: it costs what a commit costs.
_TIDY_AFTER = 50

# Rows of the last process that go at a time: 25 ms.
_SLICE = 5000

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


class Recovered(NamedTuple):
    """What a store held when it was opened.

    Attributes:
        places: all of them.
        rows: all of them, in order.  To be read through before anything is written.
        highest: no row or content ever had a higher number.
        seen: de-duplication ids that still count, digest -> seconds since the epoch until which they do.
        clean: the last gateway stopped in order.
    """

    places: list[Container]
    rows: Iterator[StoredRow]
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
        self._connection = connection
        self._sql = connection.execute
        self._clock = clock
        # place -> a row before which it has none.  A place that is not here has no rows at all, but such as the last
        # process left behind.
        self._first: dict[int, int] = {}
        self._written = _TIDY_AFTER  # batches since the log was last moved
        self._left = 0  # messages that could not be taken out, since `notice`
        self._stale: tuple[int, int] | None = None  # the first and the last row that the last process left behind
        with self._transaction():
            self._first = dict.fromkeys([place for (place,) in self._sql("SELECT place FROM places")], 0)
            self.token, self._reserved, self._was_clean = self._identity()
            self._sql("UPDATE store SET clean = 0")
        self._room = DiskSpace(path, lambda *statement: self._sql(*statement), reserve)
        self._files = file.identities(path)  # now the log is there, too

    def _identity(self) -> tuple[str, int, bool]:
        """What the store says of itself: its token, the highest number, and whether the last gateway stopped in order.

        Raises:
            StoreDamaged: nothing, or nothing that a gateway would write.
        """
        found = self._sql("SELECT token, highest, clean FROM store").fetchone()
        if found is None or [type(value) for value in found] != [str, int, int]:
            raise StoreDamaged(self.path, f"what it says of itself is {str(found)[:80]}")
        token, highest, clean = found
        return token, highest, bool(clean)

    @classmethod
    def open(cls, path: Path, *, clock: Callable[[], float] = time.time, reserve: int = RESERVE) -> SQLiteStore:
        """Open a store, or make one.

        Args:
            clock: seconds since the epoch.
            reserve: bytes that new messages leave free on the disk.

        Raises:
            StoreLocked: another process has it.
            StoreDamaged: it is one no more.
            StoreError: it cannot be opened, made or written.
        """
        is_new = not file.is_there(path)
        if reserve:
            refuse_small(path)
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
            places = [
                self._place(each) for each in self._sql("SELECT place, kind, name, facts FROM places ORDER BY place")
            ]
            for row, place in self._sql(_NOWHERE):
                raise StoreDamaged(self.path, f"message {row} stands in place {place}, which is not there")
            seen = dict(self._sql("SELECT digest, until FROM seen ORDER BY until"))
        return Recovered(places, self._rows(), self._reserved, seen, self._was_clean)

    def _place(self, values: tuple[object, ...]) -> Container:
        if [type(value) for value in values] != [int, str, str, str]:
            raise StoreDamaged(self.path, f"what it says of a place is {str(values)[:80]}")
        return Container._make(values)

    def _rows(self) -> Iterator[StoredRow]:
        # As Row._make, without asking each whether it has seven values: 0.3 us of 1.4.
        new: Callable[[Sequence[object]], StoredRow] = partial(tuple.__new__, StoredRow)
        first: dict[int, int] = {}
        with told(self.path):
            found = self._sql(_ALL)
            while some := found.fetchmany(_FETCHED):
                for each in some:
                    first.setdefault(each[1], each[0])
                yield from map(new, some)
        self._first = first

    def write(self, batch: Batch) -> None:
        """Put the batch on the disk.  The store is as it was when that fails.

        Raises:
            StoreFull: there is no room.
            StoreDamaged: damage is in the way; most of it is written around.
            StoreError: it cannot be done for another reason, or the file is not where it was: nobody may count on it.
        """
        for row in batch.rows.values():
            self._first.setdefault(row.place, row.row)
        reserved = max(self._reserved, *batch.rows, *batch.contents, 0)
        if reserved > self._reserved:
            reserved += AHEAD
        changes = BatchWriter(self._sql, batch, self._first, self._clock())
        while not self._write(changes, reserved):
            pass
        file.refuse_others(self.path, self._files)
        self._reserved = reserved
        self._written += 1
        for place in batch.emptied + batch.dropped:
            self._first.pop(place, None)

    def _write(self, changes: BatchWriter, reserved: int) -> bool:
        """Try to write it; False: damage is in the way, but there may be a way around it."""
        try:
            with self._transaction():
                if reserved > self._reserved:
                    self._sql("UPDATE store SET highest = ?", (reserved,))
                changes.write()
        except StoreDamaged:
            if changes.narrow():
                return False
            raise
        except StoreFull:
            self._room.try_to_make_room()  # for the next attempt
            raise
        self._left += changes.left
        return True

    def notice(self) -> str:
        """What the operator should know that has happened since this was last asked; empty: nothing."""
        left, self._left = self._left, 0
        if not left:
            return ""
        damage = StoreDamaged(self.path, f"{left} messages that were consumed cannot be taken out; nobody gets them")
        return str(damage)

    def shortage(self) -> str:
        """Why no more messages should come for now; empty: they may.  What is under way can still be written.

        Raises:
            StoreError: the disk does not say, or the file is not where it was.
        """
        file.refuse_others(self.path, self._files)
        return self._room.shortage()

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
        for row in [each[0] for each in found if each[7] is None]:
            raise StoreDamaged(self.path, f"message {row} has no content")
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
            elif self._room.is_short:
                self._room.make_room()
            elif self._written >= _TIDY_AFTER:
                self._written = 0
                self._room.make_small()
        except StoreFull:
            return False
        return self._stale is not None

    def _forget_some(self, stale: tuple[int, int]) -> None:
        with told(self.path):
            (end,) = self._sql(_SOME_STALE, (*stale, _SLICE)).fetchone()
        self._stale = None if end is None else (end + 1, stale[1])
        # Where damage is in the way they stay, and nobody sees them.
        with suppress(StoreDamaged), self._transaction():
            self._sql("DELETE FROM rows WHERE transient AND row BETWEEN ? AND ?", (stale[0], end))

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
                with suppress(StoreFull, StoreDamaged):
                    self._room.make_small()
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
    return Stored(
        StoredRow(row, place, content, rank, size, bool(transient), facts), Payload(json.loads(headers), body)
    )
