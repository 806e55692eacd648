"""Disk space of a store: how much is left of the disk, and how much the file can give back.

Deleting messages needs space too, in the write-ahead log: on a full disk no message can be consumed any more.  So
`shortage` reports in time that new messages should be refused.

Space inside of the file that deleted messages left counts as free: on a disk of its own a store can only gain space by
consumption.  But the log needs some of the disk itself.  Where that is short, the log is emptied, and the file is
written anew as soon as little enough is left in it.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gateway.broker.core.ports import StoreError
from gateway.stores import file
from gateway.stores.errors import told

RESERVE = 64 << 20  # bytes that should stay free on the disk; fewer on a small one
LEAST_DISK = 40 << 20  # size of the smallest disk for a store: half of it stays free, and the log takes a fifth

# Of a disk below eight times the reserve an eighth stays free, but at least this many bytes, for the log and for all
# writes between two looks; and at most a half.
_PART = 8
_OVERSHOOT = 32 << 20

# A quarter of the reserve must be free on the disk itself, for the log, whatever is free within the file.  After a
# shortage an eighth more than the reserve must be free, so that the state does not flap.
_LEAST, _MORE = 4, 8

# A file is written anew when so many bytes of it are free, and so few are in use that it takes less than half a second.
MUCH_FREE = 64 << 20
LITTLE_LEFT = 32 << 20


class DiskSpace:
    """The disk of a store.

    `sql`: runs a statement.  `reserve`: bytes that new messages leave free on a large disk; 0: none on any disk.
    """

    def __init__(self, path: Path, sql: Callable[..., sqlite3.Cursor], reserve: int) -> None:
        self.is_short = False  # the last answer of `shortage`
        self.is_frozen = False  # the log is not moved into the file
        self._path = path
        self._sql = sql
        self._reserve = reserve

    def shortage(self) -> str:
        """The reason to refuse new messages; empty: none.  Raises StoreError: the disk cannot be asked."""
        with told(self._path):
            disk = os.statvfs(self._path.parent)
            free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
            wanted = min(self._reserve, max(size // _PART, min(size // 2, _OVERSHOOT)))
            needed = wanted + wanted // _MORE * self.is_short
            within = self._free_within() if wanted // _LEAST <= free < needed else 0
        self.is_short = free + within < needed
        if not self.is_short:
            return ""
        return f"{free} bytes are free on the disk of {self._path}, and {needed} should be"

    def freeze(self) -> int:
        """Move the log into the file, and nothing from now on, until `thaw`; returns the size of the file.

        Raises StoreError: the log cannot be moved.
        """
        with told(self._path):
            is_busy, *_ = self._sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if is_busy:
                raise StoreError(f"{self._path} is being read: the log cannot be moved into the file now")
            self._sql("PRAGMA wal_autocheckpoint = 0").fetchall()
            self.is_frozen = True
            return self._path.stat().st_size

    def thaw(self) -> None:
        """Let the file change again."""
        self.is_frozen = False
        with told(self._path):
            self._sql(f"PRAGMA wal_autocheckpoint = {file.LOG_PAGES}").fetchall()

    def make_small(self) -> None:
        """Move the log into the file, and shrink a file that is nearly empty."""
        if self.is_frozen:
            return
        with told(self._path):
            free = self._free_within()
            if free >= MUCH_FREE and self._size() - free <= LITTLE_LEFT:
                # 0.3 s for 1.1 GB; `incremental_vacuum` takes 46 s for the same, and slows down every write.
                self._sql("VACUUM")
            self._sql("PRAGMA wal_checkpoint").fetchall()

    def make_room(self) -> None:
        """Empty the log, and shrink the file if the free space suffices for that.

        Raises StoreFull: the free space does not suffice; StoreError: it failed for another reason.
        """
        if self.is_frozen:
            self.thaw()  # a copy can be made again, and messages that cannot be consumed are worse
        with told(self._path):
            self._sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            within = self._free_within()
            left = self._size() - within
            disk = os.statvfs(self._path.parent)
            # Less is not worth the work; and the rest is written twice, into the log first.
            if within > left and left <= LITTLE_LEFT and 2 * left < disk.f_bavail * disk.f_frsize:
                self._sql("VACUUM")
                self._sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def try_to_make_room(self) -> None:
        """Make room; an error will show in the next write."""
        with suppress(StoreError):
            self.make_room()

    def _size(self) -> int:
        pages: int = self._sql("PRAGMA page_count").fetchone()[0]
        return pages * file.PAGE

    def _free_within(self) -> int:
        """Free bytes within the file: new messages need no more of the disk, apart from the log."""
        pages: int = self._sql("PRAGMA freelist_count").fetchone()[0]
        return pages * file.PAGE


def refuse_small(path: Path) -> None:
    """Refuse a disk that is too small for a store.  Raises StoreError: it is too small."""
    if not path.parent.is_dir():
        return  # `file.make` reports it
    with told(path):
        disk = os.statvfs(path.parent)
    size = disk.f_blocks * disk.f_frsize
    if size < LEAST_DISK:
        raise StoreError(
            f"{path} cannot be used: its disk has {size >> 20} MiB, and a store needs one of {LEAST_DISK >> 20} MiB "
            "at least"
        )
