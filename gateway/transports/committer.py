"""Writes what the broker has to store: batch after batch, each in one worker thread while the next one gathers.

    storage.take()  ->  store.write(batch)   in a thread: one transaction, one fsync
                    ->  storage.written()    back on the loop: receipts go out

A store that fails is tried again until it works; what that means for clients is in `storage`.  Rows are read in the
same thread, behind the batch that may hold them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

import structlog
import trio

from gateway.broker.batch import Batch, Stored
from gateway.broker.ports import Store, StoreError
from gateway.broker.storage import Storage

log = structlog.get_logger("gateway.store")

# Seconds until a store that has failed is tried again.
_RETRY = 1.0


class Committer:
    """The task between storage and store.

    Attributes:
        commits: batches that were written.
        seconds: what writing them took.
        rows: new messages that they had.
        failures: attempts to write one, or to read, that failed.

    Args:
        flush: writes what the broker has put into outboxes.
    """

    def __init__(self, storage: Storage, store: Store, flush: Callable[[], Awaitable[None]]) -> None:
        self.commits = 0
        self.seconds = 0.0
        self.rows = 0
        self.failures = 0
        self._storage = storage
        self._store = store
        self._flush = flush
        self._asked = trio.Event()
        self._written = trio.lowlevel.ParkingLot()
        self._thread = trio.CapacityLimiter(1)

    def ask(self) -> None:
        """There is something to write, or to read."""
        self._asked.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._asked.wait()
            self._asked = trio.Event()
            while await self._work():
                pass

    async def wait_for(self, number: int) -> None:
        """Wait until that batch is in the store."""
        while self._storage.committed < number:
            await self._written.park()

    async def finish(self) -> None:
        """Wait until all is written."""
        while self._storage.unwritten:
            await self._written.park()

    async def _work(self) -> bool:
        """Write what there is, then read what is asked for; False: there was nothing."""
        storage = self._storage
        batch = storage.take()
        if batch is not None:
            await self._write(batch)
        self._written.unpark_all()
        reads = storage.take_reads()
        for rows, action in reads:
            action(await self._read(rows))
        await self._flush()  # also of what was settled within one batch, and is not written
        return batch is not None or bool(reads)

    async def _write(self, batch: Batch) -> None:
        """Write a batch, however often that must be tried."""
        while True:
            started = time.perf_counter()
            try:
                await trio.to_thread.run_sync(self._store.write, batch, limiter=self._thread)
            except StoreError as error:
                self.failures += 1
                if not self._storage.failure:
                    log.error("the store has failed", reason=str(error))
                self._storage.failed(str(error))
                await self._flush()
                await trio.sleep(_RETRY)
            else:
                self.commits += 1
                self.seconds += time.perf_counter() - started
                self.rows += len(batch.rows)
                if self._storage.failure:
                    log.info("the store works again")
                self._storage.written()
                return

    async def _read(self, rows: Sequence[int]) -> list[Stored]:
        """Read rows; where that fails for good they stay in the store, and nobody gets them before it is mended."""
        for last in (False, True):
            try:
                return await trio.to_thread.run_sync(self._store.read, rows, limiter=self._thread)
            except StoreError as error:
                self.failures += 1
                log.error("messages cannot be read back", reason=str(error), count=len(rows), again=not last)
                if not last:
                    await trio.sleep(_RETRY)
        return []
