"""The log on a real server of NATS: the same verbs as the log in memory, and its refusals as ours."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from gateway.cluster.log import LogUnavailable, SequenceRefused
from gateway.cluster.nats.connection import NatsConnection, NatsOptions
from gateway.cluster.nats.faults import NatsRefused
from gateway.cluster.nats.jetstream import JetStream
from gateway.cluster.servers import Servers
from gateway.cluster.stream_log import LOOK_TIMEOUT, StreamLog, stream_of
from tests.cluster.conftest import ACluster
from tests.cluster.nats.scripted import greet, serving
from tests.cluster.servers import NatsServer, nats_servers

PATIENCE = 30


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[NatsServer]]:
    with nats_servers(tmp_path_factory.mktemp("three")) as servers:
        yield servers


def test_appends_in_order_and_reads_again(servers: Servers) -> None:
    log = servers.log()
    assert log.bounds().last == 0
    assert log.read(1) == []
    assert [log.append(b"%d" % number, number) for number in range(5)] == [1, 2, 3, 4, 5]
    assert [(each.sequence, each.data) for each in log.read(4)] == [(4, b"3"), (5, b"4")]
    assert log.read(6) == []


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_refuses_any_other_sequence(servers: Servers, expected: int) -> None:
    log = servers.log()
    for number in range(2):
        log.append(b"", number)
    with pytest.raises(SequenceRefused):
        log.append(b"", expected)
    assert log.bounds().last == 2


def test_reads_more_than_fits_into_one_answer(servers: Servers) -> None:
    log = servers.log()
    for number in range(12):
        log.append(bytes(800_000), number)
    found = []
    while some := log.read(len(found) + 1):
        assert len(some) < 12
        found += some
    assert [each.sequence for each in found] == list(range(1, 13))


def test_is_purged_in_front_of_a_sequence(servers: Servers) -> None:
    log = servers.log()
    for number in range(5):
        log.append(b"x", number)
    log.purge(4)
    assert log.bounds()[:2] == (4, 5)
    assert [each.sequence for each in log.read(1)] == [4, 5]
    assert log.append(b"x", 5) == 6


@pytest.mark.parametrize("number", range(3))
def test_approaches_the_leader_of_the_stream(three: Sequence[NatsServer], number: int) -> None:
    with closing(NatsConnection(NatsOptions([three[number].address, *[each.address for each in three]]))) as connection:
        log = StreamLog(JetStream(connection), "near")
        log.make(3)
        log.approach()
        assert connection.info["server_name"] == JetStream(connection).call("STREAM.INFO.GW_near")["cluster"]["leader"]
        log.approach()
        assert log.append(b"", log.bounds().last) == log.bounds().last


def test_says_so_when_it_is_not_there(cluster: ACluster) -> None:
    with pytest.raises(LogUnavailable):
        cluster.servers.log().bounds()


class Server:
    """The requests of the log to a server, and what it answers."""

    def __init__(self, jets: JetStream) -> None:
        self.connection = jets.connection
        self.append, self.read = jets.append, jets.read
        self.state = {"first_seq": 1, "last_seq": 1, "bytes": 1}
        self.cluster: dict[str, str] = {"leader": "n0"}
        self.left = 0
        self.connection.leave = self.leave  # type: ignore[method-assign]

    def call(self, verb: str, **_: object) -> dict[str, object]:
        return {"state": self.state, "cluster": self.cluster}

    def leave(self) -> None:
        self.left += 1


@pytest.fixture
def server(cluster: ACluster) -> Iterator[Server]:
    cluster.made()
    with closing(NatsConnection(NatsOptions([cluster.server.address]))) as connection:
        yield Server(JetStream(connection))


@pytest.mark.parametrize("reads", [True, False])
def test_a_server_that_shows_less_than_was_seen_is_left(server: Server, cluster: ACluster, *, reads: bool) -> None:
    """It leads no more, and does not know it."""
    writer, log = cluster.servers.log(), StreamLog(cast("JetStream", server), cluster.name)
    for number in range(2):
        (writer if reads else log).append(b"", number)
    assert server.left == 0
    if reads:
        log.read(1)
    assert log.bounds().last == 1
    assert server.left == 1


def test_a_server_without_a_leader_is_left(server: Server, cluster: ACluster) -> None:
    log = StreamLog(cast("JetStream", server), cluster.name)
    assert log.bounds().last == 1
    server.cluster = {}
    with pytest.raises(LogUnavailable, match=r"^the log of the cluster has no leader$"):
        log.bounds()
    assert server.left == 1


@pytest.mark.slow
def test_tells_which_servers_hold_it(tmp_path: Path) -> None:
    with nats_servers(tmp_path, 3) as found:
        options = NatsOptions([each.address for each in found])
        with Servers(lambda purpose: options, "servers") as servers:
            log = servers.log()
            log.make(3)
            leader, *others = log.bounds().servers
            assert (leader.leads, leader.is_current, [each.leads for each in others]) == (True, True, [False, False])
            assert {each.name for each in (leader, *others)} == {each.name for each in found}
            [lost] = [each for each in found if each.name == others[0].name]
            lost.kill()
            until = time.monotonic() + PATIENCE
            while all(each.is_current for each in log.bounds().servers):
                assert time.monotonic() < until, "nothing tells that it is away"
                time.sleep(0.2)
            assert [each.name for each in log.bounds().servers if not each.is_current] == [lost.name]


def without_an_answer(connection: socket.socket) -> None:
    """It is there, and knows no leader: it answers PINGs alone."""
    greet(connection)
    while said := connection.recv(65_536):
        if b"PING" in said:
            connection.sendall(b"PONG\r\n")


def test_a_log_without_a_leader_is_not_waited_for() -> None:
    """Meanwhile the lease may end."""
    with serving(without_an_answer) as server, closing(NatsConnection(NatsOptions([server]))) as connection:
        began = time.monotonic()
        with pytest.raises(LogUnavailable, match="the servers choose a leader, or have no majority"):
            StreamLog(JetStream(connection), "c").bounds()
        assert time.monotonic() - began < 2 * LOOK_TIMEOUT + 4.0


def test_a_log_whose_messages_end_by_themselves_is_refused(cluster: ACluster, servers: Servers) -> None:
    with closing(NatsConnection(NatsOptions([cluster.server.address]))) as connection:
        jets, name = JetStream(connection), stream_of(cluster.name)
        config = jets.call(f"STREAM.INFO.{name}")["config"] | {"max_age": 3_600_000_000_000}
        jets.call(f"STREAM.UPDATE.{name}", config)
    with pytest.raises(NatsRefused, match="its max_age is 3600000000000 and not 0"):
        servers.log().make(1)
