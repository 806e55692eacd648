"""The committer: one batch after the other in a worker thread, and who waits for it meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import structlog.testing
import trio
import trio.testing
from trio.testing import MockClock

from gateway.broker.core.ports import StoreError
from gateway.broker.model.changes import Stored

from .disk import FULL, Desk, until


class Damaged(StoreError):
    """For good."""

    is_damage = True
    place = "/queue/a"


BAD_BLOCK = StoreError("a bad block")


@pytest.fixture
async def desk(nursery: trio.Nursery) -> AsyncIterator[Desk]:
    made = Desk(nursery)
    yield made
    made.disk.let_go()


class Answer:
    """What a read has found."""

    def __init__(self) -> None:
        self.found: list[Stored] = []
        self._came = trio.Event()

    def __call__(self, found: list[Stored]) -> None:
        assert not self._came.is_set()
        self.found = found
        self._came.set()

    async def wait(self) -> list[Stored]:
        await self._came.wait()
        return self.found


class TestWriting:
    async def test_the_next_one_gathers_while_one_is_written(self, desk: Desk) -> None:
        desk.disk.hold()
        desk.change("a")
        await until(lambda: desk.disk.busy)
        desk.change("b")
        desk.change("c")
        await trio.testing.wait_all_tasks_blocked()
        assert desk.disk.calls == [1]
        assert not desk.done
        desk.disk.let_go()
        await desk.committer.wait_for(2)
        assert desk.disk.calls == [1, 2]
        assert desk.done == ["a", "b", "c"]

    async def test_a_fault_of_our_own_ends_it(self, nursery: trio.Nursery) -> None:
        """A programming error must not be taken for a full disk, and be tried for ever."""
        with pytest.RaisesGroup(ZeroDivisionError):
            async with trio.open_nursery() as inner:
                desk = Desk(inner)
                desk.disk.errors = [ZeroDivisionError()]
                desk.change()

    async def test_what_gathers_is_one_batch(self, desk: Desk) -> None:
        for name in ("a", "b"):
            desk.change(name)
        await desk.committer.finish()
        assert [list(batch.places) for batch in desk.disk.batches] == [[1, 2]]
        assert desk.done == ["a", "b"]
        assert not desk.storage.unwritten
        await until(lambda: bool(desk.flushes))
        assert (desk.committer.commits, desk.committer.rows, desk.committer.failures) == (1, 0, 0)
        assert desk.committer.seconds > 0

    async def test_a_batch_that_has_settled_itself_is_not_written(self, desk: Desk) -> None:
        desk.storage.drop(desk.storage.place("queue", "a"))
        desk.storage.when_written(desk.storage.number, lambda: desk.done.append("a"))
        await until(lambda: bool(desk.flushes))
        assert desk.done == ["a"]
        assert not desk.disk.calls


class TestWaiting:
    async def test_a_write_that_has_begun_ends_before_we_do(self) -> None:
        """Nobody closes the file while a thread writes to it."""
        async with trio.open_nursery() as nursery:
            desk = Desk(nursery)
            desk.disk.hold()
            desk.change()
            await until(lambda: desk.disk.busy)
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
                assert desk.disk.busy
                desk.disk.let_go()
        assert not desk.disk.busy
        assert len(desk.disk.batches) == 1


class Passing(StoreError):
    """May pass by itself."""

    patience = 5.0


class TestAFailureThatMayPass:
    async def test_is_waited_for(self, desk: Desk, autojump_clock: MockClock) -> None:
        desk.disk.errors = [Passing("no leader")] * 8
        with structlog.testing.capture_logs() as logs:
            desk.change()
            await until(lambda: desk.storage.holds_back)
            await desk.committer.finish()
        assert not desk.storage.failure
        assert [each["event"] for each in logs] == ["commits wait for the store", "commits wait no more"]
        assert logs[1]["seconds"] == pytest.approx(2.0)

    async def test_is_one_like_others_if_it_lasts(self, desk: Desk, autojump_clock: MockClock) -> None:
        desk.disk.errors = [Passing("no leader")] * 40
        failed, started = trio.Event(), trio.current_time()
        desk.storage.when_settled(failed.set)
        with structlog.testing.capture_logs() as logs:
            desk.change()
            await until(lambda: desk.storage.holds_back)
            await failed.wait()
            assert trio.current_time() - started == pytest.approx(5.0, abs=0.5)
            assert desk.storage.is_failing
            assert not desk.storage.holds_back
            await desk.committer.finish()
        assert [each["event"] for each in logs][1:] == ["the store has failed", "the store works again"]
        # The next one has its own time.
        desk.disk.errors = [Passing("no leader")]
        desk.change()
        await until(lambda: desk.storage.holds_back)
        await desk.committer.finish()
        assert not desk.storage.is_failing

    async def test_another_one_is_told_at_once(self, desk: Desk, autojump_clock: MockClock) -> None:
        desk.disk.errors = [Passing("no leader"), FULL]
        failed = trio.Event()
        desk.storage.when_settled(failed.set)
        desk.change()
        await failed.wait()
        assert desk.storage.failure == "store.db cannot grow"
        await desk.committer.finish()


class TestFailing:
    async def test_it_is_tried_until_it_works(self, desk: Desk, autojump_clock: MockClock) -> None:
        desk.disk.errors = [FULL, FULL, FULL]
        started = trio.current_time()
        with structlog.testing.capture_logs() as logs:
            desk.change()
            await desk.committer.finish()
        assert desk.disk.calls == [1, 1, 1, 1]
        assert trio.current_time() - started == pytest.approx(3.0)
        assert [(line["log_level"], line["event"]) for line in logs] == [
            ("error", "the store has failed"),
            ("info", "the store works again"),
        ]
        assert logs[0]["reason"] == "store.db cannot grow"
        assert (desk.committer.failures, desk.committer.commits) == (3, 1)

    async def test_meanwhile_everybody_knows(self, desk: Desk, autojump_clock: MockClock) -> None:
        desk.disk.errors = [FULL]
        desk.storage.place("queue", "failed")
        failed = trio.Event()
        desk.storage.when_settled(failed.set)
        desk.change("a")
        await failed.wait()
        assert desk.storage.failure == "store.db cannot grow"
        assert not desk.done
        desk.change("b")
        await desk.committer.finish()
        assert desk.storage.failure == ""
        assert [sorted(batch.places) for batch in desk.disk.batches] == [[1, 2], [3]]
        assert desk.done == ["a", "b"]

    async def test_what_was_asked_for_before_is_read(self, desk: Desk, autojump_clock: MockClock) -> None:
        rows, answer = desk.disk.keep(2), Answer()
        desk.disk.errors = [FULL]
        desk.storage.places_from(2)
        desk.storage.read(rows, answer)
        desk.change()
        assert len(await answer.wait()) == 2
        assert desk.storage.is_failing
        await desk.committer.finish()
        assert desk.disk.calls == [1, (1, 2), 1]


class TestReading:
    async def test_behind_what_was_gathered(self, desk: Desk) -> None:
        answer = Answer()
        desk.change()
        desk.storage.read([7], answer)
        desk.change()
        assert await answer.wait() == []
        assert desk.disk.calls == [1, (7,)]

    async def test_not_behind_what_does_not_concern_them(self, desk: Desk) -> None:
        answer = Answer()
        desk.disk.hold()
        desk.change()
        await until(lambda: desk.disk.busy)
        desk.change()
        desk.storage.read([7], answer)
        desk.disk.let_go()
        await answer.wait()
        await desk.committer.finish()
        assert desk.disk.calls == [1, (7,), 2]

    async def test_until_it_works(self, desk: Desk, autojump_clock: MockClock) -> None:
        """However long that takes; the log says so once a minute."""
        rows, answer = desk.disk.keep(3), Answer()
        desk.disk.errors = [BAD_BLOCK] * 70
        started = trio.current_time()
        with structlog.testing.capture_logs() as logs:
            desk.storage.read(rows, answer)
            assert [each.row.row for each in await answer.wait()] == rows
        assert desk.disk.calls == [(1, 2, 3)] * 71
        assert trio.current_time() - started == pytest.approx(70.0)
        assert [(line["log_level"], line["reason"], line["count"]) for line in logs] == [
            ("error", "a bad block", 3)
        ] * 2
        assert desk.committer.failures == 70
        assert not desk.committer.damaged
        assert desk.storage.failure == ""  # it can be written all the same

    async def test_what_cannot_be_read_stops_neither_writes_nor_other_reads(
        self, desk: Desk, autojump_clock: MockClock
    ) -> None:
        first, second, third = desk.disk.keep(3)
        desk.storage.places_from(2)
        answers = {row: Answer() for row in (first, second, third)}
        desk.disk.bad = {first: BAD_BLOCK}
        for row, answer in answers.items():
            desk.storage.read([row], answer)
        assert len(await answers[second].wait()) == len(await answers[third].wait()) == 1
        for name in ("a", "b"):
            desk.change(name)
            await desk.committer.finish()
        assert desk.committer.commits == 2
        desk.disk.bad = {}
        assert len(await answers[first].wait()) == 1

    async def test_a_write_waits_for_one_that_fails_only(self, desk: Desk, autojump_clock: MockClock) -> None:
        """A disk may take long to find out that it cannot read."""
        rows = desk.disk.keep(3)
        desk.storage.places_from(2)
        desk.disk.bad = dict.fromkeys(rows, BAD_BLOCK)
        desk.disk.hold()
        for row in rows:
            desk.storage.read([row], Answer())
        await until(lambda: desk.disk.busy)
        desk.change()
        desk.disk.let_go()
        await desk.committer.finish()
        assert desk.disk.calls[:2] == [(1,), 2]
