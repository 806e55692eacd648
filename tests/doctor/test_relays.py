"""What stands between and does not know of STOMP: it cuts, keeps, limits, or says too much or too little in front."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from gateway.doctor import sessions, silence
from gateway.doctor.dial import Dialler, trusting
from gateway.doctor.finding import Finding, Level
from gateway.doctor.orders import Orders
from tests.doctor.scene import faults, look, only, relay, settings_of, tcp, websocket
from tests.gateway_process import HOST, GatewayProcess, start_gateway

PROXY_1 = b"PROXY TCP4 203.0.113.7 198.51.100.1 40312 61613\r\n"
PROXY_2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes([203, 0, 113, 7, 198, 51, 100, 1, 1, 1, 2, 2])


async def test_a_sound_relay(gateway: GatewayProcess, nursery: trio.Nursery) -> None:
    port = await nursery.start(relay, gateway.tcp_port)
    found = await look(tcp=(tcp(port),), idle=1.5)
    assert faults(found) == []
    assert only(found, "heart-beats", Level.OK).detail.endswith("one each 0.5 s was agreed")


@pytest.mark.parametrize("place", [tcp, websocket])
async def test_it_cuts_what_is_silent(gateway: GatewayProcess, nursery: trio.Nursery, place: partial[object]) -> None:
    target = gateway.tcp_port if place is tcp else gateway.ws_port
    port = await nursery.start(partial(relay, target, idle=1.0))
    found = await look(tcp=(place(port),), idle=9.0)
    fault = only(found, "heart-beats")
    assert "though heart-beats of 3.0 s were agreed" in fault.detail
    assert ("proxy_timeout 10m" if place is tcp else "proxy_read_timeout 60s") in fault.remedy


async def test_it_keeps_what_is_small(gateway: GatewayProcess, nursery: trio.Nursery) -> None:
    """Not even CONNECTED comes."""
    port = await nursery.start(partial(relay, gateway.tcp_port, hold=200))
    found = await look(tcp=(tcp(port),), patience=0.5)
    assert "no answer to CONNECT within 0.5 s" in only(found, "session").detail


async def test_it_collects_messages(gateway: GatewayProcess, nursery: trio.Nursery) -> None:
    """CONNECTED passes, for it begins what is collected."""
    port = await nursery.start(partial(relay, gateway.ws_port, hold=500, sooner=2))
    found = await look(websocket=(websocket(port),), patience=0.5)
    fault = only(found, "/ws message")
    assert fault.detail == "a message of 6 octets did not come back within 0.5 s"
    assert "proxy_buffering off" in fault.remedy


async def test_heart_beats_that_are_kept(gateway: GatewayProcess, nursery: trio.Nursery) -> None:
    port = await nursery.start(partial(relay, gateway.tcp_port, hold=60))
    found = await look(tcp=(tcp(port),), patience=2.0, idle=1.5)
    assert "came in 2 s, though one each 0.5 s was agreed" in only(found, "heart-beats").detail


async def test_pings_that_do_not_come() -> None:
    """The gateway sends none; by the settings that the doctor is told it does."""
    with start_gateway(websocket_ping=0) as mute:
        place = websocket(mute.ws_port)
        found = await look(websocket=(place,), settings=settings_of(mute, websocket_ping=0.2), idle=0.6)
        assert "though websocket_ping is 0.2 s" in only(found, "silence").detail
        found = await look(websocket=(place,), idle=0.6)
        assert "--idle SECONDS" in only(found, "silence", Level.WARN).remedy


async def test_a_message_that_takes_long(gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_SLOW", 0.0)
    found = await look(tcp=(tcp(gateway.tcp_port),))
    assert "proxy_buffering off" in only(found, f"{gateway.tcp_port} message", Level.WARN).remedy


async def test_a_large_message_does_not_pass(gateway: GatewayProcess, nursery: trio.Nursery) -> None:
    port = await nursery.start(partial(relay, gateway.ws_port, most=100_000))
    found = await look(websocket=(websocket(port),))
    assert only(found, "/ws message", Level.OK)
    fault = only(found, "large message")
    assert "a message of 262144 octets broke the connection" in fault.detail


async def test_a_message_that_the_gateway_itself_refuses() -> None:
    with start_gateway(max_body=100_000) as narrow:
        found = await look(tcp=(tcp(narrow.tcp_port),))
    fault = only(found, "large message")
    assert "ERROR body too large" in fault.detail
    assert "max_body" in fault.detail


@pytest.mark.parametrize("header", [PROXY_1, PROXY_2])
async def test_a_proxy_header_that_nobody_waits_for(
    gateway: GatewayProcess, nursery: trio.Nursery, header: bytes
) -> None:
    port = await nursery.start(partial(relay, gateway.tcp_port, preface=header))
    found = await look(tcp=(tcp(port),))
    assert "tcp_proxy_protocol = true" in only(found, "session").remedy
    port = await nursery.start(partial(relay, gateway.ws_port, preface=header))
    found = await look(websocket=(websocket(port),))
    assert "websocket_proxy_protocol = true" in only(found, "upgrade").remedy


async def test_a_proxy_header_that_nobody_sends(nursery: trio.Nursery) -> None:
    settings = {"tcp_proxy_protocol": True, "websocket_proxy_protocol": True, "trusted_proxies": HOST}
    with start_gateway(**settings) as waiting:
        port = await nursery.start(relay, waiting.tcp_port)
        found = await look(tcp=(tcp(port),))
        fault = only(found, "session")
        assert "the gateway waits for a PROXY header" in fault.detail
        assert "proxy_protocol on;" in fault.remedy
        assert "tcp_proxy_protocol = false" in fault.remedy
        port = await nursery.start(relay, waiting.ws_port)
        found = await look(websocket=(websocket(port),))
        assert "websocket_proxy_protocol = false" in only(found, "upgrade").remedy
        port = await nursery.start(partial(relay, waiting.tcp_port, preface=PROXY_1))
        found = await look(tcp=(tcp(port),), settings=settings_of(waiting))
        assert only(found, "large message", Level.OK)


async def test_a_proxy_that_is_not_trusted(nursery: trio.Nursery) -> None:
    settings = {"tcp_proxy_protocol": True, "trusted_proxies": "192.0.2.1"}
    with start_gateway(**settings) as waiting:
        found = await look(tcp=(tcp(waiting.tcp_port),))
    fault = only(found, "session")
    assert "closed at CONNECT without a word" in fault.detail
    assert "trusted_proxies" in fault.remedy


async def test_another_program(gateway: GatewayProcess, nursery: trio.Nursery) -> None:
    async def greet(stream: trio.SocketStream) -> None:
        await stream.send_all(b"220 mail.example.org ESMTP\x1b[2J\r\n")

    serve = partial(trio.serve_tcp, greet, 0, host=HOST)
    listeners: list[trio.SocketListener] = await nursery.start(serve)
    port = listeners[0].socket.getsockname()[1]
    found = await look(tcp=(tcp(port),))
    fault = only(found, "session")
    assert "'220 mail.example.org ESMTP [2J'" in fault.detail
    assert "Another program has this port" in fault.remedy
    found = await look(websocket=(websocket(port),))
    assert "which is no HTTP" in only(found, "upgrade").detail


async def test_a_listener_that_says_nothing(nursery: trio.Nursery) -> None:
    listeners: list[trio.SocketListener] = await nursery.start(partial(trio.serve_tcp, _wait, 0, host=HOST))
    port = listeners[0].socket.getsockname()[1]
    found = await look(tcp=(tcp(port), tcp(port, tls=True)), websocket=(websocket(port),), patience=0.3)
    assert "no answer to CONNECT within 0.3 s" in only(found, f"stomp://{HOST}:{port} session").detail
    assert "no answer to the upgrade within 0.3 s" in only(found, "upgrade").detail
    assert "no TLS handshake within 0.3 s" in only(found, f"stomps://{HOST}:{port}").detail


async def _wait(stream: trio.SocketStream) -> None:
    async for _ in stream:
        pass


async def test_nobody_listens() -> None:
    found = await look(tcp=(tcp(1), tcp(61613, "no-such-host.invalid"), tcp(61613, "255.255.255.255")))
    assert [each.detail for each in found[:2]] == [
        "nobody listens at 127.0.0.1:1",
        "the host name no-such-host.invalid cannot be resolved",
    ]
    assert found[2].detail.startswith("255.255.255.255:61613 cannot be reached: ")


async def test_a_firewall(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drop(*_: object, **__: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(trio, "open_tcp_stream", drop)
    found = await look(tcp=(tcp(61613),), patience=0.1)
    assert [each.detail for each in found] == ["no answer from 127.0.0.1:61613 within 0.1 s"]


async def test_a_place_that_is_gone_when_its_silence_is_to_be_heard() -> None:
    found: list[Finding] = []
    await silence.examine(Dialler(1, trusting()), websocket(1), Orders(idle=0.3), {}, found.append)
    assert sorted(each.what for each in found) == ["ws://127.0.0.1:1/ws heart-beats", "ws://127.0.0.1:1/ws silence"]
    assert {each.detail for each in found} == {"nobody listens at 127.0.0.1:1"}
