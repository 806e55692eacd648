"""Batches as a broker would fill them, and what a store holds, to compare."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gateway.broker.model.changes import Batch, Container, Payload, Stored, StoredRow
from gateway.stores import SQLiteStore

HEADERS = {"destination": "/queue/a", "content-type": "text/plain"}


def body_of(row: int, size: int = 20) -> bytes:
    """Bytes that tell of which message they are; no valid UTF-8."""
    return (b"\xff%d " % row * size)[:size]


def content_of(row: int, size: int = 20) -> Payload:
    return Payload({**HEADERS, "number": str(row)}, body_of(row, size))


def place(number: int = 1, facts: str = "{}") -> Container:
    return Container(number, "queue", f"/queue/{number}", facts)


def new(rows: Iterable[int], *, into: int = 1, size: int = 20, transient: bool = False, number: int = 1) -> Batch:
    """A batch with new messages in one place, each with a content of its own."""
    batch = Batch(number, places={into: place(into)})
    for row in rows:
        batch.rows[row] = StoredRow(row, into, row, 5, 300 + size, transient)
        batch.contents[row] = content_of(row, size)
    return batch


def stored(row: int, *, into: int = 1, size: int = 20) -> Stored:
    """What is read back of a message that `new` made."""
    return Stored(StoredRow(row, into, row, 5, 300 + size), content_of(row, size))


def opened(path: Path) -> SQLiteStore:
    """A store, for which no disk is too small."""
    return SQLiteStore.open(path, reserve=0)


def rows_of(store: SQLiteStore) -> list[int]:
    return [row.row for row in store.load().rows]


def contents_of(store: SQLiteStore) -> list[int]:
    """The numbers of all contents, those that no row has as well."""
    return [number for (number,) in store._sql("SELECT content FROM contents ORDER BY content")]
