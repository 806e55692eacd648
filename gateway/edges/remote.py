"""Remote connection: the connection of a session whose socket an edge has.

It is what `Connection` is without edges: the carrier of the session, and the publisher that is blocked.  But it has no
task.  `PrimaryLink` gives it frames, and looks behind each turn whether it must wait; only then, or to end, a task
begins, and frames that come meanwhile wait in line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import structlog
import trio

from gateway.broker import Session
from gateway.broker.core.outbox import Fillable, Outbox
from gateway.broker.errors import RenewalRefused
from gateway.broker.model.identity import Renewal
from gateway.codec import Frame, Head, LimitExceeded, MalformedFrame, ProtocolError
from gateway.transports.connection import closing
from gateway.transports.connection.heartbeats import HeartbeatMissing
from gateway.transports.flow.back_pressure import Caused
from gateway.transports.flow.connected import Connected, FrameObserver, Login, Relief
from gateway.transports.flow.rate_limits import RateLimit
from gateway.transports.server import Server
from gateway.transports.wire.fairness import in_steps

from .forms import Message, ToEdge, error_of, fields_of_error, identity_of

log = structlog.get_logger("gateway.connection")

# Seconds that a client waits for the connection that it replaces, should that take longer to close than it may.
_LONGEST_WAIT_FOR_REPLACED = 2.0
# Deliveries after which others have a turn in the middle of a run: about 2 ms.
_DELIVERIES_PER_TURN = 4096
# Seconds between looks whether the tasks of a client that has left are over.
_LOOK = 0.1


Run: TypeAlias = "tuple[Head, Iterator[bytes]]"
"""SEND frames with one header block: their bodies."""


class SessionLink(Protocol):
    """The link that a session goes over; `PrimaryLink` explains it."""

    name: str
    in_turn: list[RemoteConnection]
    ended: list[int]

    def put(self, kind: ToEdge, *fields: object) -> None: ...

    def ask(self) -> None: ...

    def write(self, number: int, parts: list[bytes]) -> None: ...

    def start(self, task: Callable[..., Awaitable[None]], *args: Any) -> None: ...

    def end_turns(self) -> None: ...

    def forget(self, number: int) -> None: ...


class _Broken(Exception):
    """Stands in a line of frames for what broke the protocol behind them."""

    def __init__(self, error: ProtocolError, frame: Frame | None) -> None:
        self.error, self.frame = error, frame


def _emptying(line: deque[Frame | _Broken]) -> Iterator[Frame]:
    while line:
        each = line.popleft()
        if isinstance(each, _Broken):
            raise each
        yield each


class RemoteWriter(Relief):
    """What the primary knows of the writer at the edge."""

    __slots__ = ("last_write",)

    def __init__(self, now: float) -> None:
        super().__init__()
        self.last_write = now


class RemoteConnection:
    """The connection of one session; `Connected` and `Blockable` explain what is not explained here.

    Attributes:
        heads: the header blocks that its edge has numbered.
        in_turn: frames of its client were handled since the last end of a turn.
        came: bytes of these frames, nearly.
    """

    __slots__ = (
        *("_address", "_busy", "_gone", "_has_left", "_is_blocked_again", "_is_ending", "_kept", "_limit", "_link"),
        *("_number", "_observer", "_published", "_server", "_stored"),
        *("_waiting", "came", "edge", "heads", "in_turn", "session", "session_expiry", "slot", "writer"),
    )

    def __init__(self, server: Server, link: SessionLink, number: int, login: Login, *, has_moved: bool) -> None:
        self._server = server
        self._link = link
        self.edge = link.name
        self._number = number
        self._address = login.address
        self._observer: FrameObserver | None = None
        # frames behind the one that blocked it; None: it is not blocked
        self._waiting: deque[Frame | _Broken] | None = None
        self._is_blocked_again = False
        self._busy = 0  # its tasks
        self._is_ending = False  # no more of its frames count
        self._has_left = False  # its client is gone
        self._gone: trio.Event | None = None
        self.heads: dict[int, Head] = {}
        self.in_turn = False
        self.came = 0
        self._kept = self._stored = self._published = False  # by frames since the last end of a turn; see `Caused`
        self.writer = RemoteWriter(trio.current_time())
        self.session_expiry = None  # it is at the edge
        self.session: Session | None = None
        self.slot = slot = server.connection_limits.enter(login.address, self.end, has_logged_in=True)
        self._limit: RateLimit | None = None
        try:
            slot.comes_from(login.address)
            if server.draining:
                raise server.shutting_down()
            session, replaced = server.open_session(self, login, is_told=not has_moved)
        except ProtocolError:
            slot.leave()
            raise
        self.session = session
        server.open_connections.add(self)
        now = trio.current_time()
        self._limit = limit = server.rate_limits.of_session(session.login, login.address, now)
        owes = limit is not None and limit.is_over(0, 0, now)  # it has come again, or another client of its user owes
        if replaced is not None or owes:
            self._begin(self._wait_to_begin, replaced, limit if owes else None)

    # frames

    def take(self, frames: Iterator[Frame], run: Run | None = None) -> bool:
        """Carry out frames; False: others must have their turn before the rest.  `run`: the same ones, if they are."""
        is_whole = self._waiting is not None or self._carry_out(frames, run)
        if self._waiting is not None:  # it is blocked, by these or by others before them
            self._waiting.extend(frames)
            return True
        return is_whole

    def _carry_out(self, frames: Iterator[Frame], run: Run | None = None) -> bool:
        """As `take`; frames behind one that blocks it are left."""
        session, context = self.session, self._server.broker.context
        if session is None or self._is_ending:
            return True
        if context.full or context.slow_consumers.strained:  # by nothing that this client did
            context.take_full()
            context.slow_consumers.take_strained()
        self.takes_turn()
        handle, full, counters = session.handle, context.full, context.counters
        most = counters.delivered + _DELIVERIES_PER_TURN
        broker = self._server.broker
        memory, storage = broker.memory, broker.storage
        kept, published = memory.kept, counters.published
        entered = 0 if storage is None else storage.entered
        frame: Frame | None = None
        is_whole = True
        try:
            if run is not None and self._observer is None:
                frame = Frame(run[0], b"")  # should one fail
                session.handle_run(*run, most)
                is_whole = not full and counters.delivered <= most
            else:
                for frame in frames if self._observer is None else self._observer.listen(frames):
                    handle(frame)
                    if full or counters.delivered > most or session.ended:
                        is_whole = not full and counters.delivered <= most
                        break
        except ProtocolError as error:
            self.fail(error, frame)
        except _Broken as broken:
            self.fail(broken.error, broken.frame, by_edge=True)
        except Exception:
            log.exception("session broke", session=session.id, command=frame and frame.command)
            self.fail(closing.our_fault(), frame)
        else:
            # What other clients cause in this turn is none of it.
            self._kept |= memory.kept != kept
            self._published |= counters.published != published
            self._stored |= storage is not None and storage.entered != entered
            if session.ended:
                self._depart(session)
            elif full or context.slow_consumers.strained:
                self._begin(self._block, context.slow_consumers.take_strained(), context.take_full())
                return True
            return is_whole
        return True

    def takes_turn(self) -> None:
        """At the end of the turn, look if the client must wait."""
        if not self.in_turn:
            self.in_turn = True
            self._link.in_turn.append(self)

    def end_turn(self, is_short: bool) -> None:
        """Look if the client must wait for what its turn has caused, or for its rates.

        `is_short`: memory, disk or journal are.
        """
        self.in_turn = False
        if self._waiting is not None or self.session is None or self._is_ending:
            return
        is_over = self._is_over()
        if is_over or (is_short and (self._published or self._kept or self._stored)):
            self._begin(self._hold_back, is_over)
        else:
            self._kept = self._stored = self._published = False

    def _caused(self) -> Caused:
        """What the client has caused since the last call."""
        caused = Caused(self._kept, self._stored, self._published)
        self._kept = self._stored = self._published = False
        return caused

    def _is_over(self) -> bool:
        """Account for the frames that were carried out, and what came; True: the client has sent more than it may."""
        session, limit = self.session, self._limit
        if session is None or limit is None:
            return False
        came, self.came = self.came, 0
        return limit.is_over(session.frames_in, came, trio.current_time())

    def _begin(self, wait: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Block the client until a wait is over."""
        if self._waiting is None:
            self._waiting = deque()
            self._link.put(ToEdge.HOLD, self._number)
        else:
            self._is_blocked_again = True
        self._start(self._wait, wait, *args)

    async def _wait(self, wait: Callable[..., Awaitable[None]], *args: Any) -> None:
        await wait(*args)
        assert self._waiting is not None  # it is blocked
        frames, self._is_blocked_again = _emptying(self._waiting), False
        # Frames that come meanwhile get into the line, behind those that came before.
        while not self._carry_out(frames):
            await self._server.flush()
            await trio.lowlevel.checkpoint()
        if not self._is_blocked_again:  # else another task goes on
            self._waiting = None
            self._link.put(ToEdge.GO, self._number)
        self._link.end_turns()
        await self._server.flush()

    async def _block(self, strained: set[Outbox], full: set[Fillable]) -> None:
        await self._server.back_pressure.block(self, self._caused(), strained, full)

    async def _hold_back(self, is_over: bool) -> None:
        back_pressure = self._server.back_pressure
        await back_pressure.block(self, self._caused(), set(), set())
        if is_over and self._limit is not None:
            await back_pressure.slow_down(self, self._limit)

    async def _wait_to_begin(self, replaced: Connected | None, limit: RateLimit | None) -> None:
        """The replaced connection gives back its messages first: so they come to us, and in order."""
        await self._server.flush()  # CONNECTED goes out
        if replaced is not None:
            with trio.move_on_after(_LONGEST_WAIT_FOR_REPLACED):
                await replaced.wait_gone()
        if limit is not None:
            await self._server.back_pressure.slow_down(self, limit)

    def wrote(self, nbytes: int, now: float) -> None:
        """The client's socket has taken bytes of its outbox."""
        session = self.session
        if session is not None:
            writer, outbox = self.writer, session.outbox
            writer.last_write = now
            outbox.written(nbytes)
            if outbox.size <= outbox.relief:
                writer.release_waiters()

    def renewed(self) -> None:
        """The client may stay longer."""
        if self.session is not None:
            self.session.renewed()

    def regroup(self, identity: Message) -> None:
        """The user has other groups now."""
        session = self.session
        if session is not None:
            session.access = self._server.access_of(identity_of(identity), session.transport, self._address)

    def recheck(self) -> None:
        """End the session if its groups may not subscribe to what it is subscribed to."""
        session = self.session
        if session is not None and not self._server.recheck(session):
            session.renewal = None  # no RECEIPT says that it may stay

    def tell(self, event: str, headers: dict[str, str], sentence: str) -> None:
        """Send the client an event of its own session, and tell its edge once it has got it."""
        if self.session is not None and self.session.tell(event, headers, sentence):
            self._link.put(ToEdge.TOLD, self._number)

    # the end

    def _stop_reading(self) -> None:
        """No more of its frames count."""
        self._is_ending = True
        self._is_over()  # a client that comes again owes for its last frames, too

    def _depart(self, session: Session) -> None:
        """The client has sent DISCONNECT."""
        self._stop_reading()
        storage = self._server.broker.storage
        if session.subscriptions or (storage is not None and session.batch > storage.committed):
            self._start(self._departing, session)
        else:
            session.depart()
            self._link.ended.append(self._number)

    async def _departing(self, session: Session) -> None:
        await in_steps(session.departing())
        with trio.move_on_after(closing.LONGEST):
            await self._server.last_words(session)
        await self._finish()

    def fail(self, error: ProtocolError, frame: Frame | None, *, by_edge: bool = False) -> None:
        """End the session by an ERROR."""
        session = self.session
        if session is None or self._is_ending:
            return
        if self._waiting and isinstance(error, (MalformedFrame, LimitExceeded)):  # frames before it count
            self._waiting.append(_Broken(error, frame))
            return
        self._stop_reading()
        error = closing.bare(error)
        if isinstance(error, RenewalRefused) and session.renewal is not None:
            error = RenewalRefused(error.detail, session.renewal.receipt)  # which its edge does not know
        if not by_edge:
            self._link.put(ToEdge.FAILED, self._number, fields_of_error(error))
        if isinstance(error, HeartbeatMissing):
            self._server.broker.records.tell("heartbeat_missed", session)
        self._start(self._failing, session, error, frame)

    def fail_at_edge(self, error: Message, about: tuple[str, dict[str, str]] | None) -> None:
        """Its edge ends the session by an ERROR; `about`: command and headers of the frame that it is about."""
        self.fail(error_of(error), None if about is None else Frame(Head(*about), b""), by_edge=True)

    async def _failing(self, session: Session, error: ProtocolError, frame: Frame | None) -> None:
        await in_steps(session.failing(error, frame))
        await self._finish()

    async def _finish(self) -> None:
        self._link.ended.append(self._number)
        await self._server.flush()

    def leave(self, taken: int | None, *, has_failed: bool = True) -> None:
        """The client's connection is closed, and has taken so many bytes of its outbox; None: that is not known.

        `has_failed`: False: the edge itself is gone, and the client is not to blame.
        """
        session = self.session
        if session is None or self._has_left:
            return
        self._has_left = True
        if taken is not None:
            session.outbox.taken = min(session.outbox.taken, taken)
        if self._busy or session.subscriptions or not has_failed:
            self._start(self._leaving, session, has_failed)
        else:
            self._close(session)

    async def _leaving(self, session: Session, has_failed: bool) -> None:
        while self._busy > 1:  # noqa: ASYNC110 - what its other tasks wait for sees that the peer has gone
            await trio.sleep(_LOOK)
        self._is_ending = True
        await in_steps(session.departing(lost=has_failed and not session.ended))
        self._close(session)
        await self._server.flush()

    def abandon(self) -> None:
        """As `leave`, at once: the gateway has no more time."""
        if self.session is not None:
            self._close(self.session, has_failed=False)

    def _close(self, session: Session, *, has_failed: bool = True) -> None:
        server = self._server
        self._stop_reading()
        self._has_left = True
        try:
            if not has_failed:
                session.depart()
            session.close()
        except Exception:
            log.exception("closing a session failed", peer=session.peer, session=session.id)
        server.connections.pop(session, None)
        server.connection_closed(self)
        self.slot.leave()
        self.writer.release_waiters()
        if self._gone is not None:
            self._gone.set()
        self._link.forget(self._number)
        self.session = None

    def _start(self, task: Callable[..., Awaitable[None]], *args: Any) -> None:
        self._busy += 1
        self._link.start(self._run, task, *args)

    async def _run(self, task: Callable[..., Awaitable[None]], *args: Any) -> None:
        try:
            await task(*args)
        except Exception:
            log.exception("connection failed", session=self.session and self.session.id)
        finally:
            self._busy -= 1

    # for the broker

    def flush(self) -> None:
        """Put the outbox on the link."""
        session = self.session
        if session is not None and not self._has_left:
            outbox = session.outbox
            parts = outbox.take()
            if outbox.starved or outbox.size > outbox.relief:  # a queue waits for room, or a publisher
                self._link.put(ToEdge.ASK, self._number)
            if parts:
                if self._observer is not None:
                    self._observer.see_sent(parts)
                self._link.write(self._number, parts)

    def end(self, error: ProtocolError) -> None:
        self._link.put(ToEdge.END, self._number, fields_of_error(error))
        self._link.ask()

    def renew(self, renewal: Renewal) -> None:
        """The client has sent a new token."""
        self._link.put(ToEdge.RENEW, self._number, renewal.login, renewal.passcode, renewal.authorization)
        self._link.ask()

    # for the server, back-pressure and operators

    @property
    def incomplete_bytes(self) -> int:
        return 0  # they are at the edge

    def observe(self, observer: FrameObserver | None) -> None:
        self._observer = observer

    def peer_has_gone(self) -> bool:
        return self._has_left

    @property
    def must_read(self) -> bool:
        session = self.session
        return session is not None and bool(session.transactions or session.outstanding)

    @contextmanager
    def held(self) -> Iterator[None]:
        yield

    def give_up_handshake(self) -> None:
        """It has logged in at its edge."""

    async def wait_gone(self) -> None:
        if self.session is not None:
            self._gone = self._gone or trio.Event()
            await self._gone.wait()
