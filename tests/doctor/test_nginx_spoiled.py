"""Faults in deploy/nginx.conf, each planted in a real nginx in front of a real gateway, and found from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.doctor.finding import Level
from tests.clients.nginx import configuration
from tests.doctor.scene import ADA, faults, http, look, only, settings_of, spoiled, users, websocket
from tests.gateway_process import HOST, GatewayProcess, start_gateway

UPGRADE = "            proxy_set_header Upgrade $http_upgrade;\n"
FORWARDED_FOR = "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"
FORWARDED = {
    FORWARDED_FOR: "",
    "proxy_set_header X-Forwarded-Host $http_host;": "",
    "proxy_set_header X-Forwarded-Proto $scheme;": "",
}


async def test_nothing_is_wrong(guarded: GatewayProcess) -> None:
    settings = settings_of(guarded, max_connections=100)
    with spoiled(guarded) as port:
        found = await look(http=http(port), websocket=(websocket(port),), credentials=ADA, settings=settings)
    assert faults(found) == []
    assert only(found, "ws upgrade", Level.OK).detail.endswith("with v12.stomp")
    assert "until" not in only(found, "ready", Level.OK).detail
    assert only(found, "our address", Level.OK).detail.endswith("(127.0.0.77)")
    assert only(found, "strangers", Level.OK)
    assert "262144 octets pass" in only(found, "large message", Level.OK).detail
    assert only(found, "/metrics", Level.OK)


@pytest.mark.parametrize(
    "words",
    [
        {UPGRADE: "", 'proxy_set_header Connection "upgrade";': ""},
        {UPGRADE: ""},
        {"proxy_http_version 1.1;": ""},
    ],
)
async def test_no_upgrade(gateway: GatewayProcess, words: dict[str, str]) -> None:
    with spoiled(gateway, words) as port:
        found = await look(websocket=(websocket(port),))
    fault = only(found, "upgrade")
    assert "does not come through" in fault.detail
    assert "proxy_set_header Upgrade $http_upgrade" in fault.remedy
    assert len(found) == 2  # who has no WebSocket cannot log in through it


async def test_a_read_timeout_shorter_than_the_ping(gateway: GatewayProcess) -> None:
    with spoiled(gateway, {"proxy_read_timeout 60s;": "proxy_read_timeout 1s;"}) as port:
        found = await look(websocket=(websocket(port),), settings=settings_of(gateway), idle=6.0)
    fault = only(found, "silence")
    assert "before the server's ping (websocket_ping, 25 s)" in fault.detail
    assert "proxy_read_timeout 60s" in fault.remedy
    assert "heart-beats of 2.0 s were agreed" in only(found, "heart-beats").detail


async def test_a_ping_that_comes_in_time() -> None:
    with start_gateway(websocket_ping=0.5) as quick, spoiled(quick) as port:
        found = await look(websocket=(websocket(port),), idle=6.0)
    assert only(found, "silence", Level.OK).detail.endswith("until the server's ping")
    assert only(found, "heart-beats", Level.OK)


async def test_the_host_is_not_passed_on(guarded: GatewayProcess) -> None:
    words = {"proxy_set_header Host $http_host;": "", "proxy_set_header X-Forwarded-Host $http_host;": ""}
    with spoiled(guarded, words) as port:
        found = await look(http=http(port), websocket=(websocket(port),), credentials=ADA)
    fault = only(found, "upgrade")
    assert f"pages of http://{HOST}:{port} are not let in" in fault.detail
    assert "proxy_set_header Host $http_host" in fault.remedy
    assert only(found, "large message", Level.OK)  # programs still get it


async def test_the_origin_of_another_site(guarded: GatewayProcess) -> None:
    with spoiled(guarded) as port:
        found = await look(websocket=(websocket(port),), origin="https://app.example.org")
    assert 'allowed_origins = ["https://app.example.org"]' in only(found, "upgrade").remedy


async def test_origins_that_are_not_looked_at(tmp_path: Path) -> None:
    with start_gateway(users_file=users(tmp_path), allowed_origins="*") as open_one:
        found = await look(websocket=(websocket(open_one.ws_port),))
    assert "one by one" in only(found, "origin", Level.WARN).remedy


async def test_the_proxy_is_not_trusted(tmp_path: Path) -> None:
    with start_gateway(users_file=users(tmp_path)) as forgetful, spoiled(forgetful) as port:
        found = await look(websocket=(websocket(port),), credentials=ADA, settings=settings_of(forgetful))
    fault = only(found, "our address")
    assert "all clients are 127.0.0.1 to the gateway" in fault.detail
    assert 'trusted_proxies = ["127.0.0.1"]' in fault.remedy


async def test_the_proxy_does_not_name_its_clients(guarded: GatewayProcess) -> None:
    words = {FORWARDED_FOR: 'proxy_set_header X-Forwarded-For "";'}
    with spoiled(guarded, words) as port:
        found = await look(websocket=(websocket(port),), credentials=ADA, settings=settings_of(guarded))
    fault = only(found, "our address")
    assert fault.remedy.startswith(f"nginx: `{FORWARDED_FOR}`")


async def test_the_proxy_believes_its_clients(guarded: GatewayProcess) -> None:
    words = {FORWARDED_FOR: "proxy_set_header X-Forwarded-For $http_x_forwarded_for;"}
    with spoiled(guarded, words) as port:
        found = await look(websocket=(websocket(port),), credentials=ADA, settings=settings_of(guarded))
    assert "can make up its address" in only(found, "our address").detail


async def test_the_proxy_hides_that_it_is_one(gateway: GatewayProcess) -> None:
    """Then its clients look like programs on its machine, and get what is for those."""
    with spoiled(gateway, FORWARDED) as port:
        found = await look(http=http(port), settings=settings_of(gateway))
    assert "X-Forwarded-For" in only(found, "forwarding").remedy
    remedy = only(found, "/api/v1/sessions").remedy
    assert "admin_token" in remedy
    assert FORWARDED_FOR in remedy
    assert "answers everybody" in only(found, "/metrics").detail


async def test_everybody_comes_in(gateway: GatewayProcess) -> None:
    with spoiled(gateway) as port:
        found = await look(websocket=(websocket(port),), settings=settings_of(gateway))
    assert "users_file" in only(found, "strangers").remedy
    found = await look(websocket=(websocket(gateway.ws_port, host="0.0.0.0"),))  # no loopback address, and leads there
    assert "and not from this machine alone" in only(found, "strangers").detail


@pytest.mark.parametrize(("path", "words"), [("/stomp", "at /"), ("/ws", "there is no WebSocket at /ws: 404")])
async def test_the_wrong_path(gateway: GatewayProcess, path: str, words: str) -> None:
    with spoiled(gateway, {"location = /ws {": "location = /stomp {"}) as port:
        found = await look(websocket=(websocket(port, path),))
    fault = only(found, "upgrade")
    assert words in fault.detail
    assert "websocket_path" in fault.remedy


async def test_the_path_that_the_gateway_tells(gateway: GatewayProcess) -> None:
    found = await look(http=http(gateway.http_port), websocket=(websocket(gateway.ws_port, "/stomp"),))
    told = next(each for each in found if "has its WebSocket" in each.detail)
    assert (told.level, told.remedy) == (Level.WARN, 'Dial /ws, or write websocket_path = "/stomp"')
    assert "the path is wrong" in only(found, "upgrade").detail


async def test_a_subprotocol_that_is_not_answered(gateway: GatewayProcess) -> None:
    word = "proxy_set_header Upgrade $http_upgrade;"
    with spoiled(gateway, {word: f'{word} proxy_set_header Sec-WebSocket-Protocol "";'}) as port:
        found = await look(websocket=(websocket(port),))
    fault = only(found, "upgrade")
    assert "none was answered" in fault.detail
    assert "Sec-WebSocket-Protocol" in fault.remedy


async def test_nobody_behind_the_proxy(gateway: GatewayProcess) -> None:
    word = f"server {HOST}:{gateway.ws_port};"
    with spoiled(gateway, {word: f"server {HOST}:1;"}) as port:
        found = await look(websocket=(websocket(port),))
    assert "does not reach the gateway (502)" in only(found, "upgrade").detail


async def test_the_file_says_it_too(tmp_path: Path) -> None:
    file = tmp_path / "nginx.conf"
    sound = configuration(tmp_path, 80, 15674, 8000)
    file.write_text(sound)
    assert [each.level for each in await look(nginx=file)] == [Level.OK]
    location = sound.index("location = /ws")
    spoiled_one = sound[:location] + sound[location:].replace("proxy_read_timeout 60s;", "proxy_read_timeout 20s;")
    file.write_text(spoiled_one.replace(UPGRADE, ""))
    found = await look(nginx=file)
    assert [each.detail for each in found] == [
        "the header upgrade is not passed on",
        "proxy_read_timeout is 20 s, and the gateway pings each 25 s (websocket_ping)",
    ]
    assert "proxy_read_timeout 60s" in found[1].remedy
