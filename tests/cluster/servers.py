"""Servers of NATS for tests: real ones, which end with the block: on free ports of loopback, or on the machines of a
network that can be cut.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from gateway.cluster.nats.connection import NatsConnection, NatsOptions, ServerAddress
from gateway.cluster.nats.faults import NatsUnavailable
from gateway.cluster.nats.jetstream import JetStream, JetStreamError
from tests.cluster.network import Namespace, Network
from tests.gateway_process import HOST, free_ports

PATIENCE = 30.0


def program() -> str:
    """The server that the test group installs beside this Python."""
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    assert found, "nats-server is missing: it comes with the group `test` of pyproject.toml"
    return found


class NatsServer:
    """A server of a cluster, which may be stopped and started again.

    `machine`: where it runs; None: here.
    """

    def __init__(
        self,
        folder: Path,
        number: int,
        ports: Sequence[int],
        routes: Sequence[int],
        more: str = "",
        sync: str = "always",
        machines: Sequence[Namespace] = (),
    ) -> None:
        self.name = f"n{number}"
        self.machine = machines[number] if machines else None
        hosts = [each.address for each in machines] or [HOST] * len(ports)
        self.address = ServerAddress(hosts[number], ports[number])
        self.folder = folder / self.name
        self.folder.mkdir(parents=True)
        urls = [f"nats://{host}:{route}" for host, route in zip(hosts, routes, strict=True)]
        listen = f"{hosts[number]}:{routes[number]}"
        others = ", ".join(urls[:number] + urls[number + 1 :])
        cluster = f"cluster {{ name: test, listen: {listen}, routes: [{others}] }}" if others else ""
        self.settings = self.folder / "nats.conf"
        self.settings.write_text(
            f"server_name: {self.name}\nlisten: {self.address}\n"
            f'jetstream {{ store_dir: "{self.folder}/js", sync_interval: {sync}, max_mem: 64MB, max_file: 2GB }}\n'
            f"{cluster}\n{more}\n"
        )
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return self.address.port

    def start(self) -> None:
        where = self.machine.command if self.machine is not None else []
        arguments = [*where, program(), "-c", str(self.settings), "-l", str(self.folder / "log")]
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL)

    def await_port(self) -> None:
        """Wait until it takes connections."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(self.address, PATIENCE).close()
            except ConnectionRefusedError:
                assert time.monotonic() < until, f"{self.name} does not start in time: {self.log}"
                time.sleep(0.02)
            else:
                return

    @property
    def log(self) -> str:
        """What it has written so far."""
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def await_log(self, text: str) -> None:
        """Wait until it has written something."""
        until = time.monotonic() + PATIENCE
        while text not in self.log:
            assert time.monotonic() < until, f"{self.name} has not written {text}: {self.log}"
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.process is not None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """End it at once, as a lost machine does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process = None


@contextmanager
def nats_servers(
    folder: Path, count: int = 3, more: str = "", sync: str = "always", network: Network | None = None
) -> Iterator[list[NatsServer]]:
    """Servers whose JetStream is ready, unless they have settings of their own.

    `more`: settings.  `sync`: their `sync_interval`.  `network`: each runs on a machine of it.
    """
    machines = network.machines if network is not None else ()
    ports = [4222] * count + [6222] * count if machines else free_ports(2 * count)
    servers = [
        NatsServer(folder, number, ports[:count], ports[count:], more, sync, machines) for number in range(count)
    ]
    try:
        for each in servers:
            each.start()
        with network.router.inside() if network is not None else nullcontext():
            for each in servers:
                each.await_port()
            if not more:
                await_jetstream(servers)
        yield servers
    finally:
        for each in servers:
            each.kill()


def connection(servers: Sequence[NatsServer]) -> NatsConnection:
    return NatsConnection(NatsOptions([each.address for each in servers]))


def await_jetstream(servers: Sequence[NatsServer]) -> None:
    """Wait until a stream on all servers can be made."""
    jets = JetStream(connection(servers))
    until = time.monotonic() + PATIENCE
    probe = {"name": "probe", "subjects": ["probe"], "num_replicas": len(servers), "storage": "memory"}
    while True:
        try:
            jets.call("STREAM.CREATE.probe", probe, timeout=2)
            jets.call("STREAM.DELETE.probe")
        except (NatsUnavailable, JetStreamError):
            assert time.monotonic() < until, "JetStream is not ready in time"
            time.sleep(0.1)
        else:
            jets.connection.close()
            return
