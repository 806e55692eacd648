"""Two real gateways and a server of NATS: one serves, the other says where, and takes over with all that was stored."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from gateway.client import Client, StompError
from gateway.client.server import StompServer
from gateway.cluster.nats.jetstream import JetStream
from tests.cluster.gateways import PATIENCE, Pair, two_gateways
from tests.cluster.servers import connection
from tests.gateway_process import HOST

pytestmark = pytest.mark.slow


class Clients:
    """Clients of both nodes, closed at the end."""

    def __init__(self, pair: Pair, opened: ExitStack) -> None:
        self._pair = pair
        self._closing = opened

    def of(self, node: str) -> Client:
        return self._closing.enter_context(closing(Client(StompServer(HOST, self._pair.nodes[node].tcp_port))))

    def await_primary(self, node: str) -> None:
        """Wait until a node takes clients."""

        def takes_clients() -> bool:
            try:
                self.of(node).close()
            except StompError:
                return False
            return self._pair.ask(node, "readyz")[0] == 200

        self._pair.until(takes_clients)

    def await_standby(self, node: str, primary: str) -> None:
        """Wait until a node says that it is a standby."""
        words = f"this node is a standby: the primary is {primary}"
        self._pair.until(lambda: self._pair.ask(node, "readyz")[1].get("error", "").startswith(words))


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
def pair(tmp_path: Path) -> Iterator[Pair]:
    with two_gateways(tmp_path) as found:
        yield found


@pytest.fixture
def clients(pair: Pair) -> Iterator[Clients]:
    with ExitStack() as opened:
        yield Clients(pair, opened)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A pair for tests that end none of both."""
    with two_gateways(tmp_path_factory.mktemp("pair")) as found:
        yield found


def test_a_standby_says_where_the_primary_is(lasting: Pair) -> None:
    status, answer = lasting.ask("b", "readyz")
    address = f"{HOST}:{lasting.nodes['a'].tcp_port}"
    assert status == 503
    assert answer["error"] == f"this node is a standby: the primary is a at {address}: connect there, or again"
    with pytest.raises(StompError, match="this node is a standby") as refusal:
        Client(StompServer(HOST, lasting.nodes["b"].tcp_port))
    assert address in str(refusal.value)


def test_the_other_node_takes_over_from_a_lost_one(pair: Pair, clients: Clients) -> None:
    client = clients.of("a")
    publish(client, b"1", b"2", b"3")
    pair.nodes["a"].kill()
    clients.await_primary("b")
    assert consumed(clients.of("b"), 3) == [b"1", b"2", b"3"]
    # The lost one comes back as a standby, and has what is new when it is its turn.
    publish(clients.of("b"), b"4")
    pair.nodes["a"].start()
    clients.await_standby("a", primary="b")
    pair.nodes["b"].stop()
    clients.await_primary("a")
    assert consumed(clients.of("a"), 4) == [b"1", b"2", b"3", b"4"]


def test_a_stopped_primary_delivers_nothing_when_it_goes_on(pair: Pair, clients: Clients) -> None:
    publish(clients.of("a"), b"1", b"2")
    old = clients.of("a")
    old.request("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "ack": "client-individual", "prefetch-count": "1"})
    pair.until(lambda: any(frame.command == "MESSAGE" for frame in old.receive(0.5)))
    process = pair.nodes["a"].pid
    os.kill(process, signal.SIGSTOP)
    try:
        clients.await_primary("b")
        assert consumed(clients.of("b"), 2) == [b"1", b"2"]
    finally:
        os.kill(process, signal.SIGCONT)
    with pytest.raises(StompError):
        assert not old.receive(PATIENCE)
    clients.await_standby("a", primary="b")


def test_a_log_that_is_nearly_full_still_takes_acknowledgements(lasting: Pair) -> None:
    with ExitStack() as opened, closing(connection([lasting.server])) as connected:
        jets, clients = JetStream(connected), Clients(lasting, opened)
        config = jets.call("STREAM.INFO.GW_shop")["config"]
        jets.call("STREAM.UPDATE.GW_shop", config | {"max_bytes": 4_000_000})
        consumer = clients.of("a")
        publish(clients.of("a"), *[bytes(200_000)] * 18)
        said = "the store is short of room: the log of the cluster is short of room: the stream of the"
        lasting.until(lambda: lasting.ask("a", "readyz")[1].get("error", "").startswith(said))
        with pytest.raises(StompError, match="the store cannot be written"):
            publish(clients.of("a"), b"more")
        assert len(consumed(consumer, 18)) == 18
        assert lasting.cluster("a")["log"]["room"]["limit"] == 4_000_000
