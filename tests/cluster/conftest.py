"""A server of NATS for a whole module, and a cluster on it with a name of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.cluster.nats.connection import NatsOptions
from gateway.cluster.servers import Servers
from tests.cluster.servers import NatsServer, nats_servers

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_servers(tmp_path_factory.mktemp("nats"), 1) as (server,):
        yield server


class ACluster:
    """The connections to one cluster."""

    def __init__(self, server: NatsServer, name: str) -> None:
        self.name = name
        self.server = server
        self.servers = Servers(lambda purpose: NatsOptions([server.address], name=purpose), name)

    def made(self) -> Servers:
        """The servers, with all streams."""
        for make in (self.servers.log().make, self.servers.directory().make, self.servers.snapshots().make):
            make(1)
        return self.servers


@pytest.fixture
def cluster(nats: NatsServer) -> Iterator[ACluster]:
    found = ACluster(nats, f"test{next(_numbers)}")
    with found.servers:
        yield found


@pytest.fixture
def servers(cluster: ACluster) -> Servers:
    return cluster.made()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
