"""A STOMP client in plain sockets, for what a console is to show: it sends, subscribes, acknowledges and rejects.

Synchronous, as the tests of the console are: Playwright's own loop runs in their thread.
"""

from __future__ import annotations

import itertools
import socket
import threading
from types import TracebackType
from typing import Self

from tests.gateway_process import HOST

WAIT = 10.0


class Client:
    """A connection that has got its CONNECTED."""

    def __init__(self, port: int, login: str = "", passcode: str = "") -> None:
        self._socket = socket.create_connection((HOST, port), timeout=WAIT)
        self._received = b""
        self._waiting: list[tuple[str, dict[str, str], str]] = []
        self._numbers = itertools.count(1)
        headers = {"accept-version": "1.2", "host": HOST}
        if login:
            headers |= {"login": login, "passcode": passcode}
        self.tell("CONNECT", headers)
        self.session = self.hear("CONNECTED")[0]["session"]

    def tell(self, command: str, headers: dict[str, str], body: str = "") -> None:
        """Write a frame."""
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        self._socket.sendall(f"{command}\n{lines}\n{body}\0".encode())

    def ask(self, command: str, headers: dict[str, str], body: str = "") -> None:
        """Write a frame, and wait for its RECEIPT."""
        receipt = f"receipt-{next(self._numbers)}"
        self.tell(command, headers | {"receipt": receipt}, body)
        while self.hear("RECEIPT")[0]["receipt-id"] != receipt:
            pass

    def hear(self, command: str) -> tuple[dict[str, str], str]:
        """Headers and body of the next frame of that command; others wait until they are asked for.

        Raises:
            AssertionError: the gateway ended the connection.
            TimeoutError: nothing came.
        """
        while not (found := [each for each in self._waiting if each[0] == command]):
            self._waiting.append(self._frame())
        self._waiting.remove(found[0])
        return found[0][1:]

    def _frame(self) -> tuple[str, dict[str, str], str]:
        while b"\0" not in self._received:
            data = self._socket.recv(65536)
            assert data, f"the gateway ended the connection; its last words: {self._received!r}"
            self._received += data
        frame, _, self._received = self._received.lstrip(b"\n").partition(b"\0")
        head, _, body = frame.decode().partition("\n\n")
        command, *lines = head.split("\n")
        return command, dict(line.split(":", 1) for line in reversed(lines)), body

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


class Load(threading.Thread):
    """Messages through one topic, some hundred a second, for the time of the block."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._done = threading.Event()

    def run(self) -> None:
        with Client(self._port) as client:
            client.subscribe("/topic/load")
            while not self._done.wait(0.01):
                client.send("/topic/load")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self.join(WAIT)
