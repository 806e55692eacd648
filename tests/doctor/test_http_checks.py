"""HTTP: readiness with its reason, clocks, tokens, the admin API, and servers that are no gateway."""

from __future__ import annotations

import json
import re
import time

import jwt
import pytest
import trio

from gateway.doctor.clients import Connector, http_get, tls_context
from gateway.doctor.model import Level
from tests.doctor.scene import faults, http, look, only, served, settings_of, spoiled, tcp, websocket
from tests.gateway_process import GatewayProcess, start_gateway

SECRET = "s" * 32


async def test_a_gateway_that_is_not_ready_says_why() -> None:
    with start_gateway(memory_mark="8MiB") as full, trio.fail_after(20):  # no process of Python is as small as that
        while (await http_get(Connector(5, tls_context()), http(full.http_port), "/readyz")).status == 200:
            pass
        fault = only(await look(url=http(full.http_port)), "ready")
    assert fault.detail.startswith("not ready: memory is full: ")


async def test_clocks_that_differ_are_a_fault(gateway: GatewayProcess) -> None:
    for ahead, words in ((3600, r"(3599|360\d) s behind"), (-3600, r"(3599|360\d) s ahead of")):
        found = await look(url=http(gateway.http_port), now=lambda ahead=ahead: time.time() + ahead)
        fault = only(found, "clock")
        assert re.fullmatch(rf"the server's clock is {words} this machine's", fault.detail)
        assert "timedatectl set-ntp true" in fault.remedy
        assert "jwt_leeway (10 s)" in fault.remedy
    found = await look(url=http(gateway.http_port), now=lambda: time.time() + 6)
    assert "behind this machine's" in only(found, "clock", Level.OK).detail, "so small a difference is none"


async def test_the_dates_of_a_token_are_compared() -> None:
    now = 2_000_000_000
    for claims, level, words in (
        ({"iat": 0, "exp": 60}, Level.OK, "fit this machine's clock"),
        ({}, Level.OK, "it never expires"),
        ({"iat": 600}, Level.FAIL, "valid in 600 s only (iat, nbf): the clock of its issuer is ahead"),
        ({"nbf": 120}, Level.FAIL, "valid in 120 s only"),
        ({"exp": -60}, Level.FAIL, "expired 60 s ago"),
    ):
        dates = {name: now + seconds for name, seconds in claims.items()}
        token = jwt.encode({"sub": "ada", **dates}, SECRET, "HS256")
        [found] = await look(token=token, now=lambda: float(now))
        assert (found.level, words in found.detail, token in f"{found}") == (level, True, False)
    for token in ("nothing", "a.b.c", "a.W10.c", "a.eyJpYXQiOiB7fX0.c"):
        [found] = await look(token=token)
        assert (found.level, found.detail) == (Level.FAIL, "the file has no JWT that can be read")


async def test_a_token_is_a_login(tmp_path_factory: pytest.TempPathFactory) -> None:
    keys = tmp_path_factory.mktemp("keys") / "secret.txt"
    keys.write_text(SECRET)
    token = jwt.encode({"sub": "ada", "exp": time.time() + 60}, SECRET, "HS256")
    with start_gateway(jwt_keys=keys, login_delay=0) as guarded:
        targets = (tcp(guarded.tcp_port),)
        assert only(await look(tcp=targets, token=token), "login", Level.OK).detail == "let in as ada"
        found = await look(tcp=targets, token=token + "x")
        assert "login refused" in only(found, "session").detail
        assert token not in " ".join(map(str, found))
        assert "--token-file" in only(await look(tcp=targets), "login", Level.WARN).remedy


async def answering(nursery: trio.Nursery, answers: dict[str, bytes]) -> int:
    async def serve(stream: trio.SocketStream) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            request += await stream.receive_some()
        await stream.send_all(answers.get(request.split()[1].decode(), b"HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n"))

    return await served(nursery, serve)


def page(body: object, status: int = 200) -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%b" % (status, len(text), text)


async def test_another_server_is_no_gateway(nursery: trio.Nursery) -> None:
    json_without = "/healthz is not answered by a gateway: 200, "
    for answer, detail in (
        (page("hello"), f"{json_without}'\"hello\"'"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{x", f"{json_without}'{{x'"),
        (b"hello", "the answer is 'hello', which is not HTTP"),
        (b"", "it closed without an answer"),
    ):
        port = await answering(nursery, {"/healthz": answer})
        assert (await look(url=http(port)))[-1].detail == detail


async def test_the_warnings_of_readyz_are_passed_on(nursery: trio.Nursery) -> None:
    said = {"status": "ready", "certificate": "it expires soon", "journal": "the disk is full"}
    answers = {"/healthz": page({"status": "alive"}), "/readyz": page(said), "/config.json": page([])}
    port = await answering(nursery, answers)
    found = await look(url=http(port))
    assert only(found, "certificate", Level.WARN).detail == "it expires soon"
    assert only(found, "journal", Level.WARN).detail == "the disk is full"
    assert only(found, "clock", Level.OK).detail == "the server does not tell its time"
    answers["/readyz"] = page({}, 418)
    assert "/readyz answers 418" in only(await look(url=http(port)), "ready").detail
    answers["/readyz"] = b"what?"
    assert "which is not HTTP" in faults(await look(url=http(port)))[0]


async def test_a_proxy_that_does_not_name_its_clients_opens_the_admin_api(
    gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_CONFIG", "/etc/other.toml")
    forwarded_for = "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"
    others = ["proxy_set_header X-Forwarded-Host $http_host;", "proxy_set_header X-Forwarded-Proto $scheme;"]
    with spoiled(gateway, dict.fromkeys([forwarded_for, *others], "")) as port:
        found = await look(url=http(port), settings=settings_of(gateway))
    assert "X-Forwarded-For" in only(found, "forwarding").remedy
    assert only(found, "forwarding").remedy.endswith(" in /etc/other.toml")
    remedy = only(found, "/api/v1/sessions").remedy
    assert "admin_token" in remedy
    assert forwarded_for in remedy
    assert "open to every client" in only(found, "/metrics").detail
    # 0.0.0.0 leads to this machine, and as a Host it names another.
    targets = {"url": http(gateway.http_port, "0.0.0.0"), "websocket": (websocket(gateway.ws_port, "/stomp"),)}
    found = await look(**targets, settings=settings_of(gateway))
    assert only(found, "/metrics", Level.OK).detail == "closed without a token (403)"
    told = next(each for each in found if "has its WebSocket" in each.detail)
    assert (told.level, told.remedy) == (Level.WARN, 'Connect to /ws, or write websocket_path = "/stomp"')
    assert "the path is wrong" in only(found, "upgrade").detail


@pytest.mark.parametrize(
    ("sentence", "level"),
    [
        ("this node is a standby: the primary is b", Level.OK),
        ("this node is a standby, and cannot take over: the disk is full; the primary is b", Level.WARN),
        ("this node is drained: the primary is b", Level.WARN),
        ("the gateway is shutting down", Level.FAIL),
    ],
)
async def test_a_standby_that_is_not_ready(sentence: str, level: Level, nursery: trio.Nursery) -> None:
    said = {"status": "not ready", "error": sentence}
    answers = {"/healthz": page({"status": "alive"}), "/readyz": page(said, 503), "/config.json": page([])}
    port = await answering(nursery, answers)
    found = await look(url=http(port))
    assert sentence in only(found, "ready", level).detail
    skipped = "not checked, because this node is a standby" in [each.detail for each in found]
    assert skipped == (level is not Level.FAIL)
