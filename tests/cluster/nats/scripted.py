"""A server of NATS that does what a test says, for all that a real one does only by chance."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress

from gateway.cluster.nats.connection import ServerAddress

PATIENCE = 30.0
GOOD = {"server_id": "N", "server_name": "scripted", "version": "2.15.1", "headers": True, "max_payload": 1_048_576}

Script = Callable[[socket.socket], None]


@contextmanager
def serving(*scripts: Script) -> Iterator[ServerAddress]:
    """A server: each script has one connection, and the last one all that follow; it ends with its script."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, scripts), daemon=True)
        thread.start()
        try:
            yield ServerAddress("127.0.0.1", listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)
            assert not thread.is_alive()


def _serve(listener: socket.socket, scripts: tuple[Script, ...]) -> None:
    with suppress(OSError):  # the listener is closed
        for number in range(1_000):
            connection, _ = listener.accept()
            connection.settimeout(PATIENCE)
            with closing(connection), suppress(OSError):
                scripts[min(number, len(scripts) - 1)](connection)


def greet(connection: socket.socket, values: Mapping[str, object] = GOOD) -> str:
    """Take a client; returns its inbox."""
    connection.sendall(b"INFO %s\r\n" % json.dumps(values).encode())
    said = read_until(connection, b"PING\r\n")
    connection.sendall(b"PONG\r\n")
    return said.partition(b"SUB ")[2].partition(b".*")[0].decode()


def read_until(connection: socket.socket, end: bytes) -> bytes:
    """What the client says; all of it, if it closes the connection before that."""
    said = b""
    while not said.endswith(end) and (data := connection.recv(65_536)):
        said += data
    return said


def answer(connection: socket.socket, inbox: str, number: int, payload: bytes) -> None:
    connection.sendall(b"MSG %s.%d 1 %d\r\n%s\r\n" % (inbox.encode(), number, len(payload), payload))
