"""Rules of every endpoint: access, methods, queries, bodies, and the audit log."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import trio
from pydantic import Field
from starlette.requests import Request
from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.admin import routes, site
from gateway.admin.access import AccessControl
from gateway.admin.endpoint import ApiError, ApiModel, Endpoint, decimal, one_of, whole_number
from gateway.admin.messages import Purge
from gateway.admin.routes import PATIENCE, parse_body, parse_query
from tests.app.asgi import LOCAL, request, scope_of

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
    # These take the logins of applications.
    ("POST", "/api/v1/messages"),
    ("GET", "/sse"),
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
            if each.method in {"POST", "DELETE"} and each.path != "/api/v1/tickets" and each.tag != "applications":
                assert each.action, each.path
                client = (f"192.0.2.{place}", 1)  # of one address only so many are told
                with capture_logs() as logs:
                    await here.ask(each.method, path_of(each), {} if each.body else None, client=client)
                (line,) = lines(logs)
                assert (line["action"], line["outcome"], line["user"]) == (each.action, "refused", "")
                assert line["log_level"] == "warning"

    async def test_a_body_that_is_no_json(self, here: Running, table: list[Endpoint]) -> None:
        bodies = [each for each in table if each.body is not None]
        assert len(bodies) == 7
        for each in bodies:
            answer = await here.ask("POST", each.path, b"a=1", headers={**BEARER, "content-type": "text/plain"})
            assert (answer.status, answer.error) == (415, "the body must be application/json, not text/plain")
            answer = await here.ask("POST", each.path, b"{", headers=BEARER)
            assert (answer.status, "connection" in answer.headers) == (400, False)
            answer = await here.ask("POST", each.path, {"planted": 1}, headers=BEARER)
            assert answer.status == 400
            assert "planted" in answer.error or "missing" in answer.error
            answer = await here.ask("POST", each.path, b" " * (routes.MAX_BODY + 1), headers=BEARER)
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


class Query(ApiModel):
    """The kinds of parameters."""

    n: Annotated[int, whole_number(1, 9)] = 5
    r: Annotated[float, decimal()] = 1.5
    s: str = ""
    e: Annotated[str, one_of("x", "y")] = ""


class Needed(ApiModel):
    name: str = Field(description="a name")


class TestQueries:
    def read(self, query: str, model: type[ApiModel] = Query) -> dict[str, object] | str:
        try:
            return parse_query(Request(scope_of("GET", f"/?{query}", {}, LOCAL)), model).model_dump()
        except ApiError as error:
            return str(error)

    def test_right(self) -> None:
        assert self.read("") == {"n": 5, "r": 1.5, "s": "", "e": ""}
        assert self.read("n=9&r=2&s=%C3%A9&e=y") == {"n": 9, "r": 2.0, "s": "\u00e9", "e": "y"}
        assert self.read("r=2.25&s=") == {"n": 5, "r": 2.25, "s": "", "e": ""}

    @pytest.mark.parametrize(
        ("query", "sentence"),
        [
            *[
                (f"n={text}", "n must be a number from 1 to 9")
                for text in ("10", "1.5", "", "+5", "\u0663", "9" * 5000)
            ],
            *[
                (f"r={text}", "r must be a number of at most 12 digits, like 12.5")
                for text in ("nan", "1e0", "-1", "", "1" * 33, "0x10")
            ],
            ("e=z", "e must be one of x, y"),
            ("e=", "e must be one of x, y"),
            ("z=1", "this has no parameter 'z'; it has n, r, s, e"),
            ("n=1&n=2", "n is given more than once"),
        ],
    )
    def test_wrong(self, query: str, sentence: str) -> None:
        assert self.read(query) == sentence

    def test_missing(self) -> None:
        assert self.read("", Needed) == "name is missing: a name"
        assert self.read("a=1", ApiModel) == "this has no parameter 'a'; it has none"


class TestBodies:
    async def test_a_client_that_goes_midway(self, here: Running) -> None:
        """It is no error of ours, and leaves no traceback."""
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = {"host": "localhost", "content-type": "application/json", **BEARER}
        with capture_logs() as logs:
            await here.app(scope_of("POST", "/api/v1/publish", headers), receive, send)
        assert sent[0]["status"] == 400
        (line,) = [each for each in logs if each["event"] == "admin"]
        assert (line["outcome"], line["reason"]) == ("refused", "the body has no end")

    async def test_that_does_not_come(self, autojump_clock: MockClock) -> None:
        headers = {"content-type": "application/json"}
        with pytest.raises(ApiError, match="the body did not come within 30 s") as caught:
            await parse_body(Request(scope_of("POST", "/", headers), trio.sleep_forever), Purge)
        assert caught.value.status == 408
        assert trio.current_time() == PATIENCE
