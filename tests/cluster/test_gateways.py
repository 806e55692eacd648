"""Two real gateways and a server of NATS: one serves, the other says where, and takes over with all that was stored."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from gateway.client.blocking import Client, StompError
from gateway.client.server import StompServer
from tests.cluster.servers import NatsServer
from tests.gateway_process import HOST, GatewayProcess

pytestmark = pytest.mark.slow

PATIENCE = 40.0


class Pair:
    """Two nodes, `a` and `b`; the one that began first is primary."""

    def __init__(self, server: NatsServer, folder: Path, name: str, running: ExitStack) -> None:
        self._running = running
        self.nodes: dict[str, GatewayProcess] = {}
        for node in ("a", "b"):
            own = folder / node
            own.mkdir()
            settings = {
                "cluster": name,
                "cluster_node": node,
                "cluster_servers": str(server.address),
                "cluster_replicas": 1,
                "cluster_replicas_anyway": True,
                "store": "sqlite:copy.db",
            }
            self.nodes[node] = GatewayProcess(own, settings)

    def client(self, node: str) -> Client:
        return self._running.enter_context(closing(Client(StompServer(HOST, self.nodes[node].tcp_port))))

    def ready(self, node: str) -> tuple[int, dict[str, str]]:
        """Status and answer of `/readyz`."""
        try:
            with urllib.request.urlopen(f"{self.nodes[node].http_url}/readyz", timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)

    def await_primary(self, node: str) -> None:
        """Wait until a node takes clients."""

        def takes_clients() -> bool:
            try:
                self.client(node).close()
            except StompError:
                return False
            return self.ready(node)[0] == 200

        until(takes_clients)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def publish(client: Client, *bodies: bytes) -> None:
    """Send durable messages, each until its RECEIPT."""
    for body in bodies:
        client.request("SEND", {"destination": "/queue/a", "persistent": "true"}, body)


def consumed(client: Client, count: int) -> list[bytes]:
    """Consume the queue, up to so many messages."""
    client.request("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "ack": "client-individual"})
    found: list[bytes] = []
    end = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < end:
        found += [frame.body for frame in client.receive(1.0) if frame.command == "MESSAGE"]
    return found


@pytest.fixture
def pair(nats: NatsServer, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as running:
        made = Pair(nats, tmp_path, tmp_path.name.replace("_", "-")[-30:], running)
        for node in made.nodes.values():
            running.callback(node.kill)
        made.nodes["a"].start()
        made.await_primary("a")
        made.nodes["b"].start()
        until(lambda: "the primary is a" in made.ready("b")[1]["error"])
        yield made


def test_a_standby_says_where_the_primary_is(pair: Pair) -> None:
    status, answer = pair.ready("b")
    address = f"{HOST}:{pair.nodes['a'].tcp_port}"
    assert status == 503
    assert answer["error"] == f"this node is a standby: the primary is a at {address}: connect there, or again"
    with pytest.raises(StompError, match="this node is a standby") as refusal:
        pair.client("b")
    assert address in str(refusal.value)


def test_the_other_node_takes_over_from_a_lost_one(pair: Pair) -> None:
    client = pair.client("a")
    publish(client, b"1", b"2", b"3")
    pair.nodes["a"].kill()
    pair.await_primary("b")
    assert consumed(pair.client("b"), 3) == [b"1", b"2", b"3"]
    # The lost one comes back as a standby, and has what is new when it is its turn.
    publish(pair.client("b"), b"4")
    pair.nodes["a"].start()
    until(lambda: pair.ready("a")[1].get("error", "").startswith("this node is a standby: the primary is b"))
    pair.nodes["b"].stop()
    pair.await_primary("a")
    assert consumed(pair.client("a"), 4) == [b"1", b"2", b"3", b"4"]


def test_a_stopped_primary_delivers_nothing_when_it_goes_on(pair: Pair) -> None:
    publish(pair.client("a"), b"1", b"2")
    old = pair.client("a")
    old.request("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "ack": "client-individual", "prefetch-count": "1"})
    until(lambda: any(frame.command == "MESSAGE" for frame in old.receive(0.5)))
    process = pair.nodes["a"].pid
    os.kill(process, signal.SIGSTOP)
    try:
        pair.await_primary("b")
        assert consumed(pair.client("b"), 2) == [b"1", b"2"]
    finally:
        os.kill(process, signal.SIGCONT)
    with pytest.raises(StompError):
        assert not old.receive(PATIENCE)
    until(lambda: pair.ready("a")[1].get("error", "").startswith("this node is a standby: the primary is b"))
