"""The store of a single gateway becomes a cluster's: no node begins without it, and a failed attempt is made again."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from gateway.cluster.bootstrap import LENGTH, HasMessages, bootstrap
from gateway.cluster.log import Log, LogUnavailable
from gateway.cluster.node import Role
from gateway.cluster.servers import Servers
from gateway.cluster.snapshots import Snapshot, Snapshots
from gateway.stores import SQLiteStore
from tests.cluster.conftest import ACluster
from tests.cluster.test_node import PATIENCE, content, opened, until
from tests.stores.batches import new


@pytest.fixture
def store(folder: Path) -> Path:
    path = folder / "old.db"
    made = SQLiteStore.open(path, reserve=0)
    made.write(new([1, 2]))
    made.close(clean=True)
    return path


def give(servers: Servers, store: Path, log: Log | None = None) -> int:
    copy = store.with_name("given.db")
    copy.unlink(missing_ok=True)
    return bootstrap(log or servers.log(), servers.snapshots(), store, copy)


async def test_no_node_begins_without_it(
    cluster: ACluster, folder: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server that it asks for snapshots lags, or does not answer."""
    assert give(cluster.made(), store) == 2
    all_of = Snapshots.all
    answers: list[list[Snapshot]] = []

    def lagging(_: Snapshots) -> list[Snapshot]:
        if answers:
            return answers[0]
        raise LogUnavailable("no answer")

    monkeypatch.setattr(Snapshots, "all", lagging)
    monkeypatch.setattr("gateway.cluster.node.AFTER_FAILURE", 0.1)
    async with opened(cluster, folder, "a") as a, trio.open_nursery() as nursery:
        nursery.start_soon(a.follow)
        await until(lambda: a.failure.startswith(f"the log begins with {LENGTH}"))
        answers.append([])
        await until(lambda: a.failure.endswith("has applied 0"))
        assert a.role is Role.STANDBY
        assert cluster.servers.directory().primary()[1] is None
        monkeypatch.setattr(Snapshots, "all", all_of)
        await until(lambda: a.role is Role.PRIMARY)
        assert content(a) == [1, 2]
        assert a.term is not None
        assert a.term.store.load().clean
        await a.end(a.term)
        nursery.cancel_scope.cancel()
    with pytest.raises(HasMessages):
        give(cluster.servers, store)


@pytest.mark.parametrize("works", range(4))
async def test_an_attempt_that_failed_is_made_again(
    cluster: ACluster, folder: Path, store: Path, monkeypatch: pytest.MonkeyPatch, works: int
) -> None:
    """In each step: two appends, the cut, the upload."""
    servers, left = cluster.made(), [works]
    log = servers.log()

    def failing(_: object, *__: object) -> None:
        raise LogUnavailable("no answer")

    with monkeypatch.context() as patch:
        append = log.append

        def some(data: bytes, expected: int) -> int:
            if not left[0]:
                raise LogUnavailable("no answer")
            left[0] -= 1
            return append(data, expected)

        patch.setattr(log, "append", some)
        if works == 2:
            patch.setattr(log, "purge", failing)
        patch.setattr(Snapshots, "put", failing)
        with pytest.raises(LogUnavailable):
            give(servers, store, log)
    assert give(servers, store) == 2
    async with opened(cluster, folder, "a") as a:
        with trio.fail_after(PATIENCE):
            term = await a.follow()
        assert content(a) == [1, 2]
        await a.end(term)


def test_a_cluster_that_has_a_primary_takes_none(servers: Servers, store: Path) -> None:
    from gateway.cluster.follower import Follower
    from gateway.cluster.replica import Replica

    replica = Replica.open(store.with_name("a.db"))
    Follower(servers.log(), replica).take_over("a", "", "1", lambda: None)
    replica.close()
    with pytest.raises(HasMessages):
        give(servers, store)
