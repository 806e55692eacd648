"""What producers and consumers share: how a message is made, and how long a client lives.

The name of a producer and its numbers go on over all lives of the gateway, so that the order of its messages can be
looked at from the first to the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar
from zlib import crc32

import trio

from .books import Books, Letter, Unit
from .client import Client
from .plan import MOVED, SENT, Queue, Topic
from .wire import frame

Held = TypeVar("Held")

_USUAL_PRIORITY = 4
_LONGEST_PAUSE = 0.02
# Octets of bodies, at most, and how often.  The store writes those of 16 KiB and more apart.
_SIZES = {0: 1, 30: 6, 500: 6, 5_000: 4, 20_000: 1}


class Sender:
    """Makes messages.

    Args:
        name: of the producer.
    """

    def __init__(self, name: str, books: Books, random: Random) -> None:
        self.name = name
        self._books = books
        self._random = random

    def letters(self, unit: Unit, places: Sequence[Queue | Topic]) -> tuple[dict[str, str], bytes]:
        """Headers and body of a SEND to those places; its letters are in the books."""
        random = self._random
        body = random.randbytes(int(random.choices(list(_SIZES), weights=list(_SIZES.values()))[0] * random.random()))
        persistent = random.random() < 0.7
        priority = random.randrange(10) if all(place.priorities for place in places) else _USUAL_PRIORITY
        # Of a message to several places only what all of them know: groups would bind the consumers of the others.
        groups = places[0].groups if len(places) == 1 else ()
        group = random.choice(groups) if groups else ""
        number = self._books.number(self.name)
        for place in places:
            durable = persistent if place.durable is None else place.durable
            kept = durable and place.keeps
            check = crc32(body)
            self._books.add(Letter(place.name, self.name, number, priority, durable, kept, check, unit, group))
        headers = {"destination": ",".join(place.name for place in places), "producer": self.name}
        headers |= {"number": str(number), "priority": str(priority)}
        if persistent:
            headers["persistent"] = "true"
        if group:
            headers["JMSXGroupID"] = group
        return headers, body

    def transactional(self, client: Client, unit: Unit, transaction: str, count: int) -> list[bytes]:
        frames = []
        for _ in range(count):
            headers, body = self.letters(unit, self.somewhere())
            headers["transaction"] = transaction
            frames.append(client.ask("SEND", headers, body))
        return frames

    def somewhere(self) -> list[Queue | Topic]:
        """A queue or topic, or sometimes two; often a queue of which all is moved."""
        if self._random.random() < 0.2:
            return [self._random.choice(MOVED)]
        return self._random.sample(SENT, 2 if self._random.random() < 0.1 else 1)


class Worker:
    """A client that goes on until the gateway dies, and may leave and come back meanwhile (`crowd`).

    `calm`: seconds at most between two acts of a producer; in short lives there are none.
    """

    calm = 0.0

    def __init__(self, name: str, books: Books, random: Random) -> None:
        self.name = name
        self.books = books
        self.random = random
        self.sender = Sender(name, books, random)
        self._transactions = 0

    @property
    def shows_order(self) -> bool:
        """It is the one consumer of its queue: two of them at a time would hide the order."""
        return False

    async def work(self, client: Client) -> None:
        """Work until the gateway dies, or the worker leaves."""
        raise NotImplementedError

    def choose(self, acts: Mapping[str, int]) -> str:
        """One of the acts, by their weights."""
        return self.random.choices(list(acts), weights=list(acts.values()))[0]

    async def pause(self) -> None:
        await trio.sleep(self.random.random() * _LONGEST_PAUSE)

    def pick(self, held: list[tuple[str, Held]], *, cumulative: bool) -> tuple[str, list[Held]]:
        """A handle, and what an ACK or NACK of it covers; that is held no more."""
        index = self.random.randrange(len(held))
        handle = held[index][0]
        first = 0 if cumulative else index
        covered = [each for _, each in held[first : index + 1]]
        del held[first : index + 1]
        return handle, covered

    async def end(self, client: Client, unit: Unit, frames: list[bytes], name: str, *, commit: bool) -> None:
        """Send a transaction of that name, and commit it or abort it."""
        piecemeal = self.random.random() < 0.5
        if commit:
            self.books.counts["transactions"] += 1
            frames = [*frames, client.ask("COMMIT", {"transaction": name}, unit=unit)]
            await client.send(*frames, unit=unit, piecemeal=piecemeal)
            return
        unit.undo()
        await client.send(*frames, client.ask("ABORT", {"transaction": name}), piecemeal=piecemeal)

    def transaction(self) -> str:
        self._transactions += 1
        return f"t{self._transactions}"


_ACTS = {"send": 60, "silent": 10, "commit": 20, "abort": 4, "forsake": 1, "pause": 5}
_WINDOWS = (1, 1, 4, 32, 100)
_LONGEST_TRANSACTION = 6


class Producer(Worker):
    """Single messages, with and without receipts, and transactions that are committed, aborted or forsaken."""

    async def work(self, client: Client) -> None:
        """Send until the gateway dies, or the producer does."""
        window = self.random.choice(_WINDOWS)
        while True:
            if self.calm:
                await trio.sleep(self.random.random() * self.calm)
            act = self.choose(_ACTS)
            if act == "forsake":
                await client.receipts()
                await self._transact(client, "forsake")
                client.forsake()
                return
            if act == "pause":
                await self.pause()
            elif act in ("commit", "abort"):
                await self._transact(client, act)
            else:
                await self._send(client, silently=act == "silent")
            while client.outstanding >= window:
                await client.receive()

    async def _send(self, client: Client, *, silently: bool) -> None:
        unit = self.books.begin()
        headers, body = self.sender.letters(unit, self.sender.somewhere())
        octets = (client.tell if silently else client.ask)("SEND", headers, body, unit=unit)
        await client.send(octets, unit=unit)

    async def _transact(self, client: Client, end: str) -> None:
        unit, name = self.books.begin(), self.transaction()
        frames = [frame("BEGIN", {"transaction": name})]
        frames += self.sender.transactional(client, unit, name, self.random.randint(1, _LONGEST_TRANSACTION))
        if end == "forsake":
            unit.undo()
            await client.send(*frames)
        else:
            await self.end(client, unit, frames, name, commit=end == "commit")
