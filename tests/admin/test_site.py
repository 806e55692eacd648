"""The HTTP side as a client sees it: every route, over a real broker and a stand-in for the open gateway."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

import gateway
from gateway.admin import site
from gateway.auth.authenticator import Anonymous
from gateway.broker import Broker, Session
from gateway.broker.admin import rows
from gateway.broker.core.histogram import Histogram
from gateway.broker.core.metadata import Metadata
from gateway.broker.core.storage import Storage
from gateway.broker.model.changes import Batch, Stored
from gateway.codec import V12
from gateway.config.settings import Settings, load
from gateway.runtime.reload import InForce
from gateway.stores.writer import Committer
from gateway.transports import Server
from gateway.transports.flow.back_pressure import BlockedPublishers
from gateway.transports.flow.timers import TimerWheel
from gateway.transports.wire.forwarded import Trusted
from tests.app.asgi import Answer, request

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from gateway.runtime.gateway import Gateway


@dataclass
class OpenGateway:
    """What the routes see of a gateway."""

    broker: Broker = field(default_factory=Broker)
    addresses: dict[str, list[str]] = field(
        default_factory=lambda: {"tcp": ["127.0.0.1:1"], "websocket": ["unix:/ws.sock", "127.0.0.1:15674"]}
    )
    reason: str | None = None
    faults: dict[str, str] = field(default_factory=dict)
    committer: Committer | None = None
    journal: Any = None
    certificates: Any = None
    functions: Any = None
    tracing: Any = None
    draining: bool = False
    drained: bool = False

    def __post_init__(self) -> None:
        server = Server(Anonymous())
        self.connection_limits, self.memory_guard = server.connection_limits, server.memory_guard
        self.blocked_publishers = BlockedPublishers(TimerWheel(), self.broker.counters)
        self.turns = Histogram()
        self.traces, self.fair_gates = server.traces, server.fair_gates
        self.trusted = Trusted()
        self.in_force = InForce(load())
        self.reloadables: list[object] = []

    def not_ready(self) -> str | None:
        return self.reason

    def complaints(self) -> dict[str, str]:
        return self.faults

    async def flush(self) -> None:
        raise AssertionError("nothing is written")


@dataclass
class Publisher:
    """A publisher that is blocked."""

    session: Session
    must_read: bool = False

    def held(self) -> AbstractContextManager[None]:
        return nullcontext()

    def peer_has_gone(self) -> bool:
        return False


class NoStore:
    """A store that must not be used."""

    def write(self, batch: Batch) -> None:
        raise AssertionError(batch)

    def read(self, rows: Sequence[int]) -> list[Stored]:
        raise AssertionError(rows)


class Ended:
    """The connection below a session."""

    def end(self, error: Exception) -> None:
        raise AssertionError(error)


@pytest.fixture
def opened() -> OpenGateway:
    return OpenGateway()


@pytest.fixture
def static(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html><title>demo</title>")
    (folder / "demo.js").write_text("'use strict'")
    return folder


def site_of(opened: OpenGateway, static: Path, settings: Settings | None = None) -> ASGIApp:
    chosen = settings or load()
    opened.in_force = InForce(chosen)
    return site.build(cast("Gateway", opened), chosen, static=static)


@pytest.fixture
async def app(opened: OpenGateway, static: Path) -> ASGIApp:
    return site_of(opened, static)


def connect(opened: OpenGateway, login: str) -> str:
    session = opened.broker.open_session(
        V12, login, peer="127.0.0.1:5", transport="tcp", connected_at=1.0, carrier=Ended()
    )
    return session.id


class TestHealth:
    async def test_alive(self, app: ASGIApp) -> None:
        answer = await request(app, "/healthz")
        assert (answer.status, answer.json) == (200, {"status": "alive"})

    async def test_not_ready_says_why(self, app: ASGIApp, opened: OpenGateway) -> None:
        assert (await request(app, "/readyz")).json == {"status": "ready"}
        opened.faults = {"journal": "the disk is full"}  # which is no reason
        answer = await request(app, "/readyz")
        assert (answer.status, answer.json) == (200, {"status": "ready", "journal": "the disk is full"})
        opened.reason = "the gateway is shutting down"
        answer = await request(app, "/readyz")
        assert (answer.status, answer.error) == (503, "the gateway is shutting down")

    @pytest.mark.parametrize("path", ["/healthz", "/readyz", "/config.json", "/"])
    async def test_open_to_all(self, app: ASGIApp, path: str) -> None:
        answer = await request(app, path, headers={"host": "gateway.example"}, client=("192.0.2.1", 1))
        assert answer.status == 200


PLAIN = {"websocket": ["unix:/ws.sock", "127.0.0.1:15674"]}
BOTH = {**PLAIN, "websocket_tls": ["127.0.0.1:15673"]}


@pytest.mark.parametrize(
    ("addresses", "headers", "scheme", "port", "tls"),
    [
        (PLAIN, {}, "http", 15674, False),
        (PLAIN, {"x-forwarded-host": "gateway.example"}, "http", None, False),  # it is where the page is
        (BOTH, {}, "http", 15674, False),
        (BOTH, {}, "https", 15673, True),
        ({"websocket": [], "websocket_tls": ["127.0.0.1:15673"]}, {}, "http", 15673, True),
        ({}, {}, "http", None, False),
        ({"websocket": []}, {}, "http", None, False),
        ({"websocket": ["unix:/ws.sock"]}, {}, "http", None, False),
    ],
)
async def test_config_json_names_the_websocket(
    opened: OpenGateway,
    static: Path,
    addresses: dict[str, list[str]],
    headers: dict[str, str],
    scheme: str,
    port: int | None,
    tls: bool,
) -> None:
    opened.addresses = addresses
    answer = await request(site_of(opened, static), "/config.json", headers=headers, scheme=scheme)
    assert answer.json == {"websocket_path": "/ws", "websocket_port": port} | ({"websocket_tls": True} if tls else {})


class TestMetrics:
    async def test_prometheus_text(self, app: ASGIApp, opened: OpenGateway) -> None:
        opened.broker.counters.published = 7
        connect(opened, "alice")
        answer = await request(app, "/metrics")
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert b"\ngateway_messages_published_total 7.0\n" in answer.body
        assert b'\ngateway_sessions_connected{transport="tcp"} 1.0\n' in answer.body
        answer = await request(app, "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert answer.body.endswith(b"# EOF\n")

    async def test_of_a_store(self, opened: OpenGateway, static: Path) -> None:
        assert b"gateway_store_" not in (await request(site_of(opened, static), "/metrics")).body
        storage = opened.broker.storage = Storage(Metadata(lambda: 0.0, lambda: 0.0))
        opened.committer = Committer(storage, NoStore(), opened.flush)
        answer = await request(site_of(opened, static), "/metrics")
        assert b"\ngateway_store_commit_seconds_count 0.0\n" in answer.body


async def test_a_publisher_that_is_blocked_is_in_the_list_and_the_metrics(app: ASGIApp, opened: OpenGateway) -> None:
    ids = [connect(opened, login) for login in ("alice", "bob")]
    publisher = Publisher(opened.broker.sessions[ids[1]])
    before = time.time()
    with opened.blocked_publishers.block(publisher, "queue full", destination="/queue/a"):
        answer = await request(app, "/api/v1/sessions")
        assert b"\ngateway_publishers_held 1.0\n" in (await request(app, "/metrics")).body
    alice, bob = (row["held"] for row in answer.json["sessions"])
    assert alice is None
    assert before <= bob.pop("since") <= time.time()
    assert bob == {"reason": "queue full", "destination": "/queue/a", "receiver": None}
    answer = await request(app, "/api/v1/sessions")
    assert [row["held"] for row in answer.json["sessions"]] == [None, None]


class TestPipeline:
    @pytest.fixture
    def tables(self, tmp_path: Path) -> Path:
        folder = tmp_path / "tables" / "_console"
        folder.mkdir(parents=True)
        (folder / "metrics.json").write_text('{"at": "now"}')
        (folder / "_sessions.json").write_text("half of one")
        (folder.parent / "secret.json").write_text("{}")
        return folder.parent

    async def test_a_snapshot(self, opened: OpenGateway, static: Path, tables: Path) -> None:
        app = site_of(opened, static, load(tables=tables))
        answer = await request(app, "/api/v1/pipeline")
        assert answer.json == {"jobs": {"metrics": (tables / "_console" / "metrics.json").stat().st_mtime}}
        answer = await request(app, "/api/v1/pipeline/metrics")
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json == {"at": "now"}

    @pytest.mark.parametrize(
        "name", ["sessions", "_sessions", "large", "..%2Fsecret", "../secret", "metrics.json", "%00", "a" * 70]
    )
    async def test_no_other_file(self, opened: OpenGateway, static: Path, tables: Path, name: str) -> None:
        (tables / "_console" / "large.json").write_bytes(b" " * (4 * 1024 * 1024 + 1))
        answer = await request(site_of(opened, static, load(tables=tables)), f"/api/v1/pipeline/{name}")
        assert answer.status == 404

    async def test_no_jobs(self, app: ASGIApp, opened: OpenGateway, static: Path, tmp_path: Path) -> None:
        assert (await request(app, "/api/v1/pipeline")).json == {"jobs": {}}
        assert (await request(app, "/api/v1/pipeline/metrics")).error == "the setting tables is not set"
        empty = site_of(opened, static, load(tables=tmp_path / "nothing"))
        assert (await request(empty, "/api/v1/pipeline")).json == {"jobs": {}}


class TestStatic:
    async def test_page(self, app: ASGIApp) -> None:
        answer = await request(app, "/")
        assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert b"<title>demo" in answer.body
        script = await request(app, "/demo.js")
        again = await request(app, "/demo.js", headers={"if-none-match": script.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
        answer = await request(app, "/vendor/stomp.umd.min.js")  # it was not installed
        assert (answer.status, answer.error) == (404, "not found")
        answer = await request(app, "/", method="POST")
        assert (answer.status, answer.error) == (405, "method not allowed")

    @pytest.mark.parametrize("path", ["/../../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/nul\0"])
    async def test_nothing_outside_the_folder(self, app: ASGIApp, path: str) -> None:
        assert (await request(app, path)).status == 404

    async def test_no_folder(self, opened: OpenGateway, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(site, "static_folder", lambda: None)
        app = site.build(cast("Gateway", opened), load())
        assert (await request(app, "/")).status == 404
        assert (await request(app, "/healthz")).status == 200

    def test_folder_of_a_checkout_and_of_a_wheel(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = tmp_path / "gateway"
        package.mkdir()
        monkeypatch.setattr(gateway, "__file__", str(package / "__init__.py"))
        assert site.static_folder() is None
        (tmp_path / "static").mkdir()
        assert site.static_folder() == tmp_path / "static"
        (package / "static").mkdir()
        assert site.static_folder() == package / "static"


class TestEveryAnswer:
    @pytest.mark.parametrize("path", ["/", "/healthz", "/nowhere", "/api/v1/sessions?limit=x"])
    async def test_headers(self, app: ASGIApp, path: str) -> None:
        self.check(await request(app, path))

    def check(self, answer: Answer) -> None:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "connect-src 'self' ws: wss:" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-cache"

    async def test_a_fault_of_ours(self, app: ASGIApp, opened: OpenGateway, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(broker: Broker) -> None:
            raise ZeroDivisionError("secret detail")

        monkeypatch.setattr(rows, "every_session", fail)
        answer = Answer()
        with pytest.raises(ZeroDivisionError):  # for the log of the server
            await request(app, "/api/v1/sessions", answer=answer)
        assert (answer.status, answer.error) == (500, "the gateway failed to answer; its log says why")
        self.check(answer)
