"""Keeper of the snapshots: makes one when the log has grown, trims the log behind it, and fetches the newest one."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog
import trio

from gateway.broker.core.ports import StoreError
from gateway.stores.errors import told

from .log import Log, LogUnavailable
from .replica import Replica, remove
from .snapshots import KEPT, Snapshot, Snapshots

log = structlog.get_logger("gateway.cluster")

T = TypeVar("T")

LEAST = 1 << 20
"""Bytes by which the log grows at least until the next one, however short its room is."""

LOOK_EVERY = 30.0
"""Seconds between two looks at how much the log has grown since the last snapshot."""


class SnapshotKeeper:
    """The snapshots, as a node has to do with them.

    `newest`: by the last look; None: there is none.  `free`: bytes that the servers have left; a snapshot that fills
    them would stop all.  `is_short`: the log's room is short, so the next one is made earlier.

    Args:
        file: of the node's replica; copies lie beside it.
        after: bytes of the log after which a standby makes one, or twice the size of the file, if that is more.
        replicas: of the bucket, where it is to be made again.
        log, store_thread: what uses the log and the file runs there.
    """

    def __init__(
        self, file: Path, after: int, replicas: int, snapshots: Snapshots, log: Log, store_thread: trio.CapacityLimiter
    ) -> None:
        self.newest: Snapshot | None = None
        self._copied: Replica | None = None  # the one of which a copy is made now
        self.free = math.inf
        self.is_short = False
        self._file = file
        self._after = after
        self._replicas = replicas
        self._snapshots = snapshots
        self._log = log
        self._store_thread = store_thread
        self._thread = trio.CapacityLimiter(1)

    @property
    def due(self) -> int:
        """Bytes by which the log grows until a standby makes the next one."""
        return max(self._size // 4, LEAST) if self.is_short else max(self._after, 2 * self._size)

    @property
    def _size(self) -> int:
        try:
            return self._file.stat().st_size
        except OSError:  # a snapshot takes its place
            return 0

    @property
    def is_copying(self) -> bool:
        """True while the thread of the store makes a copy: seconds, where the file is large."""
        return self._copied is not None

    def give_way(self) -> None:
        """End such a copy: this node is needed as primary."""
        if self._copied is not None:
            self._copied.store.interrupt()

    async def make_when_due(self, replica: Callable[[], Replica | None]) -> None:
        """Make one, whenever the log has grown by so much.  `replica`: None: none can be made of it now."""
        while True:
            try:
                if (found := replica()) is not None:
                    await self.make(found)
            except (LogUnavailable, StoreError, OSError) as error:
                log.warning("no snapshot could be made", reason=str(error))
            await trio.sleep(LOOK_EVERY)

    async def watch(self) -> None:
        """Know of those that the standbys make, to tell of them."""
        while True:
            with suppress(LogUnavailable):
                await self._look()
            await trio.sleep(LOOK_EVERY)

    async def make(self, replica: Replica) -> None:
        """Make one, if it is due.  Raises LogUnavailable, StoreError, OSError."""
        if await self._in_thread(partial(self._snapshots.make_again, self._replicas)):
            log.warning("the snapshots of the cluster were gone: the bucket is made again")
        newest = await self._look()
        if replica.position - (newest.position if newest is not None else 0) < self.due:
            return
        copy = self._file.with_name(f"{self._file.name}.snapshot")
        copy.unlink(missing_ok=True)
        self._copied = replica
        try:
            sequence, position = await self._in_store(partial(replica.snapshot, copy))
        finally:
            self._copied = None
        if (size := copy.stat().st_size) > self.free:
            copy.unlink()
            await self._cut(1)
            raise StoreError(f"the NATS servers have {self.free:,.0f} bytes left, and it has {size:,}")
        made = self.newest = await self._in_thread(partial(self._snapshots.put, copy, sequence, position))
        copy.unlink()
        await self._cut(KEPT)
        log.info("a snapshot was made", sequence=made.sequence, bytes=made.size)

    async def _cut(self, kept: int) -> None:
        """Remove all snapshots but the newest, and the log in front of the oldest that is kept."""
        oldest = await self._in_thread(partial(self._snapshots.forget_old, kept))
        if oldest is not None:
            # The message where it ends stays: by that, a node knows the log of its copy.
            await self._in_store(partial(self._log.purge, oldest.sequence))

    async def fetch(self, replica: Replica) -> Replica | None:
        """Replace a replica by the newest one that can be used; None: there is none that is newer.

        Raises LogUnavailable: it cannot be had; StoreError: it cannot be opened here, and the replica stays.
        """
        failure: StoreError | None = None
        for found in await self._all():
            if found.sequence <= replica.sequence:
                break
            try:
                return await self._install(found, replica)
            except StoreError as error:  # the log still begins with the older one
                failure = failure or error
        if failure is not None:
            raise failure
        return None

    async def _install(self, found: Snapshot, replica: Replica) -> Replica:
        new = self._file.with_name(f"{self._file.name}.new")
        with told(new):
            remove(new)
            await self._in_thread(partial(self._snapshots.get, found, new))
        replaced = await self._in_store(partial(replica.replace, new))
        log.info("a snapshot is installed", sequence=found.sequence, bytes=found.size)
        return replaced

    async def _all(self) -> list[Snapshot]:
        found = await self._in_thread(self._snapshots.all)
        self.newest = next(iter(found), None)
        return found

    async def _look(self) -> Snapshot | None:
        await self._all()
        return self.newest

    async def _in_store(self, function: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(function, limiter=self._store_thread)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        # It may take long: a node that becomes primary does not wait for it.
        return await trio.to_thread.run_sync(function, limiter=self._thread, abandon_on_cancel=True)
