"""The tables of a store, and how an older file comes to have them.

    store      one row: what is known of the file itself
    places     what holds messages
    rows       which message stands where: small, for all of them are read at every start
    contents   headers and bodies: read only where they are wanted
    seen       de-duplication ids, in the order in which they end

Nothing but the row number is indexed in `rows`.  An index by place would touch one more page for each place that a
batch writes to, and those pages are most of what a commit costs; all rows of a place go seldom, and then a scan finds
them.

A content goes with the last row that has it: a trigger sees to that, whatever statement takes the row.  Of a row that
shares with nobody it has only to look whether the index of those that share has its number; that index is empty where
nothing is shared.

Schemas have numbers.  `MIGRATIONS` has a function for every number before the last; each makes the next schema out of
its own, and all that are needed run in one transaction.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from gateway.broker.core.ports import StoreError
from gateway.stores.errors import StoreDamaged

APPLICATION = 0x53474154
"""What SQLite keeps in the file to say whose it is."""

VERSION = 1
"""Of the schema; in the file it is SQLite's `user_version`."""

Migration = Callable[[sqlite3.Connection], None]
MIGRATIONS: Mapping[int, Migration] = {}

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
    """Make the tables in an empty file."""
    connection.executescript(f"""
        BEGIN;
        {_TABLES}
        PRAGMA application_id = {APPLICATION};
        PRAGMA user_version = {VERSION};
        INSERT INTO store VALUES ('{secrets.token_hex(8)}', 0, 1);
        COMMIT;
    """)


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that this gateway cannot use, before anything in it is changed.

    Raises:
        StoreError: it is not a store, or a newer gateway made it.
    """
    refuse(path, _number(connection, "application_id"), _number(connection, "user_version"))


def refuse(path: Path, application: int, found: int) -> None:
    """Refuse a file that says of itself that this gateway cannot use it.

    Raises:
        StoreError: it is not a store, or a newer gateway made it.
    """
    if application != APPLICATION:
        raise StoreError(f"{path} is an SQLite file, but not a store of the gateway: name another file")
    if found > VERSION:
        raise StoreError(
            f"{path} was made by a newer gateway: it has schema {found}, and this gateway knows those up to {VERSION}"
        )


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to the schema of this gateway; it has it already, most of the time.

    Raises:
        StoreDamaged: no gateway made it as it is.
    """
    found = _number(connection, "user_version")
    if found == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for version in range(found, VERSION):
            if version not in MIGRATIONS:
                raise StoreDamaged(path, f"there never was a schema {version}")
            MIGRATIONS[version](connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    number: int = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
    return number
