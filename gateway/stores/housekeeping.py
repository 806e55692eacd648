"""Housekeeping of a store: disk space, and the work that an idle store does.

Both run in the thread that writes.  The check of the disk costs next to nothing; it comes once a second, and sooner
after many writes, so messages are accepted again within a second after space is free.  The work of `tidy` comes a slice
at a time, and stops for reads and writes.

The check also finds that the file is gone.  Then the store has failed, as after a failed commit.
"""

from __future__ import annotations

import structlog
import trio

from gateway.broker.core.ports import StoreError, TendedStore
from gateway.broker.core.storage import Storage

from .writer import Committer

log = structlog.get_logger("gateway.store")

# Most seconds between two checks.
_PAUSE = 1.0
# Part of the ERROR to clients.
_TOLD = "the disk is nearly full"


class Housekeeper:
    """The task beside the committer."""

    def __init__(self, storage: Storage, store: TendedStore, committer: Committer) -> None:
        self._storage = storage
        self._store = store
        self._committer = committer
        self._complaint = ""
        self._is_missed = False

    async def run(self) -> None:
        """Look after the store until cancelled."""
        while True:
            await self._look()
            await self._tidy()
            with trio.move_on_after(_PAUSE):
                await self._committer.much()

    async def _look(self) -> None:
        """Check that the file is in its place, and that the disk has space."""
        storage = self._storage
        try:
            reason = await self._committer.call(self._store.shortage)
        except StoreError as error:
            self._miss(error)
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
            storage.has_room()

    def _miss(self, error: StoreError) -> None:
        """The file is not in its place."""
        if not self._storage.is_failing:
            log.error("the store has failed", reason=str(error))
        self._is_missed = True
        self._storage.failed(str(error), error.public)

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
