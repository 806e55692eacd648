"""The store of a primary: log first, then file; a commit that fails half-way is finished by the next attempt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.broker.model.changes import Batch
from gateway.cluster.log import Fenced, LogFull, LogUnavailable, LogWriter
from gateway.cluster.records import Assembler, Kind, Record, pack_map, parse
from gateway.cluster.replica import Replica
from gateway.cluster.store import ReplicatedStore
from gateway.stores import StoreError
from tests.cluster.logs import MemoryLog
from tests.stores.batches import new, stored


class Primary:
    """A node that decides, its log, and how often it was told that another one does."""

    def __init__(self, folder: Path) -> None:
        self.log = MemoryLog()
        self.replica = Replica.open(folder / "primary.db")
        self.fenced = 0
        writer = LogWriter(self.log, 0)
        epoch = Record(Kind.EPOCH, 1, 0, 5, pack_map({"token": "t"}))
        self.replica.apply(epoch, writer.append(epoch))
        self.store = ReplicatedStore(self.replica, writer, 1, self.count, clock=lambda: 7.0)

    def count(self) -> None:
        self.fenced += 1

    def standby(self, folder: Path) -> Replica:
        """What a node makes of the log."""
        replica = Replica.open(folder / "standby.db")
        assembler = Assembler()
        for sequence, data in self.log.read(1):
            if record := assembler.add(parse(data)):
                replica.apply(record, sequence)
        return replica


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[Primary]:
    found = Primary(tmp_path)
    yield found
    found.replica.close()


def test_a_commit_is_in_the_log_and_in_the_file(primary: Primary, tmp_path: Path) -> None:
    primary.store.write(new([1, 2]))
    primary.store.write(Batch(2, gone=[1]))
    assert primary.store.read([1, 2]) == [stored(2)]
    assert primary.store.token == "t"
    standby = primary.standby(tmp_path)
    assert [row.row for row in standby.load().rows] == [2]
    assert (standby.sequence, standby.time) == (3, 7_000_000)
    standby.close()


def test_transient_rows_stay_here(primary: Primary) -> None:
    primary.store.write(new([1], transient=True))
    assert len(primary.log.messages) == 2  # of that batch: its container, which is new
    primary.store.write(Batch(2, rows=new([2], transient=True).rows, contents=new([2]).contents))
    assert len(primary.log.messages) == 2
    assert [each.row.row for each in primary.store.read([1, 2])] == [1, 2]


def test_a_commit_that_the_file_refuses_is_appended_once(primary: Primary, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = new([1])
    with monkeypatch.context() as patch:

        def refuse(*_: object) -> None:
            raise StoreError("the disk is full")

        patch.setattr(primary.replica.store, "write", refuse)
        with pytest.raises(StoreError, match="full"):
            primary.store.write(batch)
    primary.store.write(batch)
    assert len(primary.log.messages) == 2
    assert primary.store.read([1]) == [stored(1)]


def test_a_log_without_answer_is_asked_again(primary: Primary) -> None:
    batch = new([1])
    primary.log.lost_answers = 1
    with pytest.raises(LogUnavailable):
        primary.store.write(batch)
    assert primary.store.read([1]) == []
    primary.store.write(batch)
    assert len(primary.log.messages) == 2
    assert primary.store.read([1]) == [stored(1)]


def test_a_log_that_is_full_says_so_until_it_takes_more(primary: Primary, monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers switch JetStream off then, and name no reason any more."""
    batch = new([1])
    with monkeypatch.context() as patch:

        def refuse(data: bytes, expected: int) -> int:
            raise LogFull("the log is full")

        patch.setattr(primary.log, "append", refuse)
        with pytest.raises(LogFull):
            primary.store.write(batch)
    primary.log.is_down = True
    with pytest.raises(LogFull, match="the log is full; then the log is down"):
        primary.store.write(batch)
    primary.log.is_down = False
    assert primary.store.full
    primary.store.write(batch)
    assert not primary.store.full


def test_short_room_in_the_log_is_a_shortage(primary: Primary) -> None:
    assert primary.store.shortage() == ""
    primary.store.log_shortage = lambda: "the log is short"
    assert primary.store.shortage() == "the log is short"


def test_a_fenced_primary_writes_nothing_any_more(primary: Primary) -> None:
    LogWriter(primary.log, 1).append(Record(Kind.EPOCH, 2, 0, 6, pack_map({"token": "t"})))
    for _ in range(2):
        with pytest.raises(Fenced):
            primary.store.write(new([1]))
    with pytest.raises(Fenced):
        primary.store.write(new([2]))
    primary.store.close(clean=True)
    assert primary.fenced == 1
    assert len(primary.log.messages) == 2
    assert primary.store.read([1]) == []


def test_the_end_is_told(primary: Primary, tmp_path: Path) -> None:
    primary.store.write(new([1]))
    primary.store.close(clean=True)
    standby = primary.standby(tmp_path)
    assert standby.load().clean
    standby.close()


def test_the_end_is_told_by_another_server_where_one_is_lost(primary: Primary, tmp_path: Path) -> None:
    primary.log.lost_answers = 1
    primary.store.close(clean=True)
    assert len(primary.log.messages) == 2
    standby = primary.standby(tmp_path)
    assert standby.load().clean
    standby.close()


def test_a_primary_ends_where_the_log_does_not_answer(primary: Primary) -> None:
    """Then the next one takes what was in hand for redelivered, as after a crash."""
    primary.log.is_down = True
    primary.store.close(clean=True)
    assert not primary.replica.load().clean


def test_a_primary_ends_that_was_fenced_and_did_not_know(primary: Primary) -> None:
    LogWriter(primary.log, 1).append(Record(Kind.EPOCH, 2, 0, 6, pack_map({"token": "t"})))
    primary.store.close(clean=True)
    assert (primary.fenced, len(primary.log.messages)) == (1, 2)
