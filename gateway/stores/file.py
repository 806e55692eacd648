"""The file of a store: made whole, and opened for this process alone.

A new file is made beside its place, and moved there when it is complete.  So an empty file is never one of ours that
was only begun, and is refused like every other damage: a store does not start empty where there was one.

SQLite's own lock keeps out a second gateway.  In `locking_mode=EXCLUSIVE` it is taken once, at the start, and lies on
the file until the process ends, however it ends.  Nobody else can then read the file either: who wants to look into it
asks the gateway, or stops it.  In return no other program can hold up a commit, or keep the write-ahead log from being
emptied by reading for long, and there is no shared memory beside the file.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from gateway.broker.core.ports import StoreError
from gateway.stores import schema
from gateway.stores.errors import StoreDamaged, told

PAGE = 8192
"""Bytes.  A lone message is written as two pages, so they should be small; but of messages of 1 KiB a page of 4096
holds three, with a quarter of it wasted, and one of 8192 seven."""

LOG_PAGES = 1000
"""Pages of the write-ahead log after which SQLite moves them into the file, in the commit that fills it: this commit is
the slow one, 25 to 60 ms.  A longer log makes it slower, and little else better."""

CACHE = 16 * 1024
"""KiB of pages in memory: the ends of the tables, and a log's worth.  Recovery reads straight through."""

_STATEMENTS = 128


@contextmanager
def made_whole(path: Path) -> Iterator[Path]:
    """Make a file which is at its path only when it is complete, and which replaces no other.

    Yields:
        where to make it.

    Raises:
        StoreError: the folder is none, or cannot be written to.
    """
    if not path.parent.is_dir():
        raise StoreError(f"{path} cannot be made: there is no folder {path.parent}")
    with told(path), tempfile.TemporaryDirectory(prefix=f"{path.name}-new-", dir=path.parent) as folder:
        new = Path(folder, path.name)
        yield new
        _move(new, path)


def make(path: Path) -> None:
    """Make an empty store.

    Raises:
        StoreError: that cannot be done there.
    """
    with made_whole(path) as new, closing(_connect(new, "rwc")) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE}")
        _set_up(connection, synchronous="OFF")  # it is synchronized once, when it is complete
        schema.create(connection)


def connect(path: Path, *, damaged: bool = False) -> sqlite3.Connection:
    """Open the store for this process alone, and bring it to the schema of this gateway.

    Args:
        damaged: open it also where its end is missing, to read what is left.

    Raises:
        StoreLocked: another process has it.
        StoreDamaged: it is one no more.
        StoreError: it cannot be opened or written, or is no store.
    """
    with told(path):
        if path.is_dir():
            raise StoreError(f"{path} is a folder: name a file")
        if not path.stat().st_size:
            raise StoreDamaged(path, "it is empty")
        connection = _connect(path, "rw")
        try:
            if damaged:
                connection.execute("PRAGMA writable_schema = ON")  # SQLite then believes the file how large it is
            schema.check(connection, path)
            _set_up(connection)
            schema.migrate(connection, path)
        except UnicodeDecodeError as error:  # SQLite's message quotes what it found, which need not be text
            connection.close()
            raise StoreDamaged(path, "what it says of its own tables is no text") from error
        except BaseException:
            connection.close()
            raise
    return connection


def is_there(path: Path) -> bool:
    """Whether there is a store, in whatever state.

    Raises:
        StoreDamaged: only a part of it is there.
    """
    with told(path):
        if path.exists():
            return True
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            raise StoreDamaged(path, f"it is missing, and only its log {log} is there")
    return False


def identities(path: Path) -> dict[Path, tuple[int, int]]:
    """Which files an open store has: path -> device and number.

    Raises:
        StoreError: one of them is gone already.
    """
    with told(path):
        return {each: _identity(each) for each in (path, Path(f"{path}-wal"))}


def refuse_others(path: Path, identities: dict[Path, tuple[int, int]]) -> None:
    """See that the files of an open store are where they were.

    Raises:
        StoreError: they are not: what is written now nobody will find.
    """
    for each, identity in identities.items():
        try:
            found = _identity(each)
        except FileNotFoundError:
            raise StoreError(
                f"{each} is gone, deleted or moved: put it back where it was, or nothing that comes now will last"
            ) from None
        except OSError as error:
            raise StoreError(f"{path} cannot be used: {error.strerror}") from error
        if found != identity:
            raise StoreError(f"{each} is another file now: put back the one that the gateway has open")


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_STATEMENTS,
    )
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def _set_up(connection: sqlite3.Connection, synchronous: str = "FULL") -> None:
    """What SQLite does not keep in the file."""
    for pragma in (
        f"synchronous = {synchronous}",
        "journal_mode = WAL",
        f"wal_autocheckpoint = {LOG_PAGES}",
        f"journal_size_limit = {LOG_PAGES * PAGE}",
        f"cache_size = -{CACHE}",
        "cell_size_check = ON",  # finds a damaged page when it is read, not when it has done harm
        "secure_delete = OFF",  # on in Debian: pages that become free would be written once more, as zeros
        "temp_store = MEMORY",
        "recursive_triggers = OFF",  # on in Debian: writing a row again would take away its content
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _move(new: Path, path: Path) -> None:
    """Give the file its name, and see that both outlive a power cut."""
    new.chmod(0o600)
    _synchronize(new)
    try:
        os.link(new, path)  # and not a rename: it replaces nothing, should another gateway have been faster
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        new.rename(path)
    _synchronize(path.parent)


def _synchronize(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
