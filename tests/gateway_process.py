"""A real gateway as a process of its own, for every test that looks at it from outside.

The process keeps its ports over `restart()`.  Everything that waits is bounded, and a failure shows the log.
"""

from __future__ import annotations

import http.client
import itertools
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self
from zlib import crc32

HOST = "127.0.0.1"
START_TIMEOUT = 30.0
EDGES = "EDGES_OF_TESTS"  # a variable of the environment: `--edges` of pytest
STOP_TIMEOUT = 20.0
# Below those that Linux gives out for port 0 and for outgoing connections, from 32768 on.
PORTS = range(20_000, 32_000)
SHARES = 16


def _of_this_process() -> Iterator[int]:
    """Ports without end: each worker of pytest-xdist has its share, and begins where it happens to.

    Other runs on this machine begin with other shares, as far as there are some.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = len(PORTS) // SHARES
    first, passed = PORTS.start + (crc32(run.encode()) + worker) % SHARES * share, random.randrange(share)
    return (first + (passed + number) % share for number in itertools.count())


_ports = _of_this_process()


def free_ports(count: int) -> list[int]:
    """So many different loopback ports that nobody listens on now.

    Nobody else takes them before the caller does: the kernel gives out by itself only what is above them.
    """
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, next(_ports)))
            found.append(int(probe.getsockname()[1]))
    return found


def with_edges(settings: Mapping[str, object]) -> dict[str, object]:
    """Settings of a gateway that a test starts, with the edges that `--edges` asks for."""
    edges = os.environ.get(EDGES)
    return {"edges": edges, **settings} if edges else {**settings}


class GatewayProcess:
    """One gateway process and the addresses it listens on.

    `settings` are those of `gateway/config/settings.py`, by name; what is not given has its default, except the
    three addresses, which are free loopback ports.  `command`: the words behind `gateway`.
    """

    def __init__(self, folder: Path, settings: dict[str, object], command: Sequence[str] = ("serve",)) -> None:
        self._command = command
        self.tcp_port, self.ws_port, self.http_port = free_ports(3)
        self._folder = folder
        self._settings = {
            "tcp": f"{HOST}:{self.tcp_port}",
            "websocket": f"{HOST}:{self.ws_port}",
            "http": f"{HOST}:{self.http_port}",
            **with_edges(settings),
        }
        # A node of a cluster may listen only while it is primary.
        self._listens = settings.get("cluster_standby_listens") != "false"
        self._process: subprocess.Popen[bytes] | None = None
        self.log_path = folder / "gateway.log"

    @property
    def ws_url(self) -> str:
        return f"ws://{HOST}:{self.ws_port}{self._settings.get('websocket_path', '/ws')}"

    @property
    def http_url(self) -> str:
        """Address of the HTTP port, without a slash at the end."""
        return f"http://{HOST}:{self.http_port}"

    @property
    def pid(self) -> int:
        """Process id of the gateway while it runs."""
        assert self._process is not None, "the gateway does not run"
        return self._process.pid

    @property
    def log(self) -> str:
        """All that the gateway has written so far, over every start."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        assert self._process is None, "the gateway runs already"
        variables = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
        variables |= {f"GATEWAY_{name.upper()}": str(value) for name, value in self._settings.items()}
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gateway", *self._command],
                cwd=self._folder,  # no gateway.toml of the developer is read
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """End the process by SIGTERM; it must drain in time, with status 0 and without a traceback."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            status = process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            sentence = f"the gateway did not end {STOP_TIMEOUT} s after SIGTERM; its log:\n{self.log}"
            raise AssertionError(sentence) from None
        assert status == 0, f"the gateway ended with status {status}; its log:\n{self.log}"
        assert "Traceback" not in self.log, f"there is a traceback in the log:\n{self.log}"

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Run it for the time of the block; leaving that stops the process and checks how it ended."""
        try:
            self.start()
            yield self
        except BaseException:
            self.kill()  # the test has failed already: what it found counts, not how the gateway ends
            raise
        self.stop()

    def kill(self) -> None:
        """End the process by SIGKILL, as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def restart(self) -> None:
        """Stop, and start again on the same ports with the same settings."""
        self.stop()
        self.start()

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT
        while not self._is_ready():
            status = self._process.poll()
            assert status is None, f"the gateway ended with status {status}; its log:\n{self.log}"
            assert time.monotonic() < deadline, f"not ready after {START_TIMEOUT} s; its log:\n{self.log}"
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self.http_port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            if connection.getresponse().status != 200:
                return False
            for port in (self.tcp_port, self.ws_port) if self._listens else ():
                socket.create_connection((HOST, port), timeout=5).close()
        except OSError:
            return False
        finally:
            connection.close()
        return True


@contextmanager
def start_gateway(**settings: object) -> Iterator[GatewayProcess]:
    """A running gateway for the time of the block; leaving it stops the process and checks how it ended."""
    with (
        tempfile.TemporaryDirectory(prefix="gateway-") as folder,
        GatewayProcess(Path(folder), settings).running() as gateway,
    ):
        yield gateway
