"""Logins of real clients at a real server process: stomp.py over TCP, and the steps of a page over WebSocket.

`tests/test_secrets.py` sees that no secret of a client is written.
"""

from __future__ import annotations

import base64
import http.client
import json
import queue
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import stomp
from stomp.utils import Frame

from gateway.auth import passwords
from tests.demanding import demanding
from tests.gateway_process import HOST, GatewayProcess, start_gateway
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


def test_logins_of_stomp_py(gateway: GatewayProcess) -> None:
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
        for by_query in (True, False):
            status, answer = post(gateway, Authorization=f"Bearer {token('HS256', SECRET)}", Origin=PAGE)
            assert (status, answer["expires_in"]) == (200, 30)
            ticket = answer["ticket"]
            query, connect = (f"?ticket={ticket}", "") if by_query else ("", f"passcode:{ticket}\n")
            assert "user-name:alice" in upgrade(gateway, query, connect, Origin=PAGE)
            assert "the ticket is unknown, was used before" in upgrade(gateway, query, connect, Origin=PAGE)

    def test_the_upgrade(self, gateway: GatewayProcess) -> None:
        basic = "Basic " + base64.b64encode(f"alice:{PASSCODE}".encode()).decode()
        cookie = f"theme=dark; session={flask({'user': 'alice'})}"
        for fields in ({"Authorization": basic}, {"Cookie": cookie, "Origin": PAGE}):
            assert "user-name:alice" in upgrade(gateway, **fields)
        assert "login refused" in upgrade(gateway, Cookie=cookie)
        assert "allowed_origins" in upgrade(gateway, Cookie=cookie, Origin="https://evil.example")


def test_a_certificate(tmp_path: Path) -> None:
    with demanding(tmp_path) as there:
        context = ssl.create_default_context(cafile=str(there.ca))
        context.load_cert_chain(there.cert, there.key)
        with (
            socket.create_connection((HOST, there.port), timeout=PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname=HOST) as client,
        ):
            client.sendall(CONNECT)
            answer = client.recv(65_536).decode()
            assert answer.startswith("CONNECTED\n"), answer
            assert "user-name:worker\n" in answer
        with socket.create_connection((HOST, there.process.tcp_port), timeout=PATIENCE) as stranger:
            stranger.sendall(CONNECT)
            refused = stranger.recv(65_536).decode()
    assert "the client sent no credentials that this server knows; send a client certificate" in refused
