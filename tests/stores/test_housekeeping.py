"""The housekeeper: durable messages are refused while room is short, and the store is tidied up while nobody waits."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator

import pytest
import structlog.testing
import trio
import trio.testing

from gateway.broker.core.ports import StoreError
from gateway.broker.errors import NotAllowed
from gateway.broker.model.changes import Batch
from gateway.stores import writer as module
from gateway.stores.writer import Housekeeper

from .disk import FULL, PATIENCE, Desk, Disk, until

LITTLE = "100 octets are free on the disk of store.db, and 200 should be"


class Kept(Disk):
    """A store to look after."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0  # how often `shortage` was asked
        self.more = 0  # how often `tidy` says that there is more of it
        self.trouble: dict[str, StoreError] = {}  # what `shortage` and `tidy` raise
        self.done: list[str] = []  # `look`, `tidy` and `write`, in order
        self.news = ""  # what `notice` says next
        self.next_slice: threading.Semaphore | None = None

    def write(self, batch: Batch) -> None:
        super().write(batch)
        self.done.append("write")

    def shortage(self) -> str:
        self.looks += 1
        self.done.append("look")
        if "shortage" in self.trouble:
            raise self.trouble["shortage"]
        return self.little

    def notice(self) -> str:
        notice, self.news = self.news, ""
        return notice

    def tidy(self) -> bool:
        assert not self.busy
        self.done.append("tidy")
        if self.next_slice is not None:
            assert self.next_slice.acquire(timeout=PATIENCE)
        if "tidy" in self.trouble:
            raise self.trouble["tidy"]
        self.more -= 1
        return self.more >= 0


class Harness(Desk):
    """The same with somebody who looks after it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        super().__init__(nursery)
        self.disk: Kept = Kept()
        self.committer._store = self.disk
        self.housekeeper = Housekeeper(self.storage, self.disk, self.committer)
        nursery.start_soon(self.housekeeper.run)

    def refusal(self) -> str:
        """What a client reads whose message is refused; empty: it is taken."""
        try:
            self.storage.check()
        except NotAllowed as error:
            return error.detail
        return ""

    async def look(self) -> None:
        """Wait until the disk was looked at, and what that means is known."""
        looks = self.disk.looks
        await until(lambda: self.disk.looks > looks + 1)


@pytest.fixture
async def harness(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    """Its seconds are short."""
    monkeypatch.setattr(module, "LOOK_EVERY", 0.001)
    monkeypatch.setattr(module, "RETRY_AFTER", 0.001)
    made = Harness(nursery)
    yield made
    made.disk.let_go()


class TestRoom:
    async def test_new_messages_are_refused_while_it_is_short(self, harness: Harness) -> None:
        await harness.look()
        assert not harness.refusal()
        harness.disk.little = LITTLE
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                await harness.look()
        assert harness.refusal() == "durable messages are refused for now: the disk is nearly full"
        assert harness.storage.failure == LITTLE
        assert not harness.storage.is_failing
        assert [(line["log_level"], line["reason"]) for line in logs] == [("error", LITTLE)]
        harness.disk.little = ""  # it returns without any send
        with structlog.testing.capture_logs() as logs:
            await until(lambda: not harness.storage.failure)
        assert not harness.refusal()
        assert [line["event"] for line in logs] == ["there is room for the store again"]

    async def test_after_much_was_written_it_is_looked_for_at_once(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A second may be too long for what was free."""
        monkeypatch.setattr(module, "LOOK_EVERY", 1_000.0)
        monkeypatch.setattr(module, "LOOK_AFTER_BYTES", 2_000)
        await until(lambda: harness.disk.looks == 1)
        await trio.testing.wait_all_tasks_blocked(0.01)
        harness.disk.little = LITTLE
        for number in range(20):
            harness.change(str(number))
            await harness.committer.finish()
        await until(lambda: harness.storage.is_short)


GONE = StoreError("store.db is gone")


class TestStoreThatIsMissed:
    """Somebody has moved its file away."""

    async def test_has_failed_without_any_send(self, harness: Harness) -> None:
        harness.disk.trouble = {"shortage": GONE}
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                await harness.look()
            assert harness.storage.is_failing
            assert harness.storage.failure == "store.db is gone"
            harness.disk.trouble = {}
            await harness.look()
        assert harness.storage.failure == ""
        assert [line["event"] for line in logs] == ["the store has failed", "the store works again"]


class TestNotice:
    async def test_is_logged_once(self, harness: Harness) -> None:
        harness.disk.news = "store.db is damaged: 3 messages stay"
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                await harness.look()
        assert [(line["log_level"], line["reason"]) for line in logs] == [
            ("error", "store.db is damaged: 3 messages stay")
        ]
        assert harness.storage.failure == ""


class TestTidying:
    async def test_while_there_is_more_of_it(self, harness: Harness) -> None:
        harness.disk.more = 5
        for _ in range(2):
            await harness.look()
        assert harness.disk.done[:9] == ["look", *["tidy"] * 6, "look", "tidy"]

    async def test_not_while_something_cannot_be_written(self, harness: Harness) -> None:
        await until(lambda: "tidy" in harness.disk.done)
        harness.disk.errors = [FULL] * 5
        harness.change()
        tidied = harness.disk.done.count("tidy")
        await harness.committer.finish()
        assert harness.disk.done[: harness.disk.done.index("write")].count("tidy") == tidied

    async def test_that_fails(self, harness: Harness) -> None:
        """The log says so once, and all goes on."""
        with structlog.testing.capture_logs() as logs:
            for reason in ("a", "b"):
                harness.disk.trouble = {"tidy": StoreError(reason)}
                for _ in range(3):
                    await harness.look()
            harness.disk.trouble = {}
            await harness.look()
            harness.disk.trouble = {"tidy": StoreError("b")}
            await harness.look()
        assert [line["reason"] for line in logs] == ["a", "b", "b"]
        harness.change()
        await harness.committer.finish()
        assert harness.storage.failure == ""

    @pytest.mark.parametrize("what", ["write", "read"])
    async def test_gives_way_to_a_write_or_a_read(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch, what: str
    ) -> None:
        monkeypatch.setattr(module, "LOOK_EVERY", 1_000.0)
        harness.disk.more = 1_000
        harness.disk.next_slice = threading.Semaphore(0)
        await until(lambda: harness.disk.done == ["look", "tidy"])
        if what == "write":
            harness.change("write")
        else:
            harness.storage.read([1], lambda found: harness.done.append("read"))
        harness.disk.next_slice.release()
        await until(lambda: harness.done == [what])
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert harness.disk.done == ["look", "tidy", *(["write"] if what == "write" else [])]
