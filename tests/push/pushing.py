"""A push as a process of its own, and words for what tests do at its ends."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from pathlib import Path

from gateway.client import Client, StompServer
from tests.gateway_process import HOST, GatewayProcess
from tests.logged_command import PATIENCE, LoggedCommand, surviving


class Push(LoggedCommand):
    name = "push"


def pushing(folder: Path, *words: str, **variables: str) -> AbstractContextManager[Push]:
    """A push for the block, which it must survive; then it ends by SIGTERM, with status 0."""
    return surviving(Push(folder, *words, **variables))


def url(gateway: GatewayProcess) -> str:
    return f"stomp://{HOST}:{gateway.tcp_port}"


def send(where: StompServer, destination: str, *bodies: str, **headers: str) -> None:
    """Send messages; on return the server has them."""
    client = Client(where)
    lines = {"destination": destination, **{name.replace("_", "-"): value for name, value in headers.items()}}
    for body in bodies:
        client.request("SEND", lines, body.encode())
    client.disconnect()


def waiting(where: StompServer, destination: str) -> list[tuple[dict[str, str], str]]:
    """Headers and bodies of what waits in a queue."""
    client = Client(where)
    client.request("SUBSCRIBE", {"id": "0", "destination": destination, "browser": "true"})
    found: list[tuple[dict[str, str], str]] = []
    deadline = time.monotonic() + PATIENCE
    while not any(headers.get("browser") == "end" for headers, _ in found):
        assert time.monotonic() < deadline
        messages = [frame for frame in client.receive(0.2) if frame.command == "MESSAGE"]
        found += [(dict(frame.headers), frame.body.decode()) for frame in messages]
    client.disconnect()
    return found[:-1]
