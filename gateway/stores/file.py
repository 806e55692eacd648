"""File of a store: its tables, made in one step, and opened for this process alone.

    store      one row: the name of the store, and whether the last gateway stopped in order
    places     containers of messages: queues, topics, subscriptions
    rows       one for each message in a place: small, because every start reads all of them
    contents   headers and bodies: read only when needed
    seen       de-duplication ids, in the order in which they end

`rows` has no index by place.  It would touch one more page for each place that a batch writes to, and those pages are
most of the cost of a commit.  All rows of a place are deleted seldom; then a scan finds them.

A content is deleted with its last row, by a trigger.  For a row that shares its content with no other, the trigger only
looks into the index of shared contents, which is empty where no content is shared.

A new file is made beside its place and moved there when it is complete.  So an empty file is never a half-made store,
and is refused as damaged: a gateway does not start with an empty store where there was a full one.

With `locking_mode=EXCLUSIVE` SQLite keeps its lock until the process ends: no other program can open the file, delay a
commit, or keep the write-ahead log from being moved into the file.
"""

import os
import secrets
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from gateway.broker.core.ports import StoreError
from gateway.stores.errors import StoreDamaged, told

PAGE = 8192
"""Bytes.  A single message is written as two pages, so small pages are better; but of messages of 1 KiB a page of 4096
holds three, with a quarter of it wasted, and one of 8192 seven."""

LOG_PAGES = 1000
"""Pages of the write-ahead log after which a commit moves them into the file; that commit takes 25 to 60 ms.  A longer
log makes it slower, and little else better."""

CACHE = 16 * 1024
"""KiB of pages in memory: the ends of the tables, and as much as the log.  Recovery reads each page once."""

_STATEMENTS = 128


APPLICATION = 0x53474154  # SQLite's `application_id` of the file
VERSION = 1  # of the schema; SQLite's `user_version` of the file

_IDENTITY = ("application_id", "user_version")
_TABLES = """
CREATE TABLE store (token TEXT NOT NULL, highest INTEGER NOT NULL, clean INTEGER NOT NULL);
CREATE TABLE places (place INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, facts TEXT NOT NULL);
CREATE TABLE rows (
    row INTEGER PRIMARY KEY,
    place INTEGER NOT NULL,
    content INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    size INTEGER NOT NULL,
    transient INTEGER NOT NULL,
    facts TEXT
);
CREATE TABLE contents (content INTEGER PRIMARY KEY, headers TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE seen (until REAL NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (until, digest)) WITHOUT ROWID;
CREATE INDEX sharing ON rows (content) WHERE content <> row;
CREATE TRIGGER last_row AFTER DELETE ON rows BEGIN
    DELETE FROM contents WHERE content = old.content
        AND NOT EXISTS (SELECT 1 FROM rows WHERE row = old.content AND content = old.content)
        AND NOT EXISTS (SELECT 1 FROM rows INDEXED BY sharing WHERE content = old.content AND content <> row);
END;
"""


def create(connection: sqlite3.Connection) -> None:
    connection.executescript(f"""
        BEGIN;
        {_TABLES}
        PRAGMA application_id = {APPLICATION};
        PRAGMA user_version = {VERSION};
        INSERT INTO store VALUES ('{secrets.token_hex(8)}', 0, 1);
        COMMIT;
    """)


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that this gateway cannot use; nothing in it is changed.

    Raises StoreError: it is not a store, or a newer gateway made it.
    """
    application, version = [connection.execute(f"PRAGMA {each}").fetchone()[0] for each in _IDENTITY]
    refuse(path, application, version)


def refuse(path: Path, application: int, version: int) -> None:
    """Refuse a file by its `application_id` and `user_version`.

    Raises StoreError: it is not a store, or a newer gateway made it.
    """
    if application != APPLICATION:
        raise StoreError(f"{path} is an SQLite file, but not a store of the gateway: name another file")
    if version > VERSION:
        raise StoreError(f"{path} was made by a newer gateway: it has schema {version}, and this one reads {VERSION}")
    if version < VERSION:
        raise StoreDamaged(path, f"there never was a schema {version}")


@contextmanager
def made_whole(path: Path) -> Iterator[Path]:
    """Make a file that appears at its path when it is complete, and replaces no other.

    Yields the path to write to.  Raises StoreError: the folder is missing, or cannot be written to.
    """
    if not path.parent.is_dir():
        raise StoreError(f"{path} cannot be made: there is no folder {path.parent}")
    with told(path), tempfile.TemporaryDirectory(prefix=f"{path.name}-new-", dir=path.parent) as folder:
        new = Path(folder, path.name)
        yield new
        _move(new, path)


def make(path: Path) -> None:
    """Make an empty store.  Raises StoreError: the file cannot be made."""
    with made_whole(path) as new, closing(_connect(new, "rwc")) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE}")
        _set_up(connection, synchronous="OFF")  # `_move` synchronizes the complete file
        create(connection)


def connect(path: Path, *, damaged: bool = False, synchronous: str = "FULL") -> sqlite3.Connection:
    """Open the store for this process alone.

    Args:
        damaged: open a file whose end is missing, too, to read the rest.
        synchronous: SQLite's setting.

    Raises:
        StoreLocked: another process has it open.
        StoreDamaged: the file is damaged.
        StoreError: the file cannot be opened or written, or is not a store.
    """
    with told(path):
        if path.is_dir():
            raise StoreError(f"{path} is a folder: name a file")
        if not path.stat().st_size:
            raise StoreDamaged(path, "it is empty")
        connection = _connect(path, "rw")
        try:
            if damaged:
                connection.execute("PRAGMA writable_schema = ON")  # SQLite then accepts the size of the file
            check(connection, path)
            _set_up(connection, synchronous)
        except UnicodeDecodeError as error:  # SQLite's message quotes bytes of the file
            connection.close()
            raise StoreDamaged(path, "the description of its tables is not text") from error
        except BaseException:
            connection.close()
            raise
    return connection


def is_there(path: Path) -> bool:
    """Whether the file exists, in any state.  Raises StoreDamaged: only its write-ahead log exists."""
    with told(path):
        if path.exists():
            return True
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            raise StoreDamaged(path, f"it is missing, and only its log {log} is there")
    return False


def identities(path: Path) -> dict[Path, tuple[int, int]]:
    """The files of an open store: path -> device and inode.  Raises StoreError: a file is gone."""
    with told(path):
        return {each: _identity(each) for each in (path, Path(f"{path}-wal"))}


def refuse_others(path: Path, identities: dict[Path, tuple[int, int]]) -> None:
    """Check that the files of an open store are in their places.

    Raises StoreError: they are not, so what is written is lost with the process.
    """
    for each, identity in identities.items():
        try:
            found = _identity(each)
        except FileNotFoundError:
            raise StoreError(
                f"{each} is gone, deleted or moved: put it back where it was, or new messages will be lost"
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
    """Set the pragmas that SQLite does not keep in the file."""
    for pragma in (
        f"synchronous = {synchronous}",
        "journal_mode = WAL",
        f"wal_autocheckpoint = {LOG_PAGES}",
        f"journal_size_limit = {LOG_PAGES * PAGE}",
        f"cache_size = -{CACHE}",
        "cell_size_check = ON",  # finds a damaged page when it is read
        "secure_delete = OFF",  # on in Debian: would write free pages once more, as zeros
        "temp_store = MEMORY",
        "recursive_triggers = OFF",  # on in Debian: replacing a row would delete its content
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _move(new: Path, path: Path) -> None:
    """Give the file its name, safe against a power cut."""
    new.chmod(0o600)
    _synchronize(new)
    try:
        os.link(new, path)  # unlike a rename it replaces no file of a faster gateway
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
