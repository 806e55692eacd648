"""The HTTP side as a client sees it: health, metrics, jobs, static files, and what every answer has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import gateway
from gateway.admin import site
from gateway.broker.admin import rows
from gateway.runtime.gateway import Gateway
from tests.app.asgi import Answer, request

from .running import STRANGER, Running, running


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    """A gateway with pages of this test's own, and with tables."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "index.html").write_text("<!doctype html><title>demo</title>")
    (tmp_path / "static" / "demo.js").write_text("'use strict'")
    async with running(tmp_path / "static", tables=tmp_path / "tables") as found:
        yield found


class TestHealth:
    async def test_not_ready_says_why(self, here: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        assert (await here.get("/healthz")) == {"status": "alive"}
        assert (await here.get("/readyz")) == {"status": "ready"}
        with monkeypatch.context() as patch:  # which is no reason
            patch.setattr(here.gateway, "journal", SimpleNamespace(failure="the disk is full"))
            patch.setattr(here.gateway, "tracing", SimpleNamespace(failure="no collector"))
            patch.setattr(here.gateway, "certificates", SimpleNamespace(warning=lambda: "it ends"))
            failing = {"journal": "the disk is full", "tracing": "no collector", "certificate": "it ends"}
            assert (await here.get("/readyz")) == {"status": "ready"} | failing
        monkeypatch.setattr(Gateway, "not_ready", lambda self: "the gateway is shutting down")
        answer = await here.ask("GET", "/readyz")
        assert (answer.status, answer.error) == (503, "the gateway is shutting down")

    async def test_open_to_all(self, here: Running) -> None:
        for path in ("/healthz", "/readyz", "/config.json", "/"):
            answer = await request(here.app, path, headers={"host": "gateway.example"}, client=STRANGER)
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
        ({"websocket": ["unix:/ws.sock"]}, {}, "http", None, False),
    ],
)
async def test_config_json_names_the_websocket(
    here: Running, addresses: dict[str, list[str]], headers: dict[str, str], scheme: str, port: int | None, tls: bool
) -> None:
    here.gateway.addresses = addresses
    answer = await here.ask("GET", "/config.json", headers=headers, scheme=scheme)
    assert answer.json == {"websocket_path": "/ws", "websocket_port": port} | ({"websocket_tls": True} if tls else {})


async def test_metrics_in_the_text_of_prometheus_or_openmetrics(here: Running) -> None:
    here.gateway.broker.counters.published = 7
    alice = await here.peer()
    answer = await here.ask("GET", "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b"\ngateway_messages_published_total 7.0\n" in answer.body
    assert b'\ngateway_sessions_connected{transport="tcp"} 1.0\n' in answer.body
    answer = await request(here.app, "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")
    await alice.aclose()


class TestPipeline:
    async def test_a_snapshot_and_no_other_file(self, here: Running, tmp_path: Path) -> None:
        assert await here.get("pipeline") == {"configured": True, "jobs": {}}
        folder = tmp_path / "tables" / "_console"
        folder.mkdir(parents=True)
        (folder / "metrics.json").write_text('{"at": "now"}')
        (folder / "_sessions.json").write_text("half of one")
        (folder / "large.json").write_bytes(b" " * (4 * 1024 * 1024 + 1))
        (folder.parent / "secret.json").write_text("{}")
        assert (await here.get("pipeline"))["jobs"]["metrics"] == (folder / "metrics.json").stat().st_mtime
        assert await here.get("pipeline/metrics") == {"at": "now"}
        for name in ("sessions", "_sessions", "large", "..%2Fsecret", "../secret", "metrics.json", "%00", "a" * 70):
            assert (await request(here.app, f"/api/v1/pipeline/{name}")).status == 404, name

    async def test_no_tables(self, site: Running) -> None:
        assert await site.get("pipeline") == {"configured": False, "jobs": {}}
        assert (await site.ask("GET", "pipeline/metrics")).error == "the setting tables is not set"


class TestStatic:
    async def test_page(self, here: Running) -> None:
        answer = await request(here.app, "/")
        assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert b"<title>demo" in answer.body
        script = await request(here.app, "/demo.js")
        again = await request(here.app, "/demo.js", headers={"if-none-match": script.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
        answer = await request(here.app, "/vendor/stomp.umd.min.js")  # it was not installed
        assert (answer.status, answer.error) == (404, "not found")
        answer = await request(here.app, "/", method="POST")
        assert (answer.status, answer.error) == (405, "method not allowed")
        for path in ("/../../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/nul\0"):
            assert (await request(here.app, path)).status == 404

    async def test_page_helper(self, here: Running, tmp_path: Path) -> None:
        (tmp_path / "static" / "client").mkdir()
        (tmp_path / "static" / "client" / "index.js").write_text("export {}")
        helper = await request(here.app, "/client.js")
        assert (helper.status, helper.body) == (200, b"export {}")
        assert helper.headers["content-type"].startswith("text/javascript")
        assert helper.headers["cache-control"] == "no-cache"
        again = await request(here.app, "/client.js", headers={"if-none-match": helper.headers["etag"]})
        assert (again.status, again.body) == (304, b"")

    async def test_folder_of_a_checkout_and_of_a_wheel_and_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = tmp_path / "gateway"
        package.mkdir()
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(gateway, "__file__", str(package / "__init__.py"))
        async with running() as without:
            assert (await without.ask("GET", "/")).status == 404
            assert (await without.ask("GET", "/healthz")).status == 200
        (tmp_path / "static").mkdir()
        assert site.static_folder() == tmp_path / "static"
        (package / "static").mkdir()
        assert site.static_folder() == package / "static"


class TestEveryAnswer:
    async def test_headers(self, here: Running) -> None:
        for path in ("/", "/healthz", "/nowhere", "/api/v1/sessions?limit=x"):
            self.check(await request(here.app, path))

    def check(self, answer: Answer) -> None:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "connect-src 'self' ws: wss:" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-cache"

    async def test_a_fault_of_ours(self, here: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(broker: object) -> None:
            raise ZeroDivisionError("secret detail")

        monkeypatch.setattr(rows, "every_session", fail)
        answer = Answer()
        with pytest.raises(ZeroDivisionError):  # for the log of the server
            await request(here.app, "/api/v1/sessions", answer=answer)
        assert (answer.status, answer.error) == (500, "the gateway failed to answer; its log says why")
        self.check(answer)
