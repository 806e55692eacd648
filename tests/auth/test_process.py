"""Logins at a real server process; `tests/test_secrets.py` sees that no secret of a client is written."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.auth import passwords
from tests.gateway_process import HOST, GatewayProcess, start_gateway
from tests.transports.peers import ws

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


def test_passcodes_tokens_and_what_a_page_shows(gateway: GatewayProcess) -> None:
    good = token("HS256", SECRET)
    for connect in (
        f"login:alice\npasscode:{PASSCODE}",
        f"login:guest\npasscode:{good}",
        f"Authorization:Bearer {good}",
    ):
        assert "user-name:alice" in upgrade(gateway, connect=f"{connect}\n")
    expired = token("HS256", SECRET, exp=int(time.time()) - 100)
    for login, passcode, detail in (
        ("alice", WRONG, NEITHER),
        ("", token("HS256", LONG_SECRET), "this server does not accept the token; its log says why"),
        ("", expired, "the token has expired; log in with a new one"),
    ):
        answer = upgrade(gateway, connect=f"login:{login}\npasscode:{passcode}\n")
        assert "message:login refused\n" in answer
        assert detail in answer
    basic = "Basic " + base64.b64encode(f"alice:{PASSCODE}".encode()).decode()
    cookie = f"theme=dark; session={flask({'user': 'alice'})}"
    for fields in ({"Authorization": basic}, {"Cookie": cookie, "Origin": PAGE}):
        assert "user-name:alice" in upgrade(gateway, **fields)
    assert "login refused" in upgrade(gateway, Cookie=cookie)
    assert "allowed_origins" in upgrade(gateway, Cookie=cookie, Origin="https://evil.example")


def test_a_ticket(gateway: GatewayProcess) -> None:
    for by_query in (True, False):
        status, answer = post(gateway, Authorization=f"Bearer {token('HS256', SECRET)}", Origin=PAGE)
        assert (status, answer["expires_in"]) == (200, 30)
        ticket = answer["ticket"]
        query, connect = (f"?ticket={ticket}", "") if by_query else ("", f"passcode:{ticket}\n")
        assert "user-name:alice" in upgrade(gateway, query, connect, Origin=PAGE)
        assert "the ticket is unknown, was used before" in upgrade(gateway, query, connect, Origin=PAGE)
