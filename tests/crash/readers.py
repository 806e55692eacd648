"""Readers of topics with logs: who keeps the number of the last message, and who keeps nothing but a name.

They come and go, in order and without a word, in the middle of what is replayed to them; who has a name acknowledges,
alone and in transactions, rejects, and leaves things lying.
"""

from __future__ import annotations

from random import Random

from .client import Client
from .load import Worker
from .logs import Logs
from .plan import Topic
from .wire import frame

_ACTS = {"ack": 50, "commit": 8, "abort": 3, "return": 4, "reject": 3, "again": 4, "leave": 3, "die": 3, "pause": 4}
_ACTS_IN_AUTO = {"go on": 40, "again": 2, "leave": 2, "die": 2, "pause": 2}
_PREFETCH = (1, 3, 10, 100)
_MOST_HELD = 8

Held = list[tuple[str, int]]
"""Handles, and the numbers of their messages, as `Reading.take` gives them."""


class Reader(Worker):
    """One of them.

    Args:
        mode: of its acknowledgements.
        named: it keeps no number, but a name.
    """

    def __init__(self, name: str, logs: Logs, random: Random, topic: Topic, mode: str, *, named: bool) -> None:
        super().__init__(name, logs.books, random)
        self._topic = topic
        self._mode = mode
        self._reading = logs.reading(topic, name if named else "")
        self._prefetch = 1
        self._held: Held = []

    async def work(self, client: Client) -> None:
        """Read until the gateway dies, or the reader goes."""
        while await self._read(client):
            pass

    async def _read(self, client: Client) -> bool:
        """Subscribe, and read until the end of that; False: the reader goes."""
        self._held = []
        self._prefetch = self.random.choice(_PREFETCH)
        unit = self.books.begin()
        self._reading.begin(unit)
        headers = {"id": "s", "destination": self._topic.name, "ack": self._mode, **self._start()}
        if self._mode != "auto":
            headers["prefetch-count"] = str(self._prefetch)
        await client.send(client.ask("SUBSCRIBE", headers, unit=unit), unit=unit)
        while True:
            await self._take(client)
            enough = self.random.randint(1, min(self._prefetch, _MOST_HELD))
            while len(self._held) >= enough or self._mode == "auto":
                act = self._choose()
                if act in ("again", "leave", "die"):
                    return await self._end(client, act)
                await self._act(client, act)
                if self._mode == "auto":
                    break

    def _start(self) -> dict[str, str]:
        if self._reading.name:
            return {"resume": self._reading.name, "from-seq": "0"}
        if self._reading.next and self.random.random() < 0.3:
            return {"x-stream-offset": f"offset={self._reading.next}"}
        return {"from-seq": str(self._reading.next)}

    async def _take(self, client: Client) -> None:
        for each in await client.receive():
            number = self._reading.take(each)
            if self._mode != "auto":
                self._held.append((each.headers["ack"], number))

    def _choose(self) -> str:
        return self.choose(_ACTS_IN_AUTO if self._mode == "auto" else _ACTS)

    # what it does

    async def _act(self, client: Client, act: str) -> None:
        if act == "pause":
            await self.pause()
        elif act in ("commit", "abort"):
            await self._transact(client, commit=act == "commit")
        elif act == "return":
            handle, _ = self._pick()
            self._reading.parts[-1].returned = True
            await client.send(frame("NACK", {"id": handle}))
        elif act in ("ack", "reject"):
            await self._settle(client, rejecting=act == "reject")

    def _pick(self) -> tuple[str, list[int]]:
        return self.pick(self._held, cumulative=self._mode == "client")

    async def _settle(self, client: Client, *, rejecting: bool) -> None:
        handle, numbers = self._pick()
        self._reading.parts[-1].done.update(numbers)
        self.books.counts["acks"] += 1
        if rejecting:
            await client.send(frame("NACK", {"id": handle, "requeue": "false"}))
        elif self.random.random() < 0.5:
            await client.send(client.ask("ACK", {"id": handle}))
        else:
            await client.send(frame("ACK", {"id": handle}))

    async def _transact(self, client: Client, *, commit: bool) -> None:
        unit, name = self.books.begin(), self.transaction()
        before = list(self._held)
        handle, numbers = self._pick()
        frames = [frame("BEGIN", {"transaction": name}), frame("ACK", {"id": handle, "transaction": name})]
        frames += self.sender.transactional(client, unit, name, 1)
        if commit:
            self._reading.parts[-1].done.update(numbers)
        else:
            self._held = before
        await self.end(client, unit, frames, name, commit=commit)

    async def _end(self, client: Client, act: str) -> bool:
        """End the subscription; True: there is to be another one on this connection."""
        if act == "die":
            client.forsake()
            return False
        while client.outstanding:
            await self._take(client)
        if act == "leave":
            await client.disconnect()
        else:
            await client.send(client.ask("UNSUBSCRIBE", {"id": "s"}))
            while client.outstanding:
                await self._take(client)
        self._reading.left()
        return act == "again"
