"""Servers as processes of their own: hypercorn's command with each of its workers, and `gateway serve`.

A process is asked for port 0 and says in its log which it got, so that no two tests can want the same.  It is waited
for with bounds, and killed (its whole session, for hypercorn's worker is a child) when a test leaves it.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.gateway_process import with_edges

DEADLINE = 30.0
BIN = Path(sys.executable).parent

HYPERCORN = [str(BIN / "hypercorn"), "--bind", "127.0.0.1:0", "gateway.app:app"]
SERVE = [str(BIN / "gateway"), "serve"]


class Server:
    """One server process and what it wrote to standard error.

    Args:
        variables: settings of the gateway, by name.
        descriptors: files that the process inherits.
        environment: other variables of it.
    """

    def __init__(
        self,
        command: list[str],
        folder: Path,
        variables: Mapping[str, str],
        *,
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = folder / "server.log"
        own = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
        own |= {f"GATEWAY_{name.upper()}": value for name, value in with_edges(variables).items()} | dict(
            environment or {}
        )
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=own,
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        """Everything on standard error so far."""
        return self._log.read_text(errors="replace")

    def events(self) -> list[dict[str, Any]]:
        """The lines of the log that are ours."""
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]

    def wait(self) -> int:
        """Wait for the end; the exit status."""
        try:
            return self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server did not end; its log:\n{self.log}") from None

    def tcp_port(self) -> int:
        """Where it speaks STOMP, as soon as it does."""
        return int(self._found(r'"tcp": "127\.0\.0\.1:(\d+)"'))

    def http_port(self) -> int:
        """Where it speaks HTTP, as soon as it does."""
        return int(self._found(r'"http": "127\.0\.0\.1:(\d+)"|Running on http://127\.0\.0\.1:(\d+)'))

    def child(self) -> int:
        """Process id of hypercorn's worker."""
        self.tcp_port()
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        # Besides the worker there is multiprocessing's resource tracker.
        workers = [int(each) for each in children if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]
        assert len(workers) == 1, children
        return workers[0]

    def get(self, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Status and body (read as JSON where it is) of one HTTP request."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.http_port(), timeout=DEADLINE)) as connection:
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            body = response.read()
            is_json = response.getheader("content-type") == "application/json"
            return response.status, json.loads(body) if is_json else body

    def await_in_log(self, text: str) -> None:
        """Wait until that is in the log."""
        self._found(f"({re.escape(text)})")

    def _found(self, pattern: str) -> str:
        deadline = time.monotonic() + DEADLINE
        while (found := re.search(pattern, self.log)) is None:
            assert self.process.poll() is None, f"the server has ended; its log:\n{self.log}"
            assert time.monotonic() < deadline, f"no {pattern} in the log:\n{self.log}"
            time.sleep(0.02)
        return next(group for group in found.groups() if group is not None)

    def kill(self) -> None:
        """End the process, and the worker that it may have."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def server(command: list[str], folder: Path, **variables: str) -> Iterator[Server]:
    """A server for the time of the block, on free ports unless `variables` say otherwise."""
    free = {"tcp": "127.0.0.1:0", "websocket": "127.0.0.1:0", "http": "127.0.0.1:0", "log_format": "json"}
    running = Server(command, folder, free | variables)
    try:
        yield running
    finally:
        running.kill()


def connect(port: int) -> socket.socket:
    """A STOMP client that has been connected."""
    client = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
    client.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
    assert client.recv(4096).startswith(b"CONNECTED\n")
    return client


def read_to_end(client: socket.socket) -> bytes:
    """Everything until the server has closed."""
    received = b""
    with client:
        while nbytes := client.recv(4096):
            received += nbytes
    return received
