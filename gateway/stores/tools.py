"""Commands on a store that no gateway has open: check it, export it, import it into a new file.

An export has one line of JSON for each row:

    {"store": TOKEN, "highest": 70000, "clean": 1}
    {"place": 1, "kind": "queue", "name": "/queue/a", "facts": "{}"}
    {"content": 5, "headers": {"destination": "/queue/a"}, "body": "text"}      or "base64" instead of "body"
    {"row": 5, "place": 1, "content": 5, "rank": 5, "size": 400, "transient": 0, "facts": null}
    {"seen": "00ff", "until": 1763715600.5}

The token goes with it, so that message ids stay valid; the old file must not be used beside the new one.
"""

import base64
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TextIO

from gateway.broker.core.ports import StoreError
from gateway.broker.model.changes import Batch, Container, Payload, StoredRow
from gateway.stores import file
from gateway.stores.errors import StoreDamaged, told
from gateway.stores.repair import UnreadableKeys, readable
from gateway.stores.sqlite import SQLiteStore

_HOPELESS = "Nothing of it can be saved: restore a backup"
_MANY = 100
_CONTENT = "content, headers, body"
_LINES = 1000
_BYTES = 8 << 20

Line = dict[str, Any]

_PLACELESS = "NOT transient AND place NOT IN (SELECT place FROM places)"
_EMPTY = "content NOT IN (SELECT content FROM contents)"
_UNUSED = "content NOT IN (SELECT content FROM rows)"

# Types of a row that a gateway wrote, by table.
_ROW = (int, int, int, int, int, int)
_TYPES: dict[str, set[tuple[type, ...]]] = {
    "store": {(int, str, int, int)},
    "places": {(int, str, str, str)},
    "rows": {(*_ROW, str), (*_ROW, type(None))},
    "contents": {(int, str, bytes)},
}

_FINDINGS = (
    (f"SELECT count(*) FROM rows WHERE {_PLACELESS}", "messages stand in a place that is missing"),
    ("SELECT 1 - count(*) FROM store", "rows are missing in the table `store`"),
)


def check(path: Path) -> list[str]:
    """Read the whole store and check that its tables fit together.

    The only change: the write-ahead log of a killed process moves into the file.

    Returns a sentence for each fault.  Raises StoreError: the store is missing, or cannot be opened.
    """
    findings: list[str] = []
    try:
        with told(path), closing(_opened(path)) as connection:
            findings += [f"{path}: {found}" for found in _integrity(connection)]
            for _ in _lines(path, connection, findings):
                pass  # a line that can be exported can be read
            for query, finding in () if findings else _FINDINGS:
                (count,) = connection.execute(query).fetchone()
                findings += [f"{count} {finding}"] if count else []
    except StoreDamaged as error:
        findings.append(str(StoreDamaged(path, error.found, _HOPELESS)))
    return findings


def _opened(path: Path) -> sqlite3.Connection:
    """Open the file, even if its end is missing.

    Raises StoreDamaged: the description of the tables cannot be read; StoreError: it cannot be opened for another
    reason.
    """
    try:
        return file.connect(path, damaged=True)
    except StoreDamaged as error:
        raise StoreDamaged(path, error.found, _HOPELESS) from error


def _integrity(connection: sqlite3.Connection) -> Iterator[str]:
    connection.execute("PRAGMA cell_size_check = OFF")  # it would end the check at the first damaged page
    try:
        for (found,) in connection.execute(f"PRAGMA integrity_check({_MANY})"):
            if found != "ok":
                yield from found.splitlines()
    except sqlite3.DatabaseError as error:
        yield f"SQLite's own check ends early: {error}"


def export(path: Path, out: TextIO) -> list[str]:
    """Write all rows that can be read.

    Returns a sentence for each loss.  Raises StoreError: the store is missing, cannot be opened, or nothing of it can
    be read.
    """
    missing: list[str] = []
    with closing(_opened(path)) as connection:
        for line in _lines(path, connection, missing):
            out.write(f"{json.dumps(line)}\n")
    return missing


def _lines(path: Path, connection: sqlite3.Connection, missing: list[str]) -> Iterator[Line]:
    """The lines of an export; sentences on losses go to `missing`."""

    def read(table: str, columns: str) -> Iterator[tuple[Any, ...]]:
        bad: list[int] = []  # keys of rows in sequence with values of wrong types
        for found in readable(path, connection, table, columns):
            if not isinstance(found, UnreadableKeys) and tuple(map(type, found)) not in _TYPES[table]:
                bad.append(found[0])
                continue
            if bad:
                missing.append(_damaged(table, bad[0], bad[-1]))
                bad = []
            if isinstance(found, UnreadableKeys):
                missing.append(_damaged(table, found.first, found.last))
            else:
                yield found
        if bad:
            missing.append(_damaged(table, bad[0], bad[-1]))

    for _, token, highest, clean in read("store", "rowid, token, highest, clean"):
        yield {"store": token, "highest": highest, "clean": clean}
    for place, kind, name, facts in read("places", "place, kind, name, facts"):
        yield {"place": place, "kind": kind, "name": name, "facts": facts}
    wanted: Counter[int] = Counter()  # content -> number of messages with it
    passing: set[int] = set()  # contents of hidden messages
    for found in read("rows", ",".join(StoredRow._fields)):
        row = StoredRow(*found)
        yield row._asdict()
        if row.transient:
            passing.add(row.content)
        else:
            wanted[row.content] += 1
    unknown = 0
    for each in read("contents", _CONTENT):
        unknown += each[0] not in wanted and each[0] not in passing
        wanted.pop(each[0], None)
        yield from _of_content(each, missing)
    # A damaged inner page may lead past whole pages, so the missing contents are searched one by one.
    for number in list(wanted):
        with suppress(sqlite3.DatabaseError):
            one = connection.execute(f"SELECT {_CONTENT} FROM contents WHERE content = ?", (number,)).fetchall()
            for each in [each for each in one if tuple(map(type, each)) in _TYPES["contents"]]:
                del wanted[number]
                yield from _of_content(each, missing)
    if wanted:
        missing.append(f"{wanted.total()} messages have no content")
    if unknown:
        missing.append(f"{unknown} contents belong to no message")
    try:
        for digest, until in connection.execute("SELECT digest, until FROM seen"):
            yield {"seen": digest.hex(), "until": until}
    except (sqlite3.DatabaseError, AttributeError) as error:
        missing.append(f"seen: de-duplication ids are damaged: {error}")


def _damaged(table: str, first: int, last: int | None) -> str:
    if first == last:
        return f"{table}: number {first} is damaged"
    return f"{table}: numbers {first} to {'the end' if last is None else last} are damaged"


def _of_content(each: tuple[Any, ...], missing: list[str]) -> Iterator[Line]:
    number, headers, body = each
    try:
        yield _content_line(number, headers, body)
    except ValueError as error:
        missing.append(f"{_damaged('contents', number, number)}: {error}")


def _content_line(content: int, headers: str, body: bytes) -> Line:
    line: Line = {"content": content, "headers": json.loads(headers)}
    try:
        return line | {"body": body.decode()}
    except UnicodeDecodeError:
        return line | {"base64": base64.b64encode(body).decode()}


def import_(path: Path, lines: Iterable[str]) -> list[str]:
    """Make a new store of an export.

    Returns a sentence for each incomplete message that was left out.  Raises StoreError: the file exists, the lines are
    not an export, or the store cannot be made or written.
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
            raise StoreError(f"line {number} is not a line of an export: {error or line!r:.200}") from error
        if number % _LINES == 0 or batch.nbytes > _BYTES:
            yield batch
            batch = Batch(batch.number + 1)
    if not number:
        # The export of an empty store has a heading: no line at all is left by a command that failed.
        raise StoreError("there is nothing to import: the input is empty")
    yield batch


def _add(batch: Batch, line: Line, heading: Line) -> None:
    if "row" in line:
        batch.rows[line["row"]] = StoredRow(**line)
    elif "content" in line:
        body = line["body"].encode() if "body" in line else base64.b64decode(line["base64"], validate=True)
        batch.contents[line["content"]] = Payload(line["headers"], body)
        batch.nbytes += len(body)
    elif "seen" in line:
        batch.seen[bytes.fromhex(line["seen"])] = line["until"]
    elif "store" in line:
        heading.update(line)
    else:
        number = line.pop("place")
        batch.places[number] = Container(number, **line)


def _finish(connection: sqlite3.Connection, heading: Line) -> Iterator[str]:
    """Set the token, and delete incomplete messages; yields a sentence for each kind of loss."""
    if heading:
        connection.execute("UPDATE store SET token = :store, highest = max(highest, :highest), clean = :clean", heading)
    # Hidden messages without a content are no loss.
    connection.execute(f"DELETE FROM rows WHERE transient AND {_EMPTY}")
    for table, condition, finding in (
        ("rows", _PLACELESS, "messages were left out: their place is missing"),
        ("rows", _EMPTY, "messages were left out: their content is missing"),
        ("contents", _UNUSED, "contents were left out: no message has them"),
    ):
        count = connection.execute(f"DELETE FROM {table} WHERE {condition}").rowcount
        if count:
            yield f"{count} {finding}"
