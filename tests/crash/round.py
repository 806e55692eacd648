"""A round: a store, a few lives of the gateway on it that end badly, and one in which all is given out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import trio

from gateway.stores.file import LOG_PAGES

from .books import Books, Complaint, audit
from .consumers import Consumer, Mover
from .drain import look_into, take_all
from .load import Producer, Worker
from .logs import Logs
from .plan import POLICIES, QUEUES, TOPICS, Life, Plan, Topic
from .process import Process, gateway, wait_until_it_listens
from .readers import Reader
from .torn import tear

# Seconds in which clients must have noticed that the gateway is dead.
_NOTICE = 10.0
# Seconds of a round; seven are usual.
_LONGEST = 180.0
# Complaints of a round that are printed.
_MOST_TOLD = 10


@dataclass
class Outcome:
    """What a round has shown.

    Attributes:
        ends: how often lives ended in which way.
        damage: how often the end of a log was damaged in which way.
        counts: messages, receipts and the like.
    """

    seed: int
    ends: Counter[str] = field(default_factory=Counter)
    damage: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    complaints: list[Complaint] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """Lives that did not end in order."""
        return self.ends.total() - self.ends["stop"]

    def __str__(self) -> str:
        ends = ", ".join(f"{end} {count}" for end, count in sorted(self.ends.items()))
        ends += "".join(f", log: {kind}" for kind in self.damage)
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
        """How it ended: `start`, `stop`, `moment`, or the name of a point."""
        store = f"sqlite:{self._store}"
        opened = gateway(
            self._folder, store=store, point=life.point, log_pages=life.log_pages, lie=self._lie, close_linger=0
        )
        async with opened as process:
            end = life.point.partition(":")[0]
            if life.end == "start":
                end = "start"
                with trio.move_on_after(life.seconds):
                    await process.wait()
                process.kill()
            elif await wait_until_it_listens(process):
                end = await self._work(process, life)
            await process.wait()
            self._note_end(process)
        return end

    def _note_end(self, process: Process) -> None:
        for line in process.troubles():
            self._books.complain("error", line)
        if process.status not in (0, -9):
            self._books.complain("error", f"the gateway ended with {process.status}:\n{process.text}")

    async def _work(self, process: Process, life: Life) -> str:
        async with trio.open_nursery() as nursery:
            for worker in self._workers(life):
                nursery.start_soon(worker.run, process.port)
            with trio.move_on_after(life.seconds) as waiting:
                await process.wait()
            if life.end == "stop":
                await process.stop()
                end = "stop"
            else:
                process.kill()
                end = "moment" if waiting.cancelled_caught else life.point.partition(":")[0]
            nursery.cancel_scope.deadline = trio.current_time() + _NOTICE
        if nursery.cancel_scope.cancelled_caught:
            self._books.complain("error", "clients did not see that the gateway has gone")
        return end

    def _workers(self, life: Life) -> list[Worker]:
        consumers = [each for name, count in life.consumers.items() for each in self._consumers[name][:count]]
        return [*self._producers, *consumers]

    # the end

    async def _drain(self) -> None:
        """Let the gateway give out all that it has, and stop it in order."""
        self._books.draining = True
        async with gateway(self._folder, store=f"sqlite:{self._store}", lie=self._lie, close_linger=0) as process:
            if not await wait_until_it_listens(process):
                self._books.complain("lost", f"the gateway does not start any more:\n{process.text}")
                return
            await take_all(process.port, self._logs)
            await process.stop()
            self._note_end(process)
