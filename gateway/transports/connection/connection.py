"""One connection, from its first byte to its last: the one loop for TCP and WebSocket.

    handshake     one frame, under the connect timeout and small limits; may wait for the authenticator
    conversation  read a chunk, handle its frames, settle (flush what they caused, wait if we must): one await a chunk
    farewell      what is left is written, then we say that nothing more comes and read on for a little while, so that
                  what we wrote is not lost to a reset (STOMP 1.2, Connection Lingering)

Tasks.  The reader is the connection's own task.  A writer exists only while the socket does not take what we have; it
lives in the connection's nursery and ends when all is written.  Timers are the wheel's.

Nothing that happens here may leave: an exception in a handler would end the whole listener, so `serve` catches all,
logs it and closes.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from time import perf_counter

import structlog
import trio

from gateway.broker import Session
from gateway.broker.core.freeing import freeing
from gateway.broker.errors import SlowConsumer, TakenOver, TooLate, error_frame
from gateway.broker.model.identity import Renewal
from gateway.codec import Decoder, Frame, ProtocolError, encoder

from ..flow.connection_limits import Slot
from ..flow.frame_trace import FrameTrace
from ..flow.partial_frames import PartialFrame
from ..server import Server
from ..wire.fairness import in_steps
from ..wire.link import BrokenLink, Buffers, Link
from . import closing
from .authenticate import fits_a_line, log_in, tell_of_login
from .heartbeats import Heartbeats
from .session_expiry import SessionExpiry
from .writer import ConnectionWriter, write_all

log = structlog.get_logger("gateway.connection")

# One read.  Larger ones cost more even for large bodies: malloc maps fresh memory for each (1 MiB bodies: 1,700 us/MB
# with this, 2,500 with reads of 1 MiB).
_READ = 64 * 1024
# Deliveries, or seconds, after which a reader lets others have a turn in the middle of its chunk.  So many deliveries
# are about 2 ms, and less would be many small writes; where nothing is delivered a short turn costs next to nothing.
_DELIVERIES_PER_TURN = 4096
_LONGEST_TURN = 0.003
_LONGEST_IDLE_TURN = 0.0003
# Seconds that a client is not read for while its ghost ends, should that take longer than a ghost's farewell may.
_LONGEST_WAIT_FOR_A_GHOST = 2.0


class Connection:
    """A client's connection.

    Args:
        slot: as whom it was admitted; None: nobody counts it.

    Attributes:
        session: None before CONNECTED is due.
        writer: likewise.
        trace: shows its frames to an operator; None: nobody looks.
        incomplete: what has come of its next frame.
        session_expiry: how long the session may last; None: there is none.
        must_read: it holds unacknowledged messages or open transactions, so that its ACKs and COMMITs must be read even
            when memory is short.
    """

    __slots__ = (
        "_closing",
        "_decoder",
        "_ending",
        "_failure",
        "_gone",
        "_goodbye",
        "_heartbeats",
        "_is_ghost",
        "_last_frame",
        "_link",
        "_nursery",
        "_server",
        "_slot",
        "incomplete",
        "session",
        "session_expiry",
        "trace",
        "writer",
    )

    def __init__(self, server: Server, link: Link, slot: Slot | None = None) -> None:
        self.session: Session | None = None
        self.writer: ConnectionWriter | None = None
        self.trace: FrameTrace | None = None
        self.incomplete = PartialFrame(server.broker)
        self.session_expiry: SessionExpiry | None = None
        self._slot = slot
        self._server = server
        self._link = link
        self._decoder = Decoder(server.options.connect_limits)
        self._nursery: trio.Nursery | None = None
        self._ending: ProtocolError | None = None  # somebody else's wish
        self._failure: ProtocolError | None = None  # why it ends, as the client is told
        self._closing = False
        self._gone: trio.Event | None = None  # somebody waits for the session to have left
        self._goodbye: trio.CancelScope | None = None  # of what the farewell writes
        self._is_ghost = False  # the client has come again on another connection
        self._last_frame: Buffers = []  # the ERROR of a connection that has no session
        self._heartbeats: Heartbeats | None = None

    # the life of a connection

    async def serve(self) -> None:
        """Talk until one side ends it."""
        self._server.broker.counters.connections += 1
        self._server.enter(self)
        if self._slot is not None:
            self._slot.evict = self.end
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    await self._converse()
                finally:
                    self._nursery = None
                    if self.writer is not None and self._heartbeats is not None:
                        self.writer.stop()
                        self._heartbeats.stop()
                    if self.session_expiry is not None:
                        self.session_expiry.stop()
                nursery.cancel_scope.cancel()
            if self._ending is not None and self._failure is None:
                await self._end_now(self._ending)
            if self.session is not None:
                await in_steps(self.session.departing(lost=not self.session.ended))
                await self._server.flush()  # to others, who shall not wait for our farewell
                if self.session.ended and self._server.committer is not None:
                    with trio.move_on_after(closing.LONGEST):  # its last receipts may wait for the store
                        await self._server.committer.wait_for(self.session.batch)
            await self._farewell()
        except Exception:
            log.exception("connection failed", peer=self._link.peer, session=self.session and self.session.id)
        finally:
            self._leave()
            await self._link.pipe.aclose()

    def _leave(self) -> None:
        """Leave the hub, whatever happened, and let go of what refers back to us: the collector comes by rarely."""
        try:
            self._forget()
        except Exception:
            log.exception("closing a session failed", peer=self._link.peer, session=self.session and self.session.id)
        self._server.leave(self)
        if self.trace is not None:
            self._server.traces.end(self.trace)
        self.session = self.writer = self._heartbeats = self.session_expiry = None

    async def _converse(self) -> None:
        frame: Frame | None = None
        if self._slot is not None and self._slot.refusal is not None:
            self._refuse(self._slot.refusal, None)
            return
        try:
            frame = await self._read_first_frame()
            if frame is None:
                return
            ghost = await self._open_session(frame)
        except ProtocolError as error:
            self._refuse(error, frame)
        except Exception:
            log.exception("handshake failed", peer=self._link.peer)
            self._refuse(closing.our_fault(), frame)
        else:
            if ghost is not None:
                await self._outlast(ghost)
            await trio.lowlevel.checkpoint()  # what came behind CONNECT has a turn of its own: a login takes half a ms
            await self._read_frames()

    async def _read_first_frame(self) -> Frame | None:
        decoder = self._decoder
        while True:
            data = await self._link.receive(_READ)
            if data is None:
                return None
            if (pong := self._link.pong()) and not await self._answer(pong):
                return None
            decoder.feed(data)
            for frame in decoder.frames():
                return frame

    async def _answer(self, pong: bytes) -> bool:
        try:
            await write_all(self._link, [pong])
        except BrokenLink:
            return False
        return True

    async def _open_session(self, frame: Frame) -> Connection | None:
        """Become a session; the connection of the one that it replaces, which is ending now."""
        server = self._server
        if self._slot is not None:
            self._slot.asks()
        opening, identity = await log_in(server, self._link, frame)
        last = server.broker.known.get((identity.user, opening.client_id))
        ghost = None if last is None else server.connections.get(last)
        if self._slot is not None:
            self._slot.logs_in(identity.user, None if ghost is None else ghost._slot)
        session = server.broker.open_session(
            opening.version,
            identity.user,
            peer=self._link.peer,
            transport=self._link.transport,
            connected_at=time.time(),
            carrier=self,
            client_id=opening.client_id,
            access=server.access_of(identity, self._link),
            frame_end=self._link.frame_end,
        )
        self.session = session
        assert self._nursery is not None  # it is there as long as we read
        self.writer = ConnectionWriter(server, self._link, self._nursery, session.outbox)
        server.welcome(self, session)
        self._decoder.begin(opening.version, server.options.limits)
        self._heartbeats = Heartbeats(server, session, self.writer, opening, self._link)
        self.session_expiry = SessionExpiry(server, self._link, session, identity)
        tell_of_login("connected", self._link, session, identity)
        session.outbox.append(encoder.connected(self._greeting(session), session.frame_end))
        return ghost

    async def _outlast(self, ghost: Connection) -> None:
        """Read on when our ghost has given back what it had: so that comes to us first, and in order.

        Nor do we end before: a third connection of the client waits for us, and thereby for the ghost.
        """
        with self.held(), trio.move_on_after(_LONGEST_WAIT_FOR_A_GHOST, shield=True):
            await self._server.flush()  # the client is told that it is in
            await ghost.wait_gone()

    async def wait_gone(self) -> None:
        """Wait until the session has left, and given back all that it had."""
        if not self._closing:
            self._gone = self._gone or trio.Event()
            await self._gone.wait()

    def _greeting(self, session: Session) -> dict[str, str]:
        """The headers of CONNECTED (CON-06 to CON-08)."""
        options = self._server.options
        headers = {"version": session.version.name, "session": session.id, "server": options.server}
        if session.user != session.id and fits_a_line(session.user):
            headers["user-name"] = session.user
        if session.version.heartbeats:
            headers["heart-beat"] = f"{options.heartbeat_send},{options.heartbeat_receive}"
        else:  # it knows of none, and says so in the words that RabbitMQ and ActiveMQ have for that
            headers["heart-beat"] = "0,0"
        return headers

    async def _read_frames(self) -> None:
        """The loop: frames of the chunk at hand, settle, next chunk."""
        session, writer, server, link, decoder = self.session, self.writer, self._server, self._link, self._decoder
        heartbeats, incomplete = self._heartbeats, self.incomplete
        assert session is not None  # _open_session has returned
        pace = server.rates.pace_of(session.login, link.remote.address, trio.current_time())
        read = _READ if pace is None else pace.read
        assert writer is not None
        assert heartbeats is not None
        broker, counters = server.broker, server.broker.counters
        frame: Frame | None = None
        came = decoder.incomplete  # behind CONNECT, in one chunk with it
        try:
            if pace is not None and pace.is_over(0, 0, trio.current_time()):
                await server.flush()  # it is told that it is in
                await server.back_pressure.slow_down(self, pace)
            while True:
                mark, kept, stored, began = counters.delivered, broker.kept, server.stored, perf_counter()
                published, handled = counters.published, session.frames_in
                for frame in decoder.frames() if self.trace is None else self.trace.listen(decoder.frames()):
                    if incomplete.nbytes:  # no longer: if it is kept, the broker counts it
                        incomplete.end()
                    session.handle(frame)
                    frame = None  # an error of the decoder's is not this frame's
                    if session.ended:
                        return
                    delivered = counters.delivered - mark
                    if (
                        delivered > _DELIVERIES_PER_TURN
                        or broker.full
                        or perf_counter() - began > (_LONGEST_TURN if delivered else _LONGEST_IDLE_TURN)
                    ):
                        await self._end_turn(kept, stored, published, began)
                        await server.fair_gates.pause()
                        mark, kept, stored, began = counters.delivered, broker.kept, server.stored, perf_counter()
                        published, handled = counters.published, session.frames_in
                incomplete.note(decoder.incomplete)
                await self._end_turn(kept, stored, published, began if session.frames_in != handled else 0.0)
                if pace is not None and pace.is_over(session.frames_in, came, trio.current_time()):
                    await server.back_pressure.slow_down(self, pace)
                came = 0
                if (data := await link.receive(read)) is None:
                    return
                if broker.strained:  # by somebody else's writer: not our doing
                    broker.strained.clear()
                heartbeats.last_read = server.now = trio.current_time()
                counters.bytes_in += len(data)
                came = len(data) + link.overhead  # pings, or frames of one byte, are work, too
                if pong := link.pong():
                    writer.send_control(pong)
                decoder.feed(data)
        except ProtocolError as error:
            await self._fail(error, frame)
        except Exception:
            log.exception("session broke", session=session.id, command=frame and frame.command)
            await self._fail(closing.our_fault(), frame)
        finally:
            if pace is not None:  # who comes again owes what came last, too
                pace.is_over(session.frames_in, came, trio.current_time())

    def _end_turn(self, kept: int, stored: int, published: int, began: float) -> Awaitable[None]:
        """Flush, and wait as long as what this turn caused makes it wait.

        Args:
            kept, stored, published: what had been counted when it began.
            began: when that was; 0: there was no frame, but for heart-beats, so nobody waited for its end.
        """
        server, broker = self._server, self._server.broker
        return server.settle(
            self,
            kept=broker.kept != kept,
            stored=server.stored != stored,
            published=broker.counters.published != published,
            midway=self.incomplete.is_large,
            began=began,
        )

    # errors and the end

    def _refuse(self, error: ProtocolError, frame: Frame | None) -> None:
        """End a connection that has no session."""
        told = self._slot is not None and error is self._slot.refusal
        closing.refused(self._server, self._link, error, frame, self._decoder.first_octets, told=told)
        self._failure = closing.bare(error)
        self._last_frame = self._link.pack([error_frame(error, frame, end=self._link.frame_end), b""], 0)

    async def _fail(self, error: ProtocolError, frame: Frame | None) -> None:
        """End a session that broke the protocol."""
        assert self.session is not None
        self._failure = closing.bare(error)
        self._decoder = Decoder(self._server.options.connect_limits)  # what came of the next frame is of no use
        self.incomplete.end()
        await in_steps(self.session.failing(error, frame))
        closing.failed(self.session, error)

    def flush(self) -> None:
        """See `Carrier`."""
        if self.writer is not None:
            self.writer.flush()

    def end(self, error: ProtocolError) -> None:
        """See `Carrier`: the reader stops where it waits, and does the rest itself."""
        if self._ending is None:
            self._ending = error
        if isinstance(error, TakenOver):
            self._is_ghost = True
            if self._goodbye is not None:
                soon = trio.current_time() + closing.LONGEST_OF_A_GHOST
                self._goodbye.deadline = min(self._goodbye.deadline, soon)
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def renew(self, renewal: Renewal) -> None:
        """See `Carrier`."""
        if self._nursery is not None and self.session_expiry is not None:
            self._nursery.start_soon(self.session_expiry.renew, renewal)

    async def _end_now(self, error: ProtocolError) -> None:
        if self.session is None:
            self._refuse(error, None)
        elif not self.session.ended:
            await self._fail(error, None)

    def _forget(self) -> None:
        """Leave the broker: what this client had goes back to where others can get it."""
        session = self.session
        self.incomplete.end()
        if session is None or self._closing:
            return
        self._closing = True
        session.close()
        self._server.connections.pop(session, None)
        if self._gone is not None:
            self._gone.set()
        assert self.writer is not None  # it came with the session
        self.writer.release_waiters()

    async def _farewell(self) -> None:
        """Write what is left, say that nothing more comes, and read on until the peer has closed, too.

        The session leaves the broker behind the write, for what cannot be written goes back to its queues.
        """
        linger = self._server.options.close_linger
        patience = closing.patience(
            self._failure, has_session=self.session is not None, is_ghost=self._is_ghost, hurry=linger
        )
        reads = False
        with trio.move_on_after(patience) as self._goodbye:
            reads = not isinstance(self._failure, SlowConsumer) and await closing.say_goodbye(
                self._link, self.writer, self._failure, self._last_frame, outbox=self._reads_on()
            )
        left = [] if self.writer is None else self.writer.abandon()
        self._forget()
        await self._server.flush()
        await in_steps(freeing(left))
        if reads and not (self._slot is not None and self._slot.in_a_hurry):
            await closing.linger(self._link.pipe, linger)

    def _reads_on(self) -> bool:
        """Whether the client can be thought to read still: it did not end the stream itself."""
        return self._failure is not None or (self.session is not None and self.session.ended)

    # back-pressure

    def peer_has_gone(self) -> bool:
        """Whether the peer has closed, which reading would tell if we did."""
        return self._link.pipe.peer_has_gone()

    @property
    def must_read(self) -> bool:
        """See the class."""
        session = self.session
        return session is not None and bool(session.outstanding or session.transactions)

    @contextmanager
    def held(self) -> Iterator[None]:
        """We do not read this client, so its silence is our doing: its heart-beat clock stands still."""
        heartbeats = self._heartbeats
        assert heartbeats is not None  # only a connection with a session is held
        heartbeats.held += 1
        try:
            yield
        finally:
            heartbeats.held -= 1
            heartbeats.last_read = trio.current_time()

    def give_up_handshake(self) -> None:
        """The connect timeout is over."""
        timeout = self._server.options.connect_timeout
        self.end(TooLate("connect timeout", f"no login within {timeout:g} s (connect_timeout)"))
