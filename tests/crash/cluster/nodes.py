"""Processes of a round: gateways and servers of NATS, and what an act does to them.

Each server of NATS has a machine of its own in a network that can be cut, and each gateway is on one of these.  Clients
reach a gateway by the loopback of its machine, so they still reach one that is cut off.  Which one is primary, its
`/readyz` tells, as it tells a load balancer.  Where nodes have edges, clients reach each node, and the role that it
tells says which one is primary.
"""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import TypeVar

import trio

from gateway.cluster.log import LogUnavailable
from gateway.cluster.nats.connection import NatsConnection, NatsOptions
from gateway.cluster.nats.faults import NatsUnavailable
from gateway.cluster.nats.jetstream import JetStream, JetStreamError
from gateway.cluster.servers import Servers
from gateway.cluster.stream_log import stream_of
from tests.cluster.network import Namespace, Network
from tests.cluster.servers import NatsServer
from tests.crash.edges import EdgeProcess
from tests.crash.plan import POLICIES
from tests.crash.process import Process, gateway, wait_until_it_listens
from tests.edges.authority import Authority

NAME = "crash"
PATIENCE = 60.0
"""Seconds in which the cluster must answer when nothing is broken."""

STOMP, HTTP, EDGES = 61613, 8000, 61620
"""Ports, which each machine has for itself."""
_AGAIN = 0.05
_ANSWER = 1.0
# Lines of each log that a failed test shows.
_LINES = 60
# Seconds after SIGCONT in which a node may not know yet that it is not primary any more.
_DOUBT = 3.0
# Sentences of the log at level error that acts bring about.
_EXPECTED = (
    "a part of the cluster does not work",
    "the store has failed",
    "the store does not take what is left",  # a primary ended while the log had no majority
)

T = TypeVar("T")


class GatewayNode:
    """A gateway of the cluster.

    Args:
        machine: where it runs.
        edges: settings by which it has edges of any primary; empty: a primary has its sockets.

    Attributes:
        process: None: it does not run.
        epoch: in which it was primary when it said so last; only with edges.
        troubles: lines of its log that should not be there, and bad ends.
        continued: trio's clock at the last SIGCONT.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        servers: Sequence[NatsServer],
        machine: Namespace,
        lie: str = "",
        edges: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.epoch = 0
        self.machine = machine
        self.file = folder / name / "replica.db"
        self.process: Process | None = None
        self.troubles: list[str] = []
        self.continued = -math.inf
        self._lives: list[Process] = []
        self._folder = self.file.parent
        self._folder.mkdir()
        (self._folder / "gateway.toml").write_text(POLICIES)
        self._lie = lie
        self._doubtful_until = 0.0
        self._settings = {
            "tcp": f"127.0.0.1:{STOMP}",
            "http": f"127.0.0.1:{HTTP}",
            "store": f"sqlite:{self.file}",
            "cluster": NAME,
            "cluster_node": name,
            "cluster_servers": ",".join(str(each.address) for each in servers),
            "close_linger": 0,
            **edges,
        }
        self.has_edges = bool(edges)

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Start the process, and wait for its end."""
        async with gateway(self._folder, lie=self._lie, where=self.machine.command, **self._settings) as process:
            self.process = process
            self._lives.append(process)
            if not await wait_until_it_listens(process):
                self.troubles.append(f"{self.name} did not start:\n{process.text}")
            task_status.started()
            await process.wait()
        self.process = None
        self.troubles += [line for line in process.troubles() if not any(each in line for each in _EXPECTED)]
        if process.status not in (0, -signal.SIGKILL):
            self.troubles.append(f"{self.name} ended with {process.status}:\n{process.text}")

    @property
    def log(self) -> str:
        """What all its processes have written."""
        return "\n".join([each.text for each in self._lives])

    async def connect(self) -> trio.SocketStream:
        """A connection for STOMP.  Raises OSError."""
        return await self.machine.connect(STOMP)

    @property
    def edges(self) -> Mapping[str, EdgeProcess]:
        """The processes of its edges that run."""
        return {} if self.process is None else self.process.edges

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.signal(number)
            self.continued = trio.current_time()
            self._doubtful_until = self.continued + _DOUBT

    async def end(self) -> None:
        """End it by SIGTERM."""
        process = self.process
        if process is not None:
            try:
                await process.stop()
            except AssertionError as error:
                self.troubles.append(f"{self.name} {error}")
                process.kill()

    async def gone(self) -> None:
        """Wait until the process has ended."""
        while self.process is not None:  # noqa: ASYNC110 - `run` waits for the process
            await trio.sleep(_AGAIN)

    async def is_primary(self) -> bool:
        """True if it says that it is ready for clients."""
        status, _ = await self._get("/readyz")
        is_primary = status == 200 and (not self.has_edges or await self._says_primary())
        if status and not is_primary:
            self._doubtful_until = 0.0
        return is_primary and trio.current_time() >= self._doubtful_until

    async def _says_primary(self) -> bool:
        status, body = await self._get("/api/v1/cluster")
        if status != 200 or not body:  # it was killed meanwhile
            return False
        told = json.loads(body)
        if told["role"] == "primary" and told["primary"] == self.name:
            self.epoch = told["epoch"]
            return True
        return False

    async def has_session(self, session: str) -> bool | None:
        """True if that session is at its broker; None: it does not answer."""
        status, _ = await self._get(f"/api/v1/sessions/{session}")
        return {200: True, 404: False}.get(status)

    async def _get(self, path: str) -> tuple[int, bytes]:
        """Status and body of the answer; 0: there is none in time."""
        answer = b""
        with suppress(OSError, trio.BrokenResourceError), trio.move_on_after(_ANSWER):
            async with await self.machine.connect(HTTP) as stream:
                await stream.send_all(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
                async for chunk in stream:
                    answer += chunk
            head, _, body = answer.partition(b"\r\n\r\n")
            return (int(head.split()[1]), body) if head.startswith(b"HTTP/") else (0, b"")
        return 0, b""


class Cluster:
    """All processes, and one connection to the servers for questions.

    Args:
        nursery: of the processes.
    """

    def __init__(
        self, network: Network, nodes: Sequence[GatewayNode], servers: Sequence[NatsServer], nursery: trio.Nursery
    ) -> None:
        self.network = network
        self.nodes = list(nodes)
        self.servers = list(servers)
        self._nursery = nursery
        self._thread = trio.CapacityLimiter(1)

    @property
    def has_edges(self) -> bool:
        """True if clients may connect to any node."""
        return self.nodes[0].has_edges

    async def start(self, nodes: Sequence[GatewayNode]) -> None:
        """Start gateways, and wait until they listen."""
        async with trio.open_nursery() as nursery:
            for each in nodes:
                nursery.start_soon(self._nursery.start, each.run)

    async def primary(self, but: GatewayNode | None = None) -> GatewayNode | None:
        """The node that serves clients, other than that one; None: there is none for now."""
        found: list[GatewayNode] = []

        async def ask(node: GatewayNode) -> None:
            if await node.is_primary():
                found.append(node)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for each in self.nodes:
                if each is not but:
                    nursery.start_soon(ask, each)
        return found[0] if found else None

    async def find_primary(self) -> GatewayNode | None:
        """Wait for a primary; None: there is none in time."""
        with trio.move_on_after(PATIENCE):
            while True:
                if (found := await self.primary()) is not None:
                    return found
                await trio.sleep(_AGAIN)
        return None

    async def ask(self, question: Callable[[Servers, JetStream], T]) -> T:
        """Ask the servers of NATS, until they answer.  Raises trio.TooSlowError: they do not."""

        def asked() -> T:
            options = NatsOptions([each.address for each in self.servers if each.process is not None], name="crash")
            with self.network.router.inside(), Servers(lambda _: options, NAME) as servers:
                connection = NatsConnection(options)
                try:
                    return question(servers, JetStream(connection))
                finally:
                    connection.close()

        with trio.fail_after(PATIENCE):
            while True:
                try:
                    return await trio.to_thread.run_sync(asked, limiter=self._thread, abandon_on_cancel=True)
                except (LogUnavailable, NatsUnavailable, JetStreamError):
                    await trio.sleep(_AGAIN)

    async def log_leader(self) -> str:
        """The name of the server that leads the log."""

        def question(_: Servers, jets: JetStream) -> str:
            leader = jets.call(f"STREAM.INFO.{stream_of(NAME)}")["cluster"].get("leader", "")
            if not leader:
                raise NatsUnavailable("the log has no leader")
            return str(leader)

        return await self.ask(question)

    async def let_lead(self, server: str) -> None:
        """Let a server of NATS lead the log and the directory."""
        for stream in (stream_of(NAME), f"KV_{stream_of(NAME)}"):

            def question(_: Servers, jets: JetStream, stream: str = stream) -> None:
                if jets.call(f"STREAM.INFO.{stream}")["cluster"].get("leader") != server:
                    jets.call(f"STREAM.LEADER.STEPDOWN.{stream}", {"placement": {"preferred": server}})
                    raise NatsUnavailable(f"{server} does not lead it yet")

            await self.ask(question)

    # acts

    async def victims(self, name: str, primary: GatewayNode, random: Random) -> list[GatewayNode] | list[NatsServer]:
        """The processes that an act hits."""
        if name == "primary":
            return [primary]
        if name == "standby":
            return [random.choice([each for each in self.nodes if each is not primary])]
        if name == "all gateways":
            return list(self.nodes)
        if name == "majority":
            return random.sample(self.servers, len(self.servers) // 2 + 1)
        leader = await self.log_leader()
        if name == "log leader":
            return [each for each in self.servers if each.name == leader]
        return [random.choice([each for each in self.servers if each.name != leader])]

    async def hand_over(self) -> None:
        """Ask the primary to hand over to any node."""
        await self.ask(lambda servers, _: servers.directory().ask_for_handover(""))

    async def end_gateways(self, nodes: Sequence[GatewayNode]) -> None:
        """End some by SIGTERM, all at once."""
        async with trio.open_nursery() as nursery:
            for each in nodes:
                nursery.start_soon(each.end)
        for each in nodes:
            await each.gone()


def settings_of_edges(count: int, machines: Sequence[Namespace], folder: Path) -> list[dict[str, object]]:
    """The settings by which each node has so many edges, whatever node is primary."""
    if not count:
        return [{} for _ in machines]
    folder.mkdir()
    authority = Authority(folder)
    everywhere = ",".join(f"{each.address}:{EDGES}" for each in machines)
    own = {"edges": count, "edge_of": everywhere}
    return [
        own | {"edge_listen": f"{each.address}:{EDGES}", **authority.files(f"node{at}", each.address)}
        for at, each in enumerate(machines)
    ]


def ends_of_logs(nodes: Sequence[GatewayNode], servers: Sequence[NatsServer]) -> str:
    """The last lines of each gateway and server."""
    logs = [(each.name, each.log.splitlines()[-_LINES:]) for each in [*nodes, *servers]]
    return "\n".join([line for name, lines in logs for line in (f"--- the end of the log of {name}", *lines)])


async def kill_and_start(cluster: Cluster, victims: Sequence[GatewayNode] | Sequence[NatsServer], down: float) -> None:
    """Kill some, and start them again."""
    for each in victims:
        each.kill()
    await trio.sleep(down)
    await start_again(cluster, victims)


async def start_again(cluster: Cluster, victims: Sequence[GatewayNode] | Sequence[NatsServer]) -> None:
    nodes = [each for each in victims if isinstance(each, GatewayNode)]
    for node in nodes:
        await node.gone()
    for server in victims:
        if isinstance(server, NatsServer):
            server.start()
    await cluster.start(nodes)


async def end_edges(cluster: Cluster, victims: Sequence[EdgeProcess], count: int, number: signal.Signals) -> None:
    """End some by a signal, and wait until each node has so many again.  Raises trio.TooSlowError."""
    for each in victims:
        each.signal(number)
    with trio.fail_after(PATIENCE):
        while not all(each.has_ended for each in victims) or not all(  # noqa: ASYNC110 - the gateways start them
            len(edges := node.edges) == count and not any(each.has_ended for each in edges.values())
            for node in cluster.nodes
        ):
            await trio.sleep(_AGAIN)


async def stop_edges(cluster: Cluster, victims: Sequence[EdgeProcess], seconds: float) -> None:
    """Stop some as the machine's scheduler could, and let them go on; what they have for clients comes late."""
    for each in victims:
        each.signal(signal.SIGSTOP)
    await trio.sleep(seconds)
    for each in victims:
        each.signal(signal.SIGCONT)
    for node in cluster.nodes:
        node.continued = trio.current_time()


async def stop_and_continue(victims: Sequence[GatewayNode] | Sequence[NatsServer], seconds: float) -> None:
    """Stop some as the machine's scheduler could, and let them go on."""
    for each in victims:
        each.signal(signal.SIGSTOP)
    await trio.sleep(seconds)
    for each in victims:
        each.signal(signal.SIGCONT)


async def cut_and_mend(
    network: Network, machines: Sequence[Namespace], way: str, seconds: float, random: Random
) -> None:
    """Cut each of some machines off in one of the ways of `plan.CUTS`, and mend the network."""
    kind = way.removeprefix("partition").strip()
    for machine in machines:
        if kind == "one":
            network.cut(machine, other=random.choice([each for each in network.machines if each != machine]))
        else:
            network.cut(machine, kind)
    await trio.sleep(seconds)
    network.mend()
