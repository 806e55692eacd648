"""A round: a store, a few lives of the gateway on it that end badly, and one in which all is given out."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import trio

from gateway.stores.file import LOG_PAGES

from .acts import Acts
from .books import Books, Complaint, audit
from .consumers import Consumer, Mover
from .crowd import Crowd, witnesses
from .drain import look_into, take_all
from .load import Producer, Worker
from .logs import Logs
from .plan import POLICIES, QUEUES, TOPICS, Life, Plan, Topic
from .process import Process, gateway, wait_until_it_listens
from .readers import Reader
from .torn import tear

# Seconds in which clients must have noticed that the gateway is dead.
_NOTICE = 60.0
# Seconds of a round; seven are usual, with edges twenty.
_LONGEST = 300.0
# Seconds at most between two acts of a producer where lives are long, so that the end has not too much to give out.
_CALM = 0.01
# Complaints of a round that are printed.
_MOST_TOLD = 10


@dataclass
class Outcome:
    """What a round has shown.

    Attributes:
        ends: how often lives ended in which way.
        damage: how often the end of a log was damaged in which way.
        acts: how often edges were hit in which way.
        counts: messages, receipts and the like.
    """

    seed: int
    ends: Counter[str] = field(default_factory=Counter)
    damage: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    complaints: list[Complaint] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """Lives that did not end in order."""
        return self.ends.total() - self.ends["stop"]

    def __str__(self) -> str:
        ends = ", ".join(f"{end} {count}" for end, count in sorted(self.ends.items()))
        ends += "".join(f", log: {kind}" for kind in self.damage)
        ends += "".join(f", {act} {count}" for act, count in sorted(self.acts.items()))
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        lines = [f"seed {self.seed}: {ends}; {counts}"]
        lines += [f"  {kind}: {text}" for kind, text in self.complaints[:_MOST_TOLD]]
        if len(self.complaints) > _MOST_TOLD:
            lines.append(f"  and {len(self.complaints) - _MOST_TOLD} more")
        return "\n".join(lines)


class Round:
    """A round on a store in that folder.

    Args:
        lie: see `points`.
    """

    def __init__(self, plan: Plan, folder: Path, *, lie: str = "") -> None:
        self._plan = plan
        self._folder = folder
        self._lie = lie
        self._random = Random(plan.seed)
        self._books = Books(queue.name for queue in QUEUES if queue.is_single)
        self._logs = Logs(self._books)
        self._outcome = Outcome(plan.seed, counts=self._books.counts, complaints=self._books.complaints)
        self._store = folder / "store.db"
        names = [f"p{number}" for number in range(plan.producers)]
        self._producers = [Producer(name, self._books, self._random) for name in names]
        self._consumers: dict[str, Sequence[Worker]] = {
            queue.name: [
                (Mover if queue.target else Consumer)(f"c{index}.{queue.name}", self._books, self._random, queue)
                for index in range(3)
            ]
            for queue in QUEUES
        }
        self._consumers |= {topic.name: self._readers(topic) for topic in TOPICS}

    def _readers(self, topic: Topic) -> list[Reader]:
        """Of that topic, in any order, for not all of them are always there."""
        logs, random = self._logs, self._random
        readers = [
            Reader(f"r0.{topic.name}", logs, random, topic, random.choice(["auto", "client"]), named=False),
            Reader(f"r1.{topic.name}", logs, random, topic, "client", named=True),
            Reader(f"r2.{topic.name}", logs, random, topic, "client-individual", named=True),
        ]
        random.shuffle(readers)
        return readers

    async def run(self) -> Outcome:
        """All of it, in bounded time."""
        with trio.move_on_after(_LONGEST) as running:
            await self._run()
        if running.cancelled_caught:
            self._books.complain("error", f"the round has not ended after {_LONGEST} s")
        return self._outcome

    async def _run(self) -> None:
        (self._folder / "gateway.toml").write_text(POLICIES)
        for life in self._plan.lives:
            end = await self._live(life)
            self._outcome.ends[end] += 1
            self._books.end_of_life()
            # Only where the process has died behind a commit that nobody was told of, that one may be damaged.
            if life.end == "torn" and end == "committed":
                torn = tear(Path(f"{self._store}-wal"), self._random, LOG_PAGES)
                self._outcome.damage[torn.partition(" ")[0] or "none"] += 1
        await self._drain()
        audit(self._books)
        self._logs.audit()
        look_into(self._store, self._logs)

    # lives

    async def _live(self, life: Life) -> str:
        """How it ended: `start`, `stop`, `moment`, `all`, or the name of a point."""
        async with self._gateway(point=life.point, log_pages=life.log_pages, silence=life.silence) as process:
            end = life.point.partition(":")[0]
            if life.end == "start":
                end = "start"
                with trio.move_on_after(life.seconds):
                    await process.wait()
                process.kill()
            elif await wait_until_it_listens(process):
                end = await self._work(process, life)
            await process.wait()
            await self._note_end(process)
        return end

    def _gateway(self, **how: Any) -> AbstractAsyncContextManager[Process]:
        store = f"sqlite:{self._store}"
        return gateway(self._folder, store=store, lie=self._lie, close_linger=0, edges=self._plan.edges, **how)

    async def _note_end(self, process: Process) -> None:
        for name in await process.orphans():
            self._books.complain("error", f"edge {name} still runs:\n{process.text}")
        for line in process.troubles():
            self._books.complain("error", line)
        if process.status not in (0, -9):
            self._books.complain("error", f"the gateway ended with {process.status}:\n{process.text}")

    async def _work(self, process: Process, life: Life) -> str:
        crowd = Crowd(process, self._books)
        async with trio.open_nursery() as nursery:
            for worker in self._workers(life):
                nursery.start_soon(crowd.drive, worker)
            is_alive = await self._act(process, life, crowd)
            if life.end == "stop":
                await process.stop()
                end = "stop"
            else:
                for each in process.edges.values() if life.end == "all" else ():
                    each.signal(signal.SIGKILL)
                process.kill()
                await process.wait()
                end = life.point.partition(":")[0] if not is_alive else "all" if life.end == "all" else "moment"
            crowd.is_over = True
            nursery.cancel_scope.deadline = trio.current_time() + _NOTICE
        if nursery.cancel_scope.cancelled_caught:
            self._books.complain("error", f"clients did not see that the gateway has gone:\n{process.text}")
        if life.end != "all" and process.edges_lost > crowd.losses:
            self._books.complain("error", f"an edge has ended by itself:\n{process.text}")
        return end

    async def _act(self, process: Process, life: Life, crowd: Crowd) -> bool:
        """Let clients work, and edges suffer; False: the gateway has ended before its time."""
        acts = Acts(process, crowd, self._random, self._plan.edges)
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                await process.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            if self._plan.edges:
                await crowd.is_served.wait()
            try:
                for act in life.acts:
                    await trio.sleep(act.work)
                    await acts.do(act)
                    self._outcome.acts[str(act)] += 1
            except trio.TooSlowError:
                self._books.complain("error", f"after {act} not all edges came back:\n{process.text}")
            await trio.sleep(life.seconds)
            nursery.cancel_scope.cancel()
        return process.status is None

    def _workers(self, life: Life) -> list[Worker]:
        consumers = [each for name, count in life.consumers.items() for each in self._consumers[name][:count]]
        for producer in self._producers:
            producer.calm = _CALM if life.acts else 0.0
        return [*self._producers, *consumers, *witnesses(2 * self._plan.edges, self._books, self._random)]

    # the end

    async def _drain(self) -> None:
        """Let the gateway give out all that it has, and stop it in order."""
        self._books.draining = True
        async with self._gateway() as process:
            if not await wait_until_it_listens(process):
                self._books.complain("lost", f"the gateway does not start any more:\n{process.text}")
                return
            await take_all(process.port, self._logs)
            await process.stop()
            await self._note_end(process)
