"""What is left at the end of a round: the log, in which no old primary wrote, and the copies, which are the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from gateway.cluster.log import Log, Message
from gateway.cluster.records import Kind, parse
from gateway.cluster.servers import Servers
from tests.crash.books import Books

# Characters of rows in a complaint.
_LONGEST = 300
_TABLES = {
    "messages": "SELECT row, place, content, rank, size, facts FROM rows WHERE NOT transient",
    "destinations": "SELECT place, kind, name, facts FROM places",
    "bodies": "SELECT content, headers, body FROM contents "
    "WHERE content IN (SELECT content FROM rows WHERE NOT transient)",
}


def read_log(log: Log) -> list[Message]:
    """All messages of the log, from the first that is not purged."""
    bounds, found = log.bounds(), list[Message]()
    after = bounds.first - 1
    while after < bounds.last:
        found += log.read(after + 1)  # a server that lags may show nothing at first
        after = found[-1].sequence if found else after
    return found


def has_all(servers: Servers, nodes: int) -> bool:
    """True if so many nodes tell that they have the whole log."""
    last = servers.log().bounds().last
    return sum(each.sequence == last for each in servers.directory().nodes()) == nodes


def look_at_log(messages: Iterable[Message], books: Books) -> None:
    """Complain of records that a primary wrote behind the record of the next one."""
    epoch = sequence = 0
    for message in messages:
        part = parse(message.data)
        if sequence and message.sequence != sequence + 1:
            books.complain("fenced", f"message {message.sequence} of the log stands behind {sequence}")
        sequence = message.sequence
        books.counts["records"] += 1
        if part.epoch < epoch:
            books.complain("fenced", f"message {sequence} is of epoch {part.epoch}, behind the record of {epoch}")
        elif part.kind is Kind.EPOCH:
            if epoch and part.epoch != epoch + 1:
                books.complain("fenced", f"message {sequence} begins epoch {part.epoch} behind {epoch}")
            books.counts["epochs"] += 1
            epoch = part.epoch
        elif part.epoch > epoch:
            books.complain("fenced", f"message {sequence} is of epoch {part.epoch}, which has no record")


def look_at_copies(files: Sequence[Path], books: Books) -> None:
    """Complain where the files of the nodes, which are closed, do not hold the same."""
    first, *others = files
    expected = dict(_content(first))
    for file in others:
        for name, rows in _content(file):
            if rows != expected[name]:
                odd = sorted(map(str, rows ^ expected[name]))[:3]
                books.complain("replica", f"{name} of {file} and {first} differ: {', '.join(odd)[:_LONGEST]}")


def _content(file: Path) -> Iterator[tuple[str, set[tuple[object, ...]]]]:
    with closing(sqlite3.connect(file)) as connection:
        for name, query in _TABLES.items():
            yield name, set(connection.execute(query))
