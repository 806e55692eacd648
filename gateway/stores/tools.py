"""For the operator of a store that no gateway has open: look whether it is whole, and carry it to another file.

An export is lines of JSON, one for each thing:

    {"store": TOKEN, "highest": 70000, "clean": 1}
    {"place": 1, "kind": "queue", "name": "/queue/a", "facts": "{}"}
    {"content": 5, "headers": {"destination": "/queue/a"}, "body": "text"}      or "base64" instead of "body"
    {"row": 5, "place": 1, "content": 5, "rank": 5, "size": 400, "transient": 0, "facts": null}
    {"seen": "00ff", "until": 1763715600.5}

The name of the store goes with it, so that what clients know of its messages stays true; so the old file should not be
used beside the new one.
"""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TextIO

from gateway.broker.batch import Batch, Content, Place, Row
from gateway.broker.ports import StoreError
from gateway.stores import file
from gateway.stores.errors import StoreDamaged, told
from gateway.stores.salvage import Lost, readable
from gateway.stores.sqlite import SQLiteStore

_MANY = 100
_LINES = 1000
_OCTETS = 8 << 20

Line = dict[str, Any]

_PLACELESS = "NOT transient AND place NOT IN (SELECT place FROM places)"
_EMPTY = "content NOT IN (SELECT content FROM contents)"
_UNUSED = "content NOT IN (SELECT content FROM rows)"

_FINDINGS = (
    (f"SELECT count(*) FROM rows WHERE {_PLACELESS}", "messages stand in a place that is not there"),
    (f"SELECT count(*) FROM rows WHERE {_EMPTY}", "messages have no content"),
    (f"SELECT count(*) FROM contents WHERE {_UNUSED}", "contents belong to no message"),
    ("SELECT 1 - count(*) FROM store", "rows are missing in the table `store`"),
)


def check(path: Path) -> list[str]:
    """Read the whole store, and see whether everything is there and belongs together.

    Returns:
        what is wrong, a sentence each; nothing where all is well.

    Raises:
        StoreError: there is no store, or it cannot be opened.
    """
    findings: list[str] = []
    try:
        with told(path), closing(file.connect(path)) as connection:
            findings += _integrity(connection)
            for _ in _lines(path, connection, findings):
                pass  # what can be exported can be read
            findings += [] if findings else _belonging(connection)
    except StoreDamaged as error:
        findings.append(str(error))
    return findings


def _integrity(connection: sqlite3.Connection) -> Iterator[str]:
    connection.execute("PRAGMA cell_size_check = OFF")  # it would end the check at the first page that it finds
    try:
        for (found,) in connection.execute(f"PRAGMA integrity_check({_MANY})"):
            if found != "ok":
                yield from found.splitlines()
    except sqlite3.DatabaseError as error:
        yield f"SQLite's own check ends early: {error}"


def _belonging(connection: sqlite3.Connection) -> Iterator[str]:
    for query, finding in _FINDINGS:
        (count,) = connection.execute(query).fetchone()
        if count:
            yield f"{count} {finding}"


def export(path: Path, out: TextIO) -> list[str]:
    """Write down what the store holds, as far as it can be read.

    Returns:
        what could not be read, a sentence each; nothing where all is there.

    Raises:
        StoreError: there is no store, it cannot be opened, or nothing of it can be read.
    """
    missing: list[str] = []
    with closing(file.connect(path)) as connection:
        for line in _lines(path, connection, missing):
            out.write(f"{line}\n")
    return missing


def _lines(path: Path, connection: sqlite3.Connection, missing: list[str]) -> Iterator[str]:
    """What the store holds, line by line; what cannot be read goes to `missing`."""
    for thing in _things(path, connection, missing):
        try:
            yield json.dumps(thing)
        except TypeError:  # octets where there were none: a damaged row may still look like one
            missing.append(f"damaged, so that it cannot be written down: {thing!r:.200}")


def _things(path: Path, connection: sqlite3.Connection, missing: list[str]) -> Iterator[Line]:
    def read(table: str, columns: str) -> Iterator[tuple[Any, ...]]:
        for found in readable(path, connection, table, columns):
            if not isinstance(found, Lost):
                yield found
                continue
            last = "the end" if found.last is None else found.last
            missing.append(f"{table}: numbers {found.first} to {last} are damaged")

    for _, token, highest, clean in read("store", "rowid, token, highest, clean"):
        yield {"store": token, "highest": highest, "clean": clean}
    for place, kind, name, facts in read("places", "place, kind, name, facts"):
        yield {"place": place, "kind": kind, "name": name, "facts": facts}
    for row in read("rows", ",".join(Row._fields)):
        yield dict(zip(Row._fields, row, strict=True))
    for content, headers, body in read("contents", "content, headers, body"):
        try:
            yield _content_line(content, headers, body)
        except (ValueError, TypeError, AttributeError) as error:
            missing.append(f"contents: number {content} is damaged: {error}")
    try:
        for digest, until in connection.execute("SELECT digest, until FROM seen"):
            yield {"seen": digest.hex(), "until": until}
    except (sqlite3.DatabaseError, AttributeError) as error:
        missing.append(f"seen: de-duplication ids are damaged: {error}")


def _content_line(content: int, headers: str, body: bytes) -> Line:
    line: Line = {"content": content, "headers": json.loads(headers)}
    try:
        return line | {"body": body.decode()}
    except UnicodeDecodeError:
        return line | {"base64": base64.b64encode(body).decode()}


def import_(path: Path, lines: Iterable[str]) -> list[str]:
    """Make a new store of an export.

    Returns:
        what was left out, because the export does not have all of it, a sentence each.

    Raises:
        StoreError: there is a store already, there are no lines or one is none of an export, or the store cannot be
            made or written.
    """
    if file.is_there(path):
        raise StoreError(f"{path} is there already: an import makes a new store")
    with file.made_whole(path) as new:
        heading: Line = {}
        store = SQLiteStore.open(new, reserve=0)
        try:
            for batch in _batches(lines, heading):
                store.write(batch)
        finally:
            store.close(clean=True)
        with told(path), closing(file.connect(new)) as connection:
            return list(_finish(connection, heading))


def _batches(lines: Iterable[str], heading: Line) -> Iterator[Batch]:
    batch, number = Batch(1), 0
    for number, line in enumerate(lines, 1):
        try:
            _add(batch, json.loads(line), heading)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"line {number} is none that an export has: {error!r}") from error
        if number % _LINES == 0 or batch.octets > _OCTETS:
            yield batch
            batch = Batch(batch.number + 1)
    if not number:
        # Of an empty store an export has its heading; this is what is left of a command that failed.
        raise StoreError("there is nothing to import: not even the first line of an export came")
    yield batch


def _add(batch: Batch, line: Line, heading: Line) -> None:
    if "row" in line:
        batch.rows[line["row"]] = Row(**line)
    elif "content" in line:
        body = line["body"].encode() if "body" in line else base64.b64decode(line["base64"], validate=True)
        batch.contents[line["content"]] = Content(line["headers"], body)
        batch.octets += len(body)
    elif "seen" in line:
        batch.seen[bytes.fromhex(line["seen"])] = line["until"]
    elif "store" in line:
        heading.update(line)
    else:
        number = line.pop("place")
        batch.places[number] = Place(number, **line)


def _finish(connection: sqlite3.Connection, heading: Line) -> Iterator[str]:
    """What concerns the store as a whole.  Yields what had to go."""
    if heading:
        connection.execute("UPDATE store SET token = :store, highest = max(highest, :highest), clean = :clean", heading)
    for table, condition, finding in (
        ("rows", _PLACELESS, "messages were left out: their place is missing"),
        ("rows", _EMPTY, "messages were left out: their content is missing"),
        ("contents", _UNUSED, "contents were left out: no message has them"),
    ):
        count = connection.execute(f"DELETE FROM {table} WHERE {condition}").rowcount
        if count:
            yield f"{count} {finding}"
