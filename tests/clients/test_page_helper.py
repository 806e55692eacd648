"""The page helper, static/client/ (page_helper.mjs): in node, by itself and through a breakable network; in Chromium
behind nginx, while the gateway is killed, drained and replaced."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from gateway import __version__
from tests.clients.driver import ROOT, Driver, tool
from tests.clients.forwarder import Forwarder, start_forwarder
from tests.clients.nginx import start_nginx
from tests.clients.worker import work
from tests.gateway_process import HOST, GatewayProcess, start_gateway
from tests.shared import write_users

HELPER = ROOT / "static" / "client"
IN_NODE = "../../static/client/index.js"
STREAMS = """
[[policy]]
match = ["/topic/stored/#", "/topic/pattern/#"]
log_messages = 10_000

[[policy]]
match = "/topic/memory/#"
log_messages = 10_000
durable = false
"""

Run = Callable[..., Any]


@pytest.fixture
def run(node: Driver, gateway: GatewayProcess, name: str) -> Run:
    """Run a scenario in node, at the folder's gateway unless the job names another."""

    def run(scenario: str, answers: dict[str, Callable[[], None]] | None = None, **job: Any) -> Any:
        usual = {"file": "page_helper.mjs", "helper": IN_NODE, "url": gateway.ws_url, "name": name}
        return node.run(scenario, answers, **(usual | job))

    return run


def test_pauses(run: Run) -> None:
    run("pauses")


def test_refusals(run: Run) -> None:
    run("refusals")


def through(relay: Forwarder) -> dict[str, Any]:
    return {"answers": {"cut": relay.cut, "lose": relay.freeze}, "url": f"ws://{HOST}:{relay.port}/ws"}


def test_sends(run: Run, gateway: GatewayProcess, ws_relay: Forwarder, name: str) -> None:
    def lose() -> None:
        ws_relay.freeze()
        ws_relay.cut()

    job = through(ws_relay)
    job["answers"]["lose"] = lose
    run("sends", **job)
    with work("1.2", gateway.tcp_port) as worker:
        worker.send(f"/queue/{name}", "end")
        worker.subscribe(f"/queue/{name}")
        assert worker.bodies(62) == [*map(str, range(61)), "end"]


def test_requests(run: Run, ws_relay: Forwarder) -> None:
    run("requests", **through(ws_relay))


def test_actions(run: Run, ws_relay: Forwarder) -> None:
    run("actions", **through(ws_relay))


def test_renewals(run: Run, tmp_path: Path) -> None:
    """A session outlives its tokens, each of which ends soon."""
    secret = "a secret of more than thirty-two bytes"
    (tmp_path / "secret.txt").write_text(f"{secret}\n")
    settings = {"jwt_keys": tmp_path / "secret.txt", "token_warning": 2, "jwt_leeway": 0}
    with start_gateway(**settings) as gateway, start_forwarder(gateway.ws_port) as relay:
        now = time.time()
        tokens = [jwt.encode({"sub": "ada", "exp": now + 5 + 3 * number}, secret, "HS256") for number in range(20)]
        renewed, given = run("renewals", tokens=tokens, milliseconds=8_000, **through(relay))
    assert renewed >= 2
    assert given >= renewed + 1


def test_login(run: Run, tmp_path: Path) -> None:
    users = write_users(tmp_path / "users.txt", {"ada": "engine"})
    with start_gateway(users_file=users) as gateway:
        tickets = f"{gateway.http_url}/api/v1/tickets"
        run("login", url=gateway.ws_url, login="ada", passcode="engine", tickets=tickets)


@pytest.fixture
def streaming(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway with a store, of which some topics have streams."""
    (tmp_path / "gateway.toml").write_text(STREAMS)
    settings = {"store": "sqlite:store.db", "drain_retry": 700}
    with GatewayProcess(tmp_path, settings).running() as process:
        yield process


def test_resumed(run: Run, streaming: GatewayProcess) -> None:
    run("resumed", url=streaming.ws_url, topic="/topic/stored/a")


def test_forgotten(run: Run, streaming: GatewayProcess, tmp_path: Path) -> None:
    def restart() -> None:
        streaming.stop()
        (tmp_path / "gateway.toml").write_text("")
        streaming.start()

    run("forgotten", {"restart": restart}, url=streaming.ws_url, topic="/topic/stored/a")


class Outages:
    """What happens to the gateway, while a publisher sends numbers to all topics and the page is kept away."""

    def __init__(self, gateway: GatewayProcess, relay: Forwarder, folder: Path, name: str) -> None:
        self.topics = {kind: f"/topic/{kind}/{name}" for kind in ("stored", "memory", "plain", "clock")}
        self.topics["pattern"] = f"/topic/pattern/{name}/*"
        self._gateway, self._relay, self._folder = gateway, relay, folder
        self._numbers = itertools.count()
        self._outage = ""
        self.meanwhile: dict[str, list[str]] = {}
        self.afterwards: dict[str, list[str]] = {}

    def answers(self, outages: list[str]) -> dict[str, Callable[[], None]]:
        acts = {"none": self._nothing, "cut": self._relay.cut, "kill": self._gateway.kill, "drain": self._gateway.stop}
        acts["replace"] = self._forget

        def act(outage: str) -> Callable[[], None]:
            return lambda: self._happen(outage, acts[outage.split()[0]])

        return {"go on": self._go_on} | {outage: act(outage) for outage in ["none", *outages]}

    def _nothing(self) -> None:
        pass

    def _forget(self) -> None:
        self._gateway.kill()
        for file in self._folder.glob("store.db*"):
            file.unlink()

    def _happen(self, outage: str, act: Callable[[], None]) -> None:
        self._outage = outage
        self._relay.held = outage != "none"
        act()
        if act not in (self._nothing, self._relay.cut):
            self._gateway.start()
        self.meanwhile[outage] = [str(next(self._numbers)) for _ in range(10)]
        self._publish(self.meanwhile[outage])
        self._relay.held = False

    def _go_on(self) -> None:
        self.afterwards[self._outage] = [*(str(next(self._numbers)) for _ in range(3)), f"end of {self._outage}"]
        self._publish(self.afterwards[self._outage])

    def _publish(self, bodies: list[str]) -> None:
        with work("1.2", self._gateway.tcp_port) as worker:
            for number, body in enumerate(bodies):
                for kind in ("stored", "memory", "plain"):
                    worker.send(self.topics[kind], body)
                worker.send(self.topics["pattern"].replace("*", "ab"[number % 2]), body)


def check(outages: list[str], here: Outages, found: dict[str, Any]) -> None:
    for outage in outages:
        came, kind = found[outage]["came"], outage.split()[0]
        every = [*here.meanwhile[outage], *here.afterwards[outage]]
        plain = every if kind == "none" else here.afterwards[outage]
        gaps = {
            "stored": kind == "replace",
            "named": kind == "replace",
            "memory": kind in ("kill", "drain", "replace"),
            "plain": kind != "none",
            "pattern": False,
        }
        assert came == {
            name: {"bodies": plain if name == "plain" else every, "gaps": int(is_gap)} for name, is_gap in gaps.items()
        }, outage
        if kind == "drain":
            assert found[outage]["waited"] >= 700


KINDS = ["cut", "kill", "drain", "replace", "kill again"]
MANY = [f"{('kill', 'drain', 'cut')[number % 3]} {number}" for number in range(30)]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("outages", [KINDS, pytest.param(MANY, marks=pytest.mark.long)], ids=["each", "many"])
def test_in_chromium_behind_nginx(
    chromium: Driver, streaming: GatewayProcess, tmp_path: Path, name: str, outages: list[str]
) -> None:
    with start_forwarder(streaming.ws_port) as relay, start_nginx(relay.port, streaming.http_port) as port:
        here = Outages(streaming, relay, tmp_path, name)
        job = {"file": "page_helper.mjs", "helper": "/client.js", "name": name, "topics": here.topics}
        origin = f"{HOST}:{port}"
        job |= {"url": f"ws://{origin}/ws", "origin": f"http://{origin}/", "outages": outages}
        found = chromium.run("outages", here.answers(outages), **job)
    check(["none", *outages], here, found)


def test_the_shortest_page(chromium: Driver, gateway: GatewayProcess) -> None:
    text = (ROOT / "docs" / "page-helper.md").read_text()
    (page,) = re.findall(r"^```html\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    source = page.replace("15674", str(gateway.ws_port)).replace("http://127.0.0.1:8000", gateway.http_url)
    context = {"bypassCSP": True}  # which is for the gateway's own pages
    chromium.run("application", origin=f"{gateway.http_url}/", source=source, title="3.20", context=context)


class TestPackage:
    def test_npm_packs_it(self, tmp_path: Path) -> None:
        """What is packed is imported beside @stomp/stompjs, and its types name what it exports."""
        command = [tool("npm"), "pack", str(HELPER), "--json", "--pack-destination", str(tmp_path)]
        packed = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=True)
        (about,) = json.loads(packed.stdout)
        assert about["version"] == __version__
        files = {each["path"] for each in about["files"]}
        assert files == {"README.md", "index.d.ts", "index.js", "package.json"}
        place = tmp_path / "node_modules" / about["name"]
        place.mkdir(parents=True)
        subprocess.run(["tar", "-xzf", tmp_path / about["filename"], "--strip-components=1", "-C", place], check=True)
        (tmp_path / "main.mjs").write_text('console.log(Object.keys(await import("stomp-gateway-client")).join())')
        said = subprocess.run([tool("node"), "main.mjs"], capture_output=True, text=True, cwd=tmp_path, check=True)
        types = (place / "index.d.ts").read_text()
        exports = re.findall(r"^export (?:class|function) (\w+)", types, re.MULTILINE)
        assert said.stdout.strip().split(",") == sorted(exports)

    def test_it_is_small(self) -> None:
        assert len((HELPER / "index.js").read_text().splitlines()) <= 300
