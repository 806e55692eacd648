"""The HTTP side: readiness with its reason, clocks, tokens, and who is not a gateway at all."""

from __future__ import annotations

import json
import re
import time
from functools import partial
from pathlib import Path

import jwt
import pytest
import trio

from gateway.config.settings import Settings
from gateway.doctor.dial import Dialler, trusting
from gateway.doctor.finding import Level
from gateway.doctor.http import get
from gateway.doctor.orders import Credentials
from tests.doctor.scene import faults, http, look, only, settings_of, tcp
from tests.gateway_process import HOST, GatewayProcess, start_gateway

SECRET = "s" * 32


async def test_not_ready_and_why() -> None:
    """No process of Python is as small as that."""
    with start_gateway(memory_mark="8MiB") as full:
        await _until_red(full.http_port)
        fault = only(await look(http=http(full.http_port)), "ready")
    assert fault.detail.startswith("not ready: memory is full: ")


async def _until_red(port: int) -> None:
    """The gateway looks at its memory now and then."""
    with trio.fail_after(20):
        while (await get(Dialler(5, trusting()), http(port), "/readyz")).status == 200:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(("ahead", "words"), [(3600, r"(3599|360\d) s behind"), (-3600, r"(3599|360\d) s ahead of")])
async def test_clocks_that_differ(gateway: GatewayProcess, ahead: float, words: str) -> None:
    found = await look(http=http(gateway.http_port), now=lambda: time.time() + ahead)
    fault = only(found, "clock")
    assert re.fullmatch(rf"the server's clock is {words} this machine's", fault.detail)
    assert "timedatectl set-ntp true" in fault.remedy
    assert "jwt_leeway (10 s)" in fault.remedy


async def test_clocks_that_differ_by_little(gateway: GatewayProcess) -> None:
    found = await look(http=http(gateway.http_port), now=lambda: time.time() + 6)
    assert "behind this machine's" in only(found, "clock", Level.OK).detail


@pytest.mark.parametrize(
    ("claims", "level", "words"),
    [
        ({"iat": 0, "exp": 60}, Level.OK, "fit this machine's clock"),
        ({}, Level.OK, "it never expires"),
        ({"iat": 600}, Level.FAIL, "good in 600 s only (iat, nbf): its issuer's clock is ahead"),
        ({"nbf": 120}, Level.FAIL, "good in 120 s only"),
        ({"exp": -60}, Level.FAIL, "has expired 60 s ago"),
    ],
)
async def test_tokens(claims: dict[str, int], level: Level, words: str) -> None:
    now = 2_000_000_000
    token = jwt.encode({"sub": "ada", **{name: now + seconds for name, seconds in claims.items()}}, SECRET, "HS256")
    [found] = await look(credentials=Credentials(token=token), now=lambda: float(now))
    assert (found.level, words in found.detail) == (level, True)
    assert token not in f"{found}"


@pytest.mark.parametrize("token", ["nothing", "a.b.c", "a.W10.c", "a.eyJpYXQiOiB7fX0.c"])
async def test_what_is_no_token(token: str) -> None:
    [found] = await look(credentials=Credentials(token=token), settings=None)
    assert (found.level, found.detail) == (Level.FAIL, "it is no JWT that can be read")


async def test_a_token_that_lets_one_in(tmp_path: Path) -> None:
    keys = trio.Path(tmp_path / "secret.txt")
    await keys.write_text(SECRET)
    token = jwt.encode({"sub": "ada", "exp": time.time() + 60}, SECRET, "HS256")
    with start_gateway(jwt_keys=keys, login_delay=0) as guarded:
        found = await look(tcp=(tcp(guarded.tcp_port),), credentials=Credentials(token=token))
        assert only(found, "login", Level.OK).detail == "let in as ada"
        found = await look(tcp=(tcp(guarded.tcp_port),), credentials=Credentials(token=token + "x"))
        assert "login refused" in only(found, "session").detail
        assert token not in " ".join(map(str, found))
        found = await look(tcp=(tcp(guarded.tcp_port),))
        assert "--token-file" in only(found, "login", Level.WARN).remedy


async def served(answers: dict[str, bytes], nursery: trio.Nursery) -> int:
    """A server that has an answer for each path; the port."""

    async def serve(stream: trio.SocketStream) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            request += await stream.receive_some()
        await stream.send_all(answers.get(request.split()[1].decode(), b"HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n"))
        await stream.aclose()

    (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host=HOST))
    return int(listener.socket.getsockname()[1])


def page(body: object, status: int = 200) -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%b" % (status, len(text), text)


async def test_who_is_no_gateway(nursery: trio.Nursery) -> None:
    port = await served({"/healthz": page("hello")}, nursery)
    fault = (await look(http=http(port)))[-1]
    assert fault.detail == "/healthz is not answered by a gateway: 200, '\"hello\"'"


async def test_what_a_gateway_complains_of(nursery: trio.Nursery) -> None:
    said = {"status": "ready", "certificate": "it expires soon", "journal": "the disk is full"}
    answers = {"/healthz": page({"status": "alive"}), "/readyz": page(said), "/config.json": page([])}
    port = await served(answers, nursery)
    found = await look(http=http(port))
    assert only(found, "certificate", Level.WARN).detail == "it expires soon"
    assert only(found, "journal", Level.WARN).detail == "the disk is full"
    assert only(found, "clock", Level.OK).detail == "the server does not say what time it is"
    answers["/readyz"] = page({}, 418)
    assert "/readyz answers 418" in only(await look(http=http(port)), "ready").detail
    answers["/readyz"] = b"what?"
    assert "which is no HTTP" in faults(await look(http=http(port)))[0]


async def test_a_page_that_does_not_come(nursery: trio.Nursery) -> None:
    (listener,) = await nursery.start(partial(trio.serve_tcp, _silent, 0, host=HOST))
    found = await look(http=http(listener.socket.getsockname()[1]), patience=0.2)
    assert "no answer to /healthz within 0.2 s" in found[-1].detail


async def _silent(stream: trio.SocketStream) -> None:
    await trio.sleep_forever()


async def test_metrics_for_the_world(gateway: GatewayProcess) -> None:
    """A host that is not loopback: 0.0.0.0 leads here, too."""
    settings: Settings = settings_of(gateway)
    found = await look(http=http(gateway.http_port, "0.0.0.0"), settings=settings)
    assert only(found, "/metrics", Level.OK).detail == "not for everybody (403)"  # its Host names another machine
