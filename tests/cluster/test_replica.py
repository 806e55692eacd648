"""A replica holds what the log holds, knows how far it is, and is thrown away where it cannot be trusted."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.broker.model.changes import Batch
from gateway.cluster.records import Kind, Record, RecordError, pack_batch, pack_map
from gateway.cluster.replica import Replica, boot_id, copy_store
from gateway.stores import SQLiteStore, StoreError, open_store, tools
from tests.stores.batches import contents_of, new, rows_of, stored

EPOCH = Record(Kind.EPOCH, 1, 0, 50, pack_map({"node": "a", "address": "", "token": "token", "version": "1"}))
END = Record(Kind.END, 1, 0, 90, pack_map({}))


def commit(batch: Batch, epoch: int = 1, time: int = 60) -> Record:
    return Record(Kind.BATCH, epoch, batch.number, time, pack_batch(batch))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replica.db"


@pytest.fixture
def replica(path: Path) -> Iterator[Replica]:
    found = Replica.open(path, boot=lambda: "boot 1")
    found.apply(EPOCH, 1)
    found.apply(commit(new([1, 2])), 2)
    yield found
    found.close()


def again(path: Path, boot: str) -> Replica:
    return Replica.open(path, boot=lambda: boot)


def killed(replica: Replica) -> None:
    """Close it as the end of a process does: without the mark that all is on the disk."""
    replica.store.close(clean=False)


def test_holds_what_was_applied(replica: Replica) -> None:
    assert replica.store.read([1, 2]) == [stored(1), stored(2)]
    assert (replica.sequence, replica.epoch, replica.time, replica.token) == (2, 1, 60, "token")
    found = replica.load()
    assert [row.row for row in found.rows] == [1, 2]
    assert not found.clean


@pytest.mark.parametrize("boot", ["boot 1", "boot 2"])
def test_a_closed_one_goes_on_where_it_was(replica: Replica, path: Path, boot: str) -> None:
    replica.close()
    found = again(path, boot)
    assert (found.sequence, found.epoch, found.time, found.token) == (2, 1, 60, "token")
    assert found.store.read([1]) == [stored(1)]
    found.close()
    replica.__init__(SQLiteStore.open(path, synchronous="OFF"), "boot 1")  # for the fixture


def test_one_of_an_older_gateway_goes_on(replica: Replica, path: Path) -> None:
    replica.close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("ALTER TABLE replica DROP COLUMN mark")
    replica.__init__(SQLiteStore.open(path, synchronous="OFF"), "boot 1")  # for the fixture
    assert (replica.sequence, replica.mark) == (2, "")
    replica.apply(commit(new([3], number=7)), 3)
    assert replica.mark == "1 1 7 60"


def test_a_killed_one_goes_on_in_the_same_boot_alone(tmp_path: Path) -> None:
    path = tmp_path / "replica.db"
    for boots in (["1", "1"], ["1", "2"], ["", ""]):
        first = again(path, boots[0])
        first.apply(EPOCH, 7)
        killed(first)
        second = again(path, boots[1])
        assert second.sequence == (7 if boots == ["1", "1"] else 0)
        second.close()
        path.unlink()


def test_a_damaged_one_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "replica.db"
    again(path, "1").close()
    path.write_bytes(b"SQLite format 3\0" + bytes(4096))
    found = again(path, "1")
    assert found.sequence == 0
    found.close()


def test_an_end_is_clean_until_something_follows(replica: Replica) -> None:
    replica.apply(END, 3)
    assert replica.load().clean
    replica.apply(replace(EPOCH, epoch=2), 4)
    assert replica.load().clean
    replica.apply(commit(new([3]), epoch=2, time=40), 5)
    assert not replica.load().clean
    # The second of two primaries cannot know what the first one delivered.
    replica.apply(replace(END, epoch=2), 6)
    for sequence, is_clean in ((7, True), (8, False)):
        replica.apply(replace(EPOCH, epoch=sequence), sequence)
        assert replica.load().clean is is_clean
    assert replica.time == 90  # of the writer that was ahead


def test_own_commits_keep_their_transient_rows_to_this_file(replica: Replica) -> None:
    batch = new([3], transient=True)
    batch.rows |= new([4]).rows
    batch.contents |= new([4]).contents
    replica.write(batch, commit(batch), 3)
    replica.write(new([5], transient=True), None, 0)
    assert replica.sequence == 3
    assert contents_of(replica.store) == [1, 2, 3, 4, 5]
    assert [row.row for row in replica.load().rows] == [1, 2, 4]


def test_a_snapshot_is_a_replica(replica: Replica, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    replica.snapshot(copy)
    found = again(copy, "boot 1")
    assert (found.sequence, found.token) == (2, "token")
    assert found.store.read([2]) == [stored(2)]
    found.close()


def test_a_snapshot_that_cannot_be_opened_replaces_nothing(replica: Replica, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    replica.snapshot(copy)
    with closing(sqlite3.connect(copy)) as file:
        file.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match=r"was made by a newer gateway"):
        replica.replace(copy)
    assert replica.store.read([2]) == [stored(2)]


def test_a_snapshot_of_another_log_replaces_nothing(replica: Replica, tmp_path: Path) -> None:
    other = again(tmp_path / "other.db", "boot 1")
    copy = tmp_path / "copy.db"
    for sequence, content in enumerate((replace(EPOCH, payload=pack_map({"token": "another"})), commit(new([9]))), 8):
        other.apply(content, sequence)
    other.snapshot(copy)
    other.close()
    with pytest.raises(StoreError, match=r"the snapshot is not of the log .*: it is another log; .* move .* away"):
        replica.replace(copy)
    assert replica.store.read([2]) == [stored(2)]
    empty = again(tmp_path / "empty.db", "boot 1").replace(copy)
    assert (empty.sequence, empty.token) == (9, "another")
    empty.close()


def test_a_gateway_alone_and_another_cluster_refuse_it(replica: Replica, path: Path, tmp_path: Path) -> None:
    """They would begin at its place in the log of a cluster that may go on."""
    copy = tmp_path / "copy.db"
    replica.snapshot(copy)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"copy.db is a node's copy .* set `cluster`, or .*gateway store export"):
            open_store(f"sqlite:{copy}")
        with pytest.raises(StoreError, match=r"copy.db is a node's copy .* give that to the new cluster"):
            copy_store(copy, tmp_path / "new.db")
    found = again(copy, "boot 1")
    assert (found.sequence, found.store.read([2])) == (2, [stored(2)])
    found.close()


def test_a_store_of_it_is_made_by_export_and_import(replica: Replica, tmp_path: Path) -> None:
    """With its token, so that message ids stay; and a new cluster takes it."""
    copy, store = tmp_path / "copy.db", tmp_path / "store.db"
    replica.snapshot(copy)
    lines = io.StringIO()
    tools.export(copy, lines)
    lines.seek(0)
    tools.import_(store, lines)
    opened = open_store(f"sqlite:{store}")
    assert opened is not None
    assert (opened.token, opened.read([1, 2])) == ("token", [stored(1), stored(2)])
    opened.close(clean=True)
    assert copy_store(store, tmp_path / "new.db") == 2
    found = again(tmp_path / "new.db", "boot 1")
    assert (found.sequence, found.token) == (0, "token")
    found.close()


def test_the_machine_has_a_name_for_its_boot() -> None:
    assert boot_id()


def test_a_record_of_another_log_is_refused(replica: Replica) -> None:
    """A log that was made anew has grown longer than the copy of the old one."""
    for again in (EPOCH, commit(new([3]), epoch=0)):
        with pytest.raises(RecordError, match=r"and this node's copy has epoch 1: it is another log; .* move .* away"):
            replica.apply(again, 3)
    replica.apply(commit(new([3])), 3)
    assert rows_of(replica.store) == [1, 2, 3]
