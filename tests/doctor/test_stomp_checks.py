"""Faults of nginx and of relays between the doctor and a real gateway: upgrade, login, messages, silence, address."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio_websocket

from gateway.doctor import stomp_checks
from gateway.doctor.model import Level, Target
from tests.doctor.scene import (
    ADA,
    faults,
    http,
    look,
    only,
    relay,
    saying,
    served,
    settings_of,
    spoiled,
    tcp,
    users,
    websocket,
)
from tests.gateway_process import HOST, GatewayProcess, start_gateway

UPGRADE = "            proxy_set_header Upgrade $http_upgrade;\n"
ADDED = "$proxy_add_x_forwarded_for"
FORWARDED_FOR = f"proxy_set_header X-Forwarded-For {ADDED};"
HOST_HEADERS = ["proxy_set_header Host $http_host;", "proxy_set_header X-Forwarded-Host $http_host;"]
NO_SUBPROTOCOL = {UPGRADE: f'{UPGRADE}proxy_set_header Sec-WebSocket-Protocol "";'}
ELSEWHERE = {"location = /ws {": "location = /stomp {"}
PROXY_1 = b"PROXY TCP4 203.0.113.7 198.51.100.1 40312 61613\r\n"
PROXY_2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes([203, 0, 113, 7, 198, 51, 100, 1, 1, 1, 2, 2])

# A fault in deploy/nginx.conf, the path of the WebSocket, the result, and words of detail and remedy.
NGINX_FAULTS = [
    ({UPGRADE: ""}, "/ws", "upgrade", ["does not reach the gateway", "proxy_set_header Upgrade $http_upgrade"]),
    ({"proxy_http_version 1.1;": ""}, "/ws", "upgrade", ["does not reach the gateway", "proxy_http_version 1.1"]),
    (ELSEWHERE, "/ws", "upgrade", ["there is no WebSocket at /ws: 404", "websocket_path"]),
    (ELSEWHERE, "/stomp", "upgrade", ["the path is wrong", "websocket_path"]),
    (NO_SUBPROTOCOL, "/ws", "upgrade", ["the answer names none of the subprotocols", "Sec-WebSocket-Protocol"]),
    (dict.fromkeys(HOST_HEADERS, ""), "/ws", "upgrade", ["pages of http://127.0.0.1:", "Host $http_host"]),
    ({ADDED: '""'}, "/ws", "client address", ["all clients are 127.0.0.1 to the gateway", FORWARDED_FOR]),
    ({ADDED: "$http_x_forwarded_for"}, "/ws", "client address", ["a client can invent its address", FORWARDED_FOR]),
]
# The kind of a relay, its fault, options of the doctor, the result, and words of detail and remedy.
RELAY_FAULTS = [
    (tcp, {"hold": 200}, {"patience": 0.5}, "session", ["no answer to CONNECT within 0.5 s"]),
    (tcp, {"preface": PROXY_1}, {}, "session", ["tcp_proxy_protocol = true"]),
    (websocket, {"preface": PROXY_2}, {}, "upgrade", ["websocket_proxy_protocol = true"]),
    (
        websocket,
        {"hold": 500, "sooner": 2},  # CONNECTED passes
        {"patience": 0.5},
        "/ws message",
        ["a message of 6 bytes did not come back within 0.5 s", "proxy_buffering off"],
    ),
    (websocket, {"most": 100_000}, {}, "large message", ["a message of 262144 bytes broke the connection"]),
    (tcp, {"idle": 1.0}, {"idle": 9.0}, "heart-beats", ["heart-beats of 3.0 s were agreed", "proxy_timeout 10m"]),
    (
        tcp,
        {"hold": 60},
        {"patience": 2.0, "idle": 1.5},
        "heart-beats",
        ["came in 2 s, though one each 0.5 s was agreed", "proxy_buffering off"],
    ),
]


async def test_a_sound_proxy_has_no_faults(guarded: GatewayProcess) -> None:
    settings = settings_of(guarded, max_connections=100)
    with spoiled(guarded) as port:
        found = await look(url=http(port), websocket=(websocket(port),), settings=settings, **ADA)
    assert faults(found) == []
    assert only(found, "ws upgrade", Level.OK).detail.endswith("with v12.stomp")
    assert only(found, "ready", Level.OK)
    assert only(found, "client address", Level.OK).detail.endswith("(127.0.0.77)")
    assert only(found, "anonymous", Level.OK)
    assert "262144 bytes take" in only(found, "large message", Level.OK).detail
    assert only(found, "/metrics", Level.OK)


@pytest.mark.parametrize(("words", "path", "what", "told"), NGINX_FAULTS)
async def test_a_fault_of_nginx(
    guarded: GatewayProcess, words: dict[str, str], path: str, what: str, told: list[str]
) -> None:
    with spoiled(guarded, words) as port:
        targets = {"url": http(port), "websocket": (websocket(port, path),)}
        found = await look(**targets, settings=settings_of(guarded), **ADA)
    fault = only(found, what)
    assert all(each in f"{fault}" for each in told), fault
    if words.keys() == set(HOST_HEADERS):
        assert only(found, "large message", Level.OK)  # programs still get it


@pytest.mark.parametrize(("kind", "fault", "options", "what", "told"), RELAY_FAULTS)
async def test_a_fault_of_a_relay(
    gateway: GatewayProcess,
    nursery: trio.Nursery,
    kind: Callable[[int], Target],
    fault: dict[str, Any],
    options: dict[str, float],
    what: str,
    told: list[str],
) -> None:
    port = await relay(nursery, gateway.tcp_port if kind is tcp else gateway.ws_port, **fault)
    found = only(await look(tcp=(kind(port),), **options), what)
    assert all(each in f"{found}" for each in told), found


class TestUpgrade:
    async def test_pages_of_other_sites(self, guarded: GatewayProcess, tmp_path: Path) -> None:
        found = await look(websocket=(websocket(guarded.ws_port),), origin="https://app.example.org")
        assert 'allowed_origins = ["https://app.example.org"]' in only(found, "upgrade").remedy
        with start_gateway(users_file=users(tmp_path), allowed_origins="*", max_body=100_000) as open_one:
            found = await look(websocket=(websocket(open_one.ws_port),))
            assert "one by one" in only(found, "origin", Level.WARN).remedy
            found = await look(tcp=(tcp(open_one.tcp_port),), **ADA)
        fault = only(found, "large message")  # which max_body refuses
        assert "ERROR body too large" in fault.detail
        assert "max_body" in fault.detail

    @pytest.mark.parametrize(
        ("answer", "detail", "remedy"),
        [
            (b"301 Moved\r\nLocation: https://a/", "the answer is a redirect (301)", "wss://127.0.0.1/ws"),
            (b"401 Unauthorized\r\nServer: x", "the proxy refuses it: 401", "auth_basic"),
            (b"429 Too Many", "429", "max_connections_per_address"),
            (b"504 Slow", "the proxy does not reach the gateway (504)", "proxy_pass"),
            (b"200 OK\r\nContent-Length: 4", "there is no WebSocket at /ws: 200", "location = /ws"),
            (b"426 Upgrade Required\r\nServer: x", "the upgrade does not reach the gateway: 426", "proxy_http_version"),
            (b"400 Bad Request", "the proxy seems to send a PROXY header", "websocket_proxy_protocol = true"),
            (
                b"101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: other",
                "the answer belongs to another upgrade",
                "Switch off the cache",
            ),
        ],
    )
    async def test_refusals(self, nursery: trio.Nursery, answer: bytes, detail: str, remedy: str) -> None:
        length = b"" if b"Content-Length" in answer or answer.startswith(b"101") else b"Content-Length: 0\r\n"
        port = await served(nursery, saying(b"HTTP/1.1 " + answer + b"\r\n" + length + b"\r\n", stays=True))
        fault = only(await look(websocket=(websocket(port),), patience=0.4), "upgrade")
        assert detail in fault.detail
        assert remedy in fault.remedy


class TestSession:
    async def test_a_gateway_without_users_is_open(self, gateway: GatewayProcess) -> None:
        with spoiled(gateway) as port:
            found = await look(websocket=(websocket(port),), settings=settings_of(gateway))
        assert "users_file" in only(found, "anonymous").remedy
        # 0.0.0.0 is no loopback address, and leads to this machine.
        found = await look(websocket=(websocket(gateway.ws_port, host="0.0.0.0"),))
        assert "can come from other machines" in only(found, "anonymous").detail

    async def test_a_slow_message_is_a_warning(self, gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stomp_checks, "_SLOW", 0.0)
        found = await look(tcp=(tcp(gateway.tcp_port),))
        assert "proxy_buffering off" in only(found, f"{gateway.tcp_port} message", Level.WARN).remedy

    async def test_a_server_that_refuses_messages_and_heart_beats_or_sessions(self, nursery: trio.Nursery) -> None:
        async def serve(stream: trio.SocketStream) -> None:
            async for chunk in stream:
                if chunk.startswith(b"CONNECT"):
                    await stream.send_all(b"CONNECTED\nheart-beat:0,0\n\n\0")
                if b"SEND\n" in chunk:
                    await stream.send_all(b"ERROR\nmessage:the end\n\nof it\0")

        found = await look(tcp=(tcp(await served(nursery, serve)),), idle=0.3)
        assert only(found, "message").detail == "a message of 6 bytes is refused: ERROR the end: of it"
        assert "heartbeat_send = 250" in only(found, "heart-beats", Level.WARN).remedy
        port = await served(nursery, saying(b"ERROR\nmessage:too many sessions\n\nclose one\0"))
        fault = only(await look(tcp=(tcp(port),)), "session")
        assert f"{fault}".endswith("ERROR too many sessions: close one. Follow the text of the ERROR")


class TestSilence:
    async def test_a_ping_in_time_and_heart_beats_through_a_relay(self, nursery: trio.Nursery) -> None:
        with start_gateway(websocket_ping=0.5) as quick, spoiled(quick) as port:
            relayed = await relay(nursery, quick.tcp_port)
            found = await look(websocket=(websocket(port),), tcp=(tcp(relayed),), idle=2.4)
        assert faults(found) == []
        assert only(found, "silence", Level.OK).detail.endswith("until the server's ping")
        assert only(found, f"{relayed} heart-beats", Level.OK).detail.endswith("one each 0.8 s was agreed")

    async def test_pings_that_do_not_come(self) -> None:
        with start_gateway(websocket_ping=0) as mute:
            target = websocket(mute.ws_port)
            found = await look(websocket=(target,), settings=settings_of(mute, websocket_ping=0.2), idle=0.6)
            assert "though websocket_ping is 0.2 s" in only(found, "silence").detail
            found = await look(websocket=(target,), idle=0.6)
            assert "--idle SECONDS" in only(found, "silence", Level.WARN).remedy

    async def test_a_server_that_ends_a_silent_session(self, nursery: trio.Nursery) -> None:
        async def serve(stream: trio.SocketStream) -> None:
            async for chunk in stream:
                if chunk.startswith(b"CONNECT"):
                    ending = b"ERROR\nmessage:heart-beat timed out\n\nnothing came\0" if b"heart-beat" in chunk else b""
                    await stream.send_all(b"CONNECTED\nheart-beat:100,100\n\n\0" + ending)

        found = await look(tcp=(tcp(await served(nursery, serve)),), idle=1.0, patience=0.3)
        fault = only(found, "heart-beats")
        assert "the gateway ended it after 0 s: ERROR heart-beat timed out: nothing came" in fault.detail

    async def test_a_server_that_ends_a_silent_websocket(self, nursery: trio.Nursery) -> None:
        async def serve(request: trio_websocket.WebSocketRequest) -> None:
            connection = await request.accept(subprotocol="v12.stomp")
            with suppress(trio_websocket.ConnectionClosed):
                is_silent = b"heart-beat" in await connection.get_message()
                ending = b"ERROR\nmessage:the end\n\n\0" if is_silent else b""
                await connection.send_message(b"CONNECTED\nversion:1.2\n\n\0" + ending)
                await trio.sleep_forever()

        server = await nursery.start(trio_websocket.serve_websocket, serve, HOST, 0, None)
        found = await look(websocket=(websocket(server.port),), idle=0.5, patience=0.5)
        assert only(found, "silence").detail == "ended after 0 s: ERROR the end"
        nursery.cancel_scope.cancel()


class TestClientAddress:
    async def test_an_admin_api_that_does_not_answer(
        self, gateway: GatewayProcess, guarded: GatewayProcess, nursery: trio.Nursery
    ) -> None:
        port = await relay(nursery, guarded.ws_port)
        for others, detail in (
            ({"http": ["127.0.0.1:1"]}, "127.0.0.1:1 has no listener"),
            ({"admin_token": "another"}, "answers 401"),
            ({"http": [f"{HOST}:{gateway.http_port}"], "admin_token": ""}, "does not know our session"),
        ):
            found = await look(websocket=(websocket(port),), settings=settings_of(guarded, **others), **ADA)
            assert detail in only(found, "client address", Level.WARN).detail

    @pytest.mark.parametrize(
        ("answer", "level", "words"),
        [
            ({"peer": "127.0.0.77:4711"}, Level.OK, "(127.0.0.77)"),
            ({"peer": "unix"}, Level.FAIL, "all clients are unix"),
            ({"peer": "8.8.8.8:1"}, Level.WARN, "the gateway sees 8.8.8.8, and we connect from 127.0.0.77"),
            ({"peer": "a.name:1"}, Level.WARN, "names no address"),
        ],
    )
    async def test_every_answer_of_the_admin_api(
        self, gateway: GatewayProcess, nursery: trio.Nursery, answer: object, level: Level, words: str
    ) -> None:
        text = json.dumps(answer).encode()
        admin = await served(nursery, saying(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text)))
        target = websocket(await relay(nursery, gateway.ws_port), host="localhost")
        found = await look(websocket=(target,), settings=settings_of(gateway, http=[f"{HOST}:{admin}"]))
        assert words in only(found, "client address", level).detail

    async def test_a_tcp_proxy_that_does_not_name_its_clients(
        self, gateway: GatewayProcess, nursery: trio.Nursery
    ) -> None:
        found = await look(tcp=(tcp(await relay(nursery, gateway.tcp_port)),), settings=settings_of(gateway))
        remedy = only(found, "client address").remedy
        assert 'tcp_proxy_protocol = true, trusted_proxies = ["127.0.0.1"]' in remedy
