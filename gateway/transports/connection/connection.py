"""Connection: one client, from its first byte to its last; the one loop for TCP and WebSocket.

    handshake     one frame, under the connect timeout and small limits; may wait for the authenticator
    conversation  read a chunk, handle its frames, end the turn (flush what they caused, wait if we must): one await a
                  chunk
    closing       what is left is written, then we say that nothing more comes and read on for a little while

Tasks.  The reader is the connection's own task.  A writer task exists only while the socket does not take what we have;
it lives in the connection's nursery and ends when all is written.  Timers are those of the timer wheel.

No exception may leave: it would end the whole listener.  So `serve` catches all, logs it and closes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import structlog
import trio

from gateway.broker import Session
from gateway.broker.core.freeing import freeing
from gateway.broker.errors import SlowConsumer, TakenOver, TooCostly, TooLate, error_frame
from gateway.broker.model.identity import Renewal
from gateway.codec import Decoder, Frame, ProtocolError

from ..flow.back_pressure import Turn
from ..flow.connected import Connected, FrameObserver, Login
from ..flow.connection_limits import Slot
from ..flow.memory_guard import PartialFrame
from ..server import Server
from ..wire.fairness import in_steps
from ..wire.link import BrokenLink, Buffers, Link
from . import closing
from .heartbeats import Heartbeats
from .session_expiry import SessionExpiry, log_in, tell_of_login
from .writer import ConnectionWriter, write_all

log = structlog.get_logger("gateway.connection")

# One read.  Larger ones cost more even for large bodies: malloc maps fresh memory for each (1 MiB bodies: 1,700 us/MB
# with this, 2,500 with reads of 1 MiB).
_READ = 64 * 1024
# Deliveries, or seconds, after which a reader lets others have a turn in the middle of its chunk.  So many deliveries
# are about 2 ms, and less would be many small writes; a turn without deliveries may be short at next to no cost.
_DELIVERIES_PER_TURN = 4096
_LONGEST_TURN = 0.003
_LONGEST_IDLE_TURN = 0.0003
# Seconds that a client waits for the connection that it replaces, should that take longer to close than it may.
_LONGEST_WAIT_FOR_REPLACED = 2.0


class Connection:
    """A client's connection; `Connected` explains its attributes.  `failure`: why it ends, as the client is told."""

    # One for each connection, of which ten thousand may be idle: without a dictionary it costs some 200 bytes less.
    __slots__ = (
        *("_close_scope", "_decoder", "_ending", "_gone", "_has_left", "_heartbeats", "_incomplete"),
        *("_is_replaced", "_last_frame", "_link", "_nursery", "_observer", "_server"),
        *("failure", "session", "session_expiry", "slot", "writer"),
    )

    edge = None

    def __init__(self, server: Server, link: Link, slot: Slot) -> None:
        self.session: Session | None = None
        self.writer: ConnectionWriter | None = None
        self.session_expiry: SessionExpiry | None = None
        self.slot = slot
        self._incomplete = PartialFrame(server.broker)
        self._observer: FrameObserver | None = None
        self._server = server
        self._link = link
        self._decoder = Decoder(server.options.connect_limits)
        self._nursery: trio.Nursery | None = None
        self._ending: ProtocolError | None = None  # what `end` was called with
        self.failure: ProtocolError | None = None
        self._has_left = False  # the session has left the broker
        self._gone: trio.Event | None = None  # another connection waits for that
        self._close_scope: trio.CancelScope | None = None  # of the last write
        self._is_replaced = False  # the client has come again on another connection
        self._last_frame: Buffers = []  # the ERROR of a connection that has no session
        self._heartbeats: Heartbeats | None = None

    async def serve(self) -> None:
        """Talk until one side ends it."""
        self._server.broker.counters.connections += 1
        self._server.connection_opened(self)
        self.slot.evict = self.end
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    await self._converse()
                finally:
                    self._nursery = None
                    for part in (self.writer, self._heartbeats, self.session_expiry):
                        if part is not None:
                            part.stop()
                nursery.cancel_scope.cancel()
            if self._ending is not None and self.failure is None:
                if self.session is None:
                    self._refuse(self._ending, None)
                elif not self.session.ended:
                    await self._fail(self._ending, None)
            if self.session is not None:
                await in_steps(self.session.departing(lost=not self.session.ended))
                await self._server.flush()  # to other clients, which shall not wait until we are closed
                with trio.move_on_after(closing.LONGEST):
                    await self._server.last_words(self.session)
                if self._ending is not None and self.failure is None and self.session.failed:
                    await self._fail(self._ending, None)  # an edge may hear of it behind the DISCONNECT
            await self._close()
        except Exception:
            log.exception("connection failed", peer=self._link.peer, session=self.session and self.session.id)
        finally:
            self._release()
            await self._link.pipe.aclose()

    def _release(self) -> None:
        """Leave the server, and drop what refers back to us: the collector runs rarely."""
        try:
            self._leave_broker()
        except Exception:
            log.exception("closing a session failed", peer=self._link.peer, session=self.session and self.session.id)
        self._server.connection_closed(self)
        self.session = self.writer = self._heartbeats = self.session_expiry = self._observer = None

    async def _converse(self) -> None:
        frame: Frame | None = None
        if self.slot.refusal is not None:
            self._refuse(self.slot.refusal, None)
            return
        try:
            frame = await self._read_first_frame()
            if frame is None:
                return
            replaced = await self._open_session(frame)
        except ProtocolError as error:
            self._refuse(error, frame)
        except Exception:
            log.exception("handshake failed", peer=self._link.peer)
            self._refuse(closing.our_fault(), frame)
        else:
            if replaced is not None:
                await self._wait_for_replaced(replaced)
            await trio.lowlevel.checkpoint()  # frames behind CONNECT have a turn of their own: a login takes half a ms
            await self._read_frames()

    async def _read_first_frame(self) -> Frame | None:
        decoder = self._decoder
        while True:
            data = await self._link.receive(_READ)
            if data is None:
                return None
            if pong := self._link.pong():
                try:
                    await write_all(self._link, [pong])
                except BrokenLink:
                    return None
            decoder.feed(data)
            for frame in decoder.frames():
                return frame

    async def _open_session(self, frame: Frame) -> Connected | None:
        """Become a session; returns the connection of the session that it replaces, which is ending now."""
        server, link = self._server, self._link
        self.slot.asks()
        opening, identity = await log_in(server, link, frame)
        address, beats = link.remote.address, opening.heart_beat
        login = Login(
            opening.version, beats, opening.client_id, identity, link.peer, link.transport, address, link.frame_end
        )
        session, replaced = await server.log_in(self, login)
        self.session = session
        assert self._nursery is not None  # it is there as long as we read
        self.writer = ConnectionWriter(server, link, self._nursery, session.outbox)
        self._decoder.begin(opening.version, server.options.limits)
        self._heartbeats = Heartbeats(server, session, self.writer, link)
        self.session_expiry = SessionExpiry(server, link, session, identity)
        tell_of_login("connected", link, session, identity)
        self.writer.flush()  # CONNECTED, which was there before the writer
        return replaced

    async def _wait_for_replaced(self, replaced: Connected) -> None:
        """Read on when the replaced connection has given back its messages: so they come to us first, and in order.

        This is shielded: a third connection of the client waits for us, and thereby for the replaced one.
        """
        with self.held(), trio.move_on_after(_LONGEST_WAIT_FOR_REPLACED, shield=True):
            await self._server.flush()  # CONNECTED goes out
            await replaced.wait_gone()

    async def wait_gone(self) -> None:
        if not self._has_left:
            self._gone = self._gone or trio.Event()
            await self._gone.wait()

    async def _read_frames(self) -> None:
        """The loop: the frames of a chunk, the end of the turn, the next chunk."""
        session, writer, server, link, decoder = self.session, self.writer, self._server, self._link, self._decoder
        heartbeats, incomplete = self._heartbeats, self._incomplete
        assert session is not None  # _open_session has returned
        assert writer is not None
        assert heartbeats is not None
        broker, counters, back_pressure = server.broker, server.broker.counters, server.back_pressure
        limit = server.rate_limits.of_session(session.login, link.remote.address, trio.current_time())
        read = _READ if limit is None else limit.read
        frame: Frame | None = None
        came = decoder.incomplete  # behind CONNECT, in one chunk with it
        turn = Turn(broker, session, incomplete)
        try:
            if limit is not None and limit.is_over(0, 0, trio.current_time()):
                await server.flush()  # CONNECTED goes out
                await back_pressure.slow_down(self, limit)
            while True:
                turn.begin()
                for frame in decoder.frames() if self._observer is None else self._observer.listen(decoder.frames()):
                    if incomplete.nbytes:  # it is complete; if it is kept, the broker counts it
                        incomplete.end()
                    session.handle(frame)
                    frame = None  # an error that the decoder raises next is not about this frame
                    if session.ended:
                        return
                    delivered = counters.delivered - turn.delivered
                    if (
                        delivered > _DELIVERIES_PER_TURN
                        or broker.context.full
                        or perf_counter() - turn.began > (_LONGEST_TURN if delivered else _LONGEST_IDLE_TURN)
                    ):
                        await back_pressure.end_turn(self, turn)
                        await server.fair_gates.pause()
                        turn.begin()
                incomplete.note(decoder.incomplete)
                await back_pressure.end_turn(self, turn)
                if limit is not None and limit.is_over(session.frames_in, came, trio.current_time()):
                    await back_pressure.slow_down(self, limit)
                came = 0
                if (data := await link.receive(read)) is None:
                    return
                if broker.context.slow_consumers.strained:  # by the writer of another connection, not by this client
                    broker.context.slow_consumers.strained.clear()
                heartbeats.last_read = server.turn_time = trio.current_time()
                if server.lease is not None:
                    server.look_at_lease()
                counters.bytes_in += len(data)
                came = len(data) + link.overhead  # pings and frames of one byte are work, too
                if pong := link.pong():
                    writer.send_control(pong)
                decoder.feed(data)
        except ProtocolError as error:
            await self._fail(error, frame)
        except Exception:
            log.exception("session broke", session=session.id, command=frame and frame.command)
            await self._fail(closing.our_fault(), frame)
        finally:
            if limit is not None:  # a client that comes again owes for its last chunk, too
                limit.is_over(session.frames_in, came, trio.current_time())

    def _refuse(self, error: ProtocolError, frame: Frame | None) -> None:
        """End a connection that has no session."""
        told = error is self.slot.refusal
        closing.refused(self._server, self._link, error, frame, self._decoder.first_bytes, told=told)
        self.failure = closing.bare(error)
        self._last_frame = self._link.pack([error_frame(error, frame, end=self._link.frame_end), b""], 0)

    async def _fail(self, error: ProtocolError, frame: Frame | None) -> None:
        """End a session that broke the protocol."""
        assert self.session is not None
        self.failure = closing.bare(error)
        self._decoder = Decoder(self._server.options.connect_limits)  # the incomplete frame is of no use
        self._incomplete.end()
        await in_steps(self.session.failing(error, frame))
        closing.failed(self.session, error)

    def flush(self) -> None:
        """Write the outbox, as far as the socket takes it now."""
        if self.writer is not None:
            self.writer.flush()

    def end(self, error: ProtocolError) -> None:
        if self._ending is None:
            self._ending = error
        if isinstance(error, TakenOver):
            self._is_replaced = True
            if self._close_scope is not None:
                soon = trio.current_time() + closing.LONGEST_OF_REPLACED
                self._close_scope.deadline = min(self._close_scope.deadline, soon)
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def renew(self, renewal: Renewal) -> None:
        """The client has sent a new token."""
        if self._nursery is not None and self.session_expiry is not None:
            self._nursery.start_soon(self.session_expiry.renew, renewal)

    def _leave_broker(self) -> None:
        """The client's unacknowledged messages go back to their queues."""
        session = self.session
        self._incomplete.end()
        if session is None or self._has_left:
            return
        self._has_left = True
        session.close()
        self._server.connections.pop(session, None)
        if self._gone is not None:
            self._gone.set()
        assert self.writer is not None  # it came with the session
        self.writer.release_waiters()

    async def _close(self) -> None:
        """Write what is left, say that nothing more comes, and read on until the peer has closed, too.

        The session leaves the broker behind the write, because messages that cannot be written go back to their queues.
        """
        failure, linger = self.failure, self._server.options.close_linger
        longest = closing.LONGEST_OF_REPLACED if self._is_replaced else closing.LONGEST
        if self.session is None or isinstance(failure, TooCostly):
            longest = linger
        # A client that has ended the stream itself reads no more.
        outbox = failure is not None or (self.session is not None and self.session.ended)
        reads = False
        with trio.move_on_after(longest) as self._close_scope:
            reads = not isinstance(failure, SlowConsumer) and await closing.write_last(
                self._link, self.writer, failure, self._last_frame, outbox=outbox
            )
        left = [] if self.writer is None else self.writer.abandon()
        self._leave_broker()
        await self._server.flush()
        await in_steps(freeing(left))
        if reads and not self.slot.closes_at_once:
            await closing.linger(self._link.pipe, linger)

    # for the server, back-pressure and operators: `Connected` and `Blockable` explain them

    @property
    def incomplete_bytes(self) -> int:
        return self._incomplete.nbytes

    def observe(self, observer: FrameObserver | None) -> None:
        self._observer = observer
        if self.writer is not None:
            self.writer.observe(observer)

    def peer_has_gone(self) -> bool:
        return self._link.pipe.peer_has_gone()

    @property
    def must_read(self) -> bool:
        session = self.session
        return session is not None and bool(session.transactions or session.outstanding)

    @contextmanager
    def held(self) -> Iterator[None]:
        heartbeats = self._heartbeats
        assert heartbeats is not None  # only a connection with a session publishes
        heartbeats.held += 1
        try:
            yield
        finally:
            heartbeats.held -= 1
            heartbeats.last_read = trio.current_time()

    def give_up_handshake(self) -> None:
        timeout = self._server.options.connect_timeout
        self.end(TooLate("connect timeout", f"no login within {timeout:g} s (connect_timeout)"))
