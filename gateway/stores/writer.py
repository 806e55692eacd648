"""Writer of the store: batch after batch, each in one worker thread while the next one gathers.

    storage.take()        ->  store.write(batch)   in a thread: one transaction, one fsync
                          ->  storage.written()    back on the loop: receipts go out
    storage.take_reads()  ->  store.read(rows)     in the same thread, behind the batch that may hold the rows

A failed write or read is tried again until it succeeds, each after a pause of its own: a disk with an unreadable place
can still be written.  Damaged messages are left out of their page (`repair`) and stay in the file.
"""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog
import trio

from gateway.broker.core.ports import Store, StoreError, TendedStore
from gateway.broker.core.storage import Storage
from gateway.broker.model.changes import Batch, Stored
from gateway.log_limiter import LogLimiter

from .repair import PageReader

log = structlog.get_logger("gateway.store")

T = TypeVar("T")

# Seconds until the next attempt after a failure, and after one that may pass by itself.
RETRY_AFTER = 1.0
RETRY_SOON = 0.25
# Seconds between two lines of the log for reads that fail.
_QUIET = 60.0
# Most seconds between two checks of the disk.
LOOK_EVERY = 1.0
# Part of the ERROR to clients.
_TOLD = "the disk is nearly full"
# Bytes after which `much` returns.
LOOK_AFTER_BYTES = 8 * 1024 * 1024


class _Reading(PageReader):
    """A page that the broker has asked for.

    `action`: called with the messages.  `due`: time of the next attempt, by trio's clock; 0: none has failed.
    """

    def __init__(self, rows: Sequence[int], action: Callable[[list[Stored]], None]) -> None:
        super().__init__(rows)
        self.action = action
        self.due = 0.0


class Committer:
    """The task between storage and store.

    `flush`: writes the outboxes of sessions.  `on_turn`: called when the thread has answered, before that has effects.
    """

    def __init__(self, storage: Storage, store: Store, flush: Callable[[], Awaitable[None]]) -> None:
        self.commits = 0  # number of batches written
        self.seconds = 0.0  # time that writing them took
        self.rows = 0  # number of new messages in them
        self.failures = 0  # number of failed attempts to write or read
        self.damaged = 0  # number of messages left out because of damage
        self.on_turn: Callable[[], None] = lambda: None
        self._storage = storage
        self._store = store
        self._flush = flush
        self._asked = trio.Event()
        self._written = trio.lowlevel.ParkingLot()
        self._thread = trio.CapacityLimiter(1)
        self._due = 0.0  # time of the next attempt to write; 0: none has failed
        self._since = math.inf  # time of the first attempt that failed, after the last one that did not
        self._readings: list[_Reading] = []
        self._limiter = LogLimiter(quiet=_QUIET)
        self._bytes = 0  # written since `_much` was set
        self._much = trio.Event()

    def ask(self) -> None:
        """Wake the task: there is something to write, or to read."""
        self._asked.set()

    def try_again(self) -> None:
        """The store may work again: write a failed batch at once; without one, the store counts as working."""
        if self._due:
            self._due = trio.current_time()
            self.ask()
        elif self._storage.is_failing:
            log.info("the store works again")
            self._storage.works()

    @property
    def is_idle(self) -> bool:
        """Whether no write and no read waits."""
        return not (self._asked.is_set() or self._readings or self._storage.unwritten)

    async def run(self) -> None:
        while True:
            await self._wait()
            self._asked = trio.Event()
            while await self._work():
                pass

    async def call(self, function: Callable[[], T]) -> T:
        """Call another function of the store, in the thread that writes."""
        return await trio.to_thread.run_sync(function, limiter=self._thread)

    async def wait_for(self, number: int) -> None:
        """Wait until the batch with that number is in the store."""
        while self._storage.committed < number:
            await self._written.park()

    async def finish(self) -> None:
        """Wait until all batches are written."""
        while self._storage.unwritten:
            await self._written.park()

    async def much(self) -> None:
        """Wait until 8 MiB more have been written."""
        await self._much.wait()

    async def _wait(self) -> None:
        dates = [date for date in (self._due, *[each.due for each in self._readings]) if date]
        if not dates:
            await self._asked.wait()
            return
        with trio.move_on_at(min(dates)):
            await self._asked.wait()

    async def _work(self) -> bool:
        """Write a batch, then read a piece of each page; False: there was nothing to do."""
        storage = self._storage
        batch = None
        if not self._due or self._due <= trio.current_time():
            batch = storage.take()
            if batch is not None:
                await self._write(batch)
            self._written.unpark_all()
        has_read = await self._read_on()
        await self._flush()  # also after a batch that settled itself, and is not written
        return batch is not None or has_read

    async def _write(self, batch: Batch) -> None:
        began, started = trio.current_time(), time.perf_counter()
        try:
            await trio.to_thread.run_sync(self._store.write, batch, limiter=self._thread)
            self.on_turn()
        except StoreError as error:
            self.on_turn()
            self.failures += 1
            self._since = min(self._since, began)
            self._fail(error)
        else:
            self.commits += 1
            self.seconds += time.perf_counter() - started
            self.rows += len(batch.rows)
            if self._storage.is_failing:
                log.info("the store works again")
            elif self._storage.is_waiting:
                log.info("commits wait no more", seconds=round(trio.current_time() - self._since, 1))
            self._due, self._since = 0.0, math.inf
            self._storage.written()
            self._bytes += batch.nbytes
            if self._bytes > LOOK_AFTER_BYTES:
                self._bytes = 0
                self._much.set()
                self._much = trio.Event()

    def _fail(self, error: StoreError) -> None:
        """An attempt to write has failed: the next one may be better, or clients are told."""
        storage, now = self._storage, trio.current_time()
        if not storage.is_failing and now - self._since < error.patience:
            if not storage.is_waiting:
                log.warning("commits wait for the store", reason=str(error))
            self._due = now + RETRY_SOON
            storage.wait()
            return
        if not storage.is_failing:
            log.error("the store has failed", reason=str(error))
        self._due = now + RETRY_AFTER
        storage.failed(str(error), error.public)

    # reading

    async def _read_on(self) -> bool:
        """Read one piece of each page that is due, up to the first failure; False: none is due."""
        self._readings += [_Reading(*each) for each in self._storage.take_reads()]
        if not self._readings:
            return False
        now = trio.current_time()
        due = [each for each in self._readings if each.due <= now]
        for reading in due:
            if not await self._read(reading):
                break  # it may have taken long: first the writes
        self._readings = [each for each in self._readings if not each.is_done]
        return bool(due)

    async def _read(self, reading: _Reading) -> bool:
        """Try to read a piece; False: the attempt failed, and is repeated later."""
        damaged = reading.damaged
        try:
            await trio.to_thread.run_sync(reading.step, self._store, limiter=self._thread)
        except StoreError as error:
            self.failures += 1
            reading.due = trio.current_time() + RETRY_AFTER
            if self._limiter.admit() is not None:
                log.error("messages cannot be read back for now", reason=str(error), count=len(reading.next_rows))
            return False
        self.damaged += reading.damaged - damaged
        if reading.is_done:
            self.on_turn()
            reading.action(reading.found)
        return True


class Housekeeper:
    """The task beside the committer: disk space, and the work that an idle store does.

    Both run in the thread that writes.  The check of the disk costs next to nothing; it comes once a second, and sooner
    after many writes, so messages are accepted again within a second after space is free.  The work of `tidy` comes a
    slice at a time, and stops for reads and writes.

    The check also finds that the file is gone.  Then the store has failed, as after a failed commit.
    """

    def __init__(self, storage: Storage, store: TendedStore, committer: Committer) -> None:
        self._storage = storage
        self._store = store
        self._committer = committer
        self._complaint = ""
        self._is_missed = False

    async def run(self) -> None:
        while True:
            await self._look()
            await self._tidy()
            with trio.move_on_after(LOOK_EVERY):
                await self._committer.much()

    async def _look(self) -> None:
        storage = self._storage
        try:
            reason = await self._committer.call(self._store.shortage)
        except StoreError as error:
            # The file is not in its place: the store has failed, as after a failed commit.
            if not storage.is_failing:
                log.error("the store has failed", reason=str(error))
            self._is_missed = True
            storage.failed(str(error), error.public)
            return
        if self._is_missed:
            self._is_missed = False
            self._committer.try_again()
        notice = self._store.notice()
        if notice:
            log.error("the store is damaged", reason=notice)
        if reason:
            if not storage.is_short:
                log.error("room for the store is short, durable messages are refused", reason=reason)
            storage.run_short(reason, _TOLD)
        elif storage.is_short:
            log.info("there is room for the store again")
            storage.room_came()

    async def _tidy(self) -> None:
        """Let the store tidy up while no read and no write waits."""
        complaint = ""
        try:
            while self._committer.is_idle and await self._committer.call(self._store.tidy):
                pass
        except StoreError as error:
            complaint = str(error)
            if complaint != self._complaint:
                log.error("the store cannot be tidied up", reason=complaint)
        self._complaint = complaint
