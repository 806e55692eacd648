"""JetStream's answers: what is for now, what is final, and a stream that is there already."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.cluster.nats.connection import NatsConnection, NatsOptions, ServerAddress
from gateway.cluster.nats.credentials import NatsCredentials
from gateway.cluster.nats.faults import About, NatsRefused, NatsUnavailable
from gateway.cluster.nats.jetstream import BY_LEADER, JetStream, JetStreamError
from tests.cluster.conftest import ACluster
from tests.cluster.nats.scripted import answer, greet, read_until, serving
from tests.cluster.servers import nats_servers

NO_JETSTREAM = "accounts { A: { users: [{user: a, password: a}] } }"


@contextmanager
def jetstream(address: ServerAddress, *credentials: str) -> Iterator[JetStream]:
    options = NatsOptions([address], credentials=lambda: NatsCredentials(*credentials))
    with closing(NatsConnection(options)) as connection:
        yield JetStream(connection)


def stream(name: str, **more: object) -> dict[str, Any]:
    return {"name": name, "subjects": [name], "storage": "file", "num_replicas": 1, "discard": "new", **more}


def refused(call: Callable[[], object]) -> NatsUnavailable:
    with pytest.raises(NatsUnavailable) as error:
        call()
    return error.value


class TestMake:
    def test_again(self, cluster: ACluster) -> None:
        """Also if an operator has given it what the gateway does not ask for."""
        with jetstream(cluster.server.address) as jets:
            config = stream(cluster.name)
            for _ in range(2):
                jets.make(config)
            jets.call(f"STREAM.UPDATE.{cluster.name}", config | {"max_bytes": 1_000_000, "description": "ours"})
            jets.make(config)

    def test_with_fewer_or_more_replicas_than_asked_for(self, tmp_path: Path) -> None:
        with nats_servers(tmp_path, 3) as servers, jetstream(servers[0].address) as jets:
            jets.make(stream("one"))
            error = refused(lambda: jets.make(stream("one", num_replicas=3)))
            jets.make(stream("three", num_replicas=3))
            jets.make(stream("three", num_replicas=1))
        assert str(error) == "the stream one has 1 replicas: `nats stream edit one --replicas 3` makes more"
        assert isinstance(error, NatsRefused)
        assert error.about is About.REPLICAS

    def test_with_another_configuration(self, cluster: ACluster) -> None:
        with jetstream(cluster.server.address) as jets:
            jets.make(stream(cluster.name))
            error = refused(lambda: jets.make(stream(cluster.name, discard="old")))
        assert str(error) == f"the stream {cluster.name} is there already, and its discard is new and not old"
        assert isinstance(error, NatsRefused)

    def test_on_a_server_that_is_alone(self, cluster: ACluster) -> None:
        with jetstream(cluster.server.address) as jets:
            error = refused(lambda: jets.make(stream(cluster.name, num_replicas=3)))
        assert str(error) == f"the NATS server n0 ({cluster.server.address}) is alone: it cannot hold 3 replicas"
        assert isinstance(error, NatsRefused)
        assert error.about is About.REPLICAS

    def test_on_fewer_servers_than_replicas(self, tmp_path: Path) -> None:
        """More may join: it is worth waiting."""
        with nats_servers(tmp_path, 2) as servers, jetstream(servers[0].address) as jets:
            error = refused(lambda: jets.make(stream("s", num_replicas=3)))
        assert str(error).startswith("fewer than 3 NATS servers can hold the stream s: no suitable peers")
        assert not isinstance(error, NatsRefused)
        assert error.about is About.REPLICAS

    def test_with_more_room_than_there_is(self, cluster: ACluster) -> None:
        with jetstream(cluster.server.address) as jets:
            error = refused(lambda: jets.make(stream(cluster.name, max_bytes=1 << 50)))
        assert (
            str(error) == f"JetStream does not make the stream {cluster.name}: insufficient storage resources available"
        )
        assert isinstance(error, NatsRefused)


def test_that_is_off_at_the_server(tmp_path: Path) -> None:
    with nats_servers(tmp_path, 1, "jetstream: disabled") as (server,), jetstream(server.address) as jets:
        error = refused(lambda: jets.call("INFO"))
    assert str(error).startswith(f"JetStream is off at the NATS server n0 ({server.address}): ")
    assert isinstance(error, NatsRefused)


def test_that_is_off_for_the_account(tmp_path: Path) -> None:
    with nats_servers(tmp_path, 1, NO_JETSTREAM) as (server,), jetstream(server.address, "a", "a") as jets:
        with pytest.raises(JetStreamError) as error:
            jets.call("INFO")
        assert str(error.value) == "JetStream not enabled for account"


def test_a_stream_that_is_not_there(cluster: ACluster) -> None:
    with jetstream(cluster.server.address) as jets:
        assert str(refused(lambda: jets.append("no.where", b"", {}))) == "the stream of no.where has no leader"
        error = refused(lambda: list(jets.read("nowhere", 1, 1, 1, subject=">")))
        assert str(error) == "no server has the stream nowhere, or it has no leader"


def without_responders(connection: socket.socket, inbox: str) -> None:
    connection.sendall(b"HMSG %s.1 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n" % inbox.encode())


def without_leader(connection: socket.socket, inbox: str) -> None:
    answer(connection, inbox, 1, b'{"error":{"code":503,"err_code":10008,"description":"temporarily"}}')


@pytest.mark.parametrize("says", [without_responders, without_leader])
def test_a_server_that_knows_no_leader_may_be_cut_off(says: Callable[..., None], cluster: ACluster) -> None:
    """The next request goes to another one."""

    def script(connection: socket.socket) -> None:
        inbox = greet(connection)
        read_until(connection, b"\r\n\r\n")
        says(connection, inbox)
        read_until(connection, b"never")

    name, address = cluster.name, cluster.server.address
    with jetstream(address) as jets:
        jets.make(stream(name, allow_direct=True))
    asks: list[Callable[[JetStream], object]] = [
        lambda jets: jets.append(name, b"", {}),
        lambda jets: jets.call(f"STREAM.INFO.{name}"),
    ]
    if says is without_responders:
        asks.append(lambda jets: list(jets.read(name, 1, 1, 1_000, subject=name)))
    for ask in asks:
        with serving(script) as alone, closing(NatsConnection(NatsOptions([alone, address]))) as connection:
            jets = JetStream(connection)
            with pytest.raises(NatsUnavailable):
                ask(jets)
            assert ask(jets)


def test_a_server_that_is_cut_off_may_get_the_direct_gets_of_others() -> None:
    """Then the leader is asked, over the same connection, and for a while at once."""
    asked: list[str] = []

    def script(connection: socket.socket) -> None:
        greet(connection)
        while said := connection.recv(65_536):
            head, _, body = said.partition(b"\r\n")
            if head == b"PING":
                connection.sendall(b"PONG\r\n")
                continue
            _, subject, reply, _ = head.split()
            asked.append(subject.decode().removeprefix("$JS.API.").removesuffix(".s"))
            if asked[-1] == "STREAM.MSG.GET":
                values = json.loads(body)
                told: dict[str, Any] = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
                if values["seq"] <= 5:
                    told = {"message": {"subject": "a", "seq": values["seq"] + 1, "data": encoded}}
                payload = json.dumps(told).encode()
                connection.sendall(b"MSG %s 1 %d\r\n%s\r\n" % (reply, len(payload), payload))

    encoded = base64.b64encode(b"four").decode()
    now = 0.0
    with serving(script) as server, closing(NatsConnection(NatsOptions([server]))) as connection:
        jets = JetStream(connection, clock=lambda: now)

        def sequences(most: int = 10, nbytes: int = 100) -> list[int]:
            asked.clear()
            return [each.sequence for each in jets.read("s", 1, most, nbytes, subject="a") if each.payload == b"four"]

        assert sequences() == [2, 4, 6]
        assert asked == ["DIRECT.GET", *["STREAM.MSG.GET"] * 4]
        assert sequences(most=2) == sequences(nbytes=5) == [2, 4]
        assert "DIRECT.GET" not in asked
        now += BY_LEADER
        assert sequences(most=1) == [2]
        assert "DIRECT.GET" in asked


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        (b"", "JetStream answers b'', which is no JSON object"),
        (b"[]", "JetStream answers b'[]', which is no JSON object"),
        (b"[" * 100_000, "JetStream answers "),
        (
            b'{"error":{"code":503,"err_code":10008,"description":"temporarily"}}',
            "JetStream cannot answer for now: temp",
        ),
    ],
    ids=range(4),
)
def test_an_answer_that_helps_nothing(payload: bytes, sentence: str) -> None:
    def script(connection: socket.socket) -> None:
        inbox = greet(connection)
        read_until(connection, b"\r\n\r\n")
        answer(connection, inbox, 1, payload)
        read_until(connection, b"never")

    with serving(script) as server, jetstream(server) as jets:
        assert str(refused(lambda: jets.call("INFO"))).startswith(sentence)
