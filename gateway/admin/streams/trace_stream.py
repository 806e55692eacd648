"""Frame trace, `GET /api/v1/sessions/{id}/tap`: frames of one session, live, as server-sent events.

    event: frame      one frame, as `gateway/transports/flow/frame_trace.py` shows it
    event: dropped    {"frames": n}: so many came faster than they could be shown, between the frame before and the next
    event: end        {"reason": "..."}: the last event
    :                 a comment, after a while without frames: it finds readers that have gone, and keeps proxies awake

Frames are written together, ten times a second.  The stream ends with the session, with the gateway, with the login of
its reader, and when its reader has gone or takes nothing for a long time.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.admin.access import Caller, ConsoleSession
from gateway.admin.endpoint import EVENT_STREAM, Api, ApiError, Endpoint
from gateway.admin.streams.events import COMMENT, EventsResponse, Write, awake, one_event
from gateway.broker.admin.message_rows import of_body
from gateway.runtime.gateway import Gateway
from gateway.transports.flow.frame_trace import NoSession, TooManyViews, TracedFrame, TraceView

PAUSE = 0.1  # seconds between two reads of the ring

# Frames that become text in one turn: with bodies as large as they are shown, half a millisecond.
_PER_TURN = 32
EXAMPLE = {"id": "$SESSION", "-N": ""}


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
        return TraceStream(partial(self._traces.view, session_id), caller.ends_with)


@contextmanager
def _refusing() -> Iterator[None]:
    """Make an error of the API of a session that cannot be traced."""
    try:
        yield
    except NoSession:
        raise ApiError(404, "there is no such session") from None
    except TooManyViews as reason:
        raise ApiError(409, str(reason)) from None


class TraceStream(EventsResponse):
    """Writes the frames that a view shows, until the login of the reader ends.

    The view is open before the first byte is sent: a client that has read the headers gets all frames from then on.
    """

    def __init__(
        self, open_view: Callable[[], AbstractContextManager[TraceView]], login: ConsoleSession | None = None
    ) -> None:
        super().__init__()
        self._open_view = open_view
        self._login = login
        self._view: TraceView

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The whole answer.  Raises ApiError: the session has ended, or has too many readers."""
        with ExitStack() as stack:
            with _refusing():
                self._view = stack.enter_context(self._open_view())
            await super().__call__(scope, receive, send)

    async def watch(self) -> None:
        if self._login is not None:
            self._view.end(await self._login.over())

    async def write_all(self, write: Write) -> None:
        await write(COMMENT)  # a proxy may wait for it before it passes the headers on
        view = self._view
        while True:
            await awake(write, view.wait)
            reason = view.reason
            frames, lost = view.take()
            for start in range(0, len(frames), _PER_TURN):
                shown = frames[start : start + _PER_TURN]
                await write("".join([one_event("frame", row_of(each)) for each in shown]))
            if lost:
                await write(one_event("dropped", {"frames": lost}))
            if reason:
                await write(one_event("end", {"reason": reason}))
                return
            await trio.sleep(PAUSE)


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
