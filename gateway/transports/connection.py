"""One connection, from its first octet to its last: the one loop for TCP and WebSocket.

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
from contextlib import contextmanager, suppress
from time import perf_counter

import structlog
import trio

from gateway.broker import Session
from gateway.broker.errors import LoginRefused, NotAllowed, SessionEnded, SlowConsumer, error_frame
from gateway.codec import Decoder, Frame, MalformedFrame, ProtocolError, encoder

from .hub import Hub
from .link import BrokenLink, Buffers, Link
from .login import log_in
from .outgoing import Outgoing, write_all
from .pulse import Pulse
from .websocket_frames import CloseCode

log = structlog.get_logger("gateway.connection")

# One read.  Larger ones cost more even for large bodies: malloc maps fresh memory for each (1 MiB bodies: 1,700 us/MB
# with this, 2,500 with reads of 1 MiB).
_READ = 64 * 1024
# Deliveries, or seconds, after which a reader lets others have a turn in the middle of its chunk.  So many deliveries
# are about 2 ms; frames that deliver nothing may take long all the same.
_DELIVERIES_PER_TURN = 4096
_LONGEST_TURN = 0.005
# Seconds for what is left to be written at the end, to a client that reads slowly.
_LONGEST_FAREWELL = 10.0
_TLS_HELLO = b"\x16\x03"


def warn_of_tls(first_octets: bytes, peer: str) -> bool:
    """Log that a peer speaks TLS on a port that does not, if it does."""
    if not first_octets.startswith(_TLS_HELLO):
        return False
    log.warning("TLS hello on a plain port", peer=peer, hint="the client dials with TLS, and this port has none")
    return True


def _our_fault() -> ProtocolError:
    """What a client reads of an error that is not its own: nothing of the server's inside."""
    return ProtocolError("internal error", "the server failed on this frame; its log says more")


def _fits_a_line(text: str) -> bool:
    """Whether CONNECTED, which knows no escapes, can say that."""
    return "\n" not in text and "\r" not in text


class Connection:
    """A client's connection.

    Attributes:
        session: None before CONNECTED is due.
        outgoing: likewise.
        must_read: it holds unacknowledged messages or open transactions, so that its ACKs and COMMITs must be read even
            when memory is short.
    """

    __slots__ = (
        "_closing",
        "_decoder",
        "_ending",
        "_failure",
        "_farewell_frame",
        "_hub",
        "_link",
        "_nursery",
        "_pulse",
        "outgoing",
        "session",
    )

    def __init__(self, hub: Hub, link: Link) -> None:
        self.session: Session | None = None
        self.outgoing: Outgoing | None = None
        self._hub = hub
        self._link = link
        self._decoder = Decoder(hub.options.connect_limits)
        self._nursery: trio.Nursery | None = None
        self._ending: ProtocolError | None = None  # somebody else's wish
        self._failure: ProtocolError | None = None  # why it ends, as the client is told
        self._closing = False
        self._farewell_frame: Buffers = []  # the ERROR of a connection that has no session
        self._pulse: Pulse | None = None

    # the life of a connection

    async def serve(self) -> None:
        """Talk until one side ends it."""
        self._hub.broker.counters.connections += 1
        self._hub.enter(self)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    await self._converse()
                finally:
                    self._nursery = None
                    if self.outgoing is not None and self._pulse is not None:
                        self.outgoing.stop()
                        self._pulse.stop()
                nursery.cancel_scope.cancel()
            if self._ending is not None and self._failure is None:
                self._end_now(self._ending)
            if self.session is not None:
                self.session.depart(lost=True)  # who said goodbye has departed already
                await self._hub.flush()  # to others, who shall not wait for our farewell
                if self.session.ended and self._hub.committer is not None:
                    with trio.move_on_after(_LONGEST_FAREWELL):  # its last receipts may wait for the store
                        await self._hub.committer.wait_for(self.session.batch)
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
            log.exception("closing a session failed", peer=self._link.peer)
        self._hub.leave(self)
        self.session = self.outgoing = self._pulse = None

    async def _converse(self) -> None:
        frame: Frame | None = None
        try:
            frame = await self._read_first_frame()
            if frame is None:
                return
            await self._open_session(frame)
        except ProtocolError as error:
            self._refuse(error, frame)
        except Exception:
            log.exception("handshake failed", peer=self._link.peer)
            self._refuse(_our_fault(), frame)
        else:
            await self._read_frames()

    async def _read_first_frame(self) -> Frame | None:
        decoder = self._decoder
        while True:
            octets = await self._link.receive(_READ)
            if octets is None:
                return None
            pong = self._link.pong()
            if pong and not await self._answer(pong):
                return None
            decoder.feed(octets)
            for frame in decoder.frames():
                return frame

    async def _answer(self, pong: bytes) -> bool:
        try:
            await write_all(self._link, [pong])
        except BrokenLink:
            return False
        return True

    async def _open_session(self, frame: Frame) -> None:
        hub = self._hub
        opening, identity = await log_in(hub, self._link, frame)
        session = hub.broker.open_session(
            opening.version,
            identity.user,
            peer=self._link.peer,
            transport=self._link.transport,
            connected_at=time.time(),
            carrier=self,
            client_id=opening.client_id,
            access=hub.access_of(identity, self._link.transport),
        )
        self.session = session
        assert self._nursery is not None  # it is there as long as we read
        self.outgoing = Outgoing(hub, self._link, self._nursery, session.outbound)
        hub.welcome(self, session)
        self._decoder.begin(opening.version, hub.options.limits)
        self._pulse = Pulse(hub, session, self.outgoing, opening, self._link.ping)
        session.outbound.append(encoder.connected(self._greeting(session)))

    def _greeting(self, session: Session) -> dict[str, str]:
        """The headers of CONNECTED (CON-06 to CON-08)."""
        options = self._hub.options
        headers = {"version": session.version.name, "session": session.id, "server": options.server}
        if session.user != session.id and _fits_a_line(session.user):
            headers["user-name"] = session.user
        if session.version.heartbeats:
            headers["heart-beat"] = f"{options.heartbeat_send},{options.heartbeat_receive}"
        return headers

    async def _read_frames(self) -> None:
        """The loop: frames of the chunk at hand, settle, next chunk."""
        session, outgoing, hub, link, decoder = self.session, self.outgoing, self._hub, self._link, self._decoder
        pulse = self._pulse
        assert session is not None  # _open_session has returned
        assert outgoing is not None
        assert pulse is not None
        broker, counters = hub.broker, hub.broker.counters
        frame: Frame | None = None
        try:
            while True:
                mark, kept, stored, began = counters.delivered, broker.kept, hub.stored, perf_counter()
                published = counters.published
                for frame in decoder.frames():
                    session.handle(frame)
                    frame = None  # an error of the decoder's is not this frame's
                    if session.ended:
                        return
                    if (
                        counters.delivered - mark > _DELIVERIES_PER_TURN
                        or broker.full
                        or perf_counter() - began > _LONGEST_TURN
                    ):
                        await self._end_turn(kept, stored, published)
                        await trio.lowlevel.checkpoint()
                        mark, kept, stored, began = counters.delivered, broker.kept, hub.stored, perf_counter()
                        published = counters.published
                await self._end_turn(kept, stored, published)
                octets = await link.receive(_READ)
                if octets is None:
                    return
                if broker.strained:  # by somebody else's writer: not our doing
                    broker.strained.clear()
                pulse.last_read = hub.now = trio.current_time()
                counters.octets_in += len(octets)
                pong = link.pong()
                if pong:
                    outgoing.send_control(pong)
                decoder.feed(octets)
        except ProtocolError as error:
            self._fail(error, frame)
        except Exception:
            log.exception("session broke", session=session.id, command=frame and frame.command)
            self._fail(_our_fault(), frame)

    def _end_turn(self, kept: int, stored: int, published: int) -> Awaitable[None]:
        """Flush, and wait as long as what this turn caused makes it wait.

        Args:
            kept, stored, published: what had been counted when it began.
        """
        hub, broker = self._hub, self._hub.broker
        return hub.settle(
            self,
            kept=broker.kept != kept,
            stored=hub.stored != stored,
            published=broker.counters.published != published,
        )

    # errors and the end

    def _refuse(self, error: ProtocolError, frame: Frame | None) -> None:
        """End a connection that has no session."""
        hub = self._hub
        hub.broker.counters.refused += 1
        hub.broker.counters.errors += 1
        if not warn_of_tls(self._decoder.first_octets, self._link.peer):
            # Not the detail: it may quote the passcode.
            login = {"login": frame.headers.get("login")} if frame and isinstance(error, LoginRefused) else {}
            log.info("connection refused", peer=self._link.peer, reason=str(error), **login)
        if hub.broker.records is not None:
            login_name = frame.headers.get("login") if frame else None
            hub.broker.records.refused(self._link.transport, self._link.peer, login_name, error)
        self._failure = error
        self._farewell_frame = self._link.pack([error_frame(error, frame), b""], 0)

    def _fail(self, error: ProtocolError, frame: Frame | None) -> None:
        """End a session that broke the protocol."""
        assert self.session is not None
        self._failure = error
        self.session.fail(error, frame)
        session = self.session
        # Octets of the client's are not for the log, and an end that was ordered is no failure.
        detail = "" if isinstance(error, MalformedFrame) else error.detail
        say = log.debug if isinstance(error, SessionEnded) else log.info
        whose = {"session": session.id, "login": session.login, "peer": session.peer}
        say("session failed", **whose, reason=str(error), detail=detail)

    def flush(self) -> None:
        """See `Carrier`."""
        if self.outgoing is not None:
            self.outgoing.flush()

    def end(self, error: ProtocolError) -> None:
        """See `Carrier`: the reader stops where it waits, and does the rest itself."""
        if self._ending is None:
            self._ending = error
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def _end_now(self, error: ProtocolError) -> None:
        if self.session is None:
            self._refuse(error, None)
        elif not self.session.ended:
            self._fail(error, None)

    def _forget(self) -> None:
        """Leave the broker: what this client had goes back to where others can get it."""
        session = self.session
        if session is None or self._closing:
            return
        self._closing = True
        session.close()
        self._hub.connections.pop(session, None)
        assert self.outgoing is not None  # it came with the session
        self.outgoing.release_waiters()

    async def _farewell(self) -> None:
        """Write what is left, say that nothing more comes, and read on until the peer has closed, too.

        The session leaves the broker behind the write, for what cannot be written goes back to its queues.
        """
        reads = not isinstance(self._failure, SlowConsumer) and await self._say_goodbye()
        self._forget()
        await self._hub.flush()
        if reads:
            with trio.move_on_after(self._hub.options.close_linger):
                while await self._link.pipe.receive(_READ):
                    pass

    async def _say_goodbye(self) -> bool:
        """Write what is left; False when the peer does not take it."""
        link, outgoing = self._link, self.outgoing
        goodbye = link.goodbye(*self._close_code())
        with trio.move_on_after(_LONGEST_FAREWELL), suppress(BrokenLink):
            if outgoing is not None:
                await outgoing.write_out(outbox=self._reads_on())
            await write_all(link, [*self._farewell_frame, goodbye] if goodbye else self._farewell_frame)
            await link.pipe.send_eof()
            return True
        return False

    def _reads_on(self) -> bool:
        """Whether the client can be thought to read still: it did not end the stream itself."""
        return self._failure is not None or (self.session is not None and self.session.ended)

    def _close_code(self) -> tuple[CloseCode, str]:
        failure = self._failure
        if failure is None:
            return CloseCode.NORMAL, ""
        if isinstance(failure, SessionEnded):
            code = CloseCode.POLICY_VIOLATION if failure.retry_after is None else CloseCode.SERVICE_RESTART
            return code, str(failure)
        return CloseCode.PROTOCOL_ERROR, str(failure)

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
        pulse = self._pulse
        assert pulse is not None  # only a session publishes
        pulse.held += 1
        try:
            yield
        finally:
            pulse.held -= 1
            pulse.last_read = trio.current_time()

    def give_up_handshake(self) -> None:
        """The connect timeout is over."""
        timeout = self._hub.options.connect_timeout
        self.end(NotAllowed("connect timeout", f"no login within {timeout:g} s (connect_timeout)"))
