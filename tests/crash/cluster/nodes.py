"""Processes of a round: gateways and servers of NATS, and what an act does to them.

A gateway keeps its ports over all its starts, like a real node.  Which one is primary, its `/readyz` tells, as it tells
a load balancer.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

import trio

from gateway.cluster.log import LogUnavailable
from gateway.cluster.nats.connection import NatsConnection, NatsOptions
from gateway.cluster.nats.faults import NatsUnavailable
from gateway.cluster.nats.jetstream import JetStream, JetStreamError
from gateway.cluster.servers import Servers
from gateway.cluster.stream_log import stream_of
from tests.cluster.servers import NatsServer
from tests.crash.plan import POLICIES
from tests.crash.process import Process, gateway, wait_until_it_listens
from tests.gateway_process import free_ports

NAME = "crash"
PATIENCE = 60.0
"""Seconds in which the cluster must answer when nothing is broken."""

_AGAIN = 0.05
_ANSWER = 1.0
# Seconds after SIGCONT in which a node may not know yet that it is not primary any more.
_DOUBT = 3.0
# Sentences of the log at level error that acts bring about.
_EXPECTED = ("a part of the cluster does not work", "the store has failed")

T = TypeVar("T")


class GatewayNode:
    """A gateway of the cluster.

    Attributes:
        process: None: it does not run.
        troubles: lines of its log that should not be there, and bad ends.
    """

    def __init__(self, folder: Path, name: str, servers: Sequence[NatsServer], lie: str = "") -> None:
        self.name = name
        self.port, self.http = free_ports(2)
        self.file = folder / name / "replica.db"
        self.process: Process | None = None
        self.troubles: list[str] = []
        self._folder = self.file.parent
        self._folder.mkdir()
        (self._folder / "gateway.toml").write_text(POLICIES)
        self._lie = lie
        self._doubtful_until = 0.0
        self._settings = {
            "tcp": f"127.0.0.1:{self.port}",
            "http": f"127.0.0.1:{self.http}",
            "store": f"sqlite:{self.file}",
            "cluster": NAME,
            "cluster_node": name,
            "cluster_servers": ",".join(str(each.address) for each in servers),
            "close_linger": 0,
        }

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Start the process, and wait for its end."""
        async with gateway(self._folder, lie=self._lie, **self._settings) as process:
            self.process = process
            if not await wait_until_it_listens(process):
                self.troubles.append(f"{self.name} did not start:\n{process.text}")
            task_status.started()
            await process.wait()
        self.process = None
        self.troubles += [line for line in process.troubles() if not any(each in line for each in _EXPECTED)]
        if process.status not in (0, -signal.SIGKILL):
            self.troubles.append(f"{self.name} ended with {process.status}:\n{process.text}")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.signal(number)
            self._doubtful_until = trio.current_time() + _DOUBT

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
        status = 0
        with trio.move_on_after(_ANSWER):
            status = await self._readiness()
        if status != 200 and status:
            self._doubtful_until = 0.0
        return status == 200 and trio.current_time() >= self._doubtful_until

    async def _readiness(self) -> int:
        try:
            async with await trio.open_tcp_stream("127.0.0.1", self.http) as stream:
                await stream.send_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                head = await stream.receive_some(1_000)
        except (OSError, trio.BrokenResourceError):
            return 0
        return int(head.split()[1]) if head.startswith(b"HTTP/") else 0


class Cluster:
    """All processes, and one connection to the servers for questions.

    Args:
        nursery: of the processes.
    """

    def __init__(self, nodes: Sequence[GatewayNode], servers: Sequence[NatsServer], nursery: trio.Nursery) -> None:
        self.nodes = list(nodes)
        self.servers = list(servers)
        self._nursery = nursery
        self._thread = trio.CapacityLimiter(1)

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
            with Servers(lambda _: options, NAME) as servers:
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


async def stop_and_continue(victims: Sequence[GatewayNode] | Sequence[NatsServer], seconds: float) -> None:
    """Stop some as the machine's scheduler could, and let them go on."""
    for each in victims:
        each.signal(signal.SIGSTOP)
    await trio.sleep(seconds)
    for each in victims:
        each.signal(signal.SIGCONT)
