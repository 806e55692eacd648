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
from gateway.stores import writer as committer_module
from gateway.stores import writer as module
from gateway.stores.writer import Housekeeper

from .peers import PATIENCE
from .test_committer import FULL, Desk, Disk, until

LITTLE = "100 octets are free on the disk of store.db, and 200 should be"


class Kept(Disk):
    """A store with a house to keep.

    Attributes:
        looks: how often that was asked.
        more: how often `tidy` says that there is more of it.
        trouble: what `shortage` and `tidy` raise; None: nothing.
        news: what `notice` says next.
        done: `look`, `tidy` and `write`, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.more = 0
        self.trouble: dict[str, StoreError] = {}
        self.done: list[str] = []
        self.news = ""
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


class House(Desk):
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
async def house(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    """Its seconds are short."""
    monkeypatch.setattr(module, "_PAUSE", 0.001)
    monkeypatch.setattr(committer_module, "_RETRY", 0.001)
    made = House(nursery)
    yield made
    made.disk.let_go()


class TestRoom:
    async def test_new_messages_are_refused_while_it_is_short(self, house: House) -> None:
        await house.look()
        assert not house.refusal()
        house.disk.little = LITTLE
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                await house.look()
        assert house.refusal() == "durable messages are refused for now: the disk is nearly full"
        assert house.storage.failure == LITTLE
        assert not house.storage.is_failing
        assert [(line["log_level"], line["reason"]) for line in logs] == [("error", LITTLE)]

    async def test_what_is_under_way_is_written(self, house: House) -> None:
        house.disk.little = LITTLE
        await house.look()
        house.change()
        await house.committer.finish()
        assert house.done == ["change"]
        assert house.storage.is_short

    async def test_it_returns_though_nobody_sends(self, house: House) -> None:
        house.disk.little = LITTLE
        await house.look()
        assert house.refusal()
        house.disk.little = ""
        with structlog.testing.capture_logs() as logs:
            await until(lambda: not house.storage.failure)
        assert not house.refusal()
        assert [line["event"] for line in logs] == ["there is room for the store again"]

    async def test_after_much_was_written_it_is_looked_for_at_once(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A second may be too long for what was free."""
        monkeypatch.setattr(module, "_PAUSE", 1_000.0)
        monkeypatch.setattr(committer_module, "_MUCH", 2_000)
        await until(lambda: house.disk.looks == 1)
        await trio.testing.wait_all_tasks_blocked(0.01)
        house.disk.little = LITTLE
        for number in range(20):
            house.change(str(number))
            await house.committer.finish()
        await until(lambda: house.storage.is_short)

    async def test_a_disk_that_does_not_say(self, house: House) -> None:
        house.disk.trouble = {"shortage": StoreError("store.db cannot be used: No such file or directory")}
        await house.look()
        assert house.refusal() == "durable messages are refused for now: the log of the server says why"
        assert "No such file" in house.storage.failure
        house.disk.trouble = {}
        await house.look()
        assert not house.refusal()

    async def test_a_store_that_fails_as_well(self, house: House) -> None:
        """Which is told first."""
        house.disk.little = LITTLE
        await house.look()
        house.disk.errors = [FULL] * 3
        house.change()
        await until(lambda: house.storage.is_failing)
        assert house.refusal() == "durable messages are refused for now: the disk is full"
        await house.committer.finish()
        assert house.refusal() == "durable messages are refused for now: the disk is nearly full"


GONE = StoreError("store.db is gone")


class TestStoreThatIsMissed:
    """Somebody has moved its file away."""

    async def test_has_failed_though_nobody_sends(self, house: House) -> None:
        house.disk.trouble = {"shortage": GONE}
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                await house.look()
            assert house.storage.is_failing
            assert house.storage.failure == "store.db is gone"
            house.disk.trouble = {}
            await house.look()
        assert house.storage.failure == ""
        assert [line["event"] for line in logs] == ["the store has failed", "the store works again"]

    async def test_that_comes_back_before_a_batch_is_written(self, house: House) -> None:
        """Only the batch shows that all is well."""
        house.disk.trouble = {"shortage": GONE}
        house.disk.errors = [GONE] * 3
        house.change()
        with structlog.testing.capture_logs() as logs:
            await house.look()
            house.disk.trouble = {}
            await house.committer.finish()
            await house.look()
        assert house.storage.failure == ""
        assert house.done == ["change"]
        assert [line["event"] for line in logs] == ["the store has failed", "the store works again"]

    async def test_does_not_hide_what_else_fails(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(committer_module, "_RETRY", 1_000.0)
        house.disk.trouble = {"shortage": GONE}
        await house.look()
        house.disk.errors = [FULL] * 2
        house.change()
        await until(lambda: not house.disk.errors[1:])
        house.disk.trouble = {}
        await until(lambda: not house.disk.errors)
        await house.look()
        assert house.storage.is_failing
        assert "cannot grow" in house.storage.failure


class TestNotice:
    async def test_is_logged_once(self, house: House) -> None:
        house.disk.news = "store.db is damaged: 3 messages stay"
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                await house.look()
        assert [(line["log_level"], line["reason"]) for line in logs] == [
            ("error", "store.db is damaged: 3 messages stay")
        ]
        assert house.storage.failure == ""


class TestTidying:
    async def test_while_there_is_more_of_it(self, house: House) -> None:
        house.disk.more = 5
        for _ in range(2):
            await house.look()
        assert house.disk.done[:9] == ["look", *["tidy"] * 6, "look", "tidy"]

    async def test_gives_way_to_who_wants_to_write(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_PAUSE", 1_000.0)
        house.disk.more = 1_000
        house.disk.next_slice = threading.Semaphore(0)
        await until(lambda: house.disk.done == ["look", "tidy"])
        house.change()
        house.disk.next_slice.release()
        await house.committer.finish()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert house.disk.done == ["look", "tidy", "write"]

    async def test_or_to_read(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_PAUSE", 1_000.0)
        house.disk.more = 1_000
        house.disk.next_slice = threading.Semaphore(0)
        await until(lambda: house.disk.done == ["look", "tidy"])
        house.storage.read([1], lambda found: house.done.append("read"))
        house.disk.next_slice.release()
        await until(lambda: house.done == ["read"])
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert house.disk.done == ["look", "tidy"]

    async def test_not_while_something_cannot_be_written(self, house: House) -> None:
        await until(lambda: "tidy" in house.disk.done)
        house.disk.errors = [FULL] * 5
        house.change()
        tidied = house.disk.done.count("tidy")
        await house.committer.finish()
        assert house.disk.done[: house.disk.done.index("write")].count("tidy") == tidied

    async def test_that_fails(self, house: House) -> None:
        """The log says so once, and all goes on."""
        with structlog.testing.capture_logs() as logs:
            for reason in ("a", "b"):
                house.disk.trouble = {"tidy": StoreError(reason)}
                for _ in range(3):
                    await house.look()
            house.disk.trouble = {}
            await house.look()
            house.disk.trouble = {"tidy": StoreError("b")}
            await house.look()
        assert [line["reason"] for line in logs] == ["a", "b", "b"]
        house.change()
        await house.committer.finish()
        assert house.storage.failure == ""
