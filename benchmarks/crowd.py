"""Much for a console to show: 5,000 clients on sockets of their own, and 10,000 queues with messages.

Half of the queues have a consumer that holds one message and does nothing more.  So the crowd costs the gateway nothing
once it stands, and what is measured beside it is what was asked for.
"""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.console.traffic import Client
from tests.gateway_process import HOST

SESSIONS = 5_000
QUEUES = 10_000

_WAIT = 60.0
"""Seconds without a byte."""
_TOGETHER = 200
"""Connections that log in at once: a gateway allows 1,000."""
_PIECE = 1_000
"""Messages that are sent at once."""
_OTHER_FILES = 500
"""Files of the process beside those of the crowd."""


def name(number: int) -> str:
    """The queue of that number."""
    return f"/queue/crowd.{number:05}"


def sent(number: int) -> int:
    """How many messages it got: there is an order to look for."""
    return number % 7 + 1


def login(number: int) -> str:
    """The user of that number, which consumes the queue of that number."""
    return f"worker-{number:05}"


@contextmanager
def crowd(port: int, sessions: int = SESSIONS, queues: int = QUEUES) -> Iterator[None]:
    """All of them, for the time of the block; at its end the gateway has seen them go.

    Args:
        port: where the gateway takes STOMP.
        sessions: not more than queues.
    """
    with _files(sessions + _OTHER_FILES), ExitStack() as stack:
        _fill(stack.enter_context(_connection(port)), queues)
        clients: list[socket.socket] = []
        for start in range(0, sessions, _TOGETHER):
            numbers = range(start, min(start + _TOGETHER, sessions))
            opened = [stack.enter_context(_connection(port)) for _ in numbers]
            for number, each in zip(numbers, opened, strict=True):
                each.sendall(_enter(number))
            for each in opened:
                _hear(each, 2)  # CONNECTED, and the one message that it may have
            clients += opened
        yield
        _leave(clients)


@contextmanager
def growing(port: int, destination: str) -> Iterator[None]:
    """One more client, which sends there a message twenty times a second while the block runs."""
    done = threading.Event()

    def send() -> None:
        with Client(port) as client:
            while not done.wait(0.05):
                client.send(destination)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(_WAIT)


def _fill(connection: socket.socket, queues: int) -> None:
    """Send every queue its messages, and leave."""
    connection.sendall(_frame("CONNECT", {"accept-version": "1.2", "host": HOST}))
    _hear(connection, 1)
    frames = [
        _frame("SEND", {"destination": name(number), "content-length": "9"}, "a message")
        for number in range(queues)
        for _ in range(sent(number))
    ]
    for start in range(0, len(frames), _PIECE):
        connection.sendall(b"".join(frames[start : start + _PIECE]))
    connection.sendall(_frame("DISCONNECT", {"receipt": "all"}))
    _hear(connection, 1)


def _enter(number: int) -> bytes:
    headers = {"destination": name(number), "id": "0", "ack": "client-individual", "prefetch-count": "1"}
    return _frame("CONNECT", {"accept-version": "1.2", "host": HOST, "login": login(number)}) + _frame(
        "SUBSCRIBE", headers
    )


def _leave(clients: list[socket.socket]) -> None:
    """Cut the connections, and wait until the gateway has."""
    for each in clients:
        each.shutdown(socket.SHUT_WR)
    for each in clients:
        while each.recv(65_536):
            pass


def _frame(command: str, headers: dict[str, str], body: str = "") -> bytes:
    lines = "".join(f"{header}:{value}\n" for header, value in headers.items())
    return f"{command}\n{lines}\n{body}\0".encode()


def _hear(connection: socket.socket, frames: int) -> None:
    """Wait for so many frames, none of which may be an ERROR."""
    heard = b""
    while heard.count(b"\0") < frames:
        data = connection.recv(65_536)
        assert data, f"the gateway ended the connection; its last words: {heard!r}"
        heard += data
    assert b"ERROR\n" not in heard, heard


@contextmanager
def _connection(port: int) -> Iterator[socket.socket]:
    with socket.create_connection((HOST, port), timeout=_WAIT) as connection:
        yield connection


@contextmanager
def _files(wanted: int) -> Iterator[None]:
    """This process may open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard >= wanted, (
        f"a process may open {hard} files here, and a crowd needs {wanted}: raise the hard limit (ulimit -Hn)"
    )
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
