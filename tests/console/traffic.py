"""A STOMP client in plain sockets, for what a console is to show: it sends, subscribes, acknowledges and rejects.

Synchronous, as the tests of the console are: Playwright's own loop runs in their thread.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from gateway.client.protocol import ClientProtocol
from gateway.codec import Frame
from tests.gateway_process import HOST

WAIT = 10.0


class Client:
    """A connection that has got its CONNECTED."""

    def __init__(self, port: int, login: str = "", passcode: str = "") -> None:
        self._socket = socket.create_connection((HOST, port), timeout=WAIT)
        self._protocol = ClientProtocol()
        self._waiting: list[Frame] = []
        self._numbers = itertools.count(1)
        headers = {"accept-version": "1.2", "host": HOST}
        if login:
            headers |= {"login": login, "passcode": passcode}
        self._socket.sendall(self._protocol.connect(headers))
        self.session = self.hear("CONNECTED")[0]["session"]

    def ask(self, command: str, headers: dict[str, str], body: str = "") -> None:
        """Write a frame, and wait for its RECEIPT."""
        receipt = f"receipt-{next(self._numbers)}"
        self._socket.sendall(self._protocol.encode(command, headers | {"receipt": receipt}, body.encode()))
        while self.hear("RECEIPT")[0]["receipt-id"] != receipt:
            pass

    def hear(self, command: str) -> tuple[Mapping[str, str], str]:
        """Headers and body of the next frame of that command; others wait until they are asked for.

        Raises TimeoutError where nothing comes, and AssertionError where the gateway ends the connection.
        """
        while not (found := [each for each in self._waiting if each.command == command]):
            data = self._socket.recv(65536)
            assert data, f"the gateway ended the connection; its last words: {self._waiting}"
            self._waiting += self._protocol.receive(data)
        self._waiting.remove(found[0])
        return found[0].headers, bytes(found[0].body).decode()

    def send(self, destination: str, body: str = "a message", **headers: str) -> None:
        """Send, and wait until it has been taken."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.ask("SEND", {"destination": destination} | named, body)

    def subscribe(self, destination: str, **headers: str) -> None:
        """Subscribe, and wait until it holds."""
        self.ask("SUBSCRIBE", {"destination": destination, "id": f"sub-{next(self._numbers)}"} | headers)

    def close(self) -> None:
        """Cut the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def kill_letters(port: int, queue: str, count: int) -> None:
    """Make dead letters of `queue`: a consumer rejects so many messages for good."""
    with Client(port) as client:
        for number in range(count):
            client.send(f"/queue/{queue}", f"letter {number}", number=str(number))
        client.subscribe(f"/queue/{queue}", ack="client-individual")
        for _ in range(count):
            headers, _ = client.hear("MESSAGE")
            client.ask("NACK", {"id": headers["ack"], "requeue": "false"})
