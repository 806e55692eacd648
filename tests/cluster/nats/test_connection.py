"""One connection: it is made again when a server goes, and no call lasts longer than it may."""

from __future__ import annotations

import errno
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gateway.cluster.nats.connection import SILENCE, NatsConnection, NatsOptions, ServerAddress
from gateway.cluster.nats.credentials import CredentialsError, NatsCredentials
from gateway.cluster.nats.faults import About, NatsRefused, NatsUnavailable, NoResponders
from tests.cluster.nats.scripted import GOOD, Script, answer, greet, read_until, serving
from tests.cluster.servers import PATIENCE, NatsServer, nats_servers
from tests.gateway_process import free_ports

INFO = "$JS.API.INFO"
LONG = bytes(64 * 1024 * 1024)
"""More than the buffers of the system hold."""
MARGIN = 4.0
"""Seconds that a call may be late on a machine that is shared."""


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_servers(tmp_path_factory.mktemp("nats"), 1) as (server,):
        yield server


@contextmanager
def connected(*servers: ServerAddress) -> Iterator[NatsConnection]:
    with closing(NatsConnection(NatsOptions(servers))) as connection:
        yield connection


def closed_port() -> ServerAddress:
    return ServerAddress("127.0.0.1", free_ports(1)[0])


def silent(connection: socket.socket) -> None:
    """Take a connection, and say nothing."""
    read_until(connection, b"never")


def bounded(call: Callable[[], object], seconds: float) -> str:
    """The sentence of a call that fails, and in time."""
    began = time.monotonic()
    with pytest.raises(NatsUnavailable) as error:
        call()
    assert time.monotonic() - began < seconds + MARGIN
    return str(error.value)


class TestServersThatGo:
    def test_between_two_requests(self, tmp_path: Path) -> None:
        with nats_servers(tmp_path, 1, "debug: false") as (server,), connected(server.address) as ours:
            assert ours.request(INFO).payload
            server.kill()
            assert (
                bounded(lambda: ours.request(INFO), 1)
                == f"the NATS server {server.address} cannot be reached: Connection refused"
            )
            assert not ours.info
            server.start()
            server.await_port()
            assert ours.request(INFO).payload

    def test_within_a_request(self, tmp_path: Path) -> None:
        with nats_servers(tmp_path, 1, "debug: false") as (server,), connected(server.address) as ours:
            answers = ours.request_many(INFO, timeout=PATIENCE)
            assert next(answers).payload
            server.kill()
            assert bounded(lambda: next(answers), 1) == f"the NATS server n0 ({server.address}) closed the connection"

    def test_several_of_which_some_are_down(self, nats: NatsServer) -> None:
        down = closed_port(), closed_port()
        with connected(*down, nats.address) as ours, serving(silent) as mute:
            assert ours.request(INFO).payload
            ours.close()
            assert ours.request(INFO).payload
            with connected(down[0], mute) as others:
                said = bounded(lambda: others.request(INFO, timeout=1.5), 1.5)
        assert (
            said
            == f"no NATS server can be used: {down[0]} cannot be reached: Connection refused; {mute} does not answer"
        )

    def test_one_that_is_about_to_stop(self, tmp_path: Path) -> None:
        more = 'lame_duck_duration: "30s"\nlame_duck_grace_period: "5s"'
        asked = 0.0
        with nats_servers(tmp_path, 2, more) as servers, connected(*[each.address for each in servers]) as ours:
            # The server itself answers that nothing listens, however far it has stopped already.
            while True:
                with pytest.raises(NoResponders):
                    ours.request("nothing")
                if ours.info["server_name"] == "n1":
                    break
                if not asked:
                    servers[0].signal(signal.SIGUSR2)
                    asked = time.monotonic()
                assert time.monotonic() < asked + PATIENCE
                time.sleep(0.02)
            assert servers[0].process is not None
            assert servers[0].process.poll() is None  # the client has left before it was closed

    def test_a_request_to_one_that_is_about_to_stop(self, nats: NatsServer) -> None:
        """Its answer may be lost: the next server gets the request the sooner."""

        def script(connection: socket.socket) -> None:
            greet(connection)
            read_until(connection, b"\r\n\r\n")
            connection.sendall(b'INFO {"ldm":true}\r\n')
            silent(connection)

        with serving(script) as server, connected(server, nats.address) as ours:
            assert "does not answer" in bounded(lambda: ours.request(INFO, timeout=PATIENCE), 1)
            assert ours.request(INFO).payload
            assert ours.info["server_name"] == "n0"

    def test_a_server_that_stands_still_costs_its_share_of_the_time(self, nats: NatsServer) -> None:
        """A lease must be renewed within seconds, even if the first server has just been stopped."""
        with serving(greeting_and_silence) as mute, connected(mute, nats.address) as ours:
            assert "does not answer" in bounded(lambda: ours.request(INFO, timeout=0.3), 0.3)
            assert ours.request(INFO, timeout=1.5).payload
        with serving(silent) as mute, connected(mute, nats.address) as ours:
            assert ours.request(INFO, timeout=1.5).payload


class TestServersThatAreLost:
    """Nothing tells of it: the machine is off, or the network is cut."""

    def test_costs_a_second_and_not_the_time_of_the_call(self, nats: NatsServer) -> None:
        with serving(greeting_and_silence) as mute, connected(mute, nats.address) as ours:
            assert "does not answer" in bounded(lambda: ours.request(INFO, timeout=PATIENCE), 2 * SILENCE)
            assert ours.request(INFO).payload

    def test_one_that_takes_nothing(self, nats: NatsServer) -> None:
        over = threading.Event()

        def script(connection: socket.socket) -> None:
            greet(connection, GOOD | {"max_payload": len(LONG)})
            over.wait(PATIENCE)

        with serving(script) as full, connected(full, nats.address) as ours:
            assert "does not answer" in bounded(lambda: ours.request(INFO, LONG, timeout=PATIENCE), 2 * SILENCE)
            over.set()

    def test_one_that_works_long_is_waited_for(self) -> None:
        def script(connection: socket.socket) -> None:
            inbox = greet(connection)
            read_until(connection, b"\r\n\r\n")
            for _ in range(4):
                assert read_until(connection, b"PING\r\n")
                connection.sendall(b"PONG\r\n")
            answer(connection, inbox, 1, b"late")
            silent(connection)

        with serving(script) as server, connected(server) as ours:
            began = time.monotonic()
            assert ours.request("a", timeout=PATIENCE).payload == b"late"
            assert time.monotonic() - began >= 4 * SILENCE

    def test_one_that_has_no_answer_is_not_called_lost(self) -> None:
        def script(connection: socket.socket) -> None:
            greet(connection)
            while read_until(connection, b"PING\r\n"):
                connection.sendall(b"PONG\r\n")

        with serving(script) as server, connected(server) as ours:
            said = bounded(lambda: ours.request("a", timeout=2.5 * SILENCE), 3 * SILENCE)
            assert said == (
                f"the NATS server scripted ({server}) answers, and JetStream does not: the servers choose a leader, or "
                "have no majority"
            )


class TestMoves:
    """To a server that is better than the one in use."""

    def test_to_the_one_that_is_named(self, nats: NatsServer) -> None:
        with serving(greeting_and_silence) as other, connected(other, closed_port(), nats.address) as ours:
            ours.move_to("n0")
            assert ours.info["server_name"] == "n0"
            ours.move_to("n0")
            assert ours.request(INFO).payload

    def test_to_none_that_answers_soon(self, nats: NatsServer) -> None:
        with serving(silent) as mute, connected(nats.address, closed_port(), mute) as ours:
            assert ours.request(INFO).payload
            began = time.monotonic()
            ours.move_to("n9")
            assert time.monotonic() - began < MARGIN
            assert ours.request(INFO).payload
            assert ours.info["server_name"] == "n0"


def greeting_and_silence(connection: socket.socket) -> None:
    greet(connection)
    silent(connection)


def closing_at_once(connection: socket.socket) -> None:
    pass


def speaking_http(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1\r\n\r\n")
    silent(connection)


def saying(reason: str) -> Script:
    """A server that ends a connection for a reason, once a request has come."""

    def script(connection: socket.socket) -> None:
        greet(connection)
        read_until(connection, b"\r\n\r\n")
        connection.sendall(f"-ERR '{reason}'\r\n".encode())

    return script


class TestSentences:
    @pytest.mark.parametrize(
        ("script", "sentence"),
        [
            (silent, "the NATS server {} does not answer"),
            (greeting_and_silence, "the NATS server scripted ({}) does not answer"),
            (closing_at_once, "the NATS server {} closed the connection"),
            (
                speaking_http,
                "the NATS server {} is not understood: it sent b'HTTP/1.1', which is no operation of its protocol",
            ),
            (saying("Stale Connection"), "the NATS server scripted ({}) ends the connection: Stale Connection"),
            (saying("Maximum Connections"), "the NATS server scripted ({}) ends the connection: Maximum Connections"),
        ],
    )
    def test_a_server_that_does_not_answer(self, script: Script, sentence: str) -> None:
        with serving(script) as server, connected(server) as ours:
            assert bounded(lambda: ours.request("a", timeout=0.6), 0.6) == sentence.format(server)

    def test_a_name_that_is_none(self) -> None:
        with connected(ServerAddress("host.invalid", 4222)) as ours:
            assert bounded(lambda: ours.request("a"), 20).startswith("the NATS server host.invalid:4222 is not found: ")

    def test_an_address_that_cannot_be_reached(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(*_: object, **__: object) -> None:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

        monkeypatch.setattr(socket, "create_connection", fails)
        with connected(ServerAddress("2001:db8::1", 4222)) as ours:
            said = bounded(lambda: ours.request("a"), 1)
        assert said == "the NATS server [2001:db8::1]:4222 cannot be reached: Network is unreachable"

    def test_nothing_listens(self, nats: NatsServer) -> None:
        with connected(nats.address) as ours:
            with pytest.raises(NoResponders) as error:
                ours.request("a.b")
            assert str(error.value) == f"nothing listens at a.b of the NATS server n0 ({nats.address})"
            assert ours.info  # the connection stays

    def test_all_refuse_or_some_may_come(self) -> None:
        def old(connection: socket.socket) -> None:
            greet(connection, GOOD | {"version": "2.9.10"})

        def demand(info: object) -> str:
            return "is too old"

        with serving(old) as first, serving(old) as second:
            both = NatsConnection(NatsOptions([first, second], demand=demand))
            with pytest.raises(NatsRefused) as refused:
                both.request("a")
            assert str(refused.value) == f"no NATS server can be used: {first} is too old; {second} is too old"
            assert refused.value.about is About.SERVER
            one = NatsConnection(NatsOptions([first, closed_port()], demand=demand))
            with pytest.raises(NatsUnavailable) as error:
                one.request("a")
            assert not isinstance(error.value, NatsRefused)

    def test_credentials_that_have_become_unusable(self, nats: NatsServer) -> None:
        def credentials() -> NatsCredentials:
            raise CredentialsError("the file is gone")

        ours = NatsConnection(NatsOptions([nats.address], credentials=credentials))
        with pytest.raises(NatsRefused, match=r"^the file is gone$"):
            ours.request("a")


class TestAnIdleConnection:
    def test_pings_are_answered_with_the_next_request(self) -> None:
        def script(connection: socket.socket) -> None:
            inbox = greet(connection)
            read_until(connection, b"\r\n\r\n")
            connection.sendall(b"PING\r\n")
            answer(connection, inbox, 1, b"1")
            connection.sendall(b"PING\r\n")
            said = b""
            while said.count(b"PONG\r\n") < 2 or b"PUB" not in said:
                said += connection.recv(1_000)
            answer(connection, inbox, 2, b"2")
            silent(connection)

        with serving(script) as server, connected(server) as ours:
            assert [ours.request("a").payload for _ in range(2)] == [b"1", b"2"]

    def test_the_server_may_end_it(self, tmp_path: Path) -> None:
        more = 'ping_interval: "200ms"\nping_max: 1\ndebug: true'
        with nats_servers(tmp_path, 1, more) as (server,), connected(server.address) as ours:
            assert ours.request(INFO).payload
            first = ours.info["client_id"]
            server.await_log("Stale Client Connection")
            assert ours.request(INFO).payload
            assert ours.info["client_id"] != first

    def test_a_connection_in_use_stays(self, tmp_path: Path) -> None:
        more = 'ping_interval: "200ms"\nping_max: 2\ndebug: true'
        with nats_servers(tmp_path, 1, more) as (server,), connected(server.address) as ours:
            assert ours.request(INFO).payload
            first = ours.info["client_id"]
            until = time.monotonic() + 2
            while time.monotonic() < until:
                assert ours.request(INFO).payload
                time.sleep(0.02)
            assert ours.info["client_id"] == first
            assert "Stale" not in server.log


class TestAnswers:
    def test_late_ones_are_passed_over(self) -> None:
        def script(connection: socket.socket) -> None:
            inbox = greet(connection)
            for number in range(1, 4):
                read_until(connection, b"\r\n\r\n")
                for late in range(number):
                    answer(connection, inbox, late, b"late")
                answer(connection, inbox, number, b"%d" % number)
                answer(connection, inbox, number, b"again")
            silent(connection)

        with serving(script) as server, connected(server) as ours:
            assert [ours.request("a").payload for _ in range(3)] == [b"1", b"2", b"3"]

    def test_of_a_request_that_took_too_long(self) -> None:
        """It comes to a connection that is closed: the next request has a new one."""
        with serving(greeting_and_silence, answering) as server, connected(server) as ours:
            bounded(lambda: ours.request("a", timeout=0.2), 0.2)
            assert ours.request("a").payload == b"1"

    def test_several_for_one_request(self) -> None:
        def script(connection: socket.socket) -> None:
            inbox = greet(connection)
            read_until(connection, b"\r\n\r\n")
            for each in (b"x", b"y"):
                answer(connection, inbox, 1, each)
            connection.sendall(b"HMSG %s.1 1 16 16\r\nNATS/1.0 204\r\n\r\n\r\n" % inbox.encode())
            silent(connection)

        with serving(script) as server, connected(server) as ours:
            assert [(each.payload, each.status) for each in ours.request_many("a")] == [
                (b"x", 0),
                (b"y", 0),
                (b"", 204),
            ]

    @pytest.mark.parametrize("step", [1, 7])
    def test_that_come_in_pieces(self, step: int) -> None:
        def script(connection: socket.socket) -> None:
            inbox = greet(connection)
            read_until(connection, b"\r\n\r\n")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            data = b"MSG %s.1 1 10\r\n0123456789\r\n" % inbox.encode()
            for place in range(0, len(data), step):
                connection.sendall(data[place : place + step])
            silent(connection)

        with serving(script) as server, connected(server) as ours:
            assert ours.request("a").payload == b"0123456789"


def answering(connection: socket.socket) -> None:
    inbox = greet(connection)
    for number in range(1, 100):
        if not read_until(connection, b"\r\n\r\n"):
            return
        answer(connection, inbox, number, b"%d" % number)


class TestLongMessages:
    def test_up_to_what_the_server_takes(self, tmp_path: Path) -> None:
        with nats_servers(tmp_path, 1, "max_payload: 5000") as (server,), connected(server.address) as ours:
            for headers in (None, {"A": "b"}):
                block = len("NATS/1.0\r\nA: b\r\n\r\n") if headers else 0
                with pytest.raises(NoResponders):
                    ours.request("a", bytes(5_000 - block), headers)
                with pytest.raises(NatsRefused) as refused:
                    ours.request("a", bytes(5_001 - block), headers)
                assert str(refused.value) == (
                    f"the NATS server n0 ({server.address}) takes messages up to 5,000 bytes (max_payload), "
                    "and not one of 5,001"
                )
                assert refused.value.about is About.SERVER
                assert ours.info  # nothing was sent, so the connection stays

    def test_a_server_that_does_not_read(self) -> None:
        def script(connection: socket.socket) -> None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            greet(connection, GOOD | {"max_payload": 1 << 26})
            done.recv(1)

        done, end = socket.socketpair()
        with done, end, serving(script) as server, connected(server) as ours:
            said = bounded(lambda: ours.request("a", bytes(1 << 25), timeout=0.5), 0.5)
            assert said == f"the NATS server scripted ({server}) does not answer"
            end.sendall(b"x")
