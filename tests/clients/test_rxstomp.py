"""@stomp/rx-stomp's RxStompRPC as it stands, with its reply queue `/temp-queue/rpc-replies` (rxstomp.mjs)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from stomp.utils import Frame

from tests.clients.driver import Driver
from tests.clients.forwarder import Forwarder
from tests.clients.worker import CONNECTIONS, PATIENCE, Worker
from tests.gateway_process import HOST, GatewayProcess


@contextmanager
def serving(version: str, port: int, destination: str) -> Iterator[None]:
    """A server in stomp.py that answers each request in capital letters."""

    class Server(Worker):
        def on_message(self, frame: Frame) -> None:
            headers = {"correlation-id": frame.headers["correlation-id"]}
            self.connection.send(frame.headers["reply-to"], bytes(frame.body).upper(), headers=headers)
            self.ack(frame)

    server = Server(version, port)
    server.connection.connect(wait=True)
    server.subscribe(destination, ack="client")
    yield
    server.connection.disconnect(receipt="farewell")
    server.losses.get(timeout=PATIENCE)
    assert server.errors.empty(), server.errors.get().headers


@pytest.mark.parametrize("scenario", ["rpc", "streaming"])
def test_against_a_server_in_rx_stomp(scenario: str, node: Driver, gateway: GatewayProcess, name: str) -> None:
    node.run(scenario, file="rxstomp.mjs", url=gateway.ws_url, name=name)


@pytest.mark.parametrize("version", CONNECTIONS)
def test_against_a_server_in_stomp_py(version: str, node: Driver, gateway: GatewayProcess, name: str) -> None:
    with serving(version, gateway.tcp_port, f"/queue/{name}"):
        node.run("client", file="rxstomp.mjs", url=gateway.ws_url, name=name)


def test_calls_go_on_after_a_cut(node: Driver, gateway: GatewayProcess, ws_relay: Forwarder, name: str) -> None:
    with serving("1.2", gateway.tcp_port, f"/queue/{name}"):
        node.run("cut", {"cut": ws_relay.cut}, file="rxstomp.mjs", url=f"ws://{HOST}:{ws_relay.port}/ws", name=name)
