"""Request parsing: the kinds of parameters, and bodies as they come."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import trio
from pydantic import Field
from starlette.requests import Request
from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.admin.endpoint import ApiError, ApiModel, decimal, one_of, whole_number
from gateway.admin.messages import Purge
from gateway.admin.request_parsing import PATIENCE, parse_body, parse_query
from tests.app.asgi import LOCAL, scope_of

from .running import BEARER, Running


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
