"""What an edge tells its primary at once, and what with the next batch."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gateway_process import HOST, GatewayProcess

VISITS = 5
WAIT = 30.0


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with an edge."""
    folder: Path = tmp_path_factory.mktemp("edge")
    with GatewayProcess(folder, {"edges": 1}).running() as running:
        with client(running):  # the process of the edge is up
            pass
        yield running


@contextmanager
def client(gateway: GatewayProcess) -> Iterator[socket.socket]:
    """A connected client."""
    with socket.create_connection((HOST, gateway.tcp_port), timeout=WAIT) as connection:
        ask(connection, b"CONNECT\naccept-version:1.2\nhost:/\n\n\0", b"CONNECTED")
        yield connection


def ask(connection: socket.socket, frame: bytes, wanted: bytes) -> bytes:
    """Send a frame; what comes until a frame of that kind is whole."""
    connection.sendall(frame)
    heard = b""
    while wanted not in heard or not heard.endswith((b"\0", b"\0\n")):
        data = connection.recv(65_536)
        assert data, heard
        heard += data
    return heard


def test_disconnect_has_its_receipt_at_once(gateway: GatewayProcess) -> None:
    took = []
    for _ in range(VISITS):
        with client(gateway) as connection:
            began = time.monotonic()
            ask(connection, b"DISCONNECT\nreceipt:bye\n\n\0", b"RECEIPT")
            took.append(time.monotonic() - began)
    # Counts go over once a second: a frame that waits for them takes nearly as long, if the one before it did.
    assert min(took[1:]) < 0.7


def test_a_message_that_a_client_took_before_it_left_comes_to_no_other(gateway: GatewayProcess) -> None:
    with client(gateway) as producer:
        for number in range(10):
            send = b"SEND\ndestination:/queue/late\nreceipt:%d\n\n%d\0" % (number, number)
            ask(producer, send, b"RECEIPT")
            with client(gateway) as consumer:
                subscribe = b"SUBSCRIBE\nid:0\ndestination:/queue/late\n\n\0"
                assert b"\n\n%d\0" % number in ask(consumer, subscribe, b"MESSAGE")
