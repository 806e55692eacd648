"""Edges on other machines: links with TLS, sessions that move to the next primary, and nodes of a cluster as edges."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from gateway.client import Client, StompError
from gateway.client.server import StompServer
from tests.cluster.gateways import PATIENCE, two_gateways
from tests.edges.authority import Authority
from tests.edges.operating import ask, edges, metrics
from tests.gateway_process import HOST, GatewayProcess, free_ports
from tests.logged_command import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextmanager
def running(folder: Path, settings: dict[str, object], *command: str) -> Iterator[GatewayProcess]:
    folder.mkdir()
    with GatewayProcess(folder, settings, command or ("serve",)).running() as gateway:
        yield gateway


@pytest.fixture
def primary(tmp_path: Path, authority: Authority) -> Iterator[GatewayProcess]:
    (port,) = free_ports(1)
    folder = tmp_path / "primary"
    settings: dict[str, object] = {"edge_listen": f"{HOST}:{port}", "store": f"sqlite:{folder}/store.db"}
    with running(folder, settings | authority.files("primary")) as gateway:
        gateway.edge_port = port  # type: ignore[attr-defined]
        yield gateway


@pytest.fixture
def edge(tmp_path: Path, authority: Authority, primary: GatewayProcess) -> Iterator[GatewayProcess]:
    of = f"{HOST}:{primary.edge_port}"  # type: ignore[attr-defined]
    with running(tmp_path / "edge", authority.files("edge"), "edge", "--of", of) as gateway:
        await_link(gateway)
        yield gateway


def readiness(gateway: GatewayProcess) -> str:
    """What `/readyz` answers."""
    try:
        with urlopen(f"{gateway.http_url}/readyz", timeout=PATIENCE) as answer:
            return str(answer.read())
    except HTTPError as error:
        with error:
            return str(error.read())


def await_link(edge: GatewayProcess) -> None:
    """Wait until an edge takes clients."""
    eventually(lambda: '"ready"' in readiness(edge), lambda: edge.log)


def client_of(gateway: GatewayProcess) -> Client:
    return Client(StompServer(HOST, gateway.tcp_port))


def bodies_so_far(client: Client, found: list[tuple[bytes, str]]) -> list[tuple[bytes, str]]:
    """Body and `gap` of all messages, `found` and those that come now."""
    frames = [frame for frame in client.receive(0.2) if frame.command == "MESSAGE"]
    found.extend([(frame.body, frame.headers.get("gap", "")) for frame in frames])
    return found


def bodies(client: Client, count: int) -> list[tuple[bytes, str]]:
    """Body and `gap` of the next messages."""
    found: list[tuple[bytes, str]] = []
    eventually(lambda: len(bodies_so_far(client, found)) >= count, lambda: str(found))
    return found


def test_clients_of_both_meet(primary: GatewayProcess, edge: GatewayProcess) -> None:
    with closing(client_of(edge)) as consumer, closing(client_of(primary)) as producer:
        consumer.request("SUBSCRIBE", {"id": "0", "destination": "/queue/a"})
        producer.request("SEND", {"destination": "/queue/a", "persistent": "true"}, b"one")
        assert bodies(consumer, 1) == [(b"one", "")]


@pytest.mark.long
def test_what_the_primary_shows_of_an_edge(primary: GatewayProcess, edge: GatewayProcess) -> None:
    def row() -> dict[str, Any]:
        (found,) = edges(primary)
        return found

    with closing(client_of(edge)):
        eventually(lambda: row()["connections"] == 1)
        assert (row()["edge"], row()["address"], row()["ready"], row()["sessions"]) == ("edge", HOST, True, 1)
        assert row()["cpu_seconds"] > 0
        assert metrics(primary)['gateway_edge_sessions{edge="edge"}'] == 1
        edge.kill()
        eventually(lambda: not row()["ready"])
        assert row()["ended"] == "a lost connection"
    eventually(lambda: any(each["id"] == "edge-away" for each in ask(primary, "problems")[1]["problems"]))
    edge.start()
    eventually(lambda: row()["ready"])
    edge.stop()
    eventually(lambda: not edges(primary))


def test_listening_sessions_move_and_the_others_end(primary: GatewayProcess, edge: GatewayProcess) -> None:
    with closing(client_of(edge)) as page, closing(client_of(edge)) as worker:
        page.request("SUBSCRIBE", {"id": "0", "destination": "/topic/a"})
        worker.request("SUBSCRIBE", {"id": "0", "destination": "/queue/a"})
        primary.kill()
        with pytest.raises(StompError, match="no link to its primary"):
            bodies(worker, 1)
        primary.start()
        with closing(client_of(primary)) as producer:

            def moved() -> bool:
                producer.request("SEND", {"destination": "/topic/a"}, b"again")
                return bool(page.receive(0.2))

            eventually(moved)
            producer.request("SEND", {"destination": "/topic/a"}, b"last")
            found: list[tuple[bytes, str]] = []
            eventually(lambda: (b"last", "") in bodies_so_far(page, found), lambda: str(found))


def test_a_drained_primary_keeps_listening_sessions_waiting(primary: GatewayProcess, edge: GatewayProcess) -> None:
    with closing(client_of(edge)) as page:
        page.request("SUBSCRIBE", {"id": "0", "destination": "/topic/a"})
        primary.stop()
        primary.start()
        await_link(edge)
        with closing(client_of(edge)) as producer:
            producer.request("SEND", {"destination": "/topic/a"}, b"one")
            assert bodies(page, 1) == [(b"one", "true")]


def test_an_edge_that_no_authority_vouches_for(tmp_path: Path, primary: GatewayProcess) -> None:
    settings: dict[str, object] = {"edge_of": f"{HOST}:{primary.edge_port}"}  # type: ignore[attr-defined]
    (tmp_path / "other").mkdir()
    files = Authority(tmp_path / "other").files("stranger")
    with running(tmp_path / "stranger", settings | files) as stranger:
        eventually(lambda: "the primary cannot be reached" in stranger.log, lambda: stranger.log)
        assert "this edge has no link to its primary" in readiness(stranger)
        with pytest.raises(StompError, match="no link to its primary"):
            client_of(stranger)
    eventually(lambda: "an edge is refused" in primary.log, lambda: primary.log)


@pytest.mark.long
def test_each_node_of_a_cluster_is_an_edge(tmp_path: Path, authority: Authority) -> None:
    with two_gateways(tmp_path, own=authority.nodes("a", "b")) as pair:
        for name in "ab":
            pair.until(lambda name=name: pair.ask(name, "readyz")[0] == 200)
            told = [line for line in pair.nodes[name].log.splitlines() if "listening" in line]
            assert any(f"{HOST}:{pair.nodes[name].tcp_port}" in line for line in told)
        # Its own process, and the links of both nodes.
        pair.until(lambda: {row["edge"] for row in edges(pair.nodes["a"])} == {"1", "a", "b"})
        assert [(row["edge"], row["ready"]) for row in edges(pair.nodes["b"])] == [("1", True)]
        with closing(client_of(pair.nodes["b"])) as page, closing(client_of(pair.nodes["a"])) as producer:
            page.request("SUBSCRIBE", {"id": "0", "destination": "/topic/a"})
            producer.request("SEND", {"destination": "/topic/a"}, b"one")
            producer.request("SEND", {"destination": "/queue/a", "persistent": "true"}, b"kept")
            assert bodies(page, 1) == [(b"one", "")]
            pair.nodes["a"].kill()
            pair.until(lambda: pair.cluster("b")["node"] == "b" and pair.cluster("b")["role"] == "primary")
            pair.until(lambda: pair.ask("b", "readyz")[0] == 200)
            with closing(client_of(pair.nodes["b"])) as next_one:
                next_one.request("SEND", {"destination": "/topic/a"}, b"two")
                next_one.request("SUBSCRIBE", {"id": "0", "destination": "/queue/a"})
                assert bodies(next_one, 1) == [(b"kept", "")]
            assert bodies(page, 1) == [(b"two", "true")]
