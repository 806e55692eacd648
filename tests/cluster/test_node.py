"""Nodes on a real server: one is primary, the others follow, and take over with all that it wrote."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.broker.model.changes import Batch
from gateway.cluster import node as node_module
from gateway.cluster import presence, snapshot_keeper
from gateway.cluster.directory import Directory, NodeState, NoDirectory
from gateway.cluster.lease import Lease
from gateway.cluster.log import Bounds, Fenced, LogUnavailable
from gateway.cluster.node import Node, NodeOptions, Role
from gateway.cluster.presence import NameTaken
from gateway.cluster.records import FORM
from gateway.cluster.snapshot_keeper import SnapshotKeeper
from gateway.cluster.stream_log import StreamLog
from gateway.cluster.term import Term
from gateway.stores import SQLiteStore, StoreError
from tests.cluster.conftest import ACluster
from tests.stores.batches import new, rows_of

PATIENCE = 30


@asynccontextmanager
async def opened(
    cluster: ACluster, folder: Path, name: str, snapshot_after: int = 1 << 30, form: int = FORM
) -> AsyncIterator[Node]:
    """A node that stands by.  Its calls to the servers are its own."""
    file = folder / f"{name}.db"
    options = NodeOptions(cluster.name, name, f"host-{name}:61613", "1", file, snapshot_after, form=form, replicas=1)
    servers = cluster.servers
    node = Node(
        options, servers.log(), servers.directory(), servers.directory("lease"), servers.snapshots(), servers.log()
    )
    try:
        await node.open()
        await node.join()
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
            await until(lambda: [each.role for each in a.nodes].count(Role.STANDBY) == 2)
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


async def test_a_handover_may_be_asked_for_at_once_and_one_of_before_the_term_does_not_count(
    cluster: ACluster, folder: Path
) -> None:
    ask = cluster.made().directory().ask_for_handover
    async with opened(cluster, folder, "a") as a:
        await trio.to_thread.run_sync(ask, "b")
        term = await primary(a)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.decide, term)
            for _ in range(2):
                told = a.known
                await until(lambda told=told: a.known > told)  # type: ignore[misc]
            assert not term.ended.is_set()
            nursery.cancel_scope.cancel()
        await trio.to_thread.run_sync(ask, "b")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.decide, term)
            with trio.fail_after(PATIENCE):
                await term.ended.wait()
            nursery.cancel_scope.cancel()
        assert not term.reason
        await a.end(term)


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
                assert b.follower is not None
                await b.snapshots.make(b.follower.replica)
        bounds = await trio.to_thread.run_sync(cluster.servers.log().bounds)
        assert bounds.first > 1
        async with opened(cluster, folder, "c") as c:
            assert sequence_of(c) >= bounds.first
            await follows(c, 13)
            assert content(c) == list(range(1, 13))
        await a.end(term)


async def test_a_snapshot_that_would_fill_the_servers_is_not_made(cluster: ACluster, folder: Path) -> None:
    """The log behind the newest one is cut instead."""
    cluster.made()
    async with opened(cluster, folder, "a") as a:
        with trio.fail_after(PATIENCE):
            term = await a.follow()
        async with opened(cluster, folder, "b", snapshot_after=100_000) as b:
            for number in (1, 2):
                await write(term, new([number], size=3 << 20, number=number))
                await follows(b, sequence_of(a))
                assert b.follower is not None
                if number == 2:
                    b.snapshots.free = 1 << 20
                    with pytest.raises(StoreError, match="have 1,048,576 bytes left"):
                        await b.snapshots.make(b.follower.replica)
                else:
                    await b.snapshots.make(b.follower.replica)
                    first = sequence_of(b)  # by it a node knows the log of its copy
        log = cluster.servers.log()
        assert (await trio.to_thread.run_sync(log.bounds)).first == first
        await a.end(term)


async def test_short_room_is_told_until_there_is_enough(cluster: ACluster, folder: Path) -> None:
    cluster.made()
    async with opened(cluster, folder, "a") as a:
        for used, is_short in ((89, False), (90, True), (86, True), (84, False), (89, False)):
            a.bounds = Bounds(1, 1, used, limit=100)
            sentence = f"the stream of the log has used {used}% of 100 bytes for JetStream"
            assert a.shortage == (f"the log of the cluster is short of room: {sentence}" if is_short else "")


async def primary(node: Node, *batches: Batch) -> Term:
    """Let a node be primary, and write."""
    with trio.fail_after(PATIENCE):
        term = await node.follow()
    await write(term, *batches)
    return term


async def test_an_upgrade_to_a_newer_form_of_records(cluster: ACluster, folder: Path) -> None:
    """Nodes of a pretended next version: the log has its form once all nodes read it, and no old node starts then."""
    cluster.made()
    new_form = FORM + 1

    def forms() -> list[int]:
        return [each.data[3] for each in cluster.servers.log().read(1)]

    async with opened(cluster, folder, "b", form=new_form) as b:
        async with opened(cluster, folder, "a") as a:
            term = await primary(a, new([1]))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(a.decide, term)
                await follows(b, 2)
                nursery.cancel_scope.cancel()
            await a.end(term)
            # The new one takes over; the old one follows, so that the way back is open.
            term = await primary(b, new([2]))
            await follows(a, 4)
            assert content(a) == [1, 2]
            assert await trio.to_thread.run_sync(forms) == [FORM] * 4
        async with opened(cluster, folder, "a", form=new_form) as a:
            await follows(a, 4)
            await b.end(term)
            term = await primary(a, new([3]))
            assert await trio.to_thread.run_sync(forms) == [FORM] * 4 + [new_form] * 2
            with pytest.raises(
                StoreError, match=f"wrote records of form {new_form}, and this one reads up to form {FORM}"
            ):
                async with opened(cluster, folder, "c"):
                    pass
            # One that was away, and does not know it yet, changes nothing.
            await follows(b, 6)
            await a.end(term)
            b.nodes.append(replace(b.nodes[0], node="c", form=FORM))
            term = await primary(b)
            assert (await trio.to_thread.run_sync(forms))[-1] == new_form
            await b.end(term)


async def test_the_store_of_a_single_gateway_is_not_taken_for_a_copy(cluster: ACluster, folder: Path) -> None:
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


async def test_behind_an_outage_of_the_servers_the_primary_goes_on(
    cluster: ACluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.made()

    def away(*_: object) -> None:
        raise LogUnavailable("they are down")

    directory = cluster.servers.directory()
    async with opened(cluster, folder, "a") as a, opened(cluster, folder, "b") as b:
        with trio.fail_after(PATIENCE):
            term = await a.follow()
            term.lease.drop()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(b.follow)
                await until(lambda: b.primary)
                with monkeypatch.context() as patch:
                    patch.setattr(Directory, "tell", away)
                    await until(lambda: b.failure and directory.primary()[1] is None)
                await until(lambda: not b.failure)
                for _ in range(2):  # finds out that it has ended, and takes it again
                    await trio.to_thread.run_sync(term.lease.turn)
                assert term.lease.holds
                assert not term.lease.is_lost
                assert b.role is Role.STANDBY
                nursery.cancel_scope.cancel()
            await a.end(term)


async def test_a_lost_primary_is_none_to_the_next(cluster: ACluster, folder: Path) -> None:
    cluster.made()
    async with opened(cluster, folder, "a") as a, opened(cluster, folder, "b") as b:
        with trio.fail_after(PATIENCE):
            first = await a.follow()
            await trio.to_thread.run_sync(first.lease.drop)
            second = await b.follow()
            await a._look()  # it does not know yet
            await b._look()
            assert [(each.node, each.role) for each in b.nodes] == [("a", "was primary"), ("b", "primary")]
            first.reason = "the lease was lost"
            await a.end(first)
            await b.end(second)


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


async def test_a_slow_directory_is_no_loop_that_is_stuck(
    cluster: ACluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.made()
    answers = threading.Event()
    beats: list[Lease] = []
    monkeypatch.setattr(Lease, "beat", lambda lease: beats.append(lease))
    monkeypatch.setattr(Directory, "nodes", lambda _: answers.wait(PATIENCE) and [])
    monkeypatch.setattr(node_module, "TELL_EVERY", 0.02)
    async with opened(cluster, folder, "a") as a, trio.open_nursery() as nursery:
        try:
            answers.set()
            with trio.fail_after(PATIENCE):
                term = await a.follow()
            answers.clear()
            nursery.start_soon(a.decide, term)
            with trio.fail_after(PATIENCE / 3):
                await until(lambda: len(beats) >= 5)
        finally:
            answers.set()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await a.end(term)


async def test_a_primary_whose_lease_had_ended_is_no_new_one(cluster: ACluster, folder: Path) -> None:
    cluster.made()
    async with opened(cluster, folder, "a") as a, opened(cluster, folder, "b") as b, trio.open_nursery() as nursery:
        with trio.fail_after(PATIENCE):
            term = await a.follow()
            nursery.start_soon(b.follow)
            await until(lambda: b.primary)
            b.primary = None  # as it saw while nothing renewed it
            await until(lambda: b.primary)
            assert (b.changed, len(b.changes)) == (1, 1)
            await a.end(term)
        nursery.cancel_scope.cancel()


async def test_a_node_that_catches_up_is_seen_meanwhile(
    cluster: ACluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.made()
    read, told = StreamLog.read, set()
    monkeypatch.setattr(StreamLog, "read", lambda log, first: read(log, first)[:2])  # one is known
    tell = Directory.tell

    def noted(directory: Directory, state: NodeState, revision: int) -> int:
        told.add((state.node, state.sequence))
        return tell(directory, state, revision)

    monkeypatch.setattr(Directory, "tell", noted)
    monkeypatch.setattr(node_module, "TELL_EVERY", 0.0)
    monkeypatch.setattr(presence, "TELL_EVERY", 0.0)
    async with opened(cluster, folder, "a") as a, opened(cluster, folder, "b") as b:
        with trio.fail_after(PATIENCE):
            term = await a.follow()
            await write(term, *[new([number], number=number) for number in range(1, 6)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(b.follow)
            await until(lambda: {("b", sequence) for sequence in range(2, 7)} <= told)
            nursery.cancel_scope.cancel()
        await a.end(term)


async def test_a_second_node_of_one_name_is_refused(
    cluster: ACluster, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster.made()
    other = tmp_path_factory.mktemp("other")
    async with opened(cluster, folder, "a") as a, trio.open_nursery() as nursery:
        a.drain()  # it stays a standby
        nursery.start_soon(a.follow)
        with trio.fail_after(PATIENCE):
            with pytest.raises(NameTaken, match="another process is the node a of this cluster: set cluster_node here"):
                async with opened(cluster, other, "a"):
                    pass
            assert not a.failure
            # It was silent for long, and the name went to another one.
            a._told = 0
            word = cluster.servers.directory().node("a")
            assert word[1] is not None
            cluster.servers.directory().tell(replace(word[1], run="other"), word[0])
            await until(lambda: "another process is the node a" in a.failure)
            await until(lambda: not a.failure)  # the other one has ended
        nursery.cancel_scope.cancel()


async def test_a_node_that_starts_again_waits_for_its_last_word_to_end(cluster: ACluster, folder: Path) -> None:
    cluster.made()
    async with opened(cluster, folder, "a"):
        last = cluster.servers.directory().node("a")
    assert cluster.servers.directory().node("a")[1] is None
    assert last[1] is not None
    # As if it were killed.
    cluster.servers.directory().tell(last[1], cluster.servers.directory().node("a")[0])
    with trio.fail_after(PATIENCE):
        async with opened(cluster, folder, "a") as a:
            await a._look()
            assert not a.failure


async def test_a_lost_directory_is_made_again_behind_the_last_lease(cluster: ACluster, folder: Path) -> None:
    cluster.made()
    async with opened(cluster, folder, "a") as a, opened(cluster, folder, "b") as b, trio.open_nursery() as nursery:
        with trio.fail_after(PATIENCE):
            term = await a.follow()
            nursery.start_soon(a.decide, term)
            directory, jets = cluster.servers.directory(), cluster.servers.directory()._jets
            await trio.to_thread.run_sync(jets.call, f"STREAM.DELETE.KV_GW_{cluster.name}")
            with pytest.raises(NoDirectory):
                directory.primary()

            async def watch() -> None:
                """As soon as there is a directory again, the lease does not hold."""
                while True:
                    with suppress(NoDirectory):
                        await trio.to_thread.run_sync(directory.primary)
                        break
                    await trio.sleep(0.02)
                assert not term.lease.holds

            nursery.start_soon(watch)
            second = await b.follow()
            assert term.lease.is_lost
            assert content(b) == []
            await a.end(term)
            await b.end(second)
        nursery.cancel_scope.cancel()


async def test_a_copy_of_another_log_becomes_no_snapshot(
    cluster: ACluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the place of those of this log, behind which the log is cut."""
    cluster.made()
    made: list[object] = []

    async def make(_: SnapshotKeeper, replica: object) -> None:
        made.append(replica)

    monkeypatch.setattr(SnapshotKeeper, "make", make)
    monkeypatch.setattr(snapshot_keeper, "LOOK_EVERY", 0.02)
    async with opened(cluster, folder, "a") as a, opened(cluster, folder, "b") as b:
        with trio.fail_after(PATIENCE):
            term = await a.follow()
            await write(term, new([1]))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(b.follow)
                await until(lambda: made)
                await until(lambda: b.follower is not None and b.follower.replica.sequence == sequence_of(a))
                nursery.cancel_scope.cancel()
            assert b.follower is not None
            b.follower.replica.mark = "of another log"
            b.follower = b._follower_of(b.follower.replica)
            await write(term, new([2], number=2))
            made.clear()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(b.follow)
                await until(lambda: "it is another log" in b.failure)
                nursery.cancel_scope.cancel()
            assert not made
            await a.end(term)


async def test_a_snapshot_under_way_does_not_hold_up_a_take_over(
    cluster: ACluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a large file takes long; the node is seen meanwhile."""
    cluster.made()
    copies: list[Path] = []

    def copy(store: SQLiteStore, path: Path) -> None:
        copies.append(path)
        store.query(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 300000000) SELECT max(x) FROM n"
        )

    async with opened(cluster, folder, "a") as a, opened(cluster, folder, "b", snapshot_after=1) as b:
        with trio.fail_after(PATIENCE):
            first = await a.follow()
            await write(first, new([1], size=100_000))
            await follows(b, 2)
            monkeypatch.setattr(SQLiteStore, "copy", copy)
            monkeypatch.setattr(SnapshotKeeper, "due", 1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(b.follow)
                await until(lambda: copies)
                told = b._presence._revision
                await until(lambda: b._presence._revision > told)
                with trio.fail_after(PATIENCE / 3):
                    await trio.to_thread.run_sync(first.lease.drop)
                    await until(lambda: b.role is Role.PRIMARY)
            assert b.term is not None
            first.reason = "it was lost"
            await a.end(first)
            await b.end(b.term)


async def test_a_node_that_starts_makes_a_lost_directory_behind_the_last_lease(
    cluster: ACluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.made()
    jets, make, held = cluster.servers.directory()._jets, Directory.make, []

    def noted(directory: Directory, replicas: int) -> None:
        held.append(term.lease.holds)
        make(directory, replicas)

    monkeypatch.setattr(Directory, "make", noted)
    async with opened(cluster, folder, "a") as a:
        with trio.fail_after(PATIENCE):
            term = await a.follow()
            await trio.to_thread.run_sync(jets.call, f"STREAM.DELETE.KV_GW_{cluster.name}")
            await trio.to_thread.run_sync(cluster.servers.make, 1)
            assert held == [False]
            term.reason = "the directory was lost"
            await a.end(term)


async def test_a_new_cluster_begins_at_once(cluster: ACluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits for a lease that there never was"))
    for _ in range(2):
        await trio.to_thread.run_sync(cluster.servers.make, 1)
