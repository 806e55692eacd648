"""A relay as a process of its own, and words for what tests do at its two ends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from gateway.client import Client, StompServer
from tests.gateway_process import HOST, GatewayProcess
from tests.logged_command import PATIENCE, LoggedCommand, surviving

AT_RABBITMQ = {"login": "guest", "passcode": "guest", "vhost": "/"}


class Pair(NamedTuple):
    """Two gateways that all tests share, a client's view of each, and what is the test's own."""

    one: GatewayProcess
    two: GatewayProcess
    source: StompServer
    target: StompServer
    name: str
    folder: Path

    @property
    def ends(self) -> tuple[str, ...]:
        """The options of a relay from the first to the second."""
        return "--from", url(self.one), "--to", url(self.two)


class Relay(LoggedCommand):
    name = "relay"


def relaying(folder: Path, *words: str, **variables: str) -> AbstractContextManager[Relay]:
    """A relay for the block, which it must survive; then it ends by SIGTERM, with status 0."""
    return surviving(Relay(folder, *words, **variables))


@contextmanager
def running(folder: Path, toml: str = "", **settings: object) -> Iterator[GatewayProcess]:
    """A gateway in a folder of its own, with a settings file."""
    folder.mkdir()
    (folder / "gateway.toml").write_text(toml)
    with GatewayProcess(folder, settings).running() as process:
        yield process


def at(port: int, **more: Any) -> StompServer:
    return StompServer(HOST, port, **more)


class Listener:
    """Meets whoever comes, one connection after the other, in a thread of its own.

    Attributes:
        port: where.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def meet(self, connection: socket.socket) -> None:
        """A connection, which is closed afterwards."""
        raise NotImplementedError

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self.meet(connection)


def url(gateway: GatewayProcess) -> str:
    return f"stomp://{HOST}:{gateway.tcp_port}"


def send(where: StompServer, destination: str, bodies: list[str], **headers: str) -> None:
    """Send messages; on return the server has them."""
    client = Client(where)
    lines = {"destination": destination, **{name.replace("_", "-"): value for name, value in headers.items()}}
    for body in bodies[:-1]:
        client.send(client.encode("SEND", lines, body.encode()))
    client.request("SEND", lines, bodies[-1].encode())
    client.disconnect()


class Reader:
    """A subscriber that takes all that comes."""

    def __init__(self, where: StompServer, destination: str, **headers: str) -> None:
        self.client = Client(where)
        self.messages: list[tuple[dict[str, str], str]] = []
        lines = {"id": "0", "destination": destination, "ack": "auto"} | headers
        self.client.request("SUBSCRIBE", lines)

    @property
    def bodies(self) -> list[str]:
        return [body for _, body in self.messages]

    def read(self, seconds: float = 0.0) -> list[str]:
        """Take what is there; the bodies of all that has come."""
        for frame in self.client.receive(seconds):
            if frame.command == "MESSAGE":
                self.messages.append((dict(frame.headers), frame.body.decode()))
        return self.bodies

    def until(self, count: int, told: Callable[[], str] = str) -> list[str]:
        """The bodies, as soon as so many have come."""
        deadline = time.monotonic() + PATIENCE
        while len(self.messages) < count:
            assert time.monotonic() < deadline, f"{len(self.messages)} of {count} came\n{told()}"
            self.read(0.2)
        return self.bodies


def waiting(where: StompServer, destination: str) -> list[tuple[dict[str, str], str]]:
    """Headers and bodies of what waits in a queue of a gateway."""
    reader = Reader(where, destination, browser="true")
    deadline = time.monotonic() + PATIENCE
    while not any(headers.get("browser") == "end" for headers, _ in reader.messages):
        assert time.monotonic() < deadline
        reader.read(0.2)
    reader.client.disconnect()
    return reader.messages[:-1]
