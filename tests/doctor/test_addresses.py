"""As whom the gateway sees us: where its list cannot be had, and what it may say.  The proxies are in
test_nginx_spoiled.py."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
import trio

from gateway.config.settings import Settings
from gateway.doctor import addresses
from gateway.doctor.dial import Dialler, trusting
from gateway.doctor.finding import Level, Trouble
from tests.doctor.scene import ADA, http, look, only, relay, settings_of, tcp, websocket
from tests.gateway_process import HOST, GatewayProcess


@pytest.mark.parametrize(
    ("others", "detail"),
    [
        ({"http": ["127.0.0.1:1"]}, "nobody listens at 127.0.0.1:1"),
        ({"admin_token": "another"}, "answers 401"),
    ],
)
async def test_an_api_that_does_not_answer(
    guarded: GatewayProcess, nursery: trio.Nursery, others: dict[str, object], detail: str
) -> None:
    port = await nursery.start(relay, guarded.ws_port)
    settings = settings_of(guarded, **others)
    found = await look(websocket=(websocket(port),), credentials=ADA, settings=settings)
    assert detail in only(found, "our address", Level.WARN).detail


async def test_another_gateway(gateway: GatewayProcess, guarded: GatewayProcess, nursery: trio.Nursery) -> None:
    port = await nursery.start(relay, guarded.ws_port)
    settings = settings_of(guarded, http=[f"{HOST}:{gateway.http_port}"], admin_token="")
    found = await look(websocket=(websocket(port),), credentials=ADA, settings=settings)
    assert "does not know our session" in only(found, "our address", Level.WARN).detail


async def test_a_proxy_for_tcp_that_names_nobody(gateway: GatewayProcess, nursery: trio.Nursery) -> None:
    port = await nursery.start(relay, gateway.tcp_port)
    found = await look(tcp=(tcp(port),), settings=settings_of(gateway))
    fault = only(found, "our address")
    assert 'tcp_proxy_protocol = true and trusted_proxies = ["127.0.0.1"]' in fault.remedy


@pytest.mark.parametrize("host", [HOST, "localhost"])
async def test_on_loopback_we_take_an_address_that_nobody_has(gateway: GatewayProcess, host: str) -> None:
    """Whatever the name of loopback is."""
    place = replace(tcp(gateway.tcp_port), host=host)
    assert await addresses._own(Dialler(5, trusting()), place) == "127.0.0.77"


async def test_a_gateway_with_thousands_of_sessions_is_asked_for_ours(nursery: trio.Nursery) -> None:
    asked = []

    async def serve(stream: trio.SocketStream) -> None:
        asked.append((await stream.receive_some()).split()[1].decode())
        text = json.dumps({"id": "our/s", "peer": "unix"}).encode()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))
        await stream.aclose()

    (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host=HOST))
    admin = http(listener.socket.getsockname()[1])
    assert await addresses._peer(Dialler(5, trusting()), admin, Settings(), "our/s") == "unix"
    assert asked == ["/api/v1/sessions/our%2Fs"]


async def test_an_answer_that_is_none(nursery: trio.Nursery) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
        await stream.aclose()

    (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host=HOST))
    with pytest.raises(Trouble, match="says nothing of it"):
        await addresses._peer(Dialler(5, trusting()), http(listener.socket.getsockname()[1]), Settings(), "ours")


@pytest.mark.parametrize(
    ("peer", "address"),
    [("10.0.0.1:4711", "10.0.0.1"), ("[::1]:4711", "::1"), ("::1", "::1"), ("10.0.0.1", "10.0.0.1"), ("unix", "unix")],
)
def test_addresses(peer: str, address: str) -> None:
    assert addresses._without_port(peer) == address


@pytest.mark.parametrize(
    ("peer", "level"),
    [("10.0.0.1", Level.FAIL), ("unix", Level.FAIL), ("8.8.8.8", Level.WARN), ("10.0.0.9", Level.OK)],
)
def test_judgement(peer: str, level: Level) -> None:
    assert addresses._judged(peer, "10.0.0.9", Settings(), websocket(1), "a").level is level
