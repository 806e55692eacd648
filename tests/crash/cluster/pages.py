"""Pages: clients that only listen to a topic.  Where nodes have edges, they go on while the primary changes.

An announcer numbers its messages, and waits for the receipt of each.  A page gets them in order; and of those with a
receipt none is missing on its connection, unless `gap:true` says so.
"""

from __future__ import annotations

from random import Random

import trio

from tests.crash.books import Books
from tests.crash.client import Client
from tests.crash.load import Worker
from tests.crash.wire import Frame, Gone, Link, frame

from .nodes import Cluster
from .term import EXCUSES

_TOPIC = "/topic/news"
# Seconds between two messages.
_PAUSE = 0.02
_AGAIN = 0.1
# Seconds for a connection: an edge that is stopped takes it, and does nothing more.
_LONGEST_OPEN = 5.0


class Announcer(Worker):
    """Attributes: `confirmed`: the numbers of messages with a receipt."""

    def __init__(self, name: str, books: Books, random: Random) -> None:
        super().__init__(name, books, random)
        self.confirmed: list[int] = []
        self._last = 0

    async def work(self, client: Client) -> None:
        while True:
            self._last = number = self._last + 1
            await client.send(client.ask("SEND", {"destination": _TOPIC, "number": str(number)}))
            await client.receipts()
            self.confirmed.append(number)
            await trio.sleep(_PAUSE)


class Page:
    """One page; its last number is that of its connection, and 0 before the first message."""

    def __init__(self, cluster: Cluster, announcer: Announcer, books: Books, random: Random) -> None:
        self._cluster = cluster
        self._announcer = announcer
        self._books = books
        self._random = random
        self._last = 0

    async def read(self) -> None:
        """Listen, on one connection after the other, until cancelled."""
        while True:
            with trio.move_on_after(_LONGEST_OPEN) as opening:
                try:
                    link = await Link.open(self._random.choice(self._cluster.nodes).connect)
                except Gone:
                    await trio.sleep(_AGAIN)
                    continue
            if opening.cancelled_caught:
                continue
            self._last = 0
            try:
                await link.send(frame("SUBSCRIBE", {"id": "s", "destination": _TOPIC}))
                while True:
                    for each in await link.receive():
                        self._take(each)
            except Gone:
                pass
            finally:
                await link.close()

    def _take(self, each: Frame) -> None:
        if each.command == "ERROR":
            if each.headers["message"] not in ("server is shutting down", *EXCUSES):
                self._books.complain("error", f"a page got {each.headers} {each.body!r}")
            return
        before, number = self._last, int(each.headers["number"])
        self._last = number
        is_told = each.headers.get("gap") == "true"
        self._books.counts["gaps told"] += is_told
        if number <= before:
            self._books.complain("order", f"a page got {number} behind {before}")
        elif before and not is_told:
            missed = [other for other in self._announcer.confirmed if before < other < number]
            if missed:
                self._books.complain("missed", f"a page got {number} behind {before}, and no word of {missed}")
