"""A push as a process of its own, and words for what tests do at its ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway.client import Client, StompServer
from tests.gateway_process import HOST, GatewayProcess

PATIENCE = 60.0


def eventually(holds: Callable[[], bool], told: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s\n{told()}"
        time.sleep(0.02)


class Push:
    """`gateway push WORDS`, in its impatient form, and its log."""

    def __init__(self, folder: Path, *words: str, **variables: str) -> None:
        self.path = folder / "push.log"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "STOMP_"))}
        command = [sys.executable, "-m", "tests.push.impatient", "push", *words]
        with self.path.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env=kept | variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def log(self) -> str:
        return self.path.read_text()

    def events(self, event: str) -> list[dict[str, Any]]:
        """Its lines of one event."""
        lines = [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def wait_for(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """The lines of an event, as soon as there are so many."""
        eventually(lambda: len(self.events(event)) >= count or self.process.poll() is not None, lambda: self.log)
        found = self.events(event)
        assert len(found) >= count, self.log
        return found

    def end(self) -> int:
        return self.process.wait(PATIENCE)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.end()


@contextmanager
def pushing(folder: Path, *words: str, **variables: str) -> Iterator[Push]:
    """A push for the block, which it must survive; then it ends by SIGTERM, with status 0."""
    push = Push(folder, *words, **variables)
    try:
        yield push
    except BaseException:
        push.process.kill()
        push.process.wait()
        raise
    assert push.stop() == 0, push.log
    assert "Traceback" not in push.log


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
