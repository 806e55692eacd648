"""A standby that cannot apply the log stays one, says so once, and does not try again and again."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
import trio

from gateway.broker.core.ports import StoreError
from gateway.cluster import node as nodes
from gateway.cluster import presence
from gateway.cluster.log import Bounds, LogUnavailable, Message
from gateway.cluster.node import Node, NodeOptions, Role
from gateway.cluster.records import FORM, Kind, Record, pack_batch, parts_of
from gateway.cluster.snapshots import Snapshot, Snapshots
from tests.cluster.directories import MemoryDirectory
from tests.cluster.logs import MemoryLog
from tests.stores.batches import new

PATIENCE = 20


class CountedLog(MemoryLog):
    """`reads`: how often it was read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def read(self, first: int) -> Sequence[Message]:
        self.reads += 1
        return super().read(first)


class NoSnapshots(Snapshots):
    """An empty bucket."""

    def __init__(self) -> None:
        pass

    def make_again(self, replicas: int) -> bool:
        return False

    def all(self) -> list[Snapshot]:
        return []


class Standby:
    """A node on a log and a directory in memory."""

    def __init__(self, folder: Path) -> None:
        self.log, self.directory = CountedLog(), MemoryDirectory()
        options = NodeOptions("c", "a", "host-a:61613", "1", folder / "a.db", 1 << 30)
        self.node = Node(options, self.log, self.directory, self.directory, NoSnapshots(), MemoryLog())

    @asynccontextmanager
    async def following(self, spoil: Callable[[MemoryLog], None] = lambda log: None) -> AsyncIterator[None]:
        """`spoil`: the log, after the start of the node."""
        try:
            await self.node.open()
            await self.node.join()
            spoil(self.log)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.node.follow)
                yield
                nursery.cancel_scope.cancel()
        finally:
            await self.node.close()

    async def looks(self, count: int) -> None:
        """Wait until it has looked at the lease so many times more."""
        wanted = self.directory.told + count
        with trio.fail_after(PATIENCE):
            while self.directory.told < wanted:  # noqa: ASYNC110 - threads bring it about
                await trio.sleep(0.005)


@pytest.fixture
def standby(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Standby:
    monkeypatch.setattr(nodes, "LOOK_EVERY", 0.001)
    monkeypatch.setattr(presence, "TELL_EVERY", 0.0)
    return Standby(tmp_path)


def _newer(log: MemoryLog) -> None:
    [part] = parts_of(Record(Kind.BATCH, 1, 1, 1, pack_batch(new([1]))))
    log.messages.append(part[:3] + bytes([FORM + 1]) + part[4:])


def _trimmed(log: MemoryLog) -> None:
    log.messages += [b"", b""]
    log.purge(3)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(_newer, "a newer gateway wrote .*; upgrade this node"), (_trimmed, "the log begins with 3")],
)
async def test_says_once_that_it_cannot_follow(
    standby: Standby, spoil: Callable[[MemoryLog], None], reason: str
) -> None:
    with structlog.testing.capture_logs() as logs:
        async with standby.following(spoil):
            await standby.looks(30)
            assert standby.node.role is Role.STANDBY
    assert re.search(reason, standby.directory.states["a"].failure), "other nodes do not know"
    assert standby.directory.value is None, "it has tried for the lease"
    assert standby.log.reads <= 2
    [told] = [each for each in logs if each["log_level"] == "error"]
    assert re.search(reason, told["reason"])
    assert len(logs) <= 2


async def test_does_not_start_where_a_newer_gateway_has_written(standby: Standby) -> None:
    _newer(standby.log)
    with pytest.raises(StoreError, match=r"the log of the cluster cannot be read: a newer gateway wrote .* upgrade"):
        async with standby.following():
            pass
    # Something else at the end of the log is told by the standby that it stays.
    standby.log.messages[:] = [b""]
    async with standby.following():
        await standby.looks(2)
        assert "it is not a record" in standby.node.failure


async def test_tries_again_later(standby: Standby, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "AFTER_FAILURE", 0.01)
    with structlog.testing.capture_logs() as logs:
        async with standby.following(_newer):
            await standby.looks(5)
            [bad] = standby.log.messages
            standby.log.messages[:] = parts_of(Record(Kind.BATCH, 1, 1, 1, pack_batch(new([1]))))
            with trio.fail_after(PATIENCE):
                while standby.node.role is not Role.PRIMARY:  # noqa: ASYNC110 - threads bring it about
                    await trio.sleep(0.005)
            assert bad not in standby.log.messages
            assert standby.node.term is not None
            standby.node.term.lease.stop()
    assert [each["event"] for each in logs if "part of the cluster" in each["event"]] == [
        "a part of the cluster does not work",
        "a part of the cluster works again",
    ]


class LostLog(MemoryLog):
    """Its leader is lost."""

    def bounds(self) -> Bounds:
        raise LogUnavailable("it has no leader")


async def test_takes_over_without_a_second_word_about_the_log(standby: Standby) -> None:
    """Each connection finds out by itself that its server is lost, and the lease ends meanwhile."""
    standby.node._status = LostLog()
    with trio.fail_after(PATIENCE):
        async with standby.following():
            while standby.node.role is not Role.PRIMARY:  # noqa: ASYNC110 - threads bring it about
                await trio.sleep(0.005)
            assert standby.node.term is not None
            await standby.node.end(standby.node.term)


async def test_a_log_that_answers_again_is_not_blamed_for_the_copy(standby: Standby) -> None:
    def silent(log: MemoryLog) -> None:
        log.is_down = True

    async with standby.following(silent):
        await standby.looks(2)
        assert standby.node.failure == "the log is down"
        _newer(standby.log)
        standby.log.is_down = False
        await standby.looks(5)
        assert "a newer gateway wrote" in standby.node.failure
        assert standby.node.unavailable == ""
