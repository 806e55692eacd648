"""Writes what the broker has to store: batch after batch, each in one worker thread while the next one gathers.

    storage.take()        ->  store.write(batch)   in a thread: one transaction, one fsync
                          ->  storage.written()    back on the loop: receipts go out
    storage.take_reads()  ->  store.read(rows)     in the same thread, behind the batch that may hold them

A store that fails is tried again until it works; what that means for clients is in `storage`.  Writes and reads take
turns, and the pause of one is no pause of the other: a disk that cannot be read in one place can be written all the
same, and those that are read from other places need not wait.

Damage alone is for good.  Of a page with damage each half is read for itself, and so on, until only the damaged
messages are left out.  They stay in the store, and nobody gets them before it is mended.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog
import trio

from gateway.broker.core.ports import Store, StoreError
from gateway.broker.core.storage import Storage
from gateway.broker.model.changes import Batch, Stored
from gateway.log_limiter import LogLimiter

log = structlog.get_logger("gateway.store")

T = TypeVar("T")

# Seconds until a store that has failed is tried again.
_RETRY = 1.0
# Seconds in which there is one line for reads that fail.
_QUIET = 60.0
# Damaged messages of a page that the log names.
_MOST_NAMED = 10
# Bytes after which who waits for `much` is told.
_MUCH = 8 * 1024 * 1024


class _Reading:
    """Rows that somebody has asked for.

    Attributes:
        pieces: what is still to be read, the next piece last.
        found: what was read so far.
        damaged: what cannot be read.
        due: when it is to be tried again, by trio's clock; 0: it has not failed.
    """

    __slots__ = ("action", "damaged", "due", "found", "pieces")

    def __init__(self, rows: Sequence[int], action: Callable[[list[Stored]], None]) -> None:
        self.action = action
        self.pieces = [rows]
        self.found: list[Stored] = []
        self.damaged: list[int] = []
        self.due = 0.0


class Committer:
    """The task between storage and store.

    Attributes:
        commits: batches that were written.
        seconds: what writing them took.
        rows: new messages that they had.
        failures: attempts to write one, or to read, that failed.
        damaged: messages that were left out, because they cannot be read.

    Args:
        flush: writes what the broker has put into outboxes.
    """

    def __init__(self, storage: Storage, store: Store, flush: Callable[[], Awaitable[None]]) -> None:
        self.commits = 0
        self.seconds = 0.0
        self.rows = 0
        self.failures = 0
        self.damaged = 0
        self._storage = storage
        self._store = store
        self._flush = flush
        self._asked = trio.Event()
        self._written = trio.lowlevel.ParkingLot()
        self._thread = trio.CapacityLimiter(1)
        self._due = 0.0  # when the batch that failed is to be written again; 0: none has
        self._readings: list[_Reading] = []
        self._limiter = LogLimiter(quiet=_QUIET)
        self._bytes = 0  # written since `_much` was set
        self._much = trio.Event()

    def ask(self) -> None:
        """There is something to write, or to read."""
        self._asked.set()

    def try_again(self) -> None:
        """The store may work again.  A batch that has failed is the proof; where there is none, it does."""
        if self._due:
            self._due = trio.current_time()
            self.ask()
        elif self._storage.is_failing:
            log.info("the store works again")
            self._storage.works()

    @property
    def is_idle(self) -> bool:
        """Nobody waits for the store."""
        return not (self._asked.is_set() or self._readings or self._storage.unwritten)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wait()
            self._asked = trio.Event()
            while await self._work():
                pass

    async def call(self, function: Callable[[], T]) -> T:
        """Call one of the store's other functions: in the thread that writes, when its turn comes."""
        return await trio.to_thread.run_sync(function, limiter=self._thread)

    async def wait_for(self, number: int) -> None:
        """Wait until that batch is in the store."""
        while self._storage.committed < number:
            await self._written.park()

    async def finish(self) -> None:
        """Wait until all is written."""
        while self._storage.unwritten:
            await self._written.park()

    async def much(self) -> None:
        """Wait until much more has been written."""
        await self._much.wait()

    async def _wait(self) -> None:
        """Wait until there is something to do, or to try again."""
        dates = [date for date in (self._due, *[each.due for each in self._readings]) if date]
        if not dates:
            await self._asked.wait()
            return
        with trio.move_on_at(min(dates)):
            await self._asked.wait()

    async def _work(self) -> bool:
        """Write what there is, then read what is asked for; False: there was nothing."""
        storage = self._storage
        batch = None
        if not self._due or self._due <= trio.current_time():
            batch = storage.take()
            if batch is not None:
                await self._write(batch)
            self._written.unpark_all()
        has_read = await self._read_on()
        await self._flush()  # also of what was settled within one batch, and is not written
        return batch is not None or has_read

    async def _write(self, batch: Batch) -> None:
        """Try to write a batch."""
        started = time.perf_counter()
        try:
            await trio.to_thread.run_sync(self._store.write, batch, limiter=self._thread)
        except StoreError as error:
            self.failures += 1
            if not self._storage.is_failing:
                log.error("the store has failed", reason=str(error))
            self._due = trio.current_time() + _RETRY
            self._storage.failed(str(error), error.public)
        else:
            self.commits += 1
            self.seconds += time.perf_counter() - started
            self.rows += len(batch.rows)
            if self._storage.is_failing:
                log.info("the store works again")
            self._due = 0.0
            self._storage.written()
            self._bytes += batch.nbytes
            if self._bytes > _MUCH:
                self._bytes = 0
                self._much.set()
                self._much = trio.Event()

    # reading

    async def _read_on(self) -> bool:
        """Read one piece of all that is asked for and due, up to the first that fails; False: nothing is due."""
        self._readings += [_Reading(*each) for each in self._storage.take_reads()]
        if not self._readings:
            return False
        now = trio.current_time()
        due = [each for each in self._readings if each.due <= now]
        for reading in due:
            if not await self._read(reading):
                break  # it may have taken long: first those who write
        self._readings = [each for each in self._readings if each.pieces]
        return bool(due)

    async def _read(self, reading: _Reading) -> bool:
        """Try to read a piece; False: that failed, and is to be tried again."""
        rows = reading.pieces.pop()
        try:
            reading.found += await trio.to_thread.run_sync(self._store.read, rows, limiter=self._thread)
        except StoreError as error:
            self.failures += 1
            if not error.is_damage:
                reading.pieces.append(rows)
                reading.due = trio.current_time() + _RETRY
                self._tell(error, len(rows))
                return False
            self._narrow_down(reading, rows, error)
        if not reading.pieces:
            reading.action(reading.found)
        return True

    def _narrow_down(self, reading: _Reading, rows: Sequence[int], error: StoreError) -> None:
        """A piece has damage in it: read its halves, or leave it out."""
        half = len(rows) // 2
        if half:
            reading.pieces += [rows[half:], rows[:half]]
            return
        reading.damaged += rows
        self.damaged += 1
        if len(reading.damaged) <= _MOST_NAMED:
            log.error("a message in the store is damaged", row=rows[0], place=error.place, reason=str(error))
        elif len(reading.damaged) == _MOST_NAMED + 1:
            log.error("more messages that were read with it are damaged", place=error.place)

    def _tell(self, error: StoreError, count: int) -> None:
        if self._limiter.admit() is not None:
            log.error("messages cannot be read back for now", reason=str(error), count=count)
