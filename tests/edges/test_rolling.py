"""A page and a worker behind a balancer, while all nodes of a cluster are restarted, each of which is an edge.

The worker gets each receipted message, in order among first deliveries, and again only with a mark.  The page gets the
messages of its topic in order, and where a receipted one is missing it was told: by `gap:true`, or because it had to
connect again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from tests.clients.driver import tool
from tests.clients.nginx import DEPLOY
from tests.deploy.cluster import RunningCluster, is_ready, running_cluster, wait_until
from tests.deploy.test_balancers import BEHIND, haproxy, running
from tests.deploy.test_rolling_upgrade import SCRIPT, command_of, restarting
from tests.edges.authority import Authority
from tests.gateway_process import HOST, free_ports
from tests.transports.peers import Peer, dial

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]

END = "end"


class Load:
    """A publisher, a worker and a page, each where the balancer lets it in."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.stopping = False
        self.receipted: list[str] = []
        self.published: set[int] = set()  # to the page, with a receipt
        self.received: list[tuple[str, bool]] = []  # by the worker: body, and whether it was marked
        self.seen: list[tuple[int, bool]] = []  # by the page: number, and whether it was told that others are missing
        self.logins = 0  # of the page

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Peer]:
        """A session for the block, which may lose it."""
        while True:
            try:
                peer = await dial("tcp", f"{HOST}:{self._port}")
            except OSError:
                await trio.sleep(0.02)
                continue
            try:
                with suppress(AssertionError, OSError, trio.BrokenResourceError):
                    await peer.connect()
                    with suppress(OSError, trio.BrokenResourceError):
                        yield peer
                    return
            finally:
                with trio.CancelScope(shield=True):
                    await peer.aclose()
            await trio.sleep(0.02)

    async def publish(self) -> None:
        """Each message to the worker, until it has a receipt, and then once to the page."""
        body, number = "0", 0
        while END not in self.receipted[-1:]:
            async with self.session() as peer:
                while END not in self.receipted[-1:]:
                    await peer.publish("/queue/work", body.encode(), receipt=body, dedup_id=body)
                    answer = await peer.receive()
                    if answer is None or answer.command != "RECEIPT":
                        break
                    self.receipted.append(body)
                    number += 1
                    body = END if self.stopping else str(number)
                    # What is sent while a connection ends may never arrive, and is no gap to the gateway.
                    await peer.publish("/topic/news", str(number).encode(), receipt="news")
                    answer = await peer.receive()
                    if answer is None or answer.command != "RECEIPT":
                        break
                    self.published.add(number)

    async def work(self) -> None:
        """Until the last message."""
        while END not in [body for body, _ in self.received[-1:]]:
            async with self.session() as peer:
                await peer.send_frame("SUBSCRIBE", destination="/queue/work", id=1, ack="client-individual")
                while (found := await peer.receive()) is not None and found.command == "MESSAGE":
                    self.received.append((found.body.decode(), "redelivered" in found.headers))
                    await peer.send_frame("ACK", id=found["ack"])
                    if self.received[-1][0] == END:
                        break

    async def read(self) -> None:
        """Until it is cancelled."""
        while True:
            async with self.session() as peer:
                self.logins += 1
                is_told = True
                await peer.send_frame("SUBSCRIBE", destination="/topic/news", id=1)
                while (found := await peer.receive()) is not None and found.command == "MESSAGE":
                    self.seen.append((int(found.body), is_told or "gap" in found.headers))
                    is_told = False


async def restarted(cluster: RunningCluster, load: Load, nodes: list[str]) -> None:
    """Restart all nodes by deploy/rolling-upgrade, while there is load."""
    with trio.fail_after(240), restarting(cluster, nodes) as port:
        async with trio.open_nursery() as reading:
            reading.start_soon(load.read)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.publish)
                nursery.start_soon(load.work)
                command = [sys.executable, str(SCRIPT), "--gateway", f"{sys.executable} -m gateway"]
                command += [command_of(port), "one", "two"]
                run: subprocess.CompletedProcess[bytes] = await trio.run_process(
                    command, env=cluster.environment, capture_stdout=True, check=False
                )
                load.stopping = True
            reading.cancel_scope.cancel()
    assert run.returncode == 0, run.stdout.decode()


def test_every_message_once_and_in_order_or_told(tmp_path: Path) -> None:
    assert DEPLOY.is_dir()
    stomp, http = free_ports(2)
    each, nodes = Authority(tmp_path).nodes("one", "two"), list[str]()
    with running_cluster(tmp_path, each=each, **BEHIND) as cluster:
        file = tmp_path / "haproxy.cfg"
        file.write_text(haproxy(cluster, stomp, http))
        with running(tool("haproxy"), "-db", "-f", str(file)):
            wait_until(lambda: all(is_ready(each.http_port) for each in cluster.nodes.values()), "both nodes are edges")
            wait_until(lambda: is_ready(http), "the balancer knows a node")
            load = Load(stomp)
            trio.run(restarted, cluster, load, nodes)
    assert nodes == ["two", "one"]
    assert len(load.receipted) > 100
    bodies = [body for body, _ in load.received]
    assert set(load.receipted) <= set(bodies)
    first = list(dict.fromkeys(bodies))
    assert first == sorted(first, key=lambda body: sys.maxsize if body == END else int(body))
    assert [body for at, (body, marked) in enumerate(load.received) if body in bodies[:at] and not marked] == []
    numbers = [number for number, _ in load.seen]
    assert numbers == sorted(set(numbers))
    untold = [
        missing
        for before, (number, told) in zip(numbers, load.seen[1:], strict=False)
        for missing in range(before + 1, number)
        if missing in load.published and not told
    ]
    assert untold == []
