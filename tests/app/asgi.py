"""The server's side of ASGI, in memory: one request, or one lifespan, against an application.

It knows the few message types that our application uses, and no loop: everything here is called on whichever loop the
test runs, trio or asyncio.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope

LOCAL = ("127.0.0.1", 50_000)


@dataclass
class Answer:
    """A response, whole."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The one sentence of an error."""
        sentence = self.json["error"]
        assert isinstance(sentence, str)
        assert "\n" not in sentence
        return sentence


def scope_of(method: str, path: str, headers: Mapping[str, str], client: tuple[str, int] | None = LOCAL) -> Scope:
    """The scope that hypercorn makes of a request."""
    path, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
        "client": client,
        "server": ("127.0.0.1", 8000),
        "state": {},
        "extensions": {},
    }


async def for_ever() -> None:
    """Wait until cancelled, on either loop."""
    if trio.lowlevel.in_trio_run():
        await trio.sleep_forever()
    await asyncio.Event().wait()


async def request(
    app: ASGIApp,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    client: tuple[str, int] | None = LOCAL,
    answer: Answer | None = None,
    scheme: str = "http",
    body: bytes = b"",
) -> Answer:
    """One request; `host: localhost` unless the headers say otherwise.

    Give an `answer` to be filled when the application raises after it has answered.
    """
    answer = answer or Answer()

    asked = False

    async def receive() -> Message:
        nonlocal asked
        if asked:  # the next message would be http.disconnect
            await for_ever()
        asked = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            assert message["type"] == "http.response.body"
            answer.body += message.get("body", b"")

    scope = scope_of(method, path, {"host": "localhost"} | dict(headers or {}), client)
    await app(scope | {"scheme": scheme}, receive, send)
    return answer


class StreamReader:
    """The reader of an answer that is a stream, in the server's place; on trio only.

    Attributes:
        status: of the answer; 0: it has not begun.
        text: all that came.
        is_complete: the stream has ended.
        is_stuck: it takes nothing.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.text = ""
        self.is_complete = self.is_stuck = False
        self._gone = trio.Event()

    def leave(self) -> None:
        self._gone.set()

    async def receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_stuck:
            await trio.sleep_forever()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): text.decode() for name, text in message["headers"]}
        else:
            self.text += message.get("body", b"").decode()
            self.is_complete = not message.get("more_body", False)


class Lifespan:
    """A server's lifespan: asks for the start, and for the stop as soon as `stop` returns.

    Args:
        app: the application.
        stop: awaited between `startup.complete` and the request to shut down.
    """

    def __init__(self, app: ASGIApp, stop: Callable[[], Awaitable[object]]) -> None:
        self._app = app
        self._stop = stop
        self._asked = False
        self.sent: list[Message] = []

    async def run(self) -> None:
        """The whole lifespan."""
        await self._app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, self._receive, self._send)

    @property
    def types(self) -> list[str]:
        """Types of the messages sent by the application, without `lifespan.`."""
        return [message["type"].removeprefix("lifespan.") for message in self.sent]

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "lifespan.startup"}
        await self._stop()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)
