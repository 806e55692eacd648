"""A disk that is full, or fails: a sentence, nothing lost, and all goes on when it can."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.broker.model.changes import Batch
from gateway.stores import (
    SQLiteStore,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    errors,
    file,
    sqlite,
)
from tests.stores.batches import contents_of, new, opened, rows_of, stored

ROOM = 1 << 20


class Disk:
    """A store whose file has 1 MiB; real disks and kills are for tests/crash/test_disk.py."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "store.db"

    def open(self) -> SQLiteStore:
        self._store = opened(self.path)
        self._limit(ROOM // file.PAGE)
        return self._store

    def grow(self) -> None:
        self._limit(1 << 30)

    def _limit(self, pages: int) -> None:
        self._store._sql(f"PRAGMA max_page_count = {pages}").fetchall()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def fill(store: SQLiteStore) -> tuple[list[int], Batch, StoreError]:
    """Write until it fails: the rows that are in, the batch that is not, and why."""
    done: list[int] = []
    while True:
        batch = new(range(len(done) + 1, len(done) + 51), size=1000)
        try:
            store.write(batch)
        except StoreError as error:
            return done, batch, error
        done += batch.rows


class TestFullDisk:
    def test_is_told_and_loses_nothing(self, disk: Disk) -> None:
        store = disk.open()
        done, batch, error = fill(store)
        assert isinstance(error, StoreFull)
        assert str(error).startswith(str(disk.path))
        for _ in range(3):
            with pytest.raises(StoreError):
                store.write(batch)
        assert rows_of(store) == done
        assert store.read(done) == [stored(row, size=1000) for row in done]
        disk.grow()
        store.write(batch)
        assert rows_of(store) == [*done, *batch.rows]
        store.close(clean=True)
        store = disk.open()
        assert rows_of(store) == contents_of(store) == [*done, *batch.rows]
        store.close(clean=True)

    def test_survives_a_kill(self, disk: Disk) -> None:
        """What failed is not there afterwards either, though parts of it were written."""
        store = disk.open()
        done, _, _ = fill(store)
        copy = disk.path.with_name("copy.db")
        for end in ("", "-wal"):  # as a process that is killed leaves them
            Path(f"{copy}{end}").write_bytes(Path(f"{disk.path}{end}").read_bytes())
        disk.grow()
        store.close(clean=True)
        store = opened(copy)
        assert rows_of(store) == contents_of(store) == done
        store.close(clean=True)

    def test_may_be_tidied_and_closed(self, disk: Disk) -> None:
        store = disk.open()
        done, _, _ = fill(store)
        store._written = sqlite.TIDY_AFTER
        store.tidy()
        assert rows_of(store) == done
        store.close(clean=False)
        store = disk.open()
        assert rows_of(store) == done
        disk.grow()
        store.close(clean=True)

    @pytest.mark.parametrize(("code", "sentence"), [(errno.ENOSPC, "left on device"), (errno.EDQUOT, "quota exceeded")])
    def test_of_which_sqlite_says_only_that_it_failed(
        self, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, code: int, sentence: str
    ) -> None:
        def refuse(_: int) -> None:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "fsync", refuse)
        with (
            pytest.raises(StoreFull, match=rf"store\.db cannot grow: .*{sentence}"),
            failing(store, "SQLITE_IOERR_WRITE"),
        ):
            store.write(new([1]))


def disk_of(monkeypatch: pytest.MonkeyPatch, free: int, size: int = 1_000_000) -> None:
    """A disk of so many blocks of 4 KiB, of which so many are free."""
    values = (4096, 4096, size, free + 7, free, 0, 0, 0, 0, 255)  # some of what is free is root's alone
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(values))


class TestShortage:
    @pytest.mark.parametrize(
        ("free", "size", "reserve", "needed"),
        [
            (100, 10_000, 100, 0),
            (99, 10_000, 100, 100),
            (10_999, 88_000, 11_001, 11_000),
            (8191, 40_000, 10_000, 8192),  # less would not do for the log, and for what comes between two looks
            (8192, 40_000, 10_000, 0),
            (399, 800, 10_000, 400),
        ],
    )
    def test_is_told_in_time(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, free: int, size: int, reserve: int, needed: int
    ) -> None:
        store = SQLiteStore.open(path, reserve=reserve * 4096)
        disk_of(monkeypatch, free, size)
        nbytes = f"{free * 4096} bytes are free on the disk of {path}, and {needed * 4096} should be"
        assert store.shortage() == (nbytes if needed else "")
        store.close(clean=True)

    def test_ends_when_more_is_free_than_had_to_be(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Else messages would be taken and refused by turns."""
        store = SQLiteStore.open(path, reserve=800 * 4096)
        told = []
        for free in (800, 799, 800, 899, 900, 899, 800, 799):
            disk_of(monkeypatch, free)
            told.append(bool(store.shortage()))
        assert told == [False, True, True, True, False, False, False, True]
        store.close(clean=True)

    def test_ends_when_messages_have_left_room_in_the_file(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the store has the disk for itself, only consuming makes room; the file does not become smaller."""
        store = SQLiteStore.open(path, reserve=ROOM)
        store.write(new(range(1, 1_001), size=1000))
        disk_of(monkeypatch, ROOM // 2 // 4096)
        assert store.shortage()
        store.write(Batch(2, gone=list(range(1, 1_001))))
        assert not store.shortage()
        disk_of(monkeypatch, ROOM // 4 // 4096 - 1)
        assert store.shortage()  # the log needs some of the disk
        store.close(clean=True)

    def test_leaves_room_to_take_messages_out(self, path: Path) -> None:
        """What is consumed must be written, too; this is what the reserve is for."""
        store = opened(path)
        store._sql(f"PRAGMA max_page_count = {ROOM // file.PAGE}")
        done, _, _ = fill(store)
        for start in range(0, len(done), 50):
            store.write(Batch(2, gone=done[start : start + 50]))
        assert rows_of(store) == contents_of(store) == []
        store.close(clean=True)


@contextmanager
def failing(store: SQLiteStore, name: str) -> Iterator[None]:
    """Let the COMMITs of a store fail with that error of SQLite's."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname, error.sqlite_errorcode = name, getattr(sqlite3, name)
    sql: Callable[..., sqlite3.Cursor] = store._sql

    def run(text: str, *values: object) -> sqlite3.Cursor:
        if text == "COMMIT":
            raise error
        return sql(text, *values)

    store._sql = run
    try:
        yield
    finally:
        store._sql = sql


class TestFailingDisk:
    def test_leaves_the_store_as_it_was(self, store: SQLiteStore) -> None:
        store.write(new([1, 2], into=1))
        batch = new([3], into=2)
        batch.gone = [1]
        batch.emptied = [1]
        with pytest.raises(StoreError), failing(store, "SQLITE_IOERR_FSYNC"):
            store.write(batch)
        assert rows_of(store) == [1, 2]
        store.write(batch)
        assert rows_of(store) == contents_of(store) == [3]

    def test_that_has_written_after_all(self, store: SQLiteStore) -> None:
        """A failed fsync does not say what is on the disk: the batch may be there when it is written again."""
        store.write(new([1, 2, 3]))
        batch = new([4, 5])
        batch.gone = [2]
        batch.facts = {3: '{"a":1}'}
        batch.seen = {b"a": 1e12}
        store.write(batch)
        store.write(batch)
        assert rows_of(store) == contents_of(store) == [1, 3, 4, 5]
        assert store.read([4]) == [stored(4)]
        assert store.load().seen == {b"a": 1e12}


def error_of(code: int | None, text: str = "it failed") -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    if code is not None:
        error.sqlite_errorcode, error.sqlite_errorname = code, "SQLITE_SOMETHING"
    return error


IN_LOG = "the log of the server says why"


@pytest.mark.parametrize(
    ("error", "kind", "sentence", "public"),
    [
        (error_of(sqlite3.SQLITE_FULL), StoreFull, "cannot grow: No space left on device", "the disk is full"),
        (error_of(sqlite3.SQLITE_READONLY), StoreReadOnly, "it failed", "the store is read-only"),
        (error_of(sqlite3.SQLITE_BUSY_RECOVERY), StoreLocked, "is in use: another gateway", IN_LOG),
        (error_of(sqlite3.SQLITE_CORRUPT_INDEX), StoreDamaged, "is damaged: it failed", "the store is damaged"),
        (error_of(sqlite3.SQLITE_NOTADB), StoreDamaged, "is damaged: it failed", "the store is damaged"),
        (error_of(sqlite3.SQLITE_IOERR_SHORT_READ), StoreDamaged, "is damaged: it failed", "the store is damaged"),
        (error_of(None, "Could not decode to UTF-8"), StoreDamaged, "is damaged: Could", "the store is damaged"),
        (error_of(sqlite3.SQLITE_IOERR_READ), StoreError, r": it failed \(SQLITE_SOMETHING\)$", IN_LOG),
        (error_of(None), StoreError, r": it failed$", IN_LOG),
        (OSError(errno.EDQUOT, "quota"), StoreFull, "quota", "the disk is full"),
        (OSError(errno.EROFS, "no writing"), StoreReadOnly, "no writing", "the store is read-only"),
        (OSError(errno.EACCES, "not allowed"), StoreReadOnly, "not allowed", "the store is read-only"),
        (OSError(errno.EIO, "broken"), StoreError, "broken", IN_LOG),
    ],
)
def test_sentences(tmp_path: Path, error: Exception, kind: type[StoreError], sentence: str, public: str) -> None:
    """One names the file, for the operator; the one for clients names nothing."""
    with pytest.raises(StoreError, match=sentence) as told, errors.told(tmp_path / "a.db"):
        raise error
    assert type(told.value) is kind
    assert str(told.value).startswith(str(tmp_path / "a.db"))
    assert told.value.public == public
    assert told.value.is_damage is (kind is StoreDamaged)
