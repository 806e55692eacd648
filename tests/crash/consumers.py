"""Consumers: they acknowledge alone and in transactions, with messages of their own in them, reject, leave and die.

Movers do one thing: they acknowledge a message and send another one for it, in one transaction.
"""

from __future__ import annotations

from random import Random

from .books import Books, Letter
from .client import Client
from .load import Worker
from .plan import QUEUES, Queue
from .wire import Frame, frame

_ACTS = {"ack": 50, "commit": 14, "abort": 4, "return": 6, "reject": 4, "leave": 1, "die": 1, "pause": 5}
_PREFETCH = (1, 3, 10, 100)
_MOST_HELD = 8
_LONGEST_TRANSACTION = 3

Held = list[tuple[str, Letter]]


class Consumer(Worker):
    """One of them; it consumes one queue."""

    def __init__(self, name: str, books: Books, random: Random, queue: Queue) -> None:
        super().__init__(name, books, random)
        self._queue = queue
        self._held: Held = []

    @property
    def shows_order(self) -> bool:
        return self._queue.consumers == 1

    async def work(self, client: Client) -> None:
        """Consume until the gateway dies, or the consumer goes."""
        self._held = []
        prefetch = self.random.choice(_PREFETCH)
        headers = {"id": "s", "destination": self._queue.name, "ack": self._queue.mode, "prefetch-count": str(prefetch)}
        if self._queue.exclusive:
            headers["exclusive"] = "true"
        self.books.consumed.add(self._queue.name)
        await client.send(client.ask("SUBSCRIBE", headers))
        while True:
            self._take(await client.receive(), client)
            enough = self.random.randint(1, min(prefetch, _MOST_HELD))
            while len(self._held) >= enough or (self._queue.mode == "auto" and self.random.random() < 0.02):
                if not await self._act(client):
                    return

    def _take(self, messages: list[Frame], client: Client) -> None:
        for each in messages:
            letter = self.books.delivered(each, client)
            if letter is not None and self._queue.mode != "auto":
                self._held.append((each.headers["ack"], letter))

    async def _act(self, client: Client) -> bool:
        """Do something; False: it leaves."""
        act = self.choose(_ACTS)
        if self._queue.mode == "auto":
            act = self.random.choice(["leave", "pause"])
        if act == "die" and self._queue.consumers > 1:  # nobody sees when the gateway notices, so the order is open
            client.forsake()
            return False
        if act in ("leave", "die"):
            await self._leave(client)
            return False
        if act == "pause":
            await self.pause()
        elif act == "return" and not self._queue.attempts:
            handle, _ = self._pick()
            await client.send(client.ask("NACK", {"id": handle}))
        elif act in ("commit", "abort"):
            await self._transact(client, commit=act == "commit")
        else:
            await self._settle(client, "ACK" if act == "ack" else "NACK")
        return True

    def _pick(self) -> tuple[str, list[Letter]]:
        return self.pick(self._held, cumulative=self._queue.mode == "client")

    async def _settle(self, client: Client, command: str) -> None:
        unit = self.books.begin()
        handle, letters = self._pick()
        self.books.settle(unit, letters, rejecting=command == "NACK")
        headers = {"id": handle} | ({"requeue": "false"} if command == "NACK" else {})
        silently = self.random.random() < 0.1
        octets = (client.tell if silently else client.ask)(command, headers, unit=unit)
        self.books.counts["acks"] += 1
        await client.send(octets, unit=unit)

    async def _transact(self, client: Client, *, commit: bool) -> None:
        unit, name = self.books.begin(), self.transaction()
        frames = [frame("BEGIN", {"transaction": name})]
        before = list(self._held)
        for _ in range(self.random.randint(1, _LONGEST_TRANSACTION)):
            if self._held:
                handle, letters = self._pick()
                self.books.settle(unit, letters)
                frames.append(client.ask("ACK", {"id": handle, "transaction": name}))
        frames += self.sender.transactional(client, unit, name, self.random.randint(0, _LONGEST_TRANSACTION))
        if not commit:
            self._held = before
        await self.end(client, unit, frames, name, commit=commit)

    async def _leave(self, client: Client) -> None:
        """In order: what was asked is answered, and what comes meanwhile is seen."""
        while client.outstanding:
            self._take(await client.receive(), client)
        await client.disconnect()


class Mover(Consumer):
    """It moves all that comes to the target of its queue."""

    async def _act(self, client: Client) -> bool:
        unit, name = self.books.begin(), self.transaction()
        handle, letters = self._pick()
        self.books.settle(unit, letters)
        (target,) = [queue for queue in QUEUES if queue.name == self._queue.target]
        headers, body = self.sender.letters(unit, [target])
        unit.letters[0].origin = letters[0]
        frames = [frame("BEGIN", {"transaction": name}), frame("ACK", {"id": handle, "transaction": name})]
        frames.append(frame("SEND", headers | {"transaction": name}, body))
        await self.end(client, unit, frames, name, commit=True)
        return True
