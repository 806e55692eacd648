"""A round: acts, clients that work under one primary after the other meanwhile, and what is left at the end."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NoReturn

import trio

from tests.cluster.network import network
from tests.cluster.servers import nats_servers
from tests.crash.books import Books, Complaint, audit
from tests.crash.consumers import Consumer, Mover
from tests.crash.drain import look_into, take_all
from tests.crash.load import Producer, Worker
from tests.crash.logs import Logs
from tests.crash.plan import QUEUES, TOPICS, Topic
from tests.crash.plan import STOPPED as STOPPED_EDGE
from tests.crash.readers import Reader

from .checks import has_all, look_at_copies, look_at_log, read_log
from .nodes import (
    PATIENCE,
    Cluster,
    GatewayNode,
    cut_and_mend,
    end_edges,
    ends_of_logs,
    kill_and_start,
    settings_of_edges,
    start_again,
    stop_and_continue,
    stop_edges,
)
from .pages import Announcer, Page
from .plan import CUTS, EDGE_WAYS, STOPPED, Act, ClusterPlan, consumers
from .term import Term, watch

# Seconds of a round; some 20 for each act are usual.
_LONGEST = 600.0
# Seconds in which a primary that was stopped must have given up.
_GIVE_UP = 15.0
# Seconds for a handover, of which the primary reads in its own time.
_HANDED_OVER = 30.0
_AGAIN = 0.05
_PAGES = 4
# Complaints of a round that are printed.
_MOST_TOLD = 10
# Seconds at most between two acts of a producer, so that the end has not too much to give out.
_CALM = 0.02


@dataclass
class ClusterOutcome:
    """What a round has shown.

    Attributes:
        acts: how often which victim was hit in which way.
        counts: messages, receipts and the like.
        pauses: after what the primary was lost, and seconds from there to the first delivery by the next one.
        logs: the ends of those of gateways and servers.
    """

    seed: int
    acts: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    complaints: list[Complaint] = field(default_factory=list)
    pauses: list[tuple[str, float]] = field(default_factory=list)
    logs: str = ""

    def __str__(self) -> str:
        acts = ", ".join(f"{act} {count}" for act, count in sorted(self.acts.items()))
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        pauses = ", ".join(f"{act} {seconds:.1f} s" for act, seconds in self.pauses)
        lines = [f"seed {self.seed}: {acts}; {counts}; first delivery after: {pauses or 'none'}"]
        lines += [f"  {kind}: {text}" for kind, text in self.complaints[:_MOST_TOLD]]
        if len(self.complaints) > _MOST_TOLD:
            lines.append(f"  and {len(self.complaints) - _MOST_TOLD} more")
        if self.complaints:
            lines.append(self.logs)
        return "\n".join(lines)


class Stuck(Exception):
    """The cluster does not work though nothing is broken; the books have a complaint of it."""


class ClusterRound:
    """A round in that folder.

    Args:
        lie: see `tests.crash.points`.
    """

    def __init__(self, plan: ClusterPlan, folder: Path, *, lie: str = "") -> None:
        self._plan = plan
        self._folder = folder
        self._lie = lie
        self._random = Random(plan.seed)
        self._books = Books(queue.name for queue in QUEUES if queue.is_single)
        self._books.on_first = self._note_first
        self._logs = Logs(self._books)
        self._outcome = ClusterOutcome(plan.seed, counts=self._books.counts, complaints=self._books.complaints)
        self._announcer = Announcer("announcer", self._books, self._random)
        self._term: Term | None = None
        self._lost: tuple[str, float] | None = None
        self._is_ending = False
        names = [f"p{number}" for number in range(plan.producers)]
        self._producers = [Producer(name, self._books, self._random) for name in names]
        for each in self._producers:
            each.calm = _CALM
        self._consumers: dict[str, Sequence[Worker]] = {
            queue.name: [
                (Mover if queue.target else Consumer)(f"c{index}.{queue.name}", self._books, self._random, queue)
                for index in range(queue.consumers)
            ]
            for queue in QUEUES
        }
        self._consumers |= {topic.name: self._readers(topic) for topic in TOPICS}

    def _readers(self, topic: Topic) -> list[Reader]:
        logs, random = self._logs, self._random
        return [
            Reader(f"r0.{topic.name}", logs, random, topic, "auto", named=False),
            Reader(f"r1.{topic.name}", logs, random, topic, "client", named=True),
            Reader(f"r2.{topic.name}", logs, random, topic, "client-individual", named=True),
        ]

    async def run(self) -> ClusterOutcome:
        """All of it, in bounded time."""
        with trio.move_on_after(_LONGEST) as running:
            try:
                await self._run()
            except* Stuck:
                pass  # the complaint is in the books
        if running.cancelled_caught:
            self._books.complain("error", f"the round has not ended after {_LONGEST} s")
        return self._outcome

    async def _run(self) -> None:
        with network(3) as net, nats_servers(self._folder / "nats", network=net) as servers:
            places = zip("abc"[: self._plan.gateways], net.machines, strict=False)
            edges = settings_of_edges(self._plan.edges, net.machines[: self._plan.gateways], self._folder / "edges")
            nodes = [
                GatewayNode(self._folder, name, servers, machine, self._lie, own)
                for (name, machine), own in zip(places, edges, strict=True)
            ]
            try:
                async with trio.open_nursery() as processes:
                    cluster = Cluster(net, nodes, servers, processes)
                    await cluster.start(nodes)
                    await self._play(cluster)
                    await self._drain(cluster)
                    primary = await cluster.primary()
                    await cluster.end_gateways([each for each in nodes if each is not primary])
                    await cluster.end_gateways(nodes)
                    look_at_log(await cluster.ask(lambda found, _: read_log(found.log())), self._books)
            finally:
                self._outcome.logs = ends_of_logs(nodes, servers)
        for each in nodes:
            for trouble in each.troubles:
                self._books.complain("error", f"{each.name}: {trouble}")
        audit(self._books)
        self._logs.audit()
        look_at_copies([each.file for each in nodes], self._books)
        look_into((primary or nodes[0]).file, self._logs)

    # clients

    async def _play(self, cluster: Cluster) -> None:
        async with trio.open_nursery() as pages:
            for _ in range(_PAGES if cluster.has_edges else 0):
                pages.start_soon(Page(cluster, self._announcer, self._books, self._random).read)
            async with trio.open_nursery() as watching:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._act_all, cluster)
                    await self._work(cluster, watching)
                watching.cancel_scope.deadline = trio.current_time() + _GIVE_UP
            if watching.cancel_scope.cancelled_caught:
                self._books.complain("two", "an old primary still has clients")
            pages.cancel_scope.cancel()

    async def _work(self, cluster: Cluster, watching: trio.Nursery) -> None:
        """Let clients work under one primary after the other."""
        while not self._is_ending:
            node = await cluster.find_primary()
            if node is None:
                self._stuck(f"no node serves clients after {PATIENCE} s")
            self._term = term = Term(cluster, node, self._books, self._random)
            counts = consumers(self._random)
            workers = [each for name, count in counts.items() for each in self._consumers[name][:count]]
            announcers = [self._announcer] if cluster.has_edges else []
            await term.serve([*self._producers, *workers, *announcers])
            for client in term.left:
                watching.start_soon(watch, client, node, self._books, self._books.life)
            self._term = None
            self._books.end_of_life()

    def _note_first(self) -> None:
        if self._lost is not None:
            why, since = self._lost
            self._outcome.pauses.append((why, trio.current_time() - since))
            self._lost = None

    def _stuck(self, sentence: str) -> NoReturn:
        self._books.complain("lost", sentence)
        raise Stuck

    # acts

    async def _act_all(self, cluster: Cluster) -> None:
        for act in self._plan.acts:
            term = await self._flowing()
            await trio.sleep(act.work)
            await self._act(cluster, act, (self._term or term).node)
            self._outcome.acts[str(act)] += 1
        await self._flowing()
        self._lost = None
        # The last life ends like this, and no client comes behind it but the one that takes all.
        self._is_ending = True
        if self._plan.last == "end":
            await cluster.end_gateways(cluster.nodes)
        else:
            for each in cluster.nodes:
                each.kill()
        self._outcome.acts[f"all gateways {self._plan.last}"] += 1
        await start_again(cluster, cluster.nodes)

    async def _flowing(self) -> Term:
        """Wait until clients get messages."""
        with trio.move_on_after(PATIENCE):
            while self._term is None or not self._books.has_begun:  # noqa: ASYNC110 - clients bring it about
                await trio.sleep(_AGAIN)
        if self._term is None:
            self._stuck(f"no message is delivered after {PATIENCE} s")
        return self._term

    async def _act(self, cluster: Cluster, act: Act, primary: GatewayNode) -> None:
        if act.victim in EDGE_WAYS:
            await self._hit_edges(cluster, act)
            return
        victims = await cluster.victims(act.victim, primary, self._random)
        self._lost = (str(act), trio.current_time()) if act.victim in ("primary", "all gateways") else None
        if act.way == "kill":
            await kill_and_start(cluster, victims, act.down)
        elif act.way == "stop":
            await stop_and_continue(victims, STOPPED)
        elif act.way in CUTS:
            term = self._term
            machines = [each.machine for each in victims if each.machine is not None]
            await cut_and_mend(cluster.network, machines, act.way, act.down, self._random)
            found = await cluster.find_primary()
            if found is None:
                self._stuck(f"no node serves clients {PATIENCE} s after the network was mended")
            if found is primary and self._term is term:  # it was too short for another one
                self._lost = None
        elif act.way == "handover":
            await cluster.hand_over()
            with trio.move_on_after(_HANDED_OVER) as waiting:
                while self._lost is not None:  # noqa: ASYNC110 - the next primary brings it about
                    await trio.sleep(_AGAIN)
            if waiting.cancelled_caught:
                self._books.complain("error", f"{primary.name} was asked to hand over, and has not in time")
        else:
            nodes = [each for each in victims if isinstance(each, GatewayNode)]
            await cluster.end_gateways(nodes)
            await trio.sleep(act.down)
            await cluster.start(nodes)

    async def _hit_edges(self, cluster: Cluster, act: Act) -> None:
        victims = [each for node in cluster.nodes for each in node.edges.values()]
        if act.victim == "edge":
            victims = [self._random.choice(victims)]
        self._lost = None
        if act.way == "stop":
            await stop_edges(cluster, victims, STOPPED_EDGE)
            return
        try:
            number = signal.SIGSTOP if act.way == "hang" else signal.SIGKILL
            await end_edges(cluster, victims, self._plan.edges, number)
        except trio.TooSlowError:
            self._books.complain("error", f"after {act} not all edges came back")

    # the end

    async def _drain(self, cluster: Cluster) -> None:
        """Let the cluster give out all that it has, and wait until each node has the whole log."""
        node = await cluster.find_primary()
        if node is None:
            self._stuck(f"no node serves clients after {PATIENCE} s")
        await take_all(node.connect, self._logs)
        with trio.move_on_after(PATIENCE) as waiting:
            count = len(cluster.nodes)
            while not await cluster.ask(lambda found, _: has_all(found, count)):  # noqa: ASYNC110 - the nodes do it
                await trio.sleep(_AGAIN)
        if waiting.cancelled_caught:
            self._books.complain("replica", f"not all nodes have the whole log after {PATIENCE} s")
