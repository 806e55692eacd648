"""Logins of real clients at a real server process: stomp.py over TCP, and the steps of a page over WebSocket.

`tests/test_secrets.py` sees that no secret of a client is written.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import queue
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import stomp
import trustme
from stomp.utils import Frame

from gateway.auth import passwords
from tests.app.process import SERVE, server
from tests.gateway_process import HOST, GatewayProcess, free_ports, start_gateway
from tests.transports.peers import CONNECT, ws

from .issuer import LONG_SECRET, SECRET, token
from .test_cookies import KEY, flask

PAGE = "https://app.example"
PATIENCE = 20.0
PASSCODE = "planted-passcode"
WRONG = "planted-wrong-passcode"
NEITHER = "login and passcode do not belong to a user of this server, and the passcode does not look like a token"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("auth")
    (folder / "users").write_text(f"alice:{passwords.hash_passcode(PASSCODE)}:ops\n")
    (folder / "keys").write_text(SECRET)
    (folder / "secrets").write_text(KEY)
    return folder


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[GatewayProcess]:
    settings = {
        "users_file": folder / "users",
        "jwt_keys": folder / "keys",
        "cookie_keys": folder / "secrets",
        "allowed_origins": PAGE,
        "token_warning": 600,
        "login_delay": 0.1,
        "login_attempts": 100,
    }
    with start_gateway(**settings) as running:
        yield running


class Frames(stomp.ConnectionListener):
    """The frames that a client gets."""

    def __init__(self) -> None:
        self.all: queue.Queue[tuple[str, Frame]] = queue.Queue()
        for name in ("connected", "error", "message", "receipt"):
            setattr(self, f"on_{name}", lambda frame, name=name: self.all.put((name.upper(), frame)))

    def next(self, command: str) -> Frame:
        found, frame = self.all.get(timeout=PATIENCE)
        assert found == command, frame
        return frame


def dial(port: int, login: str | None, passcode: str | None, **headers: str) -> tuple[Any, Frames]:
    connection = stomp.Connection12([(HOST, port)], reconnect_attempts_max=1)
    frames = Frames()
    connection.set_listener("", frames)
    connection.connect(login, passcode, headers=headers)
    return connection, frames


class TestStompPy:
    def test_accepted(self, gateway: GatewayProcess) -> None:
        bearer = {"Authorization": f"Bearer {token('HS256', SECRET)}"}
        ways: list[tuple[str | None, str | None, dict[str, str]]] = [
            *((login, token("HS256", SECRET), {}) for login in (None, "", "guest")),
            (None, None, bearer),
            ("alice", PASSCODE, {}),
        ]
        for login, passcode, headers in ways:
            connection, frames = dial(gateway.tcp_port, login, passcode, **headers)
            assert frames.next("CONNECTED").headers["user-name"] == "alice"
            connection.disconnect()

    def test_refused(self, gateway: GatewayProcess) -> None:
        expired = token("HS256", SECRET, exp=int(time.time()) - 100)
        for login, passcode, detail in (
            ("alice", WRONG, NEITHER),
            ("nobody", WRONG, NEITHER),
            ("", token("HS256", LONG_SECRET), "this server does not accept the token; its log says why"),
            ("", expired, "the token has expired; log in with a new one"),
        ):
            _, frames = dial(gateway.tcp_port, login, passcode)
            error = frames.next("ERROR")
            assert (error.headers["message"], error.body) == ("login refused", detail)

    def test_warning_and_renewal(self, gateway: GatewayProcess) -> None:
        connection, frames = dial(gateway.tcp_port, None, token("HS256", SECRET, exp=int(time.time()) + 2))
        frames.next("CONNECTED")
        connection.subscribe("/session/events", id="events")
        warning = frames.next("MESSAGE")
        assert warning.headers["event"] == "token-expiring"
        assert 0 < int(warning.headers["expires-in"]) <= 12, "the leeway counts, too"
        connection.send("/session/renew", token("HS256", SECRET, exp=int(time.time()) + 1000), receipt="renewed")
        assert frames.next("RECEIPT").headers["receipt-id"] == "renewed"
        connection.send("/session/renew", token("HS256", SECRET, sub="bob"), receipt="other")
        error = frames.next("ERROR")
        assert (error.headers["message"], error.headers["receipt-id"]) == ("renewal refused", "other")


def post(gateway: GatewayProcess, **headers: str) -> tuple[int, Any]:
    with closing(http.client.HTTPConnection(HOST, gateway.http_port, timeout=PATIENCE)) as connection:
        connection.request("POST", "/api/v1/tickets", headers={"Host": "gateway.example", **headers})
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def upgrade(gateway: GatewayProcess, query: str = "", connect: str = "", **fields: str) -> str:
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    request = (
        f"GET /ws{query} HTTP/1.1\r\nHost: gateway.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{lines}\r\n"
    )
    frame = f"CONNECT\naccept-version:1.2\nhost:h\n{connect}\n\0".encode()
    with socket.create_connection((HOST, gateway.ws_port), timeout=PATIENCE) as client:
        client.sendall(request.encode() + ws(1, frame))
        received = b""
        while not received.count(b"\0") and (data := client.recv(65_536)):
            received += data
    return received.partition(b"\r\n\r\n")[2].decode(errors="replace")


class TestPage:
    def test_a_ticket(self, gateway: GatewayProcess) -> None:
        status, answer = post(gateway, Authorization=f"Bearer {token('HS256', SECRET)}", Origin=PAGE)
        assert (status, answer["expires_in"]) == (200, 30)
        query = f"?ticket={answer['ticket']}"
        assert "user-name:alice" in upgrade(gateway, query, Origin=PAGE)
        replayed = upgrade(gateway, query, Origin=PAGE)
        assert "the ticket is unknown, was used before" in replayed
        _, answer = post(gateway, Authorization=f"Bearer {token('HS256', SECRET)}", Origin=PAGE)
        assert "user-name:alice" in upgrade(gateway, connect=f"passcode:{answer['ticket']}\n", Origin=PAGE)

    def test_the_upgrade(self, gateway: GatewayProcess) -> None:
        basic = "Basic " + base64.b64encode(f"alice:{PASSCODE}".encode()).decode()
        for fields in (
            {"Authorization": f"Bearer {token('HS256', SECRET)}"},
            {"Authorization": basic},
            {"Cookie": f"theme=dark; session={flask({'user': 'alice'})}", "Origin": PAGE},
        ):
            assert "user-name:alice" in upgrade(gateway, **fields)
        assert "login refused" in upgrade(gateway, Cookie=f"session={flask({'user': 'alice'})}")
        other = upgrade(gateway, Cookie=f"session={flask({'user': 'alice'})}", Origin="https://evil.example")
        assert "allowed_origins" in other


def test_a_certificate(tmp_path: Path) -> None:
    ca = trustme.CA()
    ours = ca.issue_cert("localhost")
    ours.private_key_pem.write_to_path(tmp_path / "key.pem")
    ours.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    (port,) = free_ports(1)
    names = {
        "tls_certificate": tmp_path / "cert.pem",
        "tls_key": tmp_path / "key.pem",
        "tls_client_ca": tmp_path / "ca.pem",
        "tls_user": "dns",
        "tcp_tls": f"{HOST}:{port}",
        "login_delay": 0,
    }
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    ca.issue_cert("worker.example", common_name="worker").configure_cert(context)
    with start_gateway(**names) as gateway:
        with (
            socket.create_connection((HOST, port), timeout=PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as client,
        ):
            client.sendall(CONNECT)
            answer = client.recv(65_536).decode()
            assert answer.startswith("CONNECTED\n"), answer
            assert "user-name:worker.example\n" in answer
        with socket.create_connection((HOST, gateway.tcp_port), timeout=PATIENCE) as stranger:
            stranger.sendall(CONNECT)
            refused = stranger.recv(65_536).decode()
    assert "the client sent no credentials that this server knows; send a client certificate" in refused


RULE = """
[[policy]]
match = "/queue/#"
add_user_id = true

[[rule]]
destination = "/queue/**"
groups = ["ops"]
allow = ["send", "subscribe"]
"""


def test_a_users_file_that_changes(tmp_path: Path) -> None:
    """SIGHUP makes a server process read it again."""
    users = tmp_path / "users"
    users_of_file = ("ada", "bob", "eve")
    for login in users_of_file:
        passwords.write_user(users, login, passwords.hash_passcode(f"passcode of {login}"), ["ops"])
    (tmp_path / "gateway.toml").write_text(RULE)
    with server(SERVE, tmp_path, users_file=str(users), login_delay="0") as running:
        port = running.tcp_port()
        (ada, of_ada), (bob, of_bob), (_, of_eve) = (dial(port, each, f"passcode of {each}") for each in users_of_file)
        for frames in (of_ada, of_bob, of_eve):
            frames.next("CONNECTED")
        bob.subscribe("/queue/a", id="1")
        ada.send("/queue/a", "one")
        assert of_bob.next("MESSAGE").headers["user-id"] == "ada"

        text = users.read_text()
        (changed,) = [line for line in text.splitlines() if line.startswith("bob:")]
        passwords.write_user(users, "eve", passwords.hash_passcode("another"))
        users.write_text(changed + "\n" + "\n".join(each for each in users.read_text().splitlines() if "eve" in each))
        os.kill(running.process.pid, signal.SIGHUP)
        assert of_ada.next("ERROR").headers["message"] == "user removed"
        assert of_eve.next("ERROR").headers["message"] == "passcode changed"

        passwords.write_user(users, "bob", changed.split(":")[1], [])
        os.kill(running.process.pid, signal.SIGHUP)
        assert of_bob.next("ERROR").headers["message"] == "access refused"
        told = [event for event in running.events() if event["event"] in ("login revoked", "groups changed")]
        # The first two changes may be read together: then the order of the sessions counts.
        assert {(event["login"], event.get("reason")) for event in told} == {
            ("ada", "user removed"),
            ("eve", "passcode changed"),
            ("bob", None),
        }
        for connection in (ada, bob):
            with suppress(OSError):  # the server may have closed it by now
                connection.disconnect()
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 0
        assert "Traceback" not in running.log
