"""Partitions: a primary that is cut off knows it in time, and what was promised holds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from gateway.cluster.lease import PATIENCE
from tests.cluster.network import network
from tests.cluster.servers import nats_servers

from .nodes import HTTP, Cluster, GatewayNode, ends_of_logs
from .plan import CUTS, WAYS, Act, ClusterPlan
from .round import ClusterRound

# Seconds: longer than the lease, and than the time in which a leader of the log counts as lost.
LENGTH = 11.0
STARTED = 30.0
HELD_BACK = PATIENCE + 2.0
"""On a machine that is shared."""
TAKEN_OVER = 40.0
"""Elections of the log, one of which may only begin when its leader has missed the others for ten seconds."""
MENDED = 40.0
"""What was sent meanwhile is sent again after as long as the cut was."""
VICTIMS = ("primary", "log leader", "majority")


async def readiness(node: GatewayNode) -> bytes:
    """What `/readyz` answers."""
    answer = b""
    async with await node.machine.connect(HTTP) as stream:
        await stream.send_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        async for chunk in stream:
            answer += chunk
    return answer


async def until_it_says(node: GatewayNode, text: bytes, seconds: float) -> None:
    """Wait for a word in `/readyz`."""
    with trio.fail_after(seconds):
        while text not in await readiness(node):  # noqa: ASYNC110 - another process brings it about
            await trio.sleep(0.05)


async def until_one_serves(nodes: Sequence[GatewayNode], seconds: float) -> None:
    """Wait until one of two nodes is primary, and the other one says so."""
    with trio.fail_after(seconds):
        while True:
            said = {node.name: await readiness(node) for node in nodes}
            for one, other in (nodes, nodes[::-1]):
                standby = b"this node is a standby: the primary is " + one.name.encode()
                if b'"ready"' in said[one.name] and standby in said[other.name]:
                    return
            await trio.sleep(0.05)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", ["", "out", "in"])
async def test_a_primary_that_is_cut_off(way: str, tmp_path: Path) -> None:
    """It holds back what is stored in time, and steps down by itself once the network is mended.

    Its machine has the server that leads: log and directory need a new leader.  When that server comes back, the
    servers may choose their leaders once more, and for longer than the lease lasts: then either node may win the next.
    """
    with network(3) as net, nats_servers(tmp_path / "nats", network=net) as servers:
        nodes = [GatewayNode(tmp_path, name, servers, net.machines[at]) for at, name in enumerate("ab")]
        try:
            async with trio.open_nursery() as processes:
                cluster = Cluster(net, nodes, servers, processes)
                await cluster.start(nodes)
                old = await cluster.find_primary()
                assert old is not None
                await cluster.let_lead(servers[nodes.index(old)].name)
                assert await cluster.find_primary() is old
                new = nodes[1 - nodes.index(old)]
                await until_it_says(new, b"this node is a standby: the primary is", STARTED)
                net.cut(old.machine, way)
                await until_it_says(old, b"the lease is not renewed", HELD_BACK)
                await until_it_says(new, b'"ready"', TAKEN_OVER)
                assert b"503" in await readiness(old)
                net.mend()
                await until_one_serves(nodes, MENDED)
                assert "this node is not primary any more" in old.log
                await cluster.end_gateways(nodes)
            assert not [each.troubles for each in nodes if each.troubles]
        finally:
            print(ends_of_logs(nodes, servers))  # shown where it fails


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("victim", VICTIMS)
async def test_what_was_promised_holds(victim: str, tmp_path: Path) -> None:
    acts = [Act(victim, way, 1.0, LENGTH) for way in CUTS if way in WAYS[victim]]
    outcome = await ClusterRound(ClusterPlan(1, 2, 3, acts, "kill"), tmp_path).run()
    assert not outcome.complaints, str(outcome)
    assert outcome.acts.total() == len(acts) + 1


def test_without_namespaces_it_fails_and_says_why(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.crash", "--cluster", "--rounds", "1"]
    variables = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("network namespaces do not work here: ")
    assert done.stderr.count("\n") == 1
