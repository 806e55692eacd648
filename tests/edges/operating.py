"""A gateway with edges as an operator and its clients see it: real processes, the admin API, and plain sockets."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from tests.gateway_process import HOST, GatewayProcess

PATIENCE = 60.0

T = TypeVar("T")


def until(look: Callable[[], T], told: Callable[[], object] = lambda: "") -> T:
    """What the function returns when it is true for the first time."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, told()
        time.sleep(0.02)
    return found


def ask(gateway: GatewayProcess, path: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
    """Status and answer of the admin API."""
    with closing(http.client.HTTPConnection(HOST, gateway.http_port, timeout=PATIENCE)) as connection:
        connection.request(method, f"/api/v1/{path}", headers=headers)
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None


def edges(gateway: GatewayProcess) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ask(gateway, "edges")[1]["edges"]
    return rows


def metrics(gateway: GatewayProcess) -> dict[str, float]:
    """Each time series and its value."""
    with closing(http.client.HTTPConnection(HOST, gateway.http_port, timeout=PATIENCE)) as connection:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[:1] != "#")}


def log_lines(gateway: GatewayProcess, event: str) -> list[dict[str, Any]]:
    """The lines of the log of an event."""
    lines = [json.loads(line) for line in gateway.log.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


class Client:
    """A STOMP client that writes and reads frames."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._received = b""
        sock.settimeout(PATIENCE)

    def send(self, command: str, body: str = "", **headers: str) -> None:
        lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
        self._socket.sendall(f"{command}\n{lines}\n{body}\0".encode())

    def greet(self, text: str) -> None:
        """Send a line in front of STOMP."""
        self._socket.sendall(text.encode())

    def read(self) -> str:
        """The next frame; empty: the connection has ended."""
        while b"\0" not in self._received:
            try:
                data = self._socket.recv(65_536)
            except ConnectionResetError:
                data = b""
            if not data:
                return ""
            self._received += data
        frame, _, self._received = self._received.partition(b"\0")
        return frame.decode().lstrip("\n")

    def connect(self, **headers: str) -> str:
        """The answer to CONNECT."""
        self.send("CONNECT", accept_version="1.2", host="h", **headers)
        return self.read()

    def get(self, command: str, body: str = "", **headers: str) -> str:
        """The answer to a frame with a receipt."""
        self.send(command, body, receipt="r", **headers)
        return self.read()


@contextmanager
def client(port: int) -> Iterator[Client]:
    with socket.create_connection((HOST, port), timeout=PATIENCE) as sock:
        yield Client(sock)


@contextmanager
def connected(gateway: GatewayProcess, **headers: str) -> Iterator[Client]:
    """A client with a session, over TCP."""
    with client(gateway.tcp_port) as found:
        answer = found.connect(**headers)
        assert answer.startswith("CONNECTED\n"), (answer, gateway.log)
        yield found


def session_of(frame: str) -> str:
    """The session of a CONNECTED frame."""
    return next(line.partition(":")[2] for line in frame.splitlines() if line.startswith("session:"))
