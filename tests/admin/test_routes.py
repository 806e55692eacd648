"""Rules of every endpoint: access, methods, queries, bodies, and the audit log."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.admin import request_parsing, site
from gateway.admin.access import AccessControl
from gateway.admin.endpoint import Endpoint
from tests.app.asgi import request

from .running import BEARER, STRANGER, Running


@pytest.fixture
async def table(here: Running) -> list[Endpoint]:
    return site.endpoints(here.gateway, here.settings, AccessControl(here.gateway, here.settings))


def lines(logs: Any) -> list[Any]:
    return [each for each in logs if each["event"] == "admin"]


def path_of(endpoint: Endpoint) -> str:
    return endpoint.path.replace("{id}", "nobody").replace("{job}", "nothing")


OPEN = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/config.json"),
    ("GET", "/api/v1/me"),
    ("POST", "/api/v1/login"),
    ("POST", "/api/v1/tickets"),
    ("OPTIONS", "/api/v1/tickets"),
}


class TestEveryEndpoint:
    async def test_endpoints_without_a_login_are_listed_here(self, table: list[Endpoint]) -> None:
        assert {(each.method, each.path) for each in table if not each.guarded} == OPEN
        assert {each.path for each in table if each.scrapers} == {"/metrics"}

    async def test_strangers_are_refused(self, here: Running, table: list[Endpoint]) -> None:
        for each in table:
            if each.guarded:
                answer = await here.ask(each.method, path_of(each), {} if each.body else None, client=STRANGER)
                assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="gateway"')

    async def test_a_page_of_another_site_changes_nothing(self, here: Running, table: list[Endpoint]) -> None:
        for each in table:
            if each.action and each.method != "GET":
                headers = {**BEARER, "origin": "https://evil.example"}
                answer = await here.ask(each.method, path_of(each), {} if each.body else None, headers=headers)
                assert answer.status == 403, each.path

    async def test_every_change_is_audited(self, here: Running, table: list[Endpoint]) -> None:
        for place, each in enumerate(table):
            if each.method in {"POST", "DELETE"} and each.path != "/api/v1/tickets":
                assert each.action, each.path
                client = (f"192.0.2.{place}", 1)  # of one address only so many are told
                with capture_logs() as logs:
                    await here.ask(each.method, path_of(each), {} if each.body else None, client=client)
                (line,) = lines(logs)
                assert (line["action"], line["outcome"], line["user"]) == (each.action, "refused", "")
                assert line["log_level"] == "warning"

    async def test_a_body_that_is_no_json(self, here: Running, table: list[Endpoint]) -> None:
        bodies = [each for each in table if each.body is not None]
        assert len(bodies) == 6
        for each in bodies:
            answer = await here.ask("POST", each.path, b"a=1", headers={**BEARER, "content-type": "text/plain"})
            assert (answer.status, answer.error) == (415, "the body must be application/json, not text/plain")
            answer = await here.ask("POST", each.path, b"{", headers=BEARER)
            assert (answer.status, "connection" in answer.headers) == (400, False)
            answer = await here.ask("POST", each.path, {"planted": 1}, headers=BEARER)
            assert answer.status == 400
            assert "planted" in answer.error or "missing" in answer.error
            answer = await here.ask("POST", each.path, b" " * (request_parsing.MAX_BODY + 1), headers=BEARER)
            assert (answer.status, answer.error) == (413, "the body is larger than 1048576 bytes")
            assert answer.headers["connection"] == "close", "what is left of the body would be in the way"

    async def test_unknown_parameters(self, here: Running, table: list[Endpoint]) -> None:
        for each in table:
            if each.path.startswith("/api/") and each.method == "GET" and each.guarded:
                answer = await here.ask("GET", path_of(each), headers=BEARER, planted="1")
                assert (answer.status, "'planted'" in answer.error) == (400, True)
        assert (await here.ask("GET", "/healthz", planted="1")).status == 200
        assert (await here.ask("GET", "/metrics", headers=BEARER, planted="1")).status == 200

    async def test_other_methods_and_paths(self, here: Running, table: list[Endpoint]) -> None:
        for each in table:
            answer = await here.ask("PATCH", path_of(each), headers=BEARER)
            assert (answer.status, each.method in answer.headers["allow"]) == (405, True)
        for headers, status in ((BEARER, 200), ({}, 401)):
            assert (await request(here.app, "/api/v1/sessions", method="HEAD", headers=headers)).status == status
        answer = await here.ask("GET", "/api/v1/nothing", headers=BEARER)
        assert (answer.status, answer.error) == (404, "not found")
        answer = await here.ask("POST", "publish", {}, headers={**BEARER, "content-length": "9" * 30})
        assert answer.status == 413, "it is not read"
