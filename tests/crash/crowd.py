"""The crowd: the clients of one life of a gateway, each of them on one connection after the other.

A worker whose connection has ended connects again.  Where that works, the gateway has lived on: so an edge was lost,
that of this worker, or the worker had no reason to notice anything.
"""

from __future__ import annotations

from random import Random

import trio

from .books import Books
from .client import Client
from .load import Worker
from .process import Process
from .wire import Gone, frame

_AGAIN = 0.02
# Seconds in which a witness gets its message, which is more than an edge is stopped for, and less than one hangs.
_LONGEST_ANSWER = 6.0
_PAUSE = 0.05


class Crowd:
    """Drives the workers of one life.

    Attributes:
        is_over: the gateway is dead.
        losses: edges that were lost by what we did.
    """

    def __init__(self, process: Process, books: Books) -> None:
        self.is_over = False
        self.losses = 0
        self.is_served = trio.Event()  # a client has connected
        self._process = process
        self._books = books
        self._clients: set[Client] = set()
        self._early: set[int] = set()  # ports of lost connections on which no client has got CONNECTED yet

    async def drive(self, worker: Worker) -> None:
        """Let one work until the life is over."""
        last: Client | None = None  # the one before, whose edge was not lost
        while not self.is_over:
            try:
                client = await Client.open(self._process.port, self._books)
            except Gone:
                await trio.sleep(_AGAIN)
                continue
            self.is_served.set()
            if last is not None:
                self._books.complain("noticed", f"{worker.name} has lost its connection; the gateway has not ended")
                last = None
            self._enter(client)
            try:
                await worker.work(client)
            except Gone:
                client.forsake()
                if client.is_lost:
                    await self._wait_until_noticed(worker)
                else:
                    last = client
            finally:
                self._clients.discard(client)
                client.complain()
                await client.close()
        if last is not None:
            last.forsake(loose=False)  # it was the end of the gateway, which did all of each unit, or nothing

    def _enter(self, client: Client) -> None:
        client.is_lost = client.port in self._early
        self._early.discard(client.port)
        self._clients.add(client)

    @property
    def ports(self) -> set[int]:
        """Of all clients that have CONNECTED."""
        return {client.port for client in self._clients}

    def lose(self, ports: set[int]) -> None:
        """The edge with these clients is lost."""
        self.losses += 1
        lost = [client for client in self._clients if client.port in ports]
        for client in lost:
            client.is_lost = True
        self._early |= ports - {client.port for client in lost}

    async def _wait_until_noticed(self, worker: Worker) -> None:
        # Before the gateway has noticed, it has two consumers: the lost one, and the one that comes.
        losses = self.losses
        while worker.shows_order and not self.is_over and self._process.edges_lost < losses:  # noqa: ASYNC110 - it says
            await trio.sleep(_AGAIN)


class Witness(Worker):
    """It sends itself messages, and each must come soon: whatever happens to edges of others."""

    async def work(self, client: Client) -> None:
        # Another one each time: until its edge has counted as hung, the last connection is a consumer, too.
        name = f"/queue/{self.name}-{client.port}"
        await client.send(frame("SUBSCRIBE", {"id": "s", "destination": name, "ack": "auto"}))
        while True:
            await client.send(frame("SEND", {"destination": name}))
            with trio.move_on_after(_LONGEST_ANSWER) as waiting:
                while not await client.receive():
                    pass
            if waiting.cancelled_caught and not client.is_lost:
                self.books.complain("stalled", f"{self.name} waits for its message for {_LONGEST_ANSWER} s")
            await trio.sleep(_PAUSE)


def witnesses(count: int, books: Books, random: Random) -> list[Witness]:
    """So many; with twice as many as edges, each edge has one, as a rule."""
    return [Witness(f"witness{number}", books, random) for number in range(count)]
