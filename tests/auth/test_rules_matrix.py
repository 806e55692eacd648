"""Pattern x action x identity x transport x address, through a whole gateway: listener, login, session, rules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.broker.model.identity import Credentials, Identity
from gateway.config.settings import load
from gateway.runtime.gateway import Gateway, open_gateway
from tests.transports.peers import UPGRADE, Peer, WebSocketWire, dial, dial_stream, response_of

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


async def test_the_address_of_a_client_counts_and_a_refusal_names_command_and_rule() -> None:
    deny = '[[rule]]\ndestination = "/topic/news.**"\naddresses = ["192.0.2.0/24"]\ndeny = ["send"]\n'
    write(f'{deny}[[rule]]\ndestination = "/topic/news.**"\nallow = ["send"]\n')
    async with gateway(trusted_proxies=["127.0.0.1"]) as running:
        for address, allowed in (("10.0.0.7", True), ("192.0.2.7", False)):
            stream = await dial_stream(running.addresses["websocket"][0])
            said = f"X-Forwarded-For: {address}\r\n".encode()
            await stream.send_all(UPGRADE.replace(b"\r\n\r\n", b"\r\n" + said + b"\r\n"))
            peer = Peer(WebSocketWire(stream, await response_of(stream)))
            await peer.connect(login="alice")
            with capture_logs() as lines:
                await peer.send_frame("SEND", destination="/topic/news.x", receipt="r")
                answer = await peer.receive()
            assert answer is not None
            assert answer.command == ("RECEIPT" if allowed else "ERROR")
            await peer.aclose()
    asked = "--address=192.0.2.7 alice send /topic/news.x"
    assert answer.body.decode() == f"alice may not send to '/topic/news.x'; `gateway acl explain {asked}` says why"
    (line,) = [line for line in lines if line["event"] == "session failed"]
    assert (line["log_level"], line["login"], line["rule"]) == ("info", "alice", "rule 1 (line 1) denies it")
