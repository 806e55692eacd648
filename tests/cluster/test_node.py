"""Nodes on a real server: one is primary, the others follow, and take over with all that it wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.broker.model.changes import Batch
from gateway.cluster import node as node_module
from gateway.cluster.directory import Directory
from gateway.cluster.log import Fenced, LogUnavailable
from gateway.cluster.node import Node, NodeOptions, Role, Term
from gateway.cluster.stream_log import StreamLog
from gateway.stores import StoreError
from tests.cluster.conftest import ACluster
from tests.stores.batches import new, rows_of

PATIENCE = 30


@asynccontextmanager
async def opened(cluster: ACluster, folder: Path, name: str, snapshot_after: int = 1 << 30) -> AsyncIterator[Node]:
    """A node that stands by.  Its calls to the servers are its own."""
    options = NodeOptions(cluster.name, name, f"host-{name}:61613", "1", folder / f"{name}.db", snapshot_after)
    servers = cluster.servers
    node = Node(
        options, servers.log(), servers.directory(), servers.directory("lease"), servers.snapshots(), servers.log()
    )
    await node.open()
    try:
        yield node
    finally:
        await node.close()


async def until(condition: Callable[[], object]) -> None:
    """Wait until something has come about."""
    with trio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110 - threads bring it about
            await trio.sleep(0.02)


def sequence_of(node: Node) -> int:
    assert node.follower is not None
    return node.follower.replica.sequence


async def write(term: Term, *batches: Batch) -> None:
    for batch in batches:
        await trio.to_thread.run_sync(partial(term.store.write, batch))


async def follows(node: Node, sequence: int) -> None:
    """Let a standby follow until it has applied so much."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.follow)
        await until(lambda: sequence_of(node) >= sequence)
        nursery.cancel_scope.cancel()


def content(node: Node) -> list[int]:
    assert node.follower is not None
    return rows_of(node.follower.replica.store)


async def test_the_next_primary_has_what_the_last_one_wrote(cluster: ACluster, folder: Path) -> None:
    cluster.made()
    async with opened(cluster, folder, "a") as a, opened(cluster, folder, "b") as b:
        with trio.fail_after(PATIENCE):
            first = await a.follow()
            assert a.role is Role.PRIMARY
            await write(first, new([1, 2, 3]), Batch(2, gone=[2]))
            # As if it were lost: nothing is said, and the lease runs out.
            await trio.to_thread.run_sync(first.lease.drop)
            second = await b.follow()
        assert [each.node for each in b.changes] == ["a", "b"]
        assert second.store.token == first.store.token
        assert content(b) == [1, 3]
        with pytest.raises(Fenced):
            await write(first, Batch(3, gone=[1]))
        with trio.fail_after(PATIENCE):
            await first.ended.wait()
        assert first.reason == "another node writes to the log"
        await write(second, new([4]))
        await a.end(first)
        await follows(a, 5)
        assert content(a) == content(b) == [1, 3, 4]
        await b.end(second)


async def test_a_handover_goes_to_the_node_that_is_named(cluster: ACluster, folder: Path) -> None:
    cluster.made()
    async with (
        opened(cluster, folder, "a") as a,
        opened(cluster, folder, "b") as b,
        opened(cluster, folder, "c") as c,
        trio.open_nursery() as nursery,
    ):
        with trio.fail_after(PATIENCE):
            term = await a.follow()
            await write(term, new([1]))
            terms: dict[str, Term] = {}

            async def follow(node: Node) -> None:
                terms[node.options.name] = await node.follow()

            nursery.start_soon(a.decide, term)
            for node in (b, c):
                nursery.start_soon(follow, node)
            await until(lambda: len(a.nodes) == 3)
            await trio.to_thread.run_sync(cluster.servers.directory().ask_for_handover, "c")
            await term.ended.wait()
            assert not term.reason
            await trio.to_thread.run_sync(partial(term.store.close, clean=True))
            await a.end(term)
            await until(lambda: terms)
        assert list(terms) == ["c"]
        assert terms["c"].store.load().clean
        assert content(c) == [1]
        await c.end(terms["c"])
        nursery.cancel_scope.cancel()


async def test_a_new_node_begins_with_a_snapshot(cluster: ACluster, folder: Path) -> None:
    cluster.made()
    async with opened(cluster, folder, "a") as a:
        with trio.fail_after(PATIENCE):
            term = await a.follow()
        for number in range(6):
            await write(term, new([number + 1], size=200_000, number=number + 1))
        async with opened(cluster, folder, "b", snapshot_after=100_000) as b:
            await follows(b, 7)
            for first, last in ((7, 9), (10, 12)):
                for number in range(first, last + 1):
                    await write(term, new([number], size=400_000, number=number))
                await follows(b, last + 1)
                await b._make_snapshot()
        bounds = await trio.to_thread.run_sync(cluster.servers.log().bounds)
        assert bounds.first > 1
        async with opened(cluster, folder, "c") as c:
            assert sequence_of(c) >= bounds.first
            await follows(c, 13)
            assert content(c) == list(range(1, 13))
        await a.end(term)


async def test_the_store_of_a_single_gateway_is_not_taken_for_a_copy(cluster: ACluster, folder: Path) -> None:
    from gateway.stores import SQLiteStore

    cluster.made()
    store = SQLiteStore.open(folder / "a.db", reserve=0)
    store.write(new([1]))
    store.close(clean=True)
    with pytest.raises(StoreError, match=r"is the store of a single gateway: name a new file, and .* bootstrap"):
        async with opened(cluster, folder, "a"):
            pass


async def test_changes_have_their_reason_on_every_node(cluster: ACluster, folder: Path) -> None:
    cluster.made()
    async with opened(cluster, folder, "a") as a, opened(cluster, folder, "b") as b:
        with trio.fail_after(PATIENCE):
            term = await a.follow()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(b.follow)
                await until(lambda: b.changes)
                nursery.cancel_scope.cancel()
        assert list(b.changes) == list(a.changes)
        assert [(each.node, each.reason) for each in b.changes] == [("a", "it is the first primary")]
        assert (a.changed, b.changed) == (1, 1)
        await a.end(term)


async def test_a_primary_knows_that_the_servers_answer_again(
    cluster: ACluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.made()
    async with opened(cluster, folder, "a") as a, trio.open_nursery() as nursery:
        with trio.fail_after(PATIENCE):
            term = await a.follow()
            nursery.start_soon(a.decide, term)

            def away() -> None:
                raise LogUnavailable("they are down")

            with monkeypatch.context() as patch:
                patch.setattr(Directory, "nodes", lambda _: away())
                await until(lambda: a.failure)
            assert a.failure == "they are down"
            await until(lambda: not a.failure)
            await a.end(term)
        nursery.cancel_scope.cancel()


async def test_a_node_that_catches_up_is_seen_meanwhile(
    cluster: ACluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.made()
    read, told = StreamLog.read, set()
    monkeypatch.setattr(StreamLog, "read", lambda log, first: read(log, first)[:1])
    monkeypatch.setattr(Directory, "tell", lambda _, state: told.add((state.node, state.sequence)))
    monkeypatch.setattr(node_module, "TELL_EVERY", 0.0)
    async with opened(cluster, folder, "a") as a, opened(cluster, folder, "b") as b:
        with trio.fail_after(PATIENCE):
            term = await a.follow()
            await write(term, *[new([number], number=number) for number in range(1, 6)])
        await follows(b, 6)
        assert {("b", sequence) for sequence in range(1, 7)} <= told
        await a.end(term)
