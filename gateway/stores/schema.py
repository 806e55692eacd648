"""Tables of a store.

    store      one row: the name of the store, and whether the last gateway stopped in order
    places     containers of messages: queues, topics, subscriptions
    rows       one for each message in a place: small, because every start reads all of them
    contents   headers and bodies: read only when needed
    seen       de-duplication ids, in the order in which they end

`rows` has no index by place.  It would touch one more page for each place that a batch writes to, and those pages are
most of the cost of a commit.  All rows of a place are deleted seldom; then a scan finds them.

A content is deleted with its last row, by a trigger.  For a row that shares its content with no other, the trigger only
looks into the index of shared contents, which is empty where no content is shared.
"""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path

from gateway.broker.core.ports import StoreError
from gateway.stores.errors import StoreDamaged

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
