"""A store whose thread does what a test lets it do, and a write-behind on it without a broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import trio

from gateway.broker.core.metadata import Metadata
from gateway.broker.core.ports import StoreError
from gateway.broker.core.storage import Storage
from gateway.broker.model.changes import Batch, Container, Payload, Stored, StoredRow
from gateway.stores.writer import Committer

from ..broker.store import MemoryStore

PATIENCE = 20.0  # seconds


class Full(StoreError):
    """As the file's own errors are: clients read another sentence than the operator."""

    public = "the disk is full"


FULL = Full("store.db cannot grow")


class Disk(MemoryStore):
    """A store whose thread waits until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[object] = []  # numbers of batches that were to be written, and rows that were to be read
        self.errors: list[BaseException | None] = []  # what the next calls raise; None: nothing
        self.bad: dict[int, StoreError] = {}  # row -> what reading it raises
        self.little = ""  # why it is short of room
        self.busy = False  # a call waits
        self._held = False
        self._tokens = threading.Semaphore(0)

    def hold(self) -> None:
        """From now on calls wait."""
        self._held = True

    def let_one_go(self) -> None:
        """One that waits, or the next."""
        self._tokens.release()

    def let_go(self) -> None:
        """Those that wait go on, and all others."""
        self._held = False
        self._tokens.release()

    def _call(self, call: object) -> None:
        assert not self.busy, "two calls at a time"
        self.busy = True
        self.calls.append(call)
        assert not self._held or self._tokens.acquire(timeout=PATIENCE)
        self.busy = False
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error

    def write(self, batch: Batch) -> None:
        self._call(batch.number)
        super().write(batch)

    def read(self, rows: Sequence[int]) -> list[Stored]:
        self._call(tuple(rows))
        for row in rows:
            if row in self.bad:
                raise self.bad[row]
        return super().read(rows)

    def keep(self, count: int) -> list[int]:
        """Rows from 1 on, as the last process left them."""
        rows = list(range(1, count + 1))
        for row in rows:
            self.rows[row], self.contents[row] = StoredRow(row, 1, row, 5, 100), Payload({}, b"%d" % row)
        self.places[1] = Container(1, "queue", "/queue/a")
        return rows

    def shortage(self) -> str:
        return self.little

    def notice(self) -> str:
        return ""

    def tidy(self) -> bool:
        return False


class Desk:
    """A storage and its committer, without a broker."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.disk = Disk()
        self.flushes = 0
        self.storage = Storage(Metadata(trio.current_time, trio.current_time), busy=lambda: self.committer.ask())
        self.committer = Committer(self.storage, self.disk, self._flush)
        self.done: list[str] = []
        nursery.start_soon(self.committer.run)

    async def _flush(self) -> None:
        self.flushes += 1

    def change(self, name: str = "change") -> None:
        """Something is to be written, and somebody waits for it."""
        self.storage.place("queue", name)
        self.storage.when_written(self.storage.number, lambda: self.done.append(name))


async def until(condition: Callable[[], bool]) -> None:
    """Threads come back when they come back; the test's own time limit ends this."""
    while not condition():
        await trio.lowlevel.checkpoint()
