"""Points at which a gateway kills itself, and lies that it may tell: patches of its classes, made before it starts.

    write             a batch was taken, and nothing of it is written
    statement         any statement of SQL, also at the start
    commit            all of a batch is written but COMMIT
    committed         it is on the disk, and nobody knows; a batch that changes nothing there does not count
    written           the same, back on the loop
    confirmed         receipts are in outboxes, and not sent
    flushed           some turn has ended, and outboxes were written
    recovery          the store was opened, and nothing has been read yet
    log               SQLite is about to write to the write-ahead log
    log-torn          it has written half of what it was about to
    log-written       it has written that
    file, file-torn, file-written    the same of the file itself, in a checkpoint

Each has a number: so often the process may come by.  Those of what SQLite itself writes need a library of SQLite that
is loaded by Python, not built into it, and writes by `pwrite64`; elsewhere they never come.

A lie breaks one promise, to see that the test notices:

    early-receipts    a RECEIPT does not wait for the store
    half-commits      a batch is written in two transactions
    forgetful         no ACK reaches the store
    silent            nobody is told of a gap
    hasty             what a transaction sends is seen before the store has its COMMIT
"""

from __future__ import annotations

import ctypes
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from gateway.broker.core.context import Context
from gateway.broker.core.storage import Storage
from gateway.broker.model.changes import Batch
from gateway.broker.topic.stream_reader import StreamReader
from gateway.stores.sqlite import SQLiteStore
from gateway.transports.server import Server

# Where a call of a method is such a point: before it, or behind it.
_BEFORE = {"write": (SQLiteStore, "write"), "written": (Storage, "written")}
_BEHIND = {"recovery": (SQLiteStore, "load"), "confirmed": (Storage, "written")}
_STATEMENTS = {"statement": "", "commit": "COMMIT"}
_WRITES = {
    "log": ("-wal", "before"),
    "log-torn": ("-wal", "half"),
    "log-written": ("-wal", "behind"),
    "file": ("", "before"),
    "file-torn": ("", "half"),
    "file-written": ("", "behind"),
}
POINTS = (*_BEFORE, *_BEHIND, *_STATEMENTS, "committed", "flushed", *_WRITES)


class _Countdown:
    """Kills the process when it was come by so often."""

    def __init__(self, count: int) -> None:
        self._left = count

    def is_due(self) -> bool:
        self._left -= 1
        return self._left == 0

    def come_by(self) -> None:
        if self.is_due():
            die()


def die() -> None:
    """As a crash does it: nothing is tidied up, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def set_point(name: str, count: int, store: Path) -> None:
    """Die when the process comes by that point so often.

    Args:
        store: the file.
    """
    countdown = _Countdown(count)
    if name in _BEFORE:
        _patch(*_BEFORE[name], before=countdown.come_by)
    elif name in _BEHIND:
        _patch(*_BEHIND[name], behind=countdown.come_by)
    elif name == "committed":
        _patch_commits(Path(f"{store}-wal"), countdown)
    elif name == "flushed":
        _patch_flush(countdown)
    elif name in _STATEMENTS:
        _patch_statements(_STATEMENTS[name], countdown)
    else:
        suffix, when = _WRITES[name]
        _patch_writes(f"{store}{suffix}", when, countdown)


def _patch(
    owner: type, name: str, *, before: Callable[[], None] = lambda: None, behind: Callable[[], None] = lambda: None
) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def patched(*arguments: Any, **named: Any) -> Any:
        before()
        result = original(*arguments, **named)
        behind()
        return result

    _replace(owner, name, patched)


def _patch_commits(log: Path, countdown: _Countdown) -> None:
    """Those that wrote to the log: where facts are what they were, SQLite writes nothing.

    Whoever damages the last commit in the log must know that it is the one that nobody was told of.
    """
    original = SQLiteStore.write

    def write(self: SQLiteStore, batch: Batch) -> None:
        before = log.stat().st_mtime_ns
        original(self, batch)
        if log.stat().st_mtime_ns != before:
            countdown.come_by()

    _replace(SQLiteStore, "write", write)


def _patch_flush(countdown: _Countdown) -> None:
    original = Server.flush

    async def flush(self: Server) -> None:
        await original(self)
        countdown.come_by()

    _replace(Server, "flush", flush)


def _patch_statements(start: str, countdown: _Countdown) -> None:
    connect = sqlite3.connect

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if sql.startswith(start):
                countdown.come_by()
            return super().execute(sql, *arguments)

    def patched(*arguments: Any, **named: Any) -> sqlite3.Connection:
        return connect(*arguments, factory=Connection, **named)

    _replace(sqlite3, "connect", patched)


# what SQLite writes

_WRITE = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)


class _System(ctypes.Structure):
    """SQLite's `sqlite3_vfs`, as far as the table of system calls."""


_System._fields_ = [
    ("version", ctypes.c_int),
    ("size_of_file", ctypes.c_int),
    ("longest_path", ctypes.c_int),
    ("others", ctypes.c_void_p * 16),  # the next one, its name, and methods
    ("set", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_System), ctypes.c_char_p, ctypes.c_void_p)),
    ("get", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_System), ctypes.c_char_p)),
]
_kept: list[object] = []  # what SQLite calls must live as long as the process


def _patch_writes(path: str, when: str, countdown: _Countdown) -> None:
    system = _system()
    address = system.contents.get(system, b"pwrite64") if system is not None else None
    if system is None or address is None:
        return
    original = _WRITE(address)

    def write(descriptor: int, octets: int, count: int, offset: int) -> int:
        due = _path_of(descriptor) == path and countdown.is_due()
        if due and when == "before":
            die()
        if due and when == "half":
            os.pwrite(descriptor, ctypes.string_at(octets, count // 2), offset)
            die()
        written: int = original(descriptor, octets, count, offset)
        if due:
            die()
        return written

    callback = _WRITE(write)
    _kept.append(callback)
    system.contents.set(system, b"pwrite64", ctypes.cast(callback, ctypes.c_void_p))


def _path_of(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _system() -> Any:
    """SQLite's default file system; None: it is out of reach."""
    loaded = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libsqlite3" in line]
    if not loaded:
        return None
    find = ctypes.CDLL(loaded[0]).sqlite3_vfs_find
    find.restype = ctypes.POINTER(_System)
    return find(None)


# lies


def tell(lie: str) -> None:
    """Break one promise.  The store gets slow with it, so that kills fall where it shows."""
    _patch(SQLiteStore, "write", before=lambda: time.sleep(0.02))
    original = SQLiteStore.write
    if lie == "early-receipts":
        _replace(Storage, "when_written", lambda self, number, action: action())
    elif lie == "half-commits":
        _replace(SQLiteStore, "write", lambda self, batch: (original(self, _half(batch)), original(self, batch)))
    elif lie == "forgetful":
        _replace(SQLiteStore, "write", lambda self, batch: original(self, replace(batch, gone=[])))
    elif lie == "silent":
        give, go_live = StreamReader._give, StreamReader._go_live
        _replace(StreamReader, "_give", lambda self, entry: (self._gaps.clear(), give(self, entry)))
        _replace(StreamReader, "_go_live", lambda self: (self._gaps.clear(), go_live(self)))
    elif lie == "hasty":
        _replace(Context, "begin_commit", lambda self: 0)
    else:
        raise ValueError(lie)


def _half(batch: Batch) -> Batch:
    return replace(batch, rows=dict(list(batch.rows.items())[::2]), gone=[])


def _replace(owner: object, name: str, value: object) -> None:
    setattr(owner, name, value)
