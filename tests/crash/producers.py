"""Producers: single messages, with and without receipts, and transactions that are committed, aborted or forsaken."""

from __future__ import annotations

from .client import Client
from .load import Worker
from .wire import frame

_ACTS = {"send": 60, "silent": 10, "commit": 20, "abort": 4, "forsake": 1, "pause": 5}
_WINDOWS = (1, 1, 4, 32, 100)
_LONGEST_TRANSACTION = 6


class Producer(Worker):
    async def work(self, client: Client) -> None:
        """Send until the gateway dies, or the producer does."""
        window = self.random.choice(_WINDOWS)
        while True:
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
