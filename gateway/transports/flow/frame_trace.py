"""An operator looks at the frames of one session while they come and go.

    in     the connection's decoder  -> `FrameTrace.listen` -> session         a frame is seen before it is carried out
    out    the session's outbox      -> `FrameTrace.pack`   -> socket          a frame is seen when it goes out
                                           |
                                        View, one for each who looks: a ring, which `take` empties

A session that nobody looks at pays one test for each chunk.  One that is looked at is decoded once, as ever; what it is
sent is read again from its bytes, which is the price, and only paid while a view has room: what comes when the rings
are full is counted, and not even read.  So how often a view is emptied bounds what it costs, however busy the session.

What is shown leaves out what would let the operator in as somebody else: the values of headers that carry a passcode
or a token, the body of a renewal, and what a login has beside its versions: there are clients that put a token into
`login`, and authenticators that ask for headers of their own.  Other bodies are shown up to `MOST_OF_A_BODY`: who may
look may read messages.

CONNECT and CONNECTED are not seen, for there is no session before them, but for a second CONNECT, which is a mistake;
nor are heart-beats, nor a frame that is none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

import structlog
import trio

from gateway.broker.admin.message_rows import HIDDEN, SECRETS
from gateway.broker.model.destinations import RENEW
from gateway.codec import Frame, Version
from gateway.codec.headers import parse_lines

from ..wire.link import Buffers

if TYPE_CHECKING:
    from ..connection.connection import Connection
    from ..server import Server

log = structlog.get_logger("gateway.tap")

MOST_VIEWS = 4
"""In a gateway.  A frame that is shown costs 10 to 25 us until it is on its way to the browser, and a full ring ten
times a second is the most that a view takes: four of them, on the busiest sessions, a quarter of a core."""
MOST_FRAMES = 256
MOST_BYTES = 1024 * 1024
"""Of a ring: bodies as far as they are shown, and headers.  One frame more may be in it, whose headers are large."""
MOST_OF_A_BODY = 4 * 1024
LONGEST_ABSENCE = 60.0
"""Seconds after which a view that nobody has looked at makes room for another one, where there is none: its reader is
stuck in a write that cannot be called off.  Each other reader comes by more often."""

_LOGINS = frozenset(["CONNECT", "STOMP"])
_PUBLIC = frozenset(["accept-version", "host", "heart-beat"])

Direction = Literal["in", "out"]


class NoSession(Exception):
    """There is none of that id, or it is the gateway's own."""


class TooManyViews(Exception):
    """All are taken; `str()` is one sentence."""


class TracedFrame(NamedTuple):
    """A frame, as an operator may see it.

    Attributes:
        at: seconds since the epoch.
        headers: name and value.
        body: its first bytes.
        size: bytes that it has in all.
    """

    at: float
    direction: Direction
    command: str
    headers: list[tuple[str, str]]
    body: bytes
    size: int


class TraceView:
    """What one operator has not read yet.

    Attributes:
        reason: why nothing more comes, in words; empty: more does.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._looked_at = trio.current_time()
        self._frames: list[TracedFrame] = []
        self._bytes = 0
        self._lost = 0
        self._filled = trio.Event()

    @property
    def is_deserted(self) -> bool:
        """Whether its reader has not come by for too long."""
        return trio.current_time() - self._looked_at > LONGEST_ABSENCE

    @property
    def has_room(self) -> bool:
        """Whether the next frame is kept; after the end none is."""
        return not self.reason and len(self._frames) < MOST_FRAMES and self._bytes < MOST_BYTES

    def add(self, seen: TracedFrame, nbytes: int) -> None:
        """A frame, where there is room."""
        if self.has_room:
            self._frames.append(seen)
            self._bytes += nbytes
            self._filled.set()
        else:
            self.miss(1)

    def miss(self, frames: int) -> None:
        """So many are not kept."""
        if not self.reason:
            self._lost += frames

    def end(self, reason: str) -> None:
        """Nothing more comes."""
        self.reason = reason
        self._filled.set()

    async def wait(self) -> None:
        """Wait until there is something to take, or nothing more comes."""
        self._looked_at = trio.current_time()
        await self._filled.wait()

    def take(self) -> tuple[list[TracedFrame], int]:
        """The frames that were kept, and how many were lost behind them: the ring was full until now."""
        self._looked_at = trio.current_time()
        taken = self._frames, self._lost
        self._frames, self._bytes, self._lost = [], 0, 0
        if not self.reason:
            self._filled = trio.Event()
        return taken


class FrameTrace:
    """On one connection, for all who look at it."""

    def __init__(self, connection: Connection, version: Version) -> None:
        assert connection.writer is not None  # it came with the session
        self._connection = connection
        self._writer = connection.writer
        self._version = version
        self._pack_on = connection.writer.pack
        self._views: list[TraceView] = []
        connection.trace = self
        connection.writer.pack = self.pack

    def open(self) -> TraceView:
        """Somebody looks."""
        view = TraceView()
        self._views.append(view)
        return view

    def close(self, view: TraceView) -> None:
        """And does so no longer."""
        self._views.remove(view)
        if not self._views:
            self._connection.trace = None
            self._writer.pack = self._pack_on

    def end(self, reason: str) -> None:
        """The session has ended."""
        for view in self._views:
            view.end(reason)

    def listen(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """The same frames, seen."""
        for frame in frames:
            self._see(frame)
            yield frame

    def pack(self, parts: list[bytes], size: int) -> Buffers:
        """Frames on their way out; see `Link`."""
        try:
            for place in range(0, len(parts), 2):
                if not self._has_room:
                    self._miss(parts[place::2])
                    break
                self._see_parts(parts[place], parts[place + 1])
        except Exception:  # it is not the client's fault that somebody looks
            log.exception("what is sent cannot be shown")
        return self._pack_on(parts, size)

    @property
    def _has_room(self) -> bool:
        return any(view.has_room for view in self._views)

    def _miss(self, fronts: list[bytes]) -> None:
        lost = len(fronts) - fronts.count(b"\n")  # heart-beats
        for view in self._views:
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
        """A frame of ours: what all its receivers share begins among the headers, or there is no such part."""
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
        for view in self._views:
            view.add(seen, head + len(seen.body))


class FrameTraces:
    """All of a gateway."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._views: dict[TraceView, FrameTrace] = {}

    def find(self, session_id: str) -> Connection:
        """The connection of a session that may be looked at now.

        Raises:
            NoSession: there is none.
            TooManyViews: no more may be open.
        """
        session = self._server.broker.sessions.get(session_id)
        connection = self._server.connections.get(session) if session is not None else None
        if connection is None:
            raise NoSession
        if len(self._views) >= MOST_VIEWS and not any(view.is_deserted for view in self._views):
            raise TooManyViews(f"{MOST_VIEWS} sessions are looked at already, and no more may be: each costs time")
        return connection

    @contextmanager
    def view(self, session_id: str) -> Iterator[TraceView]:
        """Look at a session while this is entered.

        Raises:
            NoSession, TooManyViews: see `find`.
        """
        connection = self.find(session_id)
        assert connection.session is not None  # it was found by that
        for deserted in [view for view in self._views if view.is_deserted]:
            deserted.end("nobody has read this for too long")
            self._close(deserted)
        trace = connection.trace or FrameTrace(connection, connection.session.version)
        view = trace.open()
        self._views[view] = trace
        try:
            yield view
        finally:
            self._close(view)

    def _close(self, view: TraceView) -> None:
        """Free the place of a view, once."""
        trace = self._views.pop(view, None)
        if trace is not None:
            trace.close(view)

    def end(self, trace: FrameTrace) -> None:
        """The connection of that has ended."""
        trace.end("the gateway is shutting down" if self._server.draining else "the session has ended")


def _of_login(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, value if name in _PUBLIC else HIDDEN) for name, value in headers.items()]


def _without_secrets(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, HIDDEN if name.lower() in SECRETS else value) for name, value in headers.items()]
