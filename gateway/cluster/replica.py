"""Replica: the file of SQLite into which a node applies the records of the log, in their order.

It is a store like that of a single gateway, and one table more: how far the log is applied, in the same transaction as
the commit itself.  It is a cache of the log, so nothing is synchronized to the disk (`synchronous=OFF`): it survives
the end of the process, and a restart of the machine only after `close`.  A file that another boot of the machine left
open, and a damaged one, are thrown away, and made again from a snapshot and the log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from enum import IntEnum
from pathlib import Path

import structlog

from gateway.broker.core.ports import StoreError
from gateway.broker.model.changes import Batch
from gateway.stores import IS_COPY, Recovered, SQLiteStore, StoreDamaged
from gateway.stores.errors import told
from gateway.stores.sqlite import Statement

from .records import Kind, Record, RecordError, length_of, unpack_batch, unpack_map

log = structlog.get_logger("gateway.cluster")

_BOOT = Path("/proc/sys/kernel/random/boot_id")

_TABLE = """
CREATE TABLE IF NOT EXISTS replica (
    sequence INTEGER NOT NULL,
    position INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    time INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    boot TEXT NOT NULL,
    mark TEXT NOT NULL DEFAULT ''
)
"""
_NEW = "INSERT INTO replica SELECT 0, 0, 0, 0, 0, '', '' WHERE NOT EXISTS (SELECT 1 FROM replica)"
_HAS_MARK = "SELECT 1 FROM pragma_table_info('replica') WHERE name = 'mark'"
_ADD_MARK = "ALTER TABLE replica ADD COLUMN mark TEXT NOT NULL DEFAULT ''"
_STATE = "SELECT sequence, position, epoch, time, ended, boot, mark FROM replica"


class Ended(IntEnum):
    """Whether the last primary stopped in order, with all it knew in the log.

    A new epoch says nothing of messages, so the end before it still counts for that primary.  It does not count for the
    one after: what a primary delivers is in no record.
    """

    NO = 0
    YES = 1
    BEFORE_EPOCH = 2


class Replica:
    """The content of the log up to one of its sequences.  Its calls block: they come from one thread at a time.

    `sequence`: of the last record that is applied; 0: none.  `mark`: of that record; empty: not known.  `position`:
    bytes of the log's messages up to there, all that ever were.  `epoch`: of the last primary.  `time`: the highest
    clock of a writer, in microseconds since 1970.  `ended`: whether the last primary stopped in order.
    """

    def __init__(self, store: SQLiteStore, boot: str) -> None:
        self.store = store
        if not store.query(IS_COPY) and store.query("SELECT 1 FROM places LIMIT 1"):
            store.close(clean=False)
            raise StoreError(
                f"{store.path} is the store of a single gateway: name a new file, and give the cluster its messages "
                f"with `gateway cluster bootstrap --from sqlite:{store.path}`"
            )
        store.change((_TABLE, ()))
        if not store.query(_HAS_MARK):
            store.change((_ADD_MARK, ()))
        store.change((_NEW, ()))
        [state] = store.query(_STATE)
        self.sequence, self.position, self.epoch, self.time = map(int, state[:4])
        self.ended, left_by, self.mark = Ended(state[4]), str(state[5]), str(state[6])
        if left_by not in ("", boot):
            store.close(clean=False)
            raise StoreDamaged(store.path, "the machine was restarted while it was open")
        store.change(("UPDATE replica SET boot = ?", (boot or "unknown",)))

    @classmethod
    def open(cls, path: Path, *, boot: Callable[[], str] | None = None) -> Replica:
        """Open the replica, or make an empty one where there is none that can be used.

        `boot`: the name of this boot of the machine; empty: it has none, so only a closed file is used again.  Raises
        StoreError: the file cannot be made or opened.
        """
        named = (boot or boot_id)()
        try:
            return cls(_opened(path), named)
        except StoreDamaged as error:
            log.warning("the copy of the log is thrown away, and made again", path=str(path), reason=str(error.found))
        remove(path)
        return cls(_opened(path), named)

    @property
    def token(self) -> str:
        """The name of the cluster's store in message ids."""
        return self.store.token

    @property
    def another_log(self) -> str:
        """The end of a sentence: what to do where the log is not the one of this copy."""
        return (
            f"it is another log; stop this node and move {self.store.path} away, but keep it: `gateway store export` "
            "reads it"
        )

    def apply(self, record: Record, sequence: int) -> None:
        """Apply the next record.  `sequence`: of its last part.

        Raises StoreError: it could not be written; RecordError: it cannot be read, or is of another log.
        """
        if record.epoch < self.epoch + (record.kind is Kind.EPOCH):  # they only rise
            sentence = f"it is of epoch {record.epoch}, and this node's copy has epoch {self.epoch}"
            raise RecordError(f"{sentence}: {self.another_log}")
        if record.kind is Kind.EPOCH:
            token = unpack_map(record.payload)["token"]
            self._write(Batch(record.number), record, sequence, [("UPDATE store SET token = ?", (token,))])
            self.store.token = token
            return
        is_batch = record.kind is Kind.BATCH
        batch = unpack_batch(record.number, record.payload) if is_batch else Batch(record.number)
        self._write(batch, record, sequence, ())

    def write(self, batch: Batch, record: Record | None, sequence: int) -> None:
        """Write a commit of this node itself, with its transient rows.

        `record`: what the log has of it; None: nothing, all of it is transient.  Raises StoreError: nothing was
        written.
        """
        if record is None:
            self.store.write(batch)
        else:
            self._write(batch, record, sequence, ())

    def _write(self, batch: Batch, record: Record, sequence: int, also: Sequence[Statement]) -> None:
        ended = Ended.NO
        if record.kind is Kind.END:
            ended = Ended.YES
        elif record.kind is Kind.EPOCH and self.ended is Ended.YES:
            ended = Ended.BEFORE_EPOCH
        time = max(self.time, record.time)
        position = self.position + length_of(record)
        state = (sequence, position, record.epoch, time, ended, record.mark)
        place = "UPDATE replica SET sequence = ?, position = ?, epoch = ?, time = ?, ended = ?, mark = ?"
        self.store.write(batch, (place, state), *also)
        self.sequence, self.position, self.epoch, self.time, self.ended, self.mark = state

    def load(self) -> Recovered:
        """All that is applied, for a broker.  Raises StoreError: it cannot be read."""
        return self.store.load()._replace(clean=self.ended is not Ended.NO)

    def snapshot(self, path: Path) -> tuple[int, int]:
        """Copy the whole content into a new file, which any machine can use; returns its sequence and position.

        Raises StoreError: it cannot be written.
        """
        self.store.copy(path)
        with told(path), closing(sqlite3.connect(path)) as copy, copy:
            copy.execute("UPDATE replica SET boot = ''")
        return self.sequence, self.position

    def replace(self, new: Path) -> Replica:
        """Close this file, and open a snapshot in its place.

        Raises StoreError: this gateway cannot open it, or it is not of this log, and the old file stays.
        """
        path = self.store.path
        store = _opened(new)
        store.close(clean=False)
        if self.sequence and store.token != self.token:
            raise StoreError(f"the snapshot is not of the log that this node's copy has: {self.another_log}")
        self.store.close(clean=False)
        remove(path)
        new.rename(path)
        return Replica.open(path)

    def close(self) -> None:
        """Close the file so that it can be used after a restart of the machine, too."""
        store = self.store
        try:
            # First all that was written without waiting for the disk, then the mark that it is there.
            store.query("PRAGMA synchronous = FULL")
            store.change(("UPDATE replica SET boot = boot", ()))
            store.query("PRAGMA wal_checkpoint(TRUNCATE)")
            store.change(("UPDATE replica SET boot = ''", ()))
        finally:
            store.close(clean=False)


def copy_store(path: Path, new: Path) -> int:
    """Copy the store of a single gateway into a new file that is a replica; returns how many messages it has.

    Raises StoreError: the store is in use, is damaged, or is no store.
    """
    if not path.is_file():
        raise StoreError(f"there is no store {path}")
    store = SQLiteStore.open(path, reserve=0)
    clean = False
    try:
        if store.query(IS_COPY):
            raise StoreError(
                f"{path} is a node's copy of the log of a cluster: make a store of it with `gateway store export "
                f"{path}` and `gateway store import`, and give that to the new cluster"
            )
        clean = store.load().clean
        store.copy(new)
    finally:
        store.close(clean=clean)
    with told(new), closing(sqlite3.connect(new)) as copy, copy:
        copy.execute(_TABLE)
        copy.execute(_NEW)
        copy.execute("UPDATE replica SET ended = ?", (int(clean),))
        (count,) = copy.execute("SELECT count(*) FROM rows WHERE NOT transient").fetchone()
    return int(count)


def place(path: Path, sequence: int, mark: str) -> None:
    """Let a replica that is not open begin behind a message of the log.  Raises StoreError: it cannot be written."""
    with told(path), closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE replica SET sequence = ?, mark = ?", (sequence, mark))


def applied_of(path: Path) -> int:
    """How many messages of the log a node's copy has; 0: none, it is no copy, or the node runs."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as copy:
            (sequence,) = copy.execute("SELECT sequence FROM replica").fetchone()
    except (sqlite3.Error, TypeError):
        return 0
    return int(sequence)


def boot_id() -> str:
    """The name of this boot of the machine; empty: the system gives it none."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def remove(path: Path) -> None:
    """Remove the file of a replica that is not open."""
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        each.unlink(missing_ok=True)


def _opened(path: Path) -> SQLiteStore:
    return SQLiteStore.open(path, synchronous="OFF")
