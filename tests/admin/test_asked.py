"""What a request asks: the kinds of parameters, and bodies as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from starlette.requests import Request
from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.admin import asked, message_models
from gateway.admin.endpoint import Parameter
from gateway.admin.errors import BadQuery, Refused
from tests.app.asgi import LOCAL, scope_of

from .running import Running, running

BEARER = {"authorization": "Bearer planted-token"}


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.chdir(tmp_path)
    async with running(admin_token="planted-token") as found:
        yield found


class TestQueries:
    """The kinds of parameters."""

    QUERY = (
        Parameter("n", "a number", "integer", 5, least=1, most=9),
        Parameter("r", "a real one", "number", 1.5, least=1, most=9),
        Parameter("b", "a switch", "boolean", False),
        Parameter("s", "a text"),
        Parameter("e", "one of two", enum=("x", "y")),
    )

    def read(self, query: str) -> dict[str, object] | str:
        try:
            return {**asked.query_of(Request(scope_of("GET", f"/?{query}", {}, LOCAL)), self.QUERY)}
        except BadQuery as error:
            return str(error)

    @pytest.mark.parametrize(
        ("query", "name", "value"),
        [
            ("", "n", 5),
            ("n=9", "n", 9),
            ("r=2", "r", 2.0),
            ("r=2.25", "r", 2.25),
            ("", "b", False),
            ("b=true", "b", True),
            ("", "s", None),
            ("s=", "s", ""),
            ("s=%C3%A9", "s", "\u00e9"),
            ("e=y", "e", "y"),
        ],
    )
    def test_right(self, query: str, name: str, value: object) -> None:
        found = self.read(query)
        assert isinstance(found, dict)
        assert found[name] == value

    @pytest.mark.parametrize(
        ("query", "sentence"),
        [
            ("n=10", "n must be a number from 1 to 9"),
            ("n=1.5", "n must be a number from 1 to 9"),
            ("r=nan", "r must be a number from 1 to 9, like 12.5"),
            ("r=1e0", "r must be a number from 1 to 9, like 12.5"),
            ("r=0.5", "r must be a number from 1 to 9, like 12.5"),
            ("b=1", "b must be true or false"),
            ("e=z", "e must be one of x, y"),
            ("z=1", "this has no parameter 'z'; it has n, r, b, s, e"),
        ],
    )
    def test_wrong(self, query: str, sentence: str) -> None:
        assert self.read(query) == sentence


class TestBodies:
    async def test_a_client_that_goes_midway(self, here: Running) -> None:
        """It is nobody's fault, and nobody's traceback."""
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
        with pytest.raises(Refused, match="the body did not come within 30 s") as caught:
            await asked.body_of(Request(scope_of("POST", "/", headers), trio.sleep_forever), message_models.Purge)
        assert caught.value.status == 408
        assert trio.current_time() == asked.PATIENCE

    @pytest.mark.parametrize("limit", [True, "5", 5.0])
    async def test_of_another_type(self, here: Running, limit: object) -> None:
        """Nothing is guessed: the reference says what is a number."""
        body = {"destination": "/queue/a", "limit": limit}
        answer = await here.ask("POST", "queues/redrive", body, headers=BEARER)
        assert (answer.status, "'limit'" in answer.error) == (400, True)

    async def test_in_pieces(self, here: Running) -> None:
        pieces = [b'{"destination": "/queue/a",', b' "body": "x"}']
        sent: list[Any] = []

        async def receive() -> Any:
            piece = pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = {"host": "localhost", "content-type": "application/json; charset=utf-8", **BEARER}
        await here.app(scope_of("POST", "/api/v1/publish", headers), receive, send)
        assert sent[0]["status"] == 200
