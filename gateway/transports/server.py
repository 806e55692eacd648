"""Server: the parts that all connections share, and the flush of outboxes.

The broker knows neither trio nor sockets: it asks for a date (`wake`), for a turn of its own for unfinished work
(`busy`), and lists outboxes that have something to write (`dirty`).  The server gives it its turns, and flushes: one
write that does not wait for each outbox, of any session.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

import structlog
import trio

from gateway.broker import Broker, Quotas, Session
from gateway.broker.core.arguments_check import ArgumentsNotice
from gateway.broker.core.metadata import Metadata
from gateway.broker.core.outbox import Outbox
from gateway.broker.core.ports import Authenticator, Authorizer, TendedStore
from gateway.broker.core.storage import Storage
from gateway.broker.core.work_limits import WORK_LIMITS, WorkLimits
from gateway.broker.errors import SessionEnded
from gateway.broker.headers.connect import beat_interval
from gateway.broker.headers.parse import Misspelt
from gateway.broker.model.access import Access
from gateway.broker.model.identity import Identity
from gateway.broker.model.policy import Policies
from gateway.broker.session.recheck import recheck_session
from gateway.codec import ProtocolError, encoder
from gateway.log_limiter import LogLimiter

from ..stores.writer import Committer, Housekeeper
from .flow.back_pressure import BackPressure
from .flow.broker_clock import BrokerClock
from .flow.connected import Connected, Login, TransportOptions
from .flow.connection_limits import ConnectionLimits
from .flow.frame_trace import FrameTraces
from .flow.memory_guard import MemoryGuard
from .flow.rate_limits import RateLimits
from .flow.timers import TimerWheel
from .wire.fairness import FairGates
from .wire.link import Link

log = structlog.get_logger("gateway.hub")
arguments_log = structlog.get_logger("gateway.arguments")
headers_log = structlog.get_logger("gateway.headers")

# Writes after which others get a turn: 256 of them are about 1 ms.
_FLUSHES_PER_TURN = 256
# Seconds after which the scheduler is looked at, though its next date is later.
_LONGEST_ALARM = 60.0

_HEARD = "queue arguments of a client are in force, for everybody"
_NOT_HEARD = "queue arguments of a client are not heard"
_NO_EFFECT = "a header of SUBSCRIBE has no effect"
# Lines in a minute, of all clients together.
_LINES = 20


# Milliseconds after which the clients of a primary that ends in order may come back: the next one is there by then.
_HANDOVER_RETRY = 500
# Seconds between two looks at the lease; a busy server looks with each turn.
_LOOK_AT_LEASE = 0.25
NO_LEASE = "the cluster does not answer, and another node may become primary"


def agreed_beats(options: TransportOptions, login: Login) -> tuple[int, int]:
    """Milliseconds between the server's heart-beats, and between the client's; 0: none."""
    cx, cy = login.heart_beat
    every = beat_interval(options.heartbeat_send, cy), beat_interval(cx, options.heartbeat_receive)
    return round(every[0] * 1000), round(every[1] * 1000)


def _connected_headers(session: Session, options: TransportOptions) -> dict[str, str]:
    """The headers of CONNECTED (CON-06 to CON-08)."""
    headers = {"version": session.version.name, "session": session.id, "server": options.server}
    if session.user != session.id and "\n" not in session.user and "\r" not in session.user:
        headers["user-name"] = session.user  # CONNECTED has no escapes
    # STOMP 1.0 has no heart-beats; RabbitMQ and ActiveMQ say that so.
    has_beats = session.version.heartbeats
    headers["heart-beat"] = f"{options.heartbeat_send},{options.heartbeat_receive}" if has_beats else "0,0"
    return headers


class Lease(Protocol):
    """The right of a primary to deliver."""

    @property
    def holds(self) -> bool:
        """True if no other node can be primary yet."""

    @property
    def is_overdue(self) -> bool:
        """True if clients need not wait for its renewal any more."""


class GatheringLink(Protocol):
    """A link to a process that has the sockets of some sessions: what these get in one flush goes there at once."""

    def begin_flush(self) -> None:
        """Outboxes are being flushed."""

    def end_flush(self) -> None:
        """They are flushed, those of its sessions among them."""

    def drain(self, error: ProtocolError, *, is_final: bool) -> None:
        """All sessions are being ended by an error; `is_final`: this process ends."""


class HeaderLogs:
    """Lines about headers of clients that had an effect on others, or none; each is said once, to each user."""

    def __init__(self) -> None:
        self._arguments = LogLimiter(lines=_LINES)
        self._misspelt = LogLimiter(lines=_LINES)

    def tell_arguments(self, notice: ArgumentsNotice) -> None:
        """A client's queue arguments came into force, for all clients of the queue, or came too late."""
        untold = self._arguments.admit((notice.queue, notice.login, notice.in_force, tuple(notice.values)))
        if untold is None:
            return
        queue, values, session, login = notice.queue, dict(notice.values), notice.session, notice.login
        if notice.in_force:
            arguments_log.info(_HEARD, queue=queue, values=values, session=session, login=login, untold=untold)
            return
        hint = "the queue was there without them: write them into a [[policy]], or leave them out"
        arguments_log.warning(
            _NOT_HEARD, queue=queue, values=values, session=session, login=login, hint=hint, untold=untold
        )

    def tell_misspelt(self, header: Misspelt, session: str, login: str) -> None:
        """A SUBSCRIBE header is not known and looks like one that is.

        No ERROR names it: other brokers ignore it, too, and programs that were written for them come here unedited.
        """
        untold = self._misspelt.admit((header.name, login))
        if untold is not None:
            hint = f"it is not known; did you mean {header.known}?"
            headers_log.warning(_NO_EFFECT, header=header.name, hint=hint, session=session, login=login, untold=untold)


def _flush(outbox: Outbox) -> None:
    if outbox.carrier is not None:
        outbox.carrier.flush()


class Server:
    """The shared part of all connections."""

    def __init__(
        self,
        authenticator: Authenticator,
        quotas: Quotas | None = None,
        options: TransportOptions | None = None,
        policies: Policies | None = None,
        store: TendedStore | None = None,
        authorizer: Authorizer | None = None,
        work_limits: WorkLimits = WORK_LIMITS,
        clock: BrokerClock | None = None,
    ) -> None:
        self._clock = clock  # of a test; None: the broker reads trio's
        header_logs = HeaderLogs()
        self.broker = Broker(
            quotas,
            policies,
            clock=trio.current_time if clock is None else clock.now,
            epoch=time.time if clock is None else clock.epoch,
            wake=self._wake_scheduler,
            busy=lambda: self._unfinished.set(),
            on_pressure=self._on_pressure,
            on_relief=self._on_relief,
            on_room=lambda: self.back_pressure.room_came(),
            on_arguments=header_logs.tell_arguments,
            on_misspelt=header_logs.tell_misspelt,
            work_limits=work_limits,
        )
        self.committer: Committer | None = None
        self._housekeeper: Housekeeper | None = None
        if store is not None:
            self._open_store(store)
        self.authenticator = authenticator
        self._authorizer = authorizer
        self.options = options = options or TransportOptions()
        self.lease: Lease | None = None  # of the primary of a cluster; None: it is none
        self.turn_time = 0.0  # trio's clock when a turn began: good enough for heart-beats, and cheaper than asking
        self.connections: dict[Session, Connected] = {}
        self.open_connections: set[Connected] = set()  # also those in their handshake or being closed
        self.links: list[GatheringLink] = []
        self.timers = TimerWheel()
        patience = options.slow_consumer_timeout
        self.back_pressure = BackPressure(self.broker, self.timers, self.flush, patience, self.connections)
        self.memory_guard = MemoryGuard(self.broker, self.timers, self.connections, patience)
        self.traces = FrameTraces(self.broker, self.connections)
        self.connection_limits = ConnectionLimits(options.capacity)
        self.rate_limits = RateLimits(options)
        self.fair_gates = FairGates()
        self.draining = False  # then no new session is opened
        # Says where the primary is, if this gateway is a standby, which only drains; None: it is none.
        self.standby: Callable[[], str] | None = None
        self._handshakes: dict[Connected, float] = {}
        self._has_timer = False
        self._alarm: _Alarm | None = None
        self._unfinished = trio.Event()
        self._emptied = trio.Event()

    def _open_store(self, store: TendedStore) -> None:
        broker = self.broker
        metadata = Metadata(broker.scheduler.clock, broker.scheduler.epoch)
        broker.storage = storage = Storage(
            metadata,
            busy=lambda: committer.ask(),
            on_relief=self.relieve,
            on_state=broker.look_at_store,
            work_limits=broker.context.work_limits,
        )
        self.committer = committer = Committer(storage, store, self.flush)
        self._housekeeper = Housekeeper(storage, store, committer)

    def access_of(self, identity: Identity, transport: str, address: str) -> Access | None:
        """The permissions of a user on a transport, from an address; None: all."""
        return None if self._authorizer is None else self._authorizer.access_of(identity, transport, address)

    async def log_in(self, connection: Connected, login: Login) -> tuple[Session, Connected | None]:
        """Open the session of a client; returns also the connection of the session that it replaces.

        Raises ProtocolError: there is no room for one more.
        """
        return self.open_session(connection, login)

    def open_session(
        self, connection: Connected, login: Login, *, is_told: bool = True
    ) -> tuple[Session, Connected | None]:
        """As `log_in`, without a wait; CONNECTED is in the outbox, if the client is told."""
        identity, options = login.identity, self.options
        last = self.broker.known.get((identity.user, login.client_id))
        replaced = None if last is None else self.connections.get(last)
        connection.slot.logs_in(identity.user, None if replaced is None else replaced.slot)
        session = self.broker.open_session(
            login.version,
            identity.user,
            peer=login.peer,
            transport=login.transport,
            connected_at=time.time(),
            carrier=connection,
            client_id=login.client_id,
            access=self.access_of(identity, login.transport, login.address),
            frame_end=login.frame_end,
        )
        session.heart_beat = agreed_beats(options, login)
        self.session_opened(connection, session)
        if is_told:
            session.outbox.append(encoder.connected(_connected_headers(session, options), session.frame_end))
        return session, replaced

    def regroup(self, session: Session, identity: Identity, link: Link) -> None:
        """The user of a session has other groups now."""
        session.access = self.access_of(identity, link.transport, link.remote.address)

    def recheck(self, session: Session) -> bool:
        """End a session with a subscription that its groups do not allow; False: it ends."""
        return recheck_session(session)

    async def last_words(self, session: Session) -> None:
        """Wait until all is in the outbox that a session that has ended still gets: receipts may wait for the store."""
        if session.ended and self.committer is not None:
            await self.committer.wait_for(session.batch)

    def shutting_down(self) -> SessionEnded:
        """The error that clients get while the gateway drains."""
        retry = self.options.drain_retry
        if self.standby is not None:
            return SessionEnded("this node is a standby", self.standby(), retry_after=retry)
        if self.lease is not None:
            retry = min(retry, _HANDOVER_RETRY)
        return SessionEnded("server is shutting down", f"connect again in {retry} ms", retry_after=retry)

    @property
    def unready(self) -> str:
        """Why no client should come here now; empty: they may."""
        return ""

    def look_at_lease(self) -> None:
        """Deliver stored messages while no other node can be primary, and none else; before each turn."""
        storage = self.broker.storage
        assert self.lease is not None  # the caller has looked
        assert storage is not None  # a primary has a store
        if self.lease.holds:
            if self.broker.resume(storage):
                self._unfinished.set()  # `run` flushes what that put into outboxes
            return
        if self.broker.suspend(storage):
            log.warning("stored messages are held back: the lease of the cluster could not be renewed")
        if self.lease.is_overdue and not storage.failure:
            storage.refuse(NO_LEASE, NO_LEASE)

    async def _watch_lease(self) -> None:
        while True:
            self.look_at_lease()
            await trio.sleep(_LOOK_AT_LEASE)

    def connection_opened(self, connection: Connected) -> None:
        """A connection begins; it has `connect_timeout` to become a session."""
        self.open_connections.add(connection)
        deadline = trio.current_time() + self.options.connect_timeout
        self._handshakes[connection] = deadline
        if not self._has_timer:
            self._has_timer = True
            self.timers.add(self, deadline)

    def session_opened(self, connection: Connected, session: Session) -> None:
        self._handshakes.pop(connection, None)
        self.connections[session] = connection

    def tick(self, now: float) -> float:
        """End the handshakes that take too long.  All have the same time, so the oldest stands first."""
        while self._handshakes:
            connection, deadline = next(iter(self._handshakes.items()))
            if deadline > now:
                return deadline
            del self._handshakes[connection]
            connection.give_up_handshake()
        self._has_timer = False
        return math.inf

    def connection_closed(self, connection: Connected) -> None:
        self.open_connections.discard(connection)
        self._handshakes.pop(connection, None)
        if connection.session is not None:
            reason = "the gateway is shutting down" if self.draining else "the session has ended"
            self.traces.end(connection.session, reason)
        if not self.open_connections:
            self._emptied.set()

    async def wait_empty(self) -> None:
        """Wait until all connections have ended."""
        while self.open_connections:
            if self._emptied.is_set():  # several may wait on one event
                self._emptied = trio.Event()
            await self._emptied.wait()

    async def run(self) -> None:
        """Turn the timer wheel, and give the broker turns for its unfinished work, until cancelled."""
        async with trio.open_nursery() as nursery:
            if self.lease is not None:
                nursery.start_soon(self._watch_lease)
                # The process may have been stopped since the last look: all that may deliver begins with one.
                self.timers.on_turn = self.look_at_lease
                if self.committer is not None:
                    self.committer.on_turn = self.look_at_lease
            nursery.start_soon(self.timers.run)
            nursery.start_soon(self.fair_gates.run)
            if self.committer is not None and self._housekeeper is not None:
                nursery.start_soon(self.committer.run)
                nursery.start_soon(self._housekeeper.run)
            while True:
                await self._unfinished.wait()
                self._unfinished = trio.Event()
                more = True
                while more:
                    if self.lease is not None:
                        self.look_at_lease()
                    try:
                        more = self.broker.scheduler.proceed()
                    except Exception:  # one fault must not stop the rest
                        log.exception("something on the agenda failed")
                    self.broker.context.take_full()  # no publisher has caused it, so none is blocked
                    await self.flush()
                    await trio.lowlevel.checkpoint()

    def _wake_scheduler(self, due: float) -> None:
        self._alarm = alarm = _Alarm(self._on_alarm)  # an earlier one counts no more
        if self._clock is not None:
            due -= self._clock.ahead
        # A far date may be cancelled many times; an alarm that finds nothing to do costs nothing.
        self.timers.add(alarm, min(due, trio.current_time() + _LONGEST_ALARM))

    def _on_alarm(self, alarm: _Alarm) -> None:
        if alarm is not self._alarm:
            return
        try:
            self.broker.scheduler.tick()
        finally:
            self.broker.context.take_full()
            self._unfinished.set()  # `run` flushes what that put into outboxes

    async def flush(self) -> None:
        """Write what lies in outboxes, as far as their sockets take it."""
        dirty = self.broker.dirty
        count = 0
        links = [*self.links]
        for link in links:
            link.begin_flush()
        try:
            while dirty:
                _flush(dirty.popleft())
                count += 1
                if count % _FLUSHES_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()
        finally:
            # Cancelled in between: the rest belongs to other sessions.
            for _ in range(len(dirty)):
                _flush(dirty.popleft())
            for link in links:
                link.end_flush()

    def relieve(self) -> None:
        self.back_pressure.relieve()

    def _on_pressure(self) -> None:
        log.warning(
            "memory is short, publishers are held back",
            octets=self.broker.memory.used,
            memory_limit=self.broker.quotas.memory_limit,
            waiting=self.broker.context.waiting,
            **self.memory_guard.facts(),
        )
        self.memory_guard.look_soon()

    def _on_relief(self) -> None:
        log.info("memory is there again", octets=self.broker.memory.used)
        self.relieve()


class _Alarm:
    """A date of the broker's scheduler, on the timer wheel."""

    __slots__ = ("_on_due",)

    def __init__(self, on_due: Callable[[_Alarm], None]) -> None:
        self._on_due = on_due

    def tick(self, now: float) -> float:
        """The date has come."""
        self._on_due(self)
        return math.inf
