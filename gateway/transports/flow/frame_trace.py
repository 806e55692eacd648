"""Frame trace: operators see the frames of one session while they come and go.

    in     the connection's decoder  -> `FrameTrace.listen`   -> session       seen before the session handles it
    out    the session's outbox      -> `FrameTrace.see_sent` -> socket        seen when it goes out
                                           |
                                        TraceView, one for each operator: a ring, which `take` empties

A session without a view pays one test for each chunk.  Frames that a session with one is sent are parsed again from
their bytes, but only while a view has room: so how often a view is emptied bounds its cost.

The trace leaves out all that would let an operator in as another user: the values of headers that carry a passcode or a
token, the body of a renewal, and of a login all but its versions, because some clients put a token into `login`.  It
begins behind CONNECT and CONNECTED, and shows no heart-beats.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, NamedTuple

import structlog
import trio

from gateway.broker import Broker, Session
from gateway.broker.admin.message_rows import HIDDEN, SECRETS
from gateway.broker.model.destinations import RENEW
from gateway.codec import Frame, Version
from gateway.codec.headers import parse_lines

from .connected import Connected

log = structlog.get_logger("gateway.tap")

MOST_VIEWS = 4
"""Of a gateway.  A frame that is shown costs 10 to 25 us until it is on its way to the browser, and a full ring ten
times a second is the most that a view takes: four of them, on the busiest sessions, a quarter of a core."""
MOST_FRAMES = 256
MOST_BYTES = 1024 * 1024
"""Of a ring: bodies as far as they are shown, and headers.  One frame more may be in it, whose headers are large."""
MOST_OF_A_BODY = 4 * 1024
LONGEST_ABSENCE = 60.0
"""Seconds without a look after which a view makes room for another one, if all are taken: its reader is stuck in a
write that cannot be cancelled.  Other readers look more often."""

_LOGINS = frozenset(["CONNECT", "STOMP"])
_PUBLIC = frozenset(["accept-version", "host", "heart-beat"])

Direction = Literal["in", "out"]


class NoSession(Exception):
    """No session has that id, or it is the gateway's own."""


class TooManyViews(Exception):
    """All views are taken; `str()` is one sentence."""


class TracedFrame(NamedTuple):
    """A frame, as an operator may see it."""

    at: float  # seconds since the epoch
    direction: Direction
    command: str
    headers: list[tuple[str, str]]
    body: bytes  # its first bytes
    size: int  # of the whole body


class TraceView:
    """The frames that one operator has not read yet; `reason` says in words why no more come, and is empty before."""

    def __init__(self) -> None:
        self.reason = ""
        self._looked_at = trio.current_time()
        self._frames: list[TracedFrame] = []
        self._bytes = 0
        self._lost = 0
        self._filled = trio.Event()

    @property
    def is_deserted(self) -> bool:
        """True if its reader has not looked for too long."""
        return trio.current_time() - self._looked_at > LONGEST_ABSENCE

    @property
    def has_room(self) -> bool:
        """True if the next frame is kept; after the end none is."""
        return not self.reason and len(self._frames) < MOST_FRAMES and self._bytes < MOST_BYTES

    def add(self, seen: TracedFrame, nbytes: int) -> None:
        """Keep a frame if there is room, else count it; `nbytes` are those of its headers and of the shown body."""
        if self.has_room:
            self._frames.append(seen)
            self._bytes += nbytes
            self._filled.set()
        else:
            self.miss(1)

    def miss(self, frames: int) -> None:
        """So many frames are lost."""
        if not self.reason:
            self._lost += frames

    def end(self, reason: str) -> None:
        """No more frames come."""
        self.reason = reason
        self._filled.set()

    async def wait(self) -> None:
        """Wait until there is a frame to take, or no more come."""
        self._looked_at = trio.current_time()
        await self._filled.wait()

    def take(self) -> tuple[list[TracedFrame], int]:
        """The frames that were kept, and how many were lost behind them because the ring was full."""
        self._looked_at = trio.current_time()
        taken = self._frames, self._lost
        self._frames, self._bytes, self._lost = [], 0, 0
        if not self.reason:
            self._filled = trio.Event()
        return taken


class FrameTrace:
    """Shows the frames of one connection to all of its views: a `FrameObserver`."""

    def __init__(self, version: Version) -> None:
        self._version = version
        self.views: list[TraceView] = []

    def listen(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            self._see(frame)
            yield frame

    def see_sent(self, parts: list[bytes]) -> None:
        try:
            for place in range(0, len(parts), 2):
                if not self._has_room:
                    self._miss(parts[place::2])
                    break
                self._see_parts(parts[place], parts[place + 1])
        except Exception:  # the client must not suffer from a trace
            log.exception("what is sent cannot be shown")

    @property
    def _has_room(self) -> bool:
        return any(view.has_room for view in self.views)

    def _miss(self, fronts: list[bytes]) -> None:
        lost = len(fronts) - fronts.count(b"\n")  # heart-beats
        for view in self.views:
            view.miss(lost)

    def _see(self, frame: Frame) -> None:
        if not self._has_room:
            self._miss([b""])
            return
        headers, size = frame.headers, len(frame.body)
        is_secret = RENEW in headers.get("destination", "").lower()  # also where it is misspelt a little
        body = HIDDEN.encode() if is_secret else frame.body[:MOST_OF_A_BODY]
        shown = _of_login(headers) if frame.command in _LOGINS else _without_secrets(headers)
        self._add(TracedFrame(time.time(), "in", frame.command, shown, body, size), frame.head.size)

    def _see_parts(self, prefix: bytes, shared: bytes) -> None:
        """See a frame of ours.  The part that all receivers share begins among the headers; some frames have none."""
        rest = shared or prefix
        cut = rest.find(b"\n\n")
        if cut < 0:  # a heart-beat
            return
        block = prefix + rest[:cut] if shared else rest[:cut]
        start, end = cut + 2, rest.rindex(b"\0")  # an LF may stand behind it
        command, headers = parse_lines(block.decode(), self._version)
        body = rest[start : min(end, start + MOST_OF_A_BODY)]
        self._add(TracedFrame(time.time(), "out", command, _without_secrets(headers), body, end - start), len(block))

    def _add(self, seen: TracedFrame, head: int) -> None:
        for view in self.views:
            view.add(seen, head + len(seen.body))


class FrameTraces:
    """All traces of a gateway."""

    def __init__(self, broker: Broker, connections: Mapping[Session, Connected]) -> None:
        self._broker = broker
        self._connections = connections
        self._traces: dict[Session, FrameTrace] = {}
        self._views: dict[TraceView, Session] = {}

    def find(self, session_id: str) -> Session:
        """The session of that id, if a view of it may be opened now; else raises `NoSession` or `TooManyViews`."""
        session = self._broker.sessions.get(session_id)
        if session is None or session not in self._connections:
            raise NoSession
        if len(self._views) >= MOST_VIEWS and not any(view.is_deserted for view in self._views):
            raise TooManyViews(f"{MOST_VIEWS} sessions are looked at already, and no more may be: each costs time")
        return session

    @contextmanager
    def view(self, session_id: str) -> Iterator[TraceView]:
        """Look at a session while this is entered; raises what `find` does."""
        session = self.find(session_id)
        for deserted in [view for view in self._views if view.is_deserted]:
            deserted.end("no frame of this view was read for too long")
            self._close(deserted)
        trace = self._traces.get(session)
        if trace is None:
            trace = self._traces[session] = FrameTrace(session.version)
            self._connections[session].observe(trace)
        view = TraceView()
        trace.views.append(view)
        self._views[view] = session
        try:
            yield view
        finally:
            self._close(view)

    def _close(self, view: TraceView) -> None:
        """Remove a view, once."""
        session = self._views.pop(view, None)
        trace = None if session is None else self._traces.get(session)
        if session is None or trace is None:
            return
        trace.views.remove(view)
        if not trace.views:
            del self._traces[session]
            if session in self._connections:
                self._connections[session].observe(None)

    def end(self, session: Session, reason: str) -> None:
        """A connection has ended."""
        trace = self._traces.pop(session, None)
        for view in [] if trace is None else trace.views:
            view.end(reason)


def _of_login(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, value if name in _PUBLIC else HIDDEN) for name, value in headers.items()]


def _without_secrets(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, HIDDEN if name.lower() in SECRETS else value) for name, value in headers.items()]
