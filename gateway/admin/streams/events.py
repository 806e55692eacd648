"""Server-sent events: the part that all streams have in common.

    class Prices(EventsResponse):
        async def write_all(self, write):
            while True:
                await write(one_event("price", await awake(write, self.next_price)))

A stream ends when `write_all` returns, when its reader has gone, and when the reader takes nothing for `LONGEST_WRITE`.
Only in the last case is there no end of the body: the HTTP server then closes the connection, so that the reader can
tell a stream that was cut from one that has ended.  See the HTML standard, section 9.2.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.admin.endpoint import EVENT_STREAM

SILENCE = 15.0  # seconds without an event, until a comment is due: nginx gives up after 60
LONGEST_WRITE = 30.0  # seconds for a reader to take what was written

COMMENT = ":\n\n"  # finds readers that have gone, and keeps proxies awake

_HEADERS = {
    "content-type": EVENT_STREAM,
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # nginx would keep events until it has a page of them
}
_T = TypeVar("_T")
Write = Callable[[str], Awaitable[None]]


class EventsResponse(Response):
    """An answer that is a stream of events."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(headers={**_HEADERS, **(headers or {})})
        del self.headers["content-length"]

    async def write_all(self, write: Write) -> None:
        """Write the events until the stream ends.  `write` raises trio.TooSlowError: the reader takes nothing."""
        raise NotImplementedError

    async def watch(self) -> None:
        """Runs beside `write_all`; it may return early."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] == "HEAD" or await self._write_to_the_end(receive, send):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write_to_the_end(self, receive: Receive, send: Send) -> bool:
        """Write all events; False: the reader takes nothing, so its connection must be closed before the end."""

        async def write(text: str) -> None:
            with trio.fail_after(LONGEST_WRITE):
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_wait_until_gone, receive, nursery.cancel_scope)
            nursery.start_soon(self.watch)
            try:
                await self.write_all(write)
            except trio.TooSlowError:
                return False
            finally:
                nursery.cancel_scope.cancel()
        return True


async def awake(write: Write, wait: Callable[[], Awaitable[_T]]) -> _T:
    """What `wait` returns; a comment is written after each `SILENCE`, and `wait` is called again."""
    while True:
        with trio.move_on_after(SILENCE):
            return await wait()
        await write(COMMENT)


def one_event(name: str, data: Mapping[str, object]) -> str:
    """The text of an event; JSON has no line breaks, so it is one line."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


async def _wait_until_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
