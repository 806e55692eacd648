"""Pattern x action x identity x transport x address, through a whole gateway: listener, login, session, rules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.broker.model.identity import Credentials, Identity
from gateway.config.settings import load
from gateway.runtime.gateway import Gateway, open_gateway
from tests.transports.peers import UPGRADE, Peer, TcpWire, WebSocketWire, dial, dial_stream, response_of

RULES = """
[[rule]]
destination = "/topic/prices.secret.**"
deny = ["subscribe"]
[[rule]]
destination = "/topic/prices.**"
users = ["*"]
allow = ["subscribe"]
[[rule]]
destination = ["/queue/home.{user}.**", "/user/queue/**"]
users = ["*"]
allow = ["send", "subscribe"]
[[rule]]
destination = "/user/*/queue/inbox"
users = ["*"]
allow = ["send"]
[[rule]]
destination = "/topic/prices.**"
groups = ["feed"]
allow = ["send"]
[[rule]]
destination = ["/queue/public", "/topic/public"]
transports = ["websocket"]
allow = ["send", "subscribe"]
[[rule]]
destination = "**"
groups = ["ops"]
allow = ["send", "subscribe", "admin"]
"""
GROUPS = {"feeder": {"feed"}, "root": {"ops"}}
USERS = ("alice", "a.b", "*", "feeder", "root", "anonymous")
WAY = {"tcp": "", "websocket": "--transport=websocket "}
NAMED = "alice a.b * feeder root"

# Action, destination, and the users that may, over TCP; `@` behind a name: over WebSocket only.
MATRIX = [
    ("subscribe", "/topic/prices.gold", NAMED),
    ("subscribe", "/exchange/amq.topic/prices.gold", NAMED),
    ("subscribe", "/topic/prices.secret.gold", ""),
    ("subscribe", "/topic/prices.#", ""),
    ("subscribe", "/topic/prices.secret.#", ""),
    ("subscribe", "/topic/other.#", "root"),
    ("durable", "/topic/prices.#", ""),
    ("durable", "/topic/prices.gold", NAMED),
    ("send", "/topic/prices.gold", "feeder root"),
    ("send", "/topic/prices.secret.gold", "feeder root"),
    ("send", "/queue/home.alice.x", "alice root"),
    ("send", "home.alice.x", "alice root"),
    ("subscribe", "/queue/home.alice.x", "alice root"),
    ("subscribe", "/queue/home.a.b.x", "root"),
    ("subscribe", "/queue/home.a%2Eb.x", "a.b root"),
    ("browse", "/queue/home.alice.x", "alice root"),
    ("send", "/queue/home.alice.x,/queue/home.root.x", "root"),
    ("subscribe", "/user/queue/x", NAMED),
    ("send", "/user/alice/queue/x", "alice root"),
    ("send", "/user/alice/queue/inbox", NAMED),
    ("send", "/queue/public", "root alice@ a.b@ *@ feeder@ anonymous@"),
    ("subscribe", "/topic/public", "root alice@ a.b@ *@ feeder@ anonymous@"),
    ("admin", "/queue/public", "root"),
    ("reply", "/queue/home.alice.x", "alice root"),
    ("subscribe", "/temp-queue/x", f"{NAMED} anonymous"),
]

BY_ADDRESS = """
[[rule]]
destination = "/topic/news.**"
addresses = ["192.0.2.0/24", "2001:db8:bad::/48"]
deny = ["send", "subscribe"]
[[rule]]
destination = "/queue/local"
addresses = ["unix"]
allow = ["send"]
[[rule]]
destination = "/queue/desk"
transports = ["tcp"]
addresses = ["10.0.0.7"]
allow = ["send"]
[[rule]]
destination = "/topic/news.**"
allow = ["send", "subscribe"]
"""


class Trusting:
    """An authenticator that accepts every name, and knows the groups."""

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        user = credentials.login or "anonymous"
        return Identity(user, frozenset(GROUPS.get(user, ())))


def write(text: str) -> None:
    Path("gateway.toml").write_text(text, encoding="utf-8")


@pytest.fixture(autouse=True)
def _a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(RULES)


@pytest.fixture(params=["tcp", "websocket"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@asynccontextmanager
async def gateway(**keys: Any) -> AsyncIterator[Gateway]:
    read = partial(load, **{"tcp": ["127.0.0.1:0"], "websocket": ["127.0.0.1:0"], "close_linger": 0.0} | keys)
    async with open_gateway(read(), authenticator=Trusting(), read=read) as running:
        yield running


async def come(running: Gateway, kind: str, user: str) -> Peer:
    peer = await dial(kind, running.addresses[kind][0])
    await peer.connect(**({} if user == "anonymous" else {"login": user}))
    return peer


def behind_a_proxy(folder: Path) -> AbstractAsyncContextManager[Gateway]:
    return gateway(
        tcp=[f"unix:{folder}/tcp"], websocket=[f"unix:{folder}/ws"], trusted_proxies=["unix"], tcp_proxy_protocol=True
    )


async def come_from(running: Gateway, kind: str, user: str, address: str) -> Peer:
    stream = await dial_stream(running.addresses[kind][0])
    wire = TcpWire(stream)
    if kind == "tcp":
        version = 6 if ":" in address else 4
        known = f"TCP{version} {address} {'::1' if version == 6 else '127.0.0.1'} 5000 61613"
        await stream.send_all(f"PROXY {'UNKNOWN' if address == 'unix' else known}\r\n".encode())
    else:
        said = b"" if address == "unix" else f"X-Forwarded-For: {address}\r\n".encode()
        await stream.send_all(UPGRADE.replace(b"\r\n\r\n", b"\r\n" + said + b"\r\n"))
        wire = WebSocketWire(stream, await response_of(stream))
    peer = Peer(wire)
    await peer.connect(**({} if user == "anonymous" else {"login": user}))
    return peer


async def attempt(peer: Peer, action: str, destination: str) -> bool:
    if action in ("subscribe", "durable", "browse"):
        asked = {"durable": {"durable": "true"}, "browse": {"browser": "true"}}.get(action, {})
        await peer.send_frame("SUBSCRIBE", destination=destination, id=1, receipt="r", **asked)
    elif action == "reply":
        # To a destination of all users, so that a refusal is about the reply-to.
        place = "/user/alice/queue/inbox"
        await peer.send_frame("SEND", destination=place, reply_to=destination, receipt="r")
    else:
        asked = {"x-max-length": "5"} if action == "admin" else {}
        await peer.send_frame("SEND", destination=destination, receipt="r", **asked)
    while True:
        received = await peer.receive()
        assert received is not None
        if received.command == "ERROR":
            assert received.headers["message"] == "access refused", received
            await peer.at_end()
            return False
        if received.command == "RECEIPT":
            return True
        assert received.command == "MESSAGE"


@pytest.mark.parametrize("user", USERS)
async def test_matrix(kind: str, user: str) -> None:
    async with gateway() as running:
        found = {}
        for action, destination, _ in MATRIX:
            peer = await come(running, kind, user)
            found[action, destination] = await attempt(peer, action, destination)
            await peer.aclose()
        expected = {
            (action, destination): user in allowed.split() or (kind == "websocket" and f"{user}@" in allowed.split())
            for action, destination, allowed in MATRIX
        }
        assert found == expected


async def test_the_address_of_a_client_counts_and_a_refusal_names_command_and_rule(kind: str, tmp_path: Path) -> None:
    write(BY_ADDRESS)
    async with behind_a_proxy(tmp_path) as running:
        allowed = []
        for place in ("10.0.0.7", "2001:db8::7", "unix", "2001:db8:bad::7"):
            for name in ("/topic/news.x", "/queue/local", "/queue/desk"):
                peer = await come_from(running, kind, "alice", place)
                if await attempt(peer, "send", name):
                    allowed.append((place, name))
                await peer.aclose()
        news = [(place, "/topic/news.x") for place in ("10.0.0.7", "2001:db8::7", "unix")]
        desk = [("10.0.0.7", "/queue/desk")] if kind == "tcp" else []
        assert sorted(allowed) == sorted([*news, *desk, ("unix", "/queue/local")])
        peer = await come_from(running, kind, "alice", "192.0.2.7")
        with capture_logs() as lines:
            await peer.publish("/topic/news.x", b"x")
            error = await peer.at_end_after_error()
        asked = f"{WAY[kind]}--address=192.0.2.7 alice send /topic/news.x"
        assert error.body.decode() == f"alice may not send to '/topic/news.x'; `gateway acl explain {asked}` says why"
        (line,) = [line for line in lines if line["event"] == "session failed"]
        assert (line["log_level"], line["login"], line["rule"]) == ("info", "alice", "rule 1 (line 2) denies it")
        if kind == "websocket":
            assert peer.websocket.closed == (1008, "access refused")
        await peer.aclose()
