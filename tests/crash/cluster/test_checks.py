"""Checks of log and copies: each finds its lie, and is silent without one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.cluster.log import LogWriter
from gateway.cluster.records import Kind, Record, pack_map, parts_of
from tests.cluster.logs import AT_ONCE, MemoryLog
from tests.crash.books import Books
from tests.stores.batches import new

from .checks import look_at_copies, look_at_log, read_log


def _log(*records: tuple[Kind, int]) -> MemoryLog:
    """A log of records with those epochs; nothing refuses any."""
    log = MemoryLog()
    for number, (kind, epoch) in enumerate(records):
        [part] = parts_of(Record(kind, epoch, number, 0, pack_map({})))
        log.append(part, number)
    return log


def _kinds(log: MemoryLog) -> list[str]:
    books = Books()
    look_at_log(read_log(log), books)
    return [complaint.kind for complaint in books.complaints]


_BATCH, _EPOCH, _END = Kind.BATCH, Kind.EPOCH, Kind.END


@pytest.mark.parametrize(
    ("records", "lies"),
    [
        ([(_EPOCH, 1), (_BATCH, 1), (_END, 1), (_EPOCH, 2), (_BATCH, 2), (_EPOCH, 3)], 0),
        ([(_EPOCH, 1), (_EPOCH, 2), (_BATCH, 1), (_BATCH, 2)], 1),
        ([(_EPOCH, 1), (_EPOCH, 2), (_END, 1)], 1),
        ([(_EPOCH, 1), (_EPOCH, 1)], 1),  # two nodes believe that they have it
        ([(_EPOCH, 1), (_EPOCH, 2), (_EPOCH, 1)], 1),
        ([(_EPOCH, 1), (_EPOCH, 3)], 1),
        ([(_EPOCH, 1), (_BATCH, 2)], 1),
    ],
)
def test_records_of_a_fenced_primary(records: list[tuple[Kind, int]], lies: int) -> None:
    assert _kinds(_log(*records)) == ["fenced"] * lies


def test_the_whole_log_is_read_and_a_purged_one_from_its_first_message() -> None:
    log = _log((_EPOCH, 1), *[(_BATCH, 1)] * 2 * AT_ONCE, (_EPOCH, 2), (_BATCH, 1))
    assert _kinds(log) == ["fenced"]
    log.purge(2 * AT_ONCE)
    assert read_log(log)[0].sequence == 2 * AT_ONCE


def test_a_message_that_is_missing() -> None:
    messages = read_log(_log((_EPOCH, 1), (_BATCH, 1), (_BATCH, 1)))
    books = Books()
    look_at_log([messages[0], messages[2]], books)
    assert [complaint.kind for complaint in books.complaints] == ["fenced"]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Closed copies of two nodes that hold the same."""
    from gateway.cluster.replica import Replica
    from gateway.cluster.store import ReplicatedStore

    found = [tmp_path / "a.db", tmp_path / "b.db"]
    for file in found:
        replica = Replica.open(file)
        store = ReplicatedStore(replica, LogWriter(MemoryLog(), 0), 1, lambda: None)
        store.write(new([1, 2]))
        replica.close()
    return found


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ("UPDATE rows SET transient = 0", []),
        ("DELETE FROM rows WHERE row = 2", ["replica", "replica"]),  # the message, and its body
        ("UPDATE contents SET body = x'00' WHERE content = 1", ["replica"]),
        ("UPDATE rows SET transient = 1", ["replica", "replica"]),
        ("INSERT INTO places VALUES (9, 'queue', '/queue/other', '{}')", ["replica"]),
    ],
)
def test_copies_that_differ(files: list[Path], change: str, kinds: list[str]) -> None:
    with closing(sqlite3.connect(files[1])) as connection, connection:
        connection.execute(change)
    books = Books()
    look_at_copies(files, books)
    assert [complaint.kind for complaint in books.complaints] == kinds
