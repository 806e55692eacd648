"""The server that leads the log is lost: what is durable waits for the next leader, and no session ends."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from gateway.client import Client, StompError
from gateway.client.server import StompServer
from gateway.cluster.nats.jetstream import JetStream
from gateway.cluster.stream_log import stream_of
from tests.cluster.servers import connection, nats_servers
from tests.gateway_process import HOST, start_gateway

PATIENCE = 60.0
"""Seconds for the answer to one frame; an election takes ten at most, on a machine that has time."""


@pytest.mark.long
@pytest.mark.slow
def test_durable_frames_wait_for_the_next_leader(tmp_path: Path) -> None:
    with nats_servers(tmp_path / "nats") as servers:
        settings = {
            "cluster": "shop",
            "cluster_node": "a",
            "cluster_servers": ",".join(str(each.address) for each in servers),
            "store": f"sqlite:{tmp_path}/copy.db",
        }
        with start_gateway(**settings) as gateway, closing(_of_primary(gateway.tcp_port)) as client:
            client.request("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "ack": "client-individual"})
            _send(client, b"before")
            [first] = _received(client, 1)
            with closing(connection(servers)) as asking:
                leader = JetStream(asking).call(f"STREAM.INFO.{stream_of('shop')}")["cluster"]["leader"]
            next(each for each in servers if each.name == leader).kill()
            _send(client, b"meanwhile")
            client.request("ACK", {"id": first})
            client.request("BEGIN", {"transaction": "t"})
            client.request("SEND", {"destination": "/queue/a", "transaction": "t", "persistent": "true"}, b"1")
            client.request("COMMIT", {"transaction": "t"})
            assert len(_received(client, 2)) == 2
        assert "session failed" not in gateway.log


def _of_primary(port: int) -> Client:
    """A client, once the node is primary."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return Client(StompServer(HOST, port))
        except StompError:
            assert time.monotonic() < until
            time.sleep(0.1)


def _send(client: Client, body: bytes) -> None:
    client.request("SEND", {"destination": "/queue/a", "persistent": "true"}, body)


def _received(client: Client, count: int) -> list[str]:
    """The `ack` of so many messages."""
    found: list[str] = []
    until = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < until
        found += [frame.headers["ack"] for frame in client.receive(1.0) if frame.command == "MESSAGE"]
    return found
