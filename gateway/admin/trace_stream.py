"""Frame trace, `GET /api/v1/sessions/{id}/tap`: frames of one session, live, as server-sent events.

    event: frame      one frame, as `gateway/transports/flow/frame_trace.py` shows it
    event: dropped    {"frames": n}: so many came faster than they could be shown, between the frame before and the next
    event: end        {"reason": "..."}: the last event
    :                 a comment, after a while without frames: it finds readers that have gone, and keeps proxies awake

Frames are written together, ten times a second.  The stream ends with the session, with the gateway, with the login of
its reader, and when its reader has gone or takes nothing for a long time.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.admin.access import Caller, ConsoleSession
from gateway.admin.endpoint import EVENT_STREAM, Api, ApiError, Endpoint
from gateway.broker.admin.message_rows import of_body
from gateway.runtime.gateway import Gateway
from gateway.transports.flow.frame_trace import NoSession, TooManyViews, TracedFrame, TraceView

PAUSE = 0.1  # seconds between two reads of the ring
SILENCE = 15.0  # seconds without a frame, until a comment is due: nginx gives up after 60
LONGEST_WRITE = 30.0  # seconds for a reader to take what was written

# Frames that become text in one turn: with bodies as large as they are shown, half a millisecond.
_PER_TURN = 32
EXAMPLE = {"id": "$SESSION", "-N": ""}
_HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # nginx would keep events until it has a page of them
}


class TraceApi(Api):
    def __init__(self, gateway: Gateway) -> None:
        self._traces = gateway.traces

    @Endpoint(
        "GET",
        "/api/v1/sessions/{id}/tap",
        "sessions",
        media_type=EVENT_STREAM,
        errors=(404, 409),
        action="tap",
        example=EXAMPLE,
    )
    async def stream(self, request: Request, caller: Caller) -> Response:
        """The frames of a session, live, as server-sent events."""
        session_id = request.path_params["id"]
        with _refusing():
            self._traces.find(session_id)
        return EventStream(partial(self._traces.view, session_id), caller.ends_with)


@contextmanager
def _refusing() -> Iterator[None]:
    """Make an error of the API of a session that cannot be traced."""
    try:
        yield
    except NoSession:
        raise ApiError(404, "there is no such session") from None
    except TooManyViews as reason:
        raise ApiError(409, str(reason)) from None


class EventStream(Response):
    """Writes the frames that a view shows, until the login of the reader ends.

    The view is open before the first byte is sent: a client that has read the headers gets all frames from then on.
    """

    media_type = EVENT_STREAM

    def __init__(
        self, open_view: Callable[[], AbstractContextManager[TraceView]], login: ConsoleSession | None = None
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._open_view = open_view
        self._login = login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The whole answer.  Raises ApiError: the session has ended, or has too many readers."""
        with ExitStack() as stack:
            with _refusing():
                view = stack.enter_context(self._open_view())
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if scope["method"] == "HEAD" or await self._show_to_the_end(view, receive, send):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _show_to_the_end(self, view: TraceView, receive: Receive, send: Send) -> bool:
        """Write all frames; False: the reader takes nothing, so its connection must be closed before the end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_wait_until_gone, receive, nursery.cancel_scope)
            if self._login is not None:
                nursery.start_soon(_end_with, self._login, view)
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


async def _end_with(login: ConsoleSession, view: TraceView) -> None:
    view.end(await login.over())


async def _show(view: TraceView, send: Send) -> None:
    """Write frames until the view ends.  Raises trio.TooSlowError: the reader takes nothing."""
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
    truncated = len(seen.body) < seen.size
    return {
        "at": round(seen.at, 6),
        "direction": seen.direction,
        "command": seen.command,
        "headers": seen.headers,
        **of_body(seen.body, truncated),
        "size": seen.size,
        "truncated": truncated,
    }
