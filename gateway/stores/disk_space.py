"""The room that a store has: how much is left of the disk, and what the file can give back.

Taking messages out needs room too, in the log: from a disk that is full to the last byte nothing can be consumed any
more.  So `shortage` says in time that no more should be taken in.  What is to stay free covers the log, moving it into
the file, and what comes until somebody looks again; on a small disk that is a large part of it, and on the smallest
ones nothing would be left.

Room that messages left in the file counts as free: where the store has the disk for itself, there is no other way to
make room than to consume.  But for the log some must be free on the disk itself.  Where that is short, the log is cut
to nothing, and the file is written anew, as soon as little enough is left in it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gateway.broker.core.ports import StoreError
from gateway.stores import file
from gateway.stores.errors import told

RESERVE = 64 << 20
"""Bytes that should stay free on the disk; less on small ones, see `DiskSpace`."""

LEAST_DISK = 40 << 20
"""Bytes of the smallest disk on which a store can work: half of it stays free, and the log takes a fifth."""

# Of a disk that is smaller than eight times the reserve this part stays free, but not less than that: what the log
# takes, and what is written between two looks.  Nor more than half.
_PART = 8
_OVERSHOOT = 32 << 20

# Of the reserve a quarter must be free on the disk itself, for the log, however much room there is within the file.
# And an eighth more than all of it must be free again, once it was short, or messages would be refused by turns.
_LEAST, _MORE = 4, 8

# When the room of an emptied file is given back, in bytes: enough is free, and so little is left that writing all of
# it anew takes less than half a second.
MUCH_FREE = 64 << 20
LITTLE_LEFT = 32 << 20


class DiskSpace:
    """The disk of a store.

    Attributes:
        is_short: more should be free; as it was when `shortage` was last asked.

    Args:
        sql: runs a statement.
        reserve: bytes that new messages leave free on a large disk; 0: none on any.
    """

    def __init__(self, path: Path, sql: Callable[..., sqlite3.Cursor], reserve: int) -> None:
        self.is_short = False
        self._path = path
        self._sql = sql
        self._reserve = reserve

    def shortage(self) -> str:
        """Why no more messages should come; empty: they may.

        Raises:
            StoreError: the disk does not say.
        """
        with told(self._path):
            disk = os.statvfs(self._path.parent)
            free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
            wanted = min(self._reserve, max(size // _PART, min(size // 2, _OVERSHOOT)))
            needed = wanted + wanted // _MORE * self.is_short
            within = self._free_within() if wanted // _LEAST <= free < needed else 0
        self.is_short = free + within < needed
        if not self.is_short:
            return ""
        return f"{free} octets are free on the disk of {self._path}, and {needed} should be"

    def make_small(self) -> None:
        """Move the log into the file, and give back the room of a file that is nearly empty."""
        with told(self._path):
            free = self._free_within()
            if free >= MUCH_FREE and self._size() - free <= LITTLE_LEFT:
                self._sql("VACUUM")
            self._sql("PRAGMA wal_checkpoint").fetchall()

    def make_room(self) -> None:
        """Give back what the disk is short of, as far as that can be done within what is free.

        Raises:
            StoreFull: that is too little.
            StoreError: it cannot be done for another reason.
        """
        with told(self._path):
            self._sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            within = self._free_within()
            left = self._size() - within
            disk = os.statvfs(self._path.parent)
            # Less would not be worth it; and what is left is written twice, into the log first.
            if within > left and left <= LITTLE_LEFT and 2 * left < disk.f_bavail * disk.f_frsize:
                self._sql("VACUUM")
                self._sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def try_to_make_room(self) -> None:
        """The same; what stands against it will show elsewhere."""
        with suppress(StoreError):
            self.make_room()

    def _size(self) -> int:
        pages: int = self._sql("PRAGMA page_count").fetchone()[0]
        return pages * file.PAGE

    def _free_within(self) -> int:
        """Bytes in the file that messages have left: what comes next needs no more of the disk, but for the log."""
        pages: int = self._sql("PRAGMA freelist_count").fetchone()[0]
        return pages * file.PAGE


def refuse_small(path: Path) -> None:
    """Refuse a disk on which a store would stand still.

    Raises:
        StoreError: it is too small.
    """
    if not path.parent.is_dir():
        return  # which is told where the file is opened
    with told(path):
        disk = os.statvfs(path.parent)
    size = disk.f_blocks * disk.f_frsize
    if size < LEAST_DISK:
        raise StoreError(
            f"{path} cannot be used: its disk has {size >> 20} MiB, and a store needs one of {LEAST_DISK >> 20} MiB "
            "at least"
        )
