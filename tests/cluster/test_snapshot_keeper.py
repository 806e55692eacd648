"""A keeper fetches the newest snapshot that can be used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from gateway.broker.core.ports import StoreError
from gateway.cluster.replica import Replica, place
from gateway.cluster.servers import Servers
from gateway.cluster.snapshot_keeper import SnapshotKeeper
from tests.cluster.logs import MemoryLog
from tests.stores.batches import new, rows_of


@pytest.fixture
def replica(folder: Path) -> Iterator[Replica]:
    found = Replica.open(folder / "a.db")
    yield found
    found.store.close(clean=False)


@pytest.fixture
def keeper(servers: Servers, folder: Path) -> SnapshotKeeper:
    """The bucket has snapshots of the messages 5 and 9, with so many rows."""
    for sequence in (5, 9):
        source, copy = Replica.open(folder / "source.db"), folder / "copy.db"
        source.store.write(new([sequence]))
        source.snapshot(copy)
        source.close()
        place(copy, sequence, "")
        servers.snapshots().put(copy, sequence, 0)
        copy.unlink()
    return SnapshotKeeper(folder / "a.db", 1, 1, servers.snapshots(), MemoryLog(), trio.CapacityLimiter(1))


def damage(servers: Servers, sequence: int) -> None:
    snapshots = servers.snapshots()
    [nuid] = [each.nuid for each in snapshots.all() if each.sequence == sequence]
    snapshots._jets.append(snapshots._chunks(nuid), b"more", {})
    snapshots._jets.call(f"STREAM.PURGE.{snapshots._stream}", {"filter": snapshots._chunks(nuid), "keep": 1})


async def test_the_older_one_serves_where_the_newest_is_damaged(
    servers: Servers, keeper: SnapshotKeeper, replica: Replica, folder: Path
) -> None:
    damage(servers, 9)
    found = await keeper.fetch(replica)
    assert found is not None
    assert (found.sequence, rows_of(found.store)) == (5, [5])
    with pytest.raises(StoreError, match="the snapshot of 9 is damaged"):
        await keeper.fetch(found)
    found.close()
    replica.store = Replica.open(folder / "a.db").store  # for the fixture


async def test_none_that_is_older_than_the_copy(keeper: SnapshotKeeper, replica: Replica, folder: Path) -> None:
    found = await keeper.fetch(replica)
    assert found is not None
    assert rows_of(found.store) == [5, 9]
    assert await keeper.fetch(found) is None
    found.close()
    replica.store = Replica.open(folder / "a.db").store  # for the fixture


async def test_a_bucket_that_was_deleted_is_made_again(
    servers: Servers, keeper: SnapshotKeeper, replica: Replica
) -> None:
    snapshots = servers.snapshots()
    snapshots._jets.call(f"STREAM.DELETE.{snapshots._stream}")
    replica.store.write(new([1]))
    replica.position = 1 << 40
    for sequence in (11, 12):
        replica.sequence = sequence
        replica.position *= 2
        await keeper.make(replica)
    assert [each.sequence for each in snapshots.all()] == [12, 11]
