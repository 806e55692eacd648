"""Looks after the store: whether there is room for it, and what it can do while nobody waits for it.

Both happen in the thread that writes.  A look at the disk costs next to nothing, and comes once a second; sooner, when
much was written.  Tidying up comes a slice at a time, and gives way to whoever wants to write or read.

A look may also find that there is no store any more, because somebody has moved its file away.  Then it has failed, as
if a commit had, though nobody sends.

Once a second is also how soon messages are taken again when there is room, whether anybody sends or not.
"""

from __future__ import annotations

import structlog
import trio

from gateway.broker.core.ports import StoreError, TendedStore
from gateway.broker.core.storage import Storage

from .writer import Committer

log = structlog.get_logger("gateway.store")

# Seconds between looks, at most.
_PAUSE = 1.0
# What clients read of a disk with too little room.
_TOLD = "the disk is nearly full"


class Housekeeper:
    """The task beside the committer's."""

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
        """See whether there is a store, and room for it."""
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
        """The store is not there."""
        if not self._storage.is_failing:
            log.error("the store has failed", reason=str(error))
        self._is_missed = True
        self._storage.failed(str(error), error.public)

    async def _tidy(self) -> None:
        """Let the store do what can wait, as long as nobody wants anything of it."""
        complaint = ""
        try:
            while self._committer.is_idle and await self._committer.call(self._store.tidy):
                pass
        except StoreError as error:
            complaint = str(error)
            if complaint != self._complaint:
                log.error("the store cannot be tidied up", reason=complaint)
        self._complaint = complaint
