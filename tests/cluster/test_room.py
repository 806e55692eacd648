"""Room for the log: what has a limit tells it, and what is full says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.cluster.log import LogFull, LogUnavailable
from gateway.cluster.nats.connection import ServerAddress
from gateway.cluster.nats.faults import NatsUnavailable
from gateway.cluster.nats.jetstream import JetStream
from gateway.cluster.room import Room, rooms, tightest
from tests.cluster.conftest import ACluster
from tests.cluster.servers import await_jetstream, connection, nats_servers
from tests.gateway_process import free_ports


class Told:
    """JetStream's answers, without servers that tell of themselves."""

    def __init__(self, account: Mapping[str, Any]) -> None:
        self.connection = self
        self.servers: list[ServerAddress] = []
        self._account = account

    def call(self, verb: str, timeout: float) -> Mapping[str, Any]:
        return self._account

    def request_many(self, subject: str, timeout: float) -> Iterator[Any]:
        raise NatsUnavailable("not for this account")
        yield


def test_an_account_and_its_tiers() -> None:
    tiers = {"R3": {"storage": 30, "limits": {"max_storage": 40}}}
    told = {"storage": 5, "limits": {"max_storage": 10}, "tiers": tiers}
    found = rooms(cast(JetStream, Told(told)))
    account = "the account of the NATS servers"
    assert found == [Room(account, 5, 10), Room(account, 30, 40)]
    least = tightest(found)
    assert str(least) == "the account of the NATS servers has used 75% of 40 bytes for JetStream"
    assert tightest(rooms(cast(JetStream, Told({"limits": {"max_storage": -1}})))) is None


@pytest.mark.slow
def test_a_server_by_its_monitoring(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with nats_servers(tmp_path, 1, f"http: 127.0.0.1:{port}") as (server,):
        await_jetstream([server])
        jets = JetStream(connection([server]))
        (room,) = rooms(jets, port)
        assert (room.what, room.limit) == ("the NATS server n0", 2 << 30)
        jets.connection.close()


def test_a_stream_with_a_limit(cluster: ACluster) -> None:
    log = cluster.made().log()
    with closing(connection([cluster.server])) as connected:
        jets = JetStream(connected)
        config = jets.call(f"STREAM.INFO.{log.stream}")["config"]
        jets.call(f"STREAM.UPDATE.{log.stream}", config | {"max_bytes": 1_000_000})
    assert log.append(bytes(600_000), 0) == 1
    with pytest.raises(LogFull, match="the log of the cluster is full: maximum bytes exceeded"):
        log.append(bytes(600_000), 1)
    assert isinstance(LogFull(), LogUnavailable)
    assert log.bounds().limit == 1_000_000
    log.purge(2)
    assert log.append(bytes(600_000), 1) == 2
