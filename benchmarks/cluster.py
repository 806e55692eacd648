"""A gateway that is the primary of a cluster, with all that belongs to one: three NATS servers and a standby.

Its own CPU is that of the row.  Servers and standby run on any core, and on the same disk, as no cluster should: times
are therefore those of the worst case, and of a machine that does the work of five.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.machine import on_any_core
from benchmarks.server import START_SECONDS, Server, ServerError, gateway
from gateway.cluster.nats.connection import NatsOptions
from gateway.cluster.servers import Servers
from tests.cluster.servers import NatsServer, nats_servers

_NAME = "bench"


@contextmanager
def primary(settings: str, *, disk: Path) -> Iterator[Server]:
    """Start all of it; a standby follows when the block begins.  Raises ServerError: a part does not start in time."""
    with tempfile.TemporaryDirectory(prefix="nats-bench-", dir=disk) as folder:
        with on_any_core():
            starting = nats_servers(Path(folder))
            servers = starting.__enter__()
        try:
            addresses = ", ".join([f'"{each.address}"' for each in servers])
            text = f'{settings}\ncluster = "{_NAME}"\ncluster_servers = [{addresses}]\n'
            with (
                gateway(f'{text}cluster_node = "a"', disk=disk) as server,
                gateway(f'{text}cluster_node = "b"', disk=disk, standby=True),
            ):
                _await_standby(servers)
                yield server
        finally:
            starting.__exit__(None, None, None)


def _await_standby(servers: list[NatsServer]) -> None:
    until = time.monotonic() + START_SECONDS
    with Servers(lambda purpose: NatsOptions([each.address for each in servers], name=purpose), _NAME) as ours:
        directory = ours.directory()
        while not any(each.role == "standby" for each in directory.nodes()):
            if time.monotonic() > until:
                raise ServerError("the standby does not follow in time")
            time.sleep(0.1)
