"""docs/security.md, run as it stands: what is under one heading is an example; its tables are compared with the code.

An example's files are written (the page's first block begins each gateway.toml, a first line `# name.py` names a file),
its commands run, a gateway started, and each client must come in as `alice`.  Replaced are addresses alone.
"""

from __future__ import annotations

import json
import os
import queue
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
import stomp
import trio
import trustme
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from stomp.utils import Frame

from gateway.admin import access, listing, routes
from gateway.auth import failed_logins, passwords, tokens
from gateway.broker import selectors
from gateway.broker.core.work_limits import WORK_LIMITS
from gateway.broker.model import patterns
from gateway.broker.model.destinations import MAX_DESTINATIONS
from gateway.broker.selectors.parser import MAX_DEPTH
from gateway.broker.session.subscription_table import SessionQuota
from gateway.config.policies import KEY_RULES
from gateway.config.settings import Settings, load
from gateway.transports.flow.frame_trace import MOST_VIEWS
from tests.auth import issuer
from tests.auth.test_cookies import flask
from tests.auth.test_process import upgrade
from tests.clients.driver import tool
from tests.docs.page import Block, blocks
from tests.gateway_process import HOST, GatewayProcess, free_ports, start_gateway

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "security.md"
TEXT = PAGE.read_text(encoding="utf-8")

PASSCODE = "correct horse battery staple"
API_KEY = "key-of-alice"
PATIENCE = 30.0
APPLICATION = "https://app.example.org"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("GATEWAY_"):
            monkeypatch.delenv(name)


def is_client(block: Block) -> bool:
    return block.kind == "js" or "connection.connect(" in block.text


BLOCKS = blocks("docs/security.md")
BASE = next(block for block in BLOCKS if block.kind == "toml").text
PREAMBLE = next(block for block in BLOCKS if block.kind == "python")
TOML = [block for block in BLOCKS if block.kind == "toml" and block.text != BASE]
EXAMPLES = list(dict.fromkeys(block.title for block in BLOCKS if is_client(block)))


def under(title: str) -> list[Block]:
    return [block for block in BLOCKS if block.title == title and block.text != BASE and block != PREAMBLE]


# what no block makes


def papers(folder: Path) -> None:
    authority = trustme.CA()
    (folder / "ca.pem").write_bytes(authority.cert_pem.bytes())
    (folder / "clients.pem").write_bytes(authority.cert_pem.bytes())
    server = authority.issue_cert(HOST)
    server.private_key_pem.write_to_path(folder / "key.pem")
    server.cert_chain_pems[0].write_to_path(folder / "fullchain.pem")
    alice = authority.issue_cert("alice.example.org", common_name="alice")
    alice.private_key_pem.write_to_path(folder / "alice.key")
    alice.cert_chain_pems[0].write_to_path(folder / "alice.pem")
    (folder / "secret.txt").write_text(issuer.LONG_SECRET)
    (folder / "cookie-keys.txt").write_text(issuer.LONG_SECRET)
    with closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.execute("CREATE TABLE api_keys (digest, user, team)")
        database.execute("INSERT INTO api_keys VALUES (?, 'alice', 'ops')", [sha256(API_KEY.encode()).hexdigest()])


def new_token(seconds: float = 600) -> str:
    return jwt.encode({"sub": "alice", "exp": time.time() + seconds}, issuer.LONG_SECRET, "HS256")


class Scene:
    """An example: its folder, the gateway in it, and what its blocks know by name."""

    def __init__(self, title: str, folder: Path) -> None:
        self.title = title
        self.folder = folder
        self.tcp, self.websocket = free_ports(2)
        self.names: dict[str, Any] = {"passcode": PASSCODE, "api_key": API_KEY, "token": new_token()}
        tls: dict[str, object] = {"tcp_tls": f"{HOST}:{self.tcp}", "websocket_tls": f"{HOST}:{self.websocket}"}
        self.gateway = GatewayProcess(folder, tls)

    def prepare(self) -> None:
        papers(self.folder)
        for block in under(self.title):
            if block.kind == "python" and block.file:
                (self.folder / block.file).write_text(block.text)
            elif block.kind == "toml":
                (self.folder / "gateway.toml").write_text(BASE + block.text)
            elif block.kind == "sh":
                assert (done := self.shell(block.text)).returncode == 0, done
            elif block.kind == "python" and not is_client(block):
                exec(compile(block.text, PAGE.name, "exec"), self.names)

    def shell(self, text: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["sh", "-e", "-c", text],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            input=f"{PASSCODE}\n",
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def placed(self, text: str) -> str:
        text = text.replace('("broker.example.org", 61614)', repr((HOST, self.tcp)))
        return text.replace("wss://broker.example.org:15673/ws", f"wss://{HOST}:{self.websocket}/ws")

    def stomp_py(self, text: str) -> str:
        names = dict(self.names)
        exec(compile(self.placed(PREAMBLE.text), PAGE.name, "exec"), names)
        told = Told()
        names["connection"].set_listener("test", told)
        exec(compile(self.placed(text), PAGE.name, "exec"), names)
        user = told.user.get(timeout=PATIENCE)
        names["connection"].disconnect()
        return user

    def stomp_js(self, text: str) -> str:
        tokens = [new_token(30), new_token(3_600)]
        given = json.dumps({**{name: self.names[name] for name in ("token", "passcode")}, "tokens": tokens})
        wanted = 2 if self.title == "Renewal" else 1
        done = subprocess.run(
            [tool("node"), "--input-type=module"],
            cwd=ROOT,
            env={**os.environ, "NODE_EXTRA_CA_CERTS": str(self.folder / "ca.pem"), "GIVEN": given},
            input=f"const WANTED = {wanted};\n{WATCH}\n{self.placed(text)}",
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, (done.stderr, self.gateway.log)
        return done.stdout.strip()


class Told(stomp.ConnectionListener):
    def __init__(self) -> None:
        self.user: queue.Queue[str] = queue.Queue()

    def on_connected(self, frame: Frame) -> None:
        self.user.put(frame.headers["user-name"])


WATCH = """
import { Client as Watched } from "@stomp/stompjs";
import { WebSocket as OfPages } from "ws";
globalThis.WebSocket = OfPages;
const { tokens, ...given } = JSON.parse(process.env.GIVEN);
Object.assign(globalThis, given);
globalThis.newToken = async () => tokens.shift();
let left = WANTED;
const say = (word) => { console.log(word); if (--left === 0) process.exit(0); };
const { activate, publish } = Watched.prototype;
Watched.prototype.activate = function () {
  const { onConnect } = this;
  this.onConnect = (frame) => { onConnect?.(frame); say(frame.headers["user-name"]); };
  this.onStompError = (frame) => { console.error(frame.headers.message, frame.body); process.exit(1); };
  this.onWebSocketError = (event) => { console.error(event.message); process.exit(1); };
  activate.call(this);
};
Watched.prototype.publish = function (message) {
  this.watchForReceipt("of-the-test", () => say("renewed"));
  publish.call(this, { ...message, headers: { receipt: "of-the-test" } });
};
"""


@contextmanager
def played(title: str, folder: Path) -> Iterator[Scene]:
    scene = Scene(title, folder)
    scene.prepare()
    with scene.gateway.running():
        yield scene


@pytest.mark.long
@pytest.mark.parametrize("title", EXAMPLES)
def test_clients_come_in(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with played(title, tmp_path) as scene:
        for client in [block for block in under(title) if is_client(block)]:
            if client.kind == "js":
                assert scene.stomp_js(client.text) == ("alice\nrenewed" if title == "Renewal" else "alice")
            else:
                assert scene.stomp_py(client.text) == "alice"


@pytest.mark.long
def test_the_cookie_of_starlette(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with played("Cookie of Starlette and FastAPI", tmp_path) as scene:
        names: dict[str, Any] = {"Path": Path, "Middleware": Middleware, "SessionMiddleware": SessionMiddleware}
        exec((tmp_path / "app.py").read_text(), names)
        app = Starlette(routes=[Route("/login", _log_in, methods=["POST"])], middleware=[names["sessions"]])
        cookie = trio.run(_logged_in, app)
        assert "user-name:alice" in upgrade(scene.gateway, Cookie=f"session={cookie}", Origin=APPLICATION)
        assert "CONNECTED" not in upgrade(scene.gateway, Cookie=f"session={cookie}", Origin="https://evil.example")


async def _log_in(request: Request) -> PlainTextResponse:
    request.session.update(user="alice", groups=["ops"])
    return PlainTextResponse("welcome")


async def _logged_in(app: Any) -> str:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=APPLICATION) as browser:
        answer = await browser.post("/login")
    found = re.match(r"session=([^;]+);", answer.headers["set-cookie"])
    assert found is not None
    return found[1]


@pytest.mark.long
def test_the_cookie_of_flask(tmp_path: Path) -> None:
    with played("Cookie of Starlette and FastAPI", tmp_path) as scene:
        cookie = flask({"user": "alice", "groups": ["ops"]}, (tmp_path / "cookie-keys.txt").read_text().strip())
        assert "user-name:alice" in upgrade(scene.gateway, Cookie=f"session={cookie}", Origin=APPLICATION)


@pytest.mark.parametrize("block", TOML, ids=lambda block: block.title)
def test_settings_are_read(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gateway.toml").write_text(BASE + block.text)
    monkeypatch.setenv("GATEWAY_CONFIG", str(tmp_path / "gateway.toml"))
    assert load().exposed
    assert not load().anonymous


# tables


@pytest.mark.parametrize("title", ["Authentication", "Limits and overload"])
def test_settings_that_are_named_are_there(title: str) -> None:
    section = re.split(r"^##", TEXT.split(f"\n## {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    named = {word for word in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", section) if not word.startswith("gateway_")}
    assert named - Settings.model_fields.keys() - KEY_RULES.keys() == set()
    assert len(named) > 4


@pytest.mark.long
def test_metrics_that_are_named_are_there() -> None:
    named = {re.sub(r"\{.*", "", word) for word in re.findall(r"`(gateway_[a-z_{}=]+)`", TEXT)}
    assert len(named) > 5
    with start_gateway() as gateway:
        metrics = httpx.get(f"{gateway.http_url}/metrics").text
    assert {name for name in named if not re.search(rf"^{name}[ {{]", metrics, re.MULTILINE)} == set()


FIXED = [
    ("wildcards", patterns.MAX_WILDCARDS),
    ("words", patterns.MAX_WORDS),
    ("destinations", MAX_DESTINATIONS),
    ("browsers", SessionQuota.MOST_BROWSERS),
    ("a selector", selectors.MAX_LENGTH),
    ("a selector", MAX_DEPTH),
    ("selectors", SessionQuota.MOST_SELECTORS),
    ("ids", WORK_LIMITS.subscription_characters // 1024**2),
    ("different", WORK_LIMITS.consumer_sets),
    ("message groups", WORK_LIMITS.groups),
    ("message groups", WORK_LIMITS.group_bytes // 1024**2),
    ("upgrade request", tokens.MAX_LENGTH // 1024),
    ("a login", passwords.MAX_LENGTH),
    ("passcodes", failed_logins.PLACES),
    ("logins", access.MAX_SESSIONS),
    ("logins", round(access.LIFETIME / 3600)),
    ("sessions", MOST_VIEWS),
    ("a request", routes.MAX_BODY // 1024**2),
    ("a request", listing.MAX_LIMIT),
]


@pytest.mark.parametrize(("limit", "number"), FIXED, ids=[f"{limit}-{number}" for limit, number in FIXED])
def test_limits_without_a_setting(limit: str, number: int) -> None:
    behind = TEXT.split("\n### Limits without a setting\n", 1)[1]
    row = next(line for line in behind.splitlines() if re.match(rf"\* {limit}\b", line))
    assert number in [int(each.replace(",", "")) for each in re.findall(r"[\d,]*\d", row)]
