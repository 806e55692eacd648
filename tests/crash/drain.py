"""The end of a round: all that the gateway still has is given out, and then its file must be empty."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import trio

from gateway.stores import SQLiteStore

from .books import Books
from .client import Client
from .plan import QUEUES
from .wire import Frame, Gone, frame

# Seconds for all of it.
_LONGEST = 60.0


async def take_all(port: int, books: Books) -> None:
    """Subscribe to everything, and send a last message to each queue: when that comes, all others have come."""
    names = [queue.name for queue in QUEUES]
    names += [name.replace("/queue/", "/queue/dlq.") for name in names]
    books.draining = True
    client = await Client.open(port, books)
    left = set(names)
    try:
        with trio.fail_after(_LONGEST):
            for name in names:
                await client.send(frame("SUBSCRIBE", {"id": name, "destination": name, "ack": "auto"}))
                await client.send(frame("SEND", {"destination": name, "last": "true", "priority": "0"}))
            while left:
                for each in await client.receive():
                    _take(each, left, books)
            await client.disconnect()
    except (Gone, trio.TooSlowError) as error:
        client.complain()
        books.complain("lost", f"not all was given out of {', '.join(left)}: {error!r}")
    finally:
        await client.close()


def _take(each: Frame, left: set[str], books: Books) -> None:
    name = each.headers["subscription"]
    if name not in left:
        books.complain("order", f"{each.headers} came behind what was sent last")
    if each.headers.get("last"):
        left.discard(name)
    elif name.startswith("/queue/dlq."):
        books.dead_letter(each)
    else:
        books.delivered(each, "the last consumer")


def look_into(path: Path, books: Books) -> None:
    """All was consumed, so nothing may be left."""
    store = SQLiteStore.open(path)
    rows = list(store.load().rows)
    store.close(clean=True)
    with closing(sqlite3.connect(path)) as connection:
        contents = connection.execute("SELECT count(*) FROM contents").fetchone()[0]
        sound = connection.execute("PRAGMA integrity_check").fetchone()[0]
    if rows or contents or sound != "ok":
        books.complain("error", f"left in the file: {rows[:5]}, {contents} contents; it is {sound}")
