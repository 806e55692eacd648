"""`gateway push` as a process, between a gateway and an endpoint."""

from __future__ import annotations

import http.client
import json
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.client import Client, StompServer
from tests.deploy.manager import manager
from tests.gateway_process import HOST, GatewayProcess, free_ports
from tests.logged_command import eventually

from .endpoint import Got, is_signed, running
from .pushing import Push, pushing, send, url, waiting

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def ask(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def samples(port: int) -> dict[str, float]:
    """What /metrics has: name, or its outcome -> number."""
    every = [each for family in text_string_to_metric_families(ask(port, "/metrics")[1]) for each in family.samples]
    return {each.labels.get("outcome") or each.name: each.value for each in every if "gateway_push" in each.name}


def is_ready(port: int) -> bool:
    with suppress(OSError):
        return ask(port, "/readyz")[0] == 200
    return False


class TestAnswers:
    def test_each_kind(self, gateway: GatewayProcess, server: StompServer, name: str, tmp_path: Path) -> None:
        """Taken, refused, failed twice and then taken; with the pages of the monitoring."""
        (port,) = free_ports(1)
        queue, left = f"/queue/{name}", {"fails": 2}

        def answering(got: Got) -> int | tuple[int, dict[str, str], bytes]:
            if got.body == b"bad":
                return 422, {"Content-Type": "text/plain"}, b"no such order"
            if got.body == b"late" and left["fails"]:
                left["fails"] -= 1
                return 500
            return 204

        (tmp_path / "a.secret").write_text(f"{SECRET}\n")
        with running(answering) as endpoint:
            words = ("--server", url(gateway), "--allow-private", "--secret-file", "a.secret")
            with pushing(tmp_path, *words, "--http", f"{HOST}:{port}", queue, endpoint.url) as push:
                push.wait_for("pushing")
                send(server, queue, "good", "bad", "late", content_type="text/plain", tenant="7")
                eventually(lambda: endpoint.bodies.count(b"late") == 3, lambda: push.log)
                eventually(lambda: samples(port)["gateway_push_in_flight"] == 0)
                assert ask(port, "/healthz") == (200, '{"status": "alive"}\n')
                assert is_ready(port)
                found = samples(port)
        assert (found["taken"], found["refused"], found["failed"]) == (2, 1, 2)
        assert found["gateway_push_bytes_total"] == len("goodlate")
        assert found["gateway_push_connected"] == found["gateway_push_endpoint_up"] == 1
        assert found["gateway_push_request_seconds_count"] == 5
        assert all(is_signed(got, SECRET) for got in endpoint.requests)
        assert {got.headers["content-type"] for got in endpoint.requests} == {"text/plain"}
        assert {got.headers["stomp-tenant"] for got in endpoint.requests} == {"7"}
        assert len({got.id for got in endpoint.requests if got.body == b"late"}) == 1
        assert waiting(server, queue) == []
        ((headers, body),) = waiting(server, f"/queue/dlq.{name}")
        assert (body, headers["reason"]) == ("bad", "the endpoint answered 422: no such order")
        (told,) = push.events("a message is refused")
        assert told["reason"] == headers["reason"]
        (line,) = push.events("pushed")
        assert (line["taken"], line["refused"], line["failed"], line["held"]) == (2, 1, 2, 0)

    def test_as_many_at_the_same_time_as_allowed(
        self, gateway: GatewayProcess, server: StompServer, name: str, tmp_path: Path
    ) -> None:
        queue, go, lock = f"/queue/{name}", threading.Event(), threading.Lock()
        now, most = 0, 0

        def answering(got: Got) -> int:
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            go.wait(20)
            with lock:
                now -= 1
            return 204

        send(server, queue, *map(str, range(9)))
        with running(answering) as endpoint:
            words = ("--server", url(gateway), "--allow-private", "--concurrency", "3", "--timeout", "30s")
            with pushing(tmp_path, *words, queue, endpoint.url) as push:
                eventually(lambda: now == 3, lambda: push.log)
                go.set()
                eventually(lambda: len(endpoint.requests) == 9, lambda: push.log)
        assert most == 3
        assert waiting(server, queue) == []

    def test_an_endpoint_that_asks_for_time(
        self, gateway: GatewayProcess, server: StompServer, name: str, tmp_path: Path
    ) -> None:
        """The message stays with the push, so it is no failed attempt."""
        queue, first = f"/queue/{name}", [True]

        def answering(got: Got) -> int | tuple[int, dict[str, str], bytes]:
            return (503, {"Retry-After": "1"}, b"") if first and first.pop() else 204

        send(server, queue, "a")
        words = ("--server", url(gateway), "--allow-private", queue)
        with running(answering) as endpoint, pushing(tmp_path, *words, endpoint.url) as push:
            eventually(lambda: len(endpoint.requests) == 2, lambda: push.log)
            push.wait_for("the endpoint works again")
        assert "stomp-redelivered" not in endpoint.requests[1].headers

    def test_slower_than_the_time_for_an_ack(
        self, gateway: GatewayProcess, server: StompServer, name: str, tmp_path: Path
    ) -> None:
        """The push says that the message is in progress, so it comes once."""
        queue = f"/queue/{name}.short"

        def answering(got: Got) -> int:
            threading.Event().wait(2.5)
            return 204

        send(server, queue, "a")
        with running(answering) as endpoint:
            words = ("--server", url(gateway), "--allow-private", "--concurrency", "1", queue, endpoint.url)
            with pushing(tmp_path, *words) as push:
                eventually(lambda: len(endpoint.requests) == 1, lambda: push.log)
        assert len(endpoint.requests) == 1, "SIGTERM waits for what is under way"
        assert waiting(server, queue) == []


class TestOutages:
    def test_no_endpoint(self, gateway: GatewayProcess, server: StompServer, name: str, tmp_path: Path) -> None:
        """No attempt is lost while there is no connection."""
        port, http_port = free_ports(2)
        queue = f"/queue/{name}"
        send(server, queue, "a", "b")
        words = ("--server", url(gateway), "--allow-private", "--http", f"{HOST}:{http_port}")
        with pushing(tmp_path, *words, queue, f"http://{HOST}:{port}/hook") as push:
            push.wait_for("the endpoint is down")
            status, said = ask(http_port, "/readyz")
            assert status == 503
            assert f"http://{HOST}:{port}/hook is down: cannot connect" in json.loads(said)["error"]
            assert ask(http_port, "/healthz")[0] == 200
            with running(port=port) as endpoint:
                eventually(lambda: sorted(endpoint.bodies) == [b"a", b"b"], lambda: push.log)
                push.wait_for("the endpoint works again")
        assert not any("stomp-redelivered" in got.headers for got in endpoint.requests)

    def test_a_server_that_restarts(self, name: str, tmp_path: Path) -> None:
        """The log tells of it once, in lines of its own."""
        (tmp_path / "own").mkdir()
        own, queue = GatewayProcess(tmp_path / "own", {}), f"/queue/{name}"
        there = StompServer(HOST, own.tcp_port)
        words = ("--server", url(own), "--allow-private", queue)
        with own.running(), running() as endpoint, pushing(tmp_path, *words, endpoint.url) as push:
            push.wait_for("pushing")
            send(there, queue, "a")
            eventually(lambda: endpoint.bodies == [b"a"], lambda: push.log)
            own.kill()
            push.wait_for("the server is away")
            own.start()
            push.wait_for("the server works again")
            send(there, queue, "b")
            eventually(lambda: endpoint.bodies == [b"a", b"b"], lambda: push.log)
        assert len(push.events("the server is away")) == 1
        assert all(line.startswith("{") for line in push.log.splitlines())

    def test_no_server_yet(self, name: str, tmp_path: Path) -> None:
        (port,) = free_ports(1)
        words = ("--server", f"stomp://{HOST}:{port}", "--allow-private")
        with pushing(tmp_path, *words, f"/queue/{name}", f"http://{HOST}:1/") as push:
            (line, *_) = push.wait_for("the server is away")
        assert "no server listens there" in line["reason"]

    def test_two_tables_and_one_of_them_fails(
        self, gateway: GatewayProcess, server: StompServer, name: str, tmp_path: Path
    ) -> None:
        (port,) = free_ports(1)
        with running() as endpoint:
            table = '[[push]]\nsource = "/queue/{}"\nurl = "{}"\nallow_private = true\n'
            tables = table.format(f"{name}.1", f"http://{HOST}:{port}/") + table.format(f"{name}.2", endpoint.url)
            (tmp_path / "push.toml").write_text(f'server = "{url(gateway)}"\n{tables}')
            send(server, f"/queue/{name}.1", "a")
            send(server, f"/queue/{name}.2", "b")
            with pushing(tmp_path, "--config", "push.toml") as push:
                eventually(lambda: endpoint.bodies == [b"b"], lambda: push.log)
        assert [body for _, body in waiting(server, f"/queue/{name}.1")] == ["a"]


class TestEvents:
    def test_to_an_endpoint(self, gateway: GatewayProcess, server: StompServer, tmp_path: Path) -> None:
        """The settings of the gateway name a queue, and it is pushed like any other."""
        with running() as endpoint:
            words = ("--server", url(gateway), "--allow-private", "--concurrency", "1", "/queue/events", endpoint.url)
            with pushing(tmp_path, *words) as push:
                push.wait_for("pushing")
                client = Client(server)
                client.request("SUBSCRIBE", {"id": "0", "destination": "/topic/room.7"})
                client.disconnect()
                eventually(lambda: len(endpoint.requests) >= 3, lambda: push.log)
        told = [json.loads(got.body) for got in endpoint.requests]
        assert [each["type"] for each in told] == ["gateway.started", "destination.occupied", "destination.vacated"]
        assert told[1]["data"] == {"destination": "/topic/room.7"}
        assert endpoint.requests[1].headers["stomp-event"] == "destination.occupied"


class TestTheProcess:
    def test_ctrl_c(self, gateway: GatewayProcess, name: str, tmp_path: Path) -> None:
        push = Push(tmp_path, "--server", url(gateway), f"/queue/{name}", "https://shop.example/")
        push.wait_for("pushing")
        assert push.stop(signal.SIGINT) == 130

    def test_a_queue_that_is_refused(self, gateway: GatewayProcess, tmp_path: Path) -> None:
        push = Push(tmp_path, "--server", url(gateway), "/nowhere/a", "https://shop.example/")
        assert push.end() == 1
        assert push.log.splitlines()[-1].startswith("Error: cannot push: ")

    def test_a_port_that_is_taken(self, gateway: GatewayProcess, tmp_path: Path) -> None:
        taken = f"{HOST}:{gateway.http_port}"
        push = Push(tmp_path, "--server", url(gateway), "--http", taken, "/queue/a", "https://shop.example/")
        assert push.end() == 1
        assert push.log.splitlines()[-1] == f"Error: cannot listen on {taken}: address already in use; change http"

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["/queue/a"], "--server, QUEUE and URL are needed, or --config"),
            (["--server", "stomp://a", "/queue/a", "http://10.0.0.1/"], "is no public address"),
            (["--config", "push.toml", "--timeout", "3"], "--config goes with the options of the log only"),
            (["--config", "push.toml"], "push.toml has no table [[push]]"),
        ],
    )
    def test_usage(self, tmp_path: Path, words: list[str], said: str) -> None:
        (tmp_path / "push.toml").write_text('server = "stomp://a"\n')
        push = Push(tmp_path, *words)
        assert push.end() == 2
        assert said in " ".join(push.log.split())

    def test_what_a_service_manager_hears(self, gateway: GatewayProcess, name: str, tmp_path: Path) -> None:
        words = ("--server", url(gateway), f"/queue/{name}", "https://shop.example/")
        with manager(tmp_path) as hearing:
            with pushing(tmp_path, *words, NOTIFY_SOCKET=hearing.place, WATCHDOG_USEC="2000000"):
                told = [hearing.next() for _ in range(3)]
                assert any("READY" in each for each in told)
                assert {"WATCHDOG": "1"} in told
            eventually(lambda: "STOPPING" in hearing.next())
