"""deploy/rolling-upgrade under load: all that has a receipt is delivered, and nothing twice without a mark."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
import trio

from gateway import __version__
from gateway.cluster.directory import PRESENCE
from tests.clients.nginx import DEPLOY
from tests.deploy.cluster import RunningCluster, running_cluster
from tests.gateway_process import HOST
from tests.transports.peers import Peer, dial

pytestmark = [pytest.mark.slow, pytest.mark.long]

SCRIPT = DEPLOY / "rolling-upgrade"
PYTHON = sys.executable
END = "end"
ASK = """
import socket, sys
asked = socket.create_connection((sys.argv[1], int(sys.argv[2])))
asked.sendall(sys.argv[3].encode())
sys.exit(asked.recv(2) != b'ok')
"""


def command_of(port: int) -> str:
    """A command that lets the test restart a node, and waits until that is done."""
    return f"{PYTHON} -c {shlex.quote(ASK)} {HOST} {port} {{node}}"


@contextmanager
def restarting(cluster: RunningCluster, restarted: list[str]) -> Iterator[int]:
    """Restart nodes that are named at a port."""
    with closing(socket.create_server((HOST, 0))) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    node = client.recv(100).decode()
                    cluster.nodes[node].restart()
                    restarted.append(node)
                    client.sendall(b"ok")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(30)


class Load:
    """A publisher and a consumer, each at the node that lets it in."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.receipted: list[str] = []
        self.received: Counter[str] = Counter()
        self.unmarked: Counter[str] = Counter()  # without `redelivered`
        self.stopping = False
        self._cluster = cluster

    async def publish(self) -> None:
        """Until it shall stop; what has no receipt is sent again, at the next node."""
        body, number = "0", 0
        while END not in self.receipted[-1:]:
            peer = await self._connected()
            with suppress(OSError, trio.BrokenResourceError):
                while END not in self.receipted[-1:]:
                    await peer.publish("/queue/load", body.encode(), receipt=body, dedup_id=body)
                    answer = await peer.receive()
                    if answer is None or answer.command != "RECEIPT":
                        break
                    self.receipted.append(body)
                    number += 1
                    body = END if self.stopping else str(number)
            await peer.aclose()

    async def consume(self) -> None:
        """Until the last message."""
        while END not in self.received:
            peer = await self._connected()
            with suppress(OSError, trio.BrokenResourceError):
                await peer.send_frame("SUBSCRIBE", destination="/queue/load", id=1, ack="client-individual")
                while (found := await peer.receive()) is not None and found.command == "MESSAGE":
                    body = found.body.decode()
                    self.received[body] += 1
                    self.unmarked[body] += "redelivered" not in found.headers
                    await peer.send_frame("ACK", id=found["ack"])
                    if body == END:
                        break
            await peer.aclose()

    async def _connected(self) -> Peer:
        while True:
            for node in self._cluster.nodes.values():
                try:
                    peer = await dial("tcp", f"{HOST}:{node.tcp_port}")
                except OSError:
                    continue
                try:
                    await peer.connect()
                except (AssertionError, OSError, trio.BrokenResourceError):
                    await peer.aclose()
                else:
                    return peer
            await trio.sleep(0.02)


async def upgraded(cluster: RunningCluster, load: Load, restarted: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Run the script while there is load."""
    with trio.fail_after(120), restarting(cluster, restarted) as port:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(load.publish)
            nursery.start_soon(load.consume)
            command = [PYTHON, str(SCRIPT), "--gateway", f"{PYTHON} -m gateway", command_of(port), "one", "two"]
            run = await trio.run_process(command, env=cluster.environment, capture_stdout=True, check=False)
            load.stopping = True
    return run


def test_nothing_is_lost(tmp_path: Path) -> None:
    restarted: list[str] = []
    with running_cluster(tmp_path) as cluster:
        load = Load(cluster)
        run = trio.run(upgraded, cluster, load, restarted)
        said = run.stdout.decode()
        assert run.returncode == 0, said
        assert restarted == ["two", "one"], "the standby comes first"
        assert said.splitlines()[-3:] == [
            f"one: {__version__}, as before",
            f"two: {__version__}, as before",
            "nothing changed: all nodes were restarted with the version that they had",
        ]
        status = cluster.status()
        assert status["primary"] == "two"
        assert sorted([each["role"] for each in status["nodes"]]) == ["primary", "standby"]
    assert len(load.receipted) > 100
    assert set(load.receipted) <= set(load.received)
    assert [body for body, count in load.unmarked.items() if count > 1] == []


def test_it_stops_where_a_node_is_missing(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        command = [PYTHON, str(SCRIPT), "--gateway", f"{PYTHON} -m gateway", "false", "one", "three"]
        run = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, timeout=60)
        assert run.returncode == 1
        assert run.stderr == "the cluster has the nodes one, two: name just these\n"
        command[-1] = "two"
        run = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, timeout=60)
        assert run.returncode == 1
        assert run.stderr == "two: the command failed\n"
        assert cluster.status()["primary"] == "one"


def test_it_waits_until_the_cluster_has_forgotten_the_last_process() -> None:
    (seconds,) = re.findall(r"^GONE = ([\d.]+)$", SCRIPT.read_text(), re.MULTILINE)
    assert float(seconds) > PRESENCE
