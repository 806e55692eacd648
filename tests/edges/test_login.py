"""Logins over all edges: tickets, failed logins, limits, reloads, and what a client shows before its CONNECT."""

from __future__ import annotations

import base64
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.auth import passwords
from tests.gateway_process import HOST, GatewayProcess, start_gateway
from tests.transports.peers import ws

from .operating import PATIENCE, Client, ask, client, connected, edges, log_lines, metrics, until

PAGE = "https://app.example"
RIGHT = "planted-passcode"


def basic(passcode: str) -> str:
    return "Basic " + base64.b64encode(f"alice:{passcode}".encode()).decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("login")
    (folder / "users").write_text(f"alice:{passwords.hash_passcode(RIGHT)}:ops\nbob:{passwords.hash_passcode(RIGHT)}\n")
    (folder / "users").chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[GatewayProcess]:
    settings = {"edges": 2, "users_file": folder / "users", "allowed_origins": PAGE, "login_delay": 0.05}
    with start_gateway(**settings, login_attempts=1000) as running:
        yield running


def upgrade(gateway: GatewayProcess, query: str) -> str:
    """The first frame that a WebSocket gets."""
    request = (
        f"GET /ws{query} HTTP/1.1\r\nHost: gateway.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nOrigin: {PAGE}\r\n\r\n"
    )
    with socket.create_connection((HOST, gateway.ws_port), timeout=PATIENCE) as sock:
        sock.sendall(request.encode() + ws(1, b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"))
        received = b""
        while b"\0" not in received and (data := sock.recv(65_536)):
            received += data
    return received.partition(b"\r\n\r\n")[2].decode(errors="replace")


def test_a_ticket_of_the_admin_api_is_good_once_at_any_edge(gateway: GatewayProcess) -> None:
    for _ in range(4):  # edges take connections as they come
        status, answer = ask(gateway, "tickets", "POST", Authorization=basic(RIGHT), Host="gateway.example")
        assert status == 200, answer
        query = f"?ticket={answer['ticket']}"
        assert "user-name:alice" in upgrade(gateway, query)
        assert "the ticket is unknown, was used before, or is older than" in upgrade(gateway, query)


def test_sessions_of_a_ticket_end_with_the_user(gateway: GatewayProcess, folder: Path) -> None:
    """The primary has the ticket, and its edge the review."""
    users = (folder / "users").read_text()
    status, answer = ask(gateway, "tickets", "POST", Authorization=basic(RIGHT), Host="gateway.example")
    assert status == 200, answer
    with connected(gateway, passcode=answer["ticket"]) as page, connected(gateway, login="bob", passcode=RIGHT) as bob:
        told = len(log_lines(gateway, "reloaded"))
        (folder / "users").write_text(users.splitlines()[1] + "\n")
        os.kill(gateway.pid, signal.SIGHUP)
        assert "user removed" in page.read()
        until(lambda: len(log_lines(gateway, "reloaded")) > told, lambda: gateway.log)
        assert bob.get("SEND", destination="/topic/a") == "RECEIPT\nreceipt-id:r\n\n"
    (folder / "users").write_text(users)


def test_a_reload_is_told_once(gateway: GatewayProcess, folder: Path) -> None:
    users = (folder / "users").read_text()
    for told, text in enumerate(("no user at all\n", users), 1 + len(log_lines(gateway, "reloaded"))):
        (folder / "users").write_text(text)
        os.kill(gateway.pid, signal.SIGHUP)
        until(lambda told=told: len(log_lines(gateway, "reloaded")) == told, lambda: gateway.log)  # type: ignore[misc]
    with connected(gateway, login="alice", passcode=RIGHT):
        pass
    faults = log_lines(gateway, "users_file cannot be used, what it said before stays in force")
    assert [line.get("edge") for line in faults] == [None]
    assert all("edge" not in line for line in log_lines(gateway, "reloaded"))


def test_a_reload_changes_settings_at_edges(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('edges = 2\nallowed_origins = ["https://other.example"]\nlog_level = "warning"\n')
    with GatewayProcess(tmp_path, {}).running() as gateway:
        assert "CONNECTED" not in upgrade(gateway, "")
        assert not log_lines(gateway, "WebSocket refused")
        file.write_text(f'edges = 2\nallowed_origins = ["{PAGE}"]\nlog_level = "debug"\n')
        os.kill(gateway.pid, signal.SIGHUP)
        until(lambda: "CONNECTED" in upgrade(gateway, ""), lambda: gateway.log)
        until(lambda: {line["edge"] for line in log_lines(gateway, "connected") if upgrade(gateway, "")} == {"1", "2"})


def test_failed_logins_count_at_all_edges_and_at_the_admin_api(folder: Path) -> None:
    settings = {"edges": 2, "users_file": folder / "users", "login_delay": 0.05, "login_attempts": 6}
    with start_gateway(**settings) as gateway:
        for _ in range(5):
            with client(gateway.tcp_port) as guesser:
                assert "login refused" in guesser.connect(login="alice", passcode="wrong")
        status, _ = ask(gateway, "tickets", "POST", Authorization=basic("wrong"), Host="gateway.example")
        assert status == 401
        refused = "6 logins of this address failed in a minute (login_attempts)"
        until(lambda: _all_are_refused(gateway, refused), lambda: gateway.log)
        status, answer = ask(gateway, "tickets", "POST", Authorization=basic("wrong"), Host="gateway.example")
        assert (status, refused in answer["error"]) == (429, True), answer
        told = log_lines(gateway, "too many failed logins, the address is refused")
        assert [line.get("edge") for line in told] == [None]
        until(lambda: metrics(gateway)['gateway_logins_failed_total{method="passcode"}'] >= 6)


def test_an_edge_that_was_started_again_knows_of_failed_logins(folder: Path) -> None:
    with start_gateway(edges=1, users_file=folder / "users", login_delay=0.05, login_attempts=3) as gateway:
        for _ in range(3):
            with client(gateway.tcp_port) as guesser:
                assert "login refused" in guesser.connect(login="alice", passcode="wrong")
        (row,) = edges(gateway)
        os.kill(row["pid"], signal.SIGKILL)
        until(lambda: edges(gateway)[0]["starts"] == 2 and edges(gateway)[0]["ready"])
        with client(gateway.tcp_port) as guesser:
            assert "too many failed logins" in guesser.connect(login="bob", passcode=RIGHT)


def _all_are_refused(gateway: GatewayProcess, sentence: str) -> bool:
    """Ten at once, so that more than one edge has some of them."""
    with ExitStack() as stack:
        clients = [stack.enter_context(client(gateway.tcp_port)) for _ in range(10)]
        for each in clients:
            each.send("CONNECT", accept_version="1.2", host="h", login="alice", passcode="wrong")
        return all(sentence in each.read() for each in clients)


def test_limits_are_those_of_all_edges(folder: Path) -> None:
    settings = {"edges": 2, "users_file": folder / "users", "max_connections": 8, "max_connections_per_user": 5}
    with start_gateway(**settings) as gateway, ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(connected(gateway, login="alice", passcode=RIGHT))
        with client(gateway.tcp_port) as sixth:
            assert "this user has 5, as many as one may" in sixth.connect(login="alice", passcode=RIGHT)
        bobs = [stack.enter_context(connected(gateway, login="bob", passcode=RIGHT)) for _ in range(3)]
        with client(gateway.tcp_port) as ninth:
            assert "the server has 8 connections, as many as it may (max_connections)" in ninth.connect(
                login="bob", passcode=RIGHT
            )
        until(lambda: metrics(gateway)["gateway_connections_open"] == 8)
        until(lambda: metrics(gateway)['gateway_connections_over_limit_total{limit="max_connections"}'] == 1)
        del bobs


def test_an_address_and_a_proxy(folder: Path) -> None:
    settings = {"edges": 2, "max_connections_per_address": 3, "tcp_proxy_protocol": "true", "trusted_proxies": HOST}
    with start_gateway(**settings) as gateway, ExitStack() as stack:

        def behind_proxy(address: str) -> Client:
            found = stack.enter_context(client(gateway.tcp_port))
            found.greet(f"PROXY TCP4 {address} 10.0.0.1 5000 61613\r\n")
            return found

        for _ in range(3):
            assert behind_proxy("192.0.2.1").connect().startswith("CONNECTED")
        assert "192.0.2.1 has 3 connections, as many as one address may" in behind_proxy("192.0.2.1").connect()
        assert behind_proxy("192.0.2.2").connect().startswith("CONNECTED")
        _, answer = ask(gateway, "sessions")
        assert sorted(row["peer"].rpartition(":")[0] for row in answer["sessions"]) == ["192.0.2.1"] * 3 + ["192.0.2.2"]
