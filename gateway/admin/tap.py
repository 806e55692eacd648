"""`GET /api/v1/sessions/{id}/tap`: the frames of one session while they come and go, as server-sent events.

    event: frame      one frame, as `gateway/transports/flow/frame_trace.py` shows it
    event: dropped    {"frames": n}: so many came faster than they could be shown, between the frame before and the next
    event: end        {"reason": "..."}: nothing more comes
    :                 a comment, when nothing came for a while: who is gone is found by it, and proxies stay awake

What was seen is written some times a second, together: so the busiest session costs no more than the ring holds, as
often as that.  The stream ends with the session, with the gateway, with the login by which its reader came, when its
reader has gone, and when it takes nothing for so long that it might as well have.
"""

from __future__ import annotations

import base64
import codecs
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio
from starlette.requests import Request
from starlette.responses import Response

from gateway.admin.access import Visitor
from gateway.admin.endpoint import Endpoint
from gateway.admin.errors import Refused
from gateway.admin.visits import Visit
from gateway.transports.flow.frame_trace import NoSession, TooManyViews, TracedFrame, TraceView

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from gateway.runtime.gateway import Gateway

PAUSE = 0.1
"""Seconds between two looks at the ring."""
SILENCE = 15.0
"""Seconds without a frame, until a comment is due: nginx gives up after 60."""
LONGEST_WRITE = 30.0
"""Seconds for a reader to take what was written."""

# Frames that become text in one turn: with bodies as large as they are shown, half a millisecond.
_PER_TURN = 32
_HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # nginx would keep events until it has a page of them
}


class TapRoom:
    """The endpoint, over an open gateway."""

    def __init__(self, opened: Gateway) -> None:
        self._traces = opened.traces

    def endpoints(self) -> list[Endpoint]:
        """Its one endpoint."""
        return [
            Endpoint(
                "GET",
                "/api/v1/sessions/{id}/tap",
                self.stream,
                "The frames of a session while they come and go, as server-sent events.",
                "sessions",
                None,
                media_type="text/event-stream",
                errors=(404, 409),
                action="tap",
                example={"id": "$SESSION", "-N": ""},
            )
        ]

    async def stream(self, request: Request) -> Response:
        """Frames, until somebody ends it."""
        session_id = request.path_params["id"]
        with _refusing():
            self._traces.find(session_id)
        visitor: Visitor = request.state.visitor
        return EventStream(partial(self._traces.view, session_id), visitor.lasts)


@contextmanager
def _refusing() -> Iterator[None]:
    """What cannot be looked at becomes the answer that says so."""
    try:
        yield
    except NoSession:
        raise Refused(404, "there is no such session") from None
    except TooManyViews as reason:
        raise Refused(409, str(reason)) from None


class EventStream(Response):
    """Writes what a view shows.

    The view is open before the first octet is sent: whoever has read the headers sees all that comes from then on.

    Args:
        look: opens the view.
        visit: that it ends with; None: its reader came without one.
    """

    media_type = "text/event-stream"

    def __init__(self, look: Callable[[], AbstractContextManager[TraceView]], visit: Visit | None = None) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._look = look
        self._visit = visit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The whole answer.

        Raises:
            Refused: it can no longer be looked at.
        """
        with ExitStack() as stack:
            with _refusing():
                view = stack.enter_context(self._look())
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if scope["method"] == "HEAD" or await self._show_to_the_end(view, receive, send):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _show_to_the_end(self, view: TraceView, receive: Receive, send: Send) -> bool:
        """Show what comes; False: the reader takes nothing, so its connection must be closed amid the answer."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_wait_until_gone, receive, nursery.cancel_scope)
            if self._visit is not None:
                nursery.start_soon(_end_with, self._visit, view)
            try:
                await _write(send, ":\n\n")  # a proxy may wait for it before it passes the headers on
                await _show(view, send)
            except trio.TooSlowError:
                return False
            finally:
                nursery.cancel_scope.cancel()
        return True


async def _wait_until_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _end_with(visit: Visit, view: TraceView) -> None:
    view.end(await visit.over())


async def _show(view: TraceView, send: Send) -> None:
    """Write what comes, until nothing more does.

    Raises:
        trio.TooSlowError: the reader takes nothing.
    """
    while True:
        with trio.move_on_after(SILENCE) as waiting:
            await view.wait()
        if waiting.cancelled_caught:
            await _write(send, ":\n\n")
            continue
        reason = view.reason
        frames, lost = view.take()
        for start in range(0, len(frames), _PER_TURN):
            await _write(send, "".join([_event("frame", row_of(each)) for each in frames[start : start + _PER_TURN]]))
        if lost:
            await _write(send, _event("dropped", {"frames": lost}))
        if reason:
            await _write(send, _event("end", {"reason": reason}))
            return
        await trio.sleep(PAUSE)


async def _write(send: Send, text: str) -> None:
    with trio.fail_after(LONGEST_WRITE):
        await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


def _event(name: str, data: Mapping[str, object]) -> str:
    """One event; JSON has no line breaks, so it is one line."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def row_of(seen: TracedFrame) -> dict[str, object]:
    """A frame as JSON has it."""
    truncated = len(seen.body) < seen.size
    try:
        # A character may have been cut.
        body, encoding = codecs.getincrementaldecoder("utf-8")().decode(seen.body, final=not truncated), "utf-8"
    except UnicodeDecodeError:
        body, encoding = base64.b64encode(seen.body).decode(), "base64"
    return {
        "at": round(seen.at, 6),
        "direction": seen.direction,
        "command": seen.command,
        "headers": seen.headers,
        "body": body,
        "body_encoding": encoding,
        "size": seen.size,
        "truncated": truncated,
    }
