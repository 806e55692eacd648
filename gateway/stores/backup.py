"""Backup of an open store: the file, as it was at one moment, while the gateway goes on.

In SQLite's WAL mode commits go into the log, and the file changes only when the log is moved into it.  So:

    freeze    the log is moved into the file, which then has every commit so far; from now on the log only grows
    read      the file, in pieces, by threads of their own: the thread that writes has nothing to do with it
    thaw      the log is moved into the file again

No commit waits but for the first step, some ms.  The log needs the disk for what is committed meanwhile.  If room gets
short the store moves it into the file in spite of the copy, and the copy is of no use: `read` says so.

The descriptor of the copy stays open as long as the store: to close any descriptor of a file takes SQLite's locks away.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import trio

from gateway.broker.core.ports import StoreError

from .sqlite import SQLiteStore
from .writer import Committer

PIECE = 1024 * 1024  # bytes that are read at a time


class FrozenStore:
    """A store whose file stays as it is; `size`: bytes of the file."""

    def __init__(self, store: SQLiteStore, size: int) -> None:
        self.size = size
        self._store = store

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The file.  Raises StoreError: it has changed meanwhile, or cannot be read."""
        at = 0
        while at < self.size:
            piece = await trio.to_thread.run_sync(self._read, at)
            if not self._store.is_frozen:
                raise StoreError(f"{self._store.path} had to be written to: room on its disk is short")
            at += len(piece)
            yield piece

    def _read(self, at: int) -> bytes:
        try:
            piece = os.pread(self._store.descriptor(), min(PIECE, self.size - at), at)
        except OSError as error:
            raise StoreError(f"{self._store.path} cannot be read: {error.strerror}") from None
        if not piece:
            raise StoreError(f"{self._store.path} has become shorter")
        return piece


@asynccontextmanager
async def frozen(store: SQLiteStore, committer: Committer) -> AsyncIterator[FrozenStore]:
    """Freeze a store for the block; one at a time.  Raises StoreError: the log cannot be moved into the file."""
    try:
        size = await committer.call(store.freeze)
        yield FrozenStore(store, size)
    finally:
        with trio.CancelScope(shield=True):
            await committer.call(store.thaw)
