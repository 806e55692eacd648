"""The end of a round: all that the gateway still has is given out, and then its file has nothing but logs."""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import trio

from gateway.broker.topic.stream import KIND as LOG
from gateway.stores import SQLiteStore

from .books import Books
from .client import Client
from .logs import Logs, Reading
from .plan import QUEUES, TOPICS
from .wire import Frame, Gate, Gone, frame

# Seconds for all of it.
_LONGEST = 60.0
# Seconds until the next attempt to connect.
_AGAIN = 0.2


async def _open(gate: Gate, books: Books) -> Client:
    """A client, as soon as the gateway takes one: an edge may still look for its primary."""
    with trio.fail_after(_LONGEST):
        while True:
            try:
                return await Client.open(gate, books)
            except Gone:
                await trio.sleep(_AGAIN)


async def take_all(gate: Gate, logs: Logs) -> None:
    """Subscribe to everything, and send a last message to each place: when that comes, all others have come.

    Of the logs, all that is left is read once more, and then under each name what that has not acknowledged.
    """
    books = logs.books
    books.draining = True
    client = await _open(gate, books)
    queues = [queue.name for queue in QUEUES]
    queues += [name.replace("/queue/", "/queue/dlq.") for name in queues]
    readings = [reading for reading in logs.readings if reading.name and reading.parts]
    readings += [logs.reading(topic) for topic in TOPICS]
    ids = {f"reading-{index}": reading for index, reading in enumerate(readings)}
    left = {*queues, *ids}
    try:
        with trio.fail_after(_LONGEST):
            for name in queues:
                await client.send(frame("SUBSCRIBE", {"id": name, "destination": name, "ack": "auto"}))
            for name, reading in ids.items():
                await client.send(_subscribe(name, reading, books))
            for name in [*queues, *[topic.name for topic in TOPICS]]:
                await client.send(frame("SEND", {"destination": name, "last": "true", "priority": "0"}))
            while left:
                for each in await client.receive():
                    _take(each, left, books, ids)
                    if "ack" in each.headers:
                        await client.send(frame("ACK", {"id": each.headers["ack"]}))
            await client.disconnect()
    except (Gone, trio.TooSlowError) as error:
        client.complain()
        books.complain("lost", f"not all was given out of {', '.join(left)}: {error!r}")
    finally:
        await client.close()


def _subscribe(name: str, reading: Reading, books: Books) -> bytes:
    reading.begin(books.begin())
    headers = {"resume": reading.name, "ack": "client-individual"} if reading.name else {"ack": "auto"}
    return frame("SUBSCRIBE", {"id": name, "destination": reading.topic.name, "from-seq": "0", **headers})


def _take(each: Frame, left: set[str], books: Books, readings: dict[str, Reading]) -> None:
    name = each.headers["subscription"]
    if name not in left:
        books.complain("order", f"{each.headers} came behind what was sent last")
    if name in readings:
        readings[name].take(each)
    if each.headers.get("last"):
        left.discard(name)
    elif name.startswith("/queue/dlq."):
        books.dead_letter(each)
    elif name not in readings:
        books.delivered(each, "the last consumer")


def look_into(path: Path, logs: Logs) -> None:
    """All was consumed, so nothing may be left but the logs: what came of them, and the last message of each."""
    store = SQLiteStore.open(path)
    recovered = store.load()
    names = {place.number: place.name if place.kind == LOG else "" for place in recovered.places}
    rows = Counter(names[row.place] for row in recovered.rows)
    # Transient rows of a killed process go in idle moments, and a drain may have had too few of them.
    while store.tidy():
        pass
    store.close(clean=True)
    with closing(sqlite3.connect(path)) as connection:
        contents = connection.execute("SELECT count(*) FROM contents").fetchone()[0]
        sound = connection.execute("PRAGMA integrity_check").fetchone()[0]
    durable = [topic for topic in TOPICS if topic.durable]
    due = Counter({topic.name: min(logs.left_of(topic) + 1, topic.most or sys.maxsize) for topic in durable})
    if rows != due or contents != due.total() or sound != "ok":
        logs.books.complain("error", f"in the file: {rows} instead of {due}, {contents} contents; it is {sound}")
