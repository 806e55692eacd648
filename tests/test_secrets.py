"""Nothing secret in anything that the gateway writes or tells: log, journal, metrics, API, taps, traces, errors.

A real gateway is shown planted secrets in every way that one can be shown; then all that it left is searched for them.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import itsdangerous
import jwt
import pytest
import trio
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from gateway.auth.passwords import hash_passcode

from .gateway_process import HOST, GatewayProcess, start_gateway
from .observe.collector import Collector, collecting
from .transports.peers import TEXT, UPGRADE, dial, dial_stream, frame, read_all, ws

PASSCODE = "planted-right-passcode"
WRONG = "planted-wrong-passcode"
KEY = "planted-key-of-the-issuer-of-tokens"
COOKIE_KEY = "planted-key-of-the-cookies"
ADMIN = "planted-admin-token"
METRICS = "planted-metrics-token"
TICKET = "planted-ticket-that-never-was"
OLD = "ticket-planted-and-never-given-out"
COLLECTOR = "planted-token-of-the-collector"


def token(**claims: object) -> str:
    return jwt.encode({"sub": "ada", "exp": time.time() + 86_400, **claims}, KEY, "HS256")


GOOD, OTHER, THIRD, EXPIRED = token(), token(jti="2"), token(jti="3"), token(exp=time.time() - 600)
COOKIE = itsdangerous.TimestampSigner(COOKIE_KEY).sign(base64.b64encode(b'{"user":"ada"}')).decode()
FORGED = COOKIE[:-3] + "abc"
BASIC = base64.b64encode(f"ada:{PASSCODE}".encode()).decode()
# The beginning of a token is one, too, from where it differs from others'.
START = GOOD[: GOOD.index(".") + 20]
TOKENS = (START, GOOD, OTHER, THIRD, EXPIRED)
KEYS = (KEY, COOKIE_KEY, ADMIN, METRICS, COLLECTOR)
SECRETS = (*TOKENS, *KEYS, PASSCODE, WRONG, TICKET, OLD, COOKIE, FORGED, BASIC)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{COLLECTOR}")
    with collecting() as collector:
        collector.status = 401  # at first, so that the log says why
        yield collector


@pytest.fixture
def gateway(tmp_path: Path, collector: Collector) -> Iterator[GatewayProcess]:
    (tmp_path / "users").write_text(f"ada:{hash_passcode(PASSCODE)}\n")
    (tmp_path / "keys").write_text(KEY)
    (tmp_path / "cookie-keys").write_text(COOKIE_KEY)
    with start_gateway(
        users_file=tmp_path / "users",
        jwt_keys=tmp_path / "keys",
        cookie_keys=tmp_path / "cookie-keys",
        admin_token=ADMIN,
        metrics_token=METRICS,
        admin_groups="ops",
        journal=tmp_path / "journal",
        store=f"sqlite:{tmp_path / 'store.db'}",
        trace_endpoint=collector.endpoint,
        trace_ratio=1,
        log_level="debug",
        login_delay=0,
        login_attempts=1_000,
    ) as running:
        yield running


async def connect_by(gateway: GatewayProcess, kind: str, **headers: object) -> str:
    peer = await dial(kind, f"{HOST}:{gateway.tcp_port if kind == 'tcp' else gateway.ws_port}")
    await peer.send(frame("CONNECT", **{"accept_version": "1.2", "host": "h", **headers}))
    await peer.send(frame("SEND", b"body", destination="/queue/a", passcode=WRONG, receipt="r", persistent="true"))
    await peer.send(frame("DISCONNECT", receipt="end"))
    told = ""
    while (found := await peer.receive()) is not None:
        told += f"{found.command}\n{found.headers}\n{found.body.decode()}\n"
    await peer.aclose()
    return told


async def upgrade_by(gateway: GatewayProcess, target: str, field: str = "") -> str:
    stream = await dial_stream(f"{HOST}:{gateway.ws_port}")
    request = UPGRADE.replace(b"GET /ws ", f"GET {target} ".encode())
    request = request.replace(b"\r\n\r\n", f"\r\n{field}\r\n\r\n".encode() if field else b"\r\n\r\n")
    said = ws(TEXT, b"CONNECT\naccept-version:1.2\nhost:h\n\n\0") + ws(TEXT, b"DISCONNECT\n\n\0")
    await stream.send_all(request + said)
    told = (await read_all(stream)).decode(errors="replace")
    await stream.aclose()
    return told


async def show_all(gateway: GatewayProcess) -> str:
    told = ""
    for kind in ("tcp", "websocket"):
        for passcode in (PASSCODE, WRONG, GOOD, EXPIRED, TICKET):
            told += await connect_by(gateway, kind, login="ada", passcode=passcode)
        for login in (PASSCODE, WRONG, GOOD, EXPIRED, OLD, f"Bearer {GOOD}", BASIC):  # where it does not belong
            told += await connect_by(gateway, kind, login=login)
            told += await connect_by(gateway, kind, login=login, passcode="ada")
            told += await connect_by(gateway, kind, login=login, accept_version="9.9")
        for shown in (f"Bearer {GOOD}", f"Bearer {EXPIRED}", f"Basic {BASIC}", WRONG):
            told += await connect_by(gateway, kind, Authorization=shown)
    origin = "Origin: http://localhost\r\n"
    for target, field in (
        (f"/ws?ticket={TICKET}", ""),
        (f"/elsewhere?ticket={TICKET}", ""),
        ("/ws", f"Authorization: Bearer {OTHER}"),
        ("/ws", f"Authorization: Bearer {EXPIRED}"),
        ("/ws", f"Authorization: Basic {BASIC}"),
        ("/ws", f"{origin}Cookie: session={COOKIE}"),
        ("/ws", f"{origin}Cookie: session={FORGED}"),
        ("/ws", f"Origin: https://evil.example\r\nCookie: session={COOKIE}"),
    ):
        told += await upgrade_by(gateway, target, field)
    return told


async def renew(gateway: GatewayProcess) -> str:
    peer = await dial("tcp", f"{HOST}:{gateway.tcp_port}")
    await peer.connect(passcode=GOOD)
    await peer.send_frame("SEND", OTHER.encode(), destination="/session/renew", receipt="renewed")
    await peer.frame("RECEIPT")
    await peer.send_frame("SEND", EXPIRED.encode(), destination="/session/renew")
    error = await peer.at_end_after_error()
    await peer.aclose()
    return f"{error.headers} {error.body.decode()}"


def ask(gateway: GatewayProcess, path: str, method: str = "GET", body: str | None = None, **headers: str) -> str:
    connection = http.client.HTTPConnection(HOST, gateway.http_port, timeout=10)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    told = f"{answer.status}\n{answer.headers}\n{answer.read().decode()}"
    connection.close()
    return told


# What a session may show behind its login, where an operator looks on: each ends it.
SHOWN: list[list[bytes]] = [
    [frame("SEND", THIRD.encode(), destination="/session/renew", receipt="r"), frame("DISCONNECT", receipt="e")],
    [frame("SEND", destination="/session/renew", passcode=THIRD, receipt="r"), frame("DISCONNECT", receipt="e")],
    [frame("SEND", destination="/session/renew", Authorization=f"Bearer {THIRD}"), frame("DISCONNECT", receipt="e")],
    [frame("SEND", EXPIRED.encode(), destination="/session/renew")],
    [frame("SEND", destination="/session/renew", passcode=WRONG)],
    [frame("SEND", THIRD.encode(), destination="/Session/Renew/")],
    [frame("BEGIN", transaction="t"), frame("SEND", THIRD.encode(), destination="/session/renew", transaction="t")],
    [frame("CONNECT", accept_version="1.2", host="h", login="ada", passcode=PASSCODE)],
    [frame("CONNECT", accept_version="1.2", host="h", login=GOOD, passcode="ada")],
    [frame("STOMP", accept_version="1.2", host="h", login=TICKET, Authorization=f"Basic {BASIC}")],
    [
        frame("SUBSCRIBE", destination="/queue/shown", id="1"),
        frame("SEND", destination="/queue/shown", receipt="r", passcode=WRONG, token=WRONG, cookie=f"session={WRONG}"),
        frame("SEND", destination="/queue/shown", Authorization=f"Bearer {WRONG}"),
        frame("DISCONNECT", receipt="e"),
    ],
]


async def tap_one(gateway: GatewayProcess, kind: str, said: list[bytes]) -> str:
    peer = await dial(kind, f"{HOST}:{gateway.tcp_port if kind == 'tcp' else gateway.ws_port}")
    session = (await peer.connect(passcode=GOOD)).headers["session"]
    connection = http.client.HTTPConnection(HOST, gateway.http_port, timeout=10)
    connection.request("GET", f"/api/v1/sessions/{session}/tap", headers={"Authorization": f"Bearer {ADMIN}"})
    answer = connection.getresponse()  # from then on it sees all
    for data in said:
        await peer.send(data)
    while await peer.receive() is not None:
        pass
    await peer.aclose()
    seen = (await trio.to_thread.run_sync(answer.read)).decode()
    connection.close()
    assert seen.count("event: frame") > len(said), "all of them, and an answer"
    assert "event: end" in seen
    return seen


async def tap_all(gateway: GatewayProcess) -> str:
    return "".join([await tap_one(gateway, kind, said) for kind in ("tcp", "websocket") for said in SHOWN])


def traced(spans: list[Span]) -> str:
    return "".join(map(str, spans))


JSON = {"Content-Type": "application/json"}


def log_in(gateway: GatewayProcess) -> str:
    told = ""
    tokens = [{"token": word} for word in (ADMIN, METRICS, WRONG)]
    logins = [{"login": "ada", "passcode": word} for word in (PASSCODE, WRONG, EXPIRED)]
    for shown in (*tokens, *logins, {"login": PASSCODE, "passcode": "ada"}, {"login": WRONG, "token": ADMIN}):
        told += ask(gateway, "/api/v1/login", "POST", json.dumps(shown), **JSON)
    # A field that is none is named to whoever wrote it, and to nobody else.
    assert ADMIN in ask(gateway, "/api/v1/login", "POST", json.dumps({ADMIN: WRONG}), **JSON)
    assert ADMIN in ask(gateway, f"/api/v1/me?{ADMIN}={WRONG}")
    return told


def test_nothing_secret_is_told(gateway: GatewayProcess, collector: Collector, tmp_path: Path) -> None:
    told = trio.run(show_all, gateway) + trio.run(renew, gateway)
    collector.status = 200
    assert told.count("CONNECTED") == 9, "what is right was let in, and nothing else"
    assert told.count("login refused") >= 10, "what is wrong was not"
    tapped = trio.run(tap_all, gateway)
    assert tapped.count("(hidden)") >= 2 * len(SHOWN)
    bearer = {"Authorization": f"Bearer {ADMIN}"}
    api = "sessions subscriptions destinations settings overview messages?destination=/queue/a me".split()
    for path in ("/metrics", "/readyz", "/healthz", "/config.json", *[f"/api/v1/{name}" for name in api]):
        told += ask(gateway, path, **bearer) + ask(gateway, path, Authorization=f"Bearer {WRONG}")
    told += log_in(gateway)
    answer = ask(gateway, "/api/v1/tickets", "POST", Authorization=f"Bearer {GOOD}")  # a secret, rightly
    (live,) = re.findall(r"ticket-[\w-]{20,}", answer)
    told += trio.run(partial(connect_by, gateway, "tcp", login=live))
    assert "CONNECTED" in trio.run(partial(connect_by, gateway, "tcp", passcode=live)), "it was still good"
    told += ask(gateway, "/api/v1/tickets", "POST", Authorization=f"Bearer {EXPIRED}")
    gateway.stop()
    left = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for path in (tmp_path / "users", tmp_path / "keys", tmp_path / "cookie-keys"):
        del left[path]
    left[Path("the log")] = gateway.log.encode()
    left[Path("what clients were told")] = told.encode()
    left[Path("what an operator saw")] = tapped.encode()
    left[Path("what the collector was told")] = (traced(collector.spans) + str(collector.resources)).encode()
    assert {"send /queue/a", "deliver /queue/shown"} <= {span.name for span in collector.spans}
    assert "spans cannot be sent for now" in gateway.log
    assert any("journal" in str(path) for path in left)
    for secret in (*SECRETS, live):
        plain, coded = secret.encode(), base64.b64encode(secret.encode()).rstrip(b"=")[:-1]
        for path, content in left.items():
            # A header of a message is the sender's to name and to show; ours is the CONNECT's alone.
            if secret == WRONG and path.suffix in (".seg", ".db", ".db-wal"):
                continue
            assert plain not in content, f"{secret!r} stands in {path}"
            assert coded not in content, f"{secret!r} stands in {path}, as base64"
