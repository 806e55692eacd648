"""What all connections share: the broker, the clock's wheel, the options, and the flush of outboxes.

A turn is what one reader does between two waits: it handles frames, and all that they caused lies in outboxes.
Flushing those costs one non-blocking write each, whoever they belong to; then the reader itself is held back
(`back_pressure`) if it filled somebody's outbox, or the memory, over the mark.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
import trio

from gateway.broker import Broker, Quotas, Session
from gateway.broker.core.metadata import Metadata
from gateway.broker.core.ports import Authenticator, Authorizer, TendedStore
from gateway.broker.core.storage import Storage
from gateway.broker.errors import SessionEnded
from gateway.broker.model.access import Access
from gateway.broker.model.identity import Identity
from gateway.broker.model.policy import Policies
from gateway.broker.queue.outbox import Outbox
from gateway.codec import Limits

from ..stores.housekeeping import Housekeeper
from ..stores.writer import Committer
from .flow.back_pressure import BackPressure
from .flow.blocked_publishers import Blocks
from .flow.connection_limits import Capacity, ConnectionLimits
from .flow.frame_trace import FrameTraces
from .flow.memory_guard import MemoryGuard
from .flow.rate_limits import RateLimits
from .flow.timers import TimerWheel
from .misspelt_headers import MisspeltHeaders
from .wire.fairness import FairGates
from .wire.link import Link
from .wishes import Wishes

if TYPE_CHECKING:
    from .connection.connection import Connection

log = structlog.get_logger("gateway.hub")

# What the limit of a body before login is called; it is no setting.
NO_BODY = "CONNECT and STOMP need none"
# Writes after which others get a turn: 256 of them are about 1 ms.
_FLUSHES_PER_TURN = 256


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """What a connection needs to know of the settings; the settings of the same names explain each.  Times in seconds,
    heart-beats and `drain_retry` in milliseconds."""

    server: str = "stomp-gateway"
    limits: Limits = field(default_factory=Limits)
    connect_limits: Limits = field(default_factory=lambda: Limits(64, 8 * 1024, 1024, "max_connect_", NO_BODY))
    connect_timeout: float = 10.0
    heartbeat_send: int = 250
    heartbeat_receive: int = 250
    heartbeat_margin: float = 2.0
    websocket_path: str = "/ws"
    websocket_ping: float = 25.0
    allowed_origins: tuple[str, ...] = ()
    anonymous: bool = True
    close_linger: float = 1.0
    drain_retry: int = 2_000
    slow_consumer_timeout: float = 2.0
    token_warning: float = 60.0
    capacity: Capacity = field(default_factory=Capacity)
    max_frames_per_second: int = 0
    max_octets_per_second: int = 0
    max_frames_per_second_per_user: int = 0
    max_octets_per_second_per_user: int = 0
    max_frames_per_second_per_address: int = 0
    max_octets_per_second_per_address: int = 0


def _flush(outbox: Outbox) -> None:
    if outbox.carrier is not None:
        outbox.carrier.flush()


# Seconds after which the agenda is looked at, though its next date is later.
_LONGEST_ALARM = 60.0


class Server:
    """The shared part of all connections.

    Attributes:
        now: trio's clock at the start of the current turn, good enough for heart-beats and cheaper than asking.
        connections: by session, the connection below it.
        open_connections: all, also those in their handshake or farewell.
        holds: the publishers that are held.
        settle: ends a turn, see `BackPressure`.
        traces: show the frames of sessions to operators.
        admission: how many may be here.
        rates: how fast they may send.
        fair_gates: in front of who takes long, and of who is not known yet.
        memory: looks whether there is enough of it.
        draining: no new session is opened.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        quotas: Quotas | None = None,
        options: TransportOptions | None = None,
        policies: Policies | None = None,
        store: TendedStore | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.back_pressure = BackPressure(self)
        self.settle = self.back_pressure.settle
        self.traces = FrameTraces(self)
        self.broker = Broker(
            quotas,
            policies,
            clock=trio.current_time,
            epoch=time.time,
            wake=self._wake_agenda,
            busy=self._on_unfinished,
            on_pressure=self._on_pressure,
            on_relief=self._on_relief,
            on_room=self.back_pressure.has_room,
            on_wish=Wishes().tell,
            on_misspelt=MisspeltHeaders().tell,
        )
        self.committer: Committer | None = None
        self._housekeeper: Housekeeper | None = None
        if store is not None:
            storage = self._open_storage()
            self.committer = Committer(storage, store, self.flush)
            self._housekeeper = Housekeeper(storage, store, self.committer)
        self.authenticator = authenticator
        self._authorizer = authorizer
        self.options = options or TransportOptions()
        self.admission = ConnectionLimits(self.options.capacity)
        self.rates = RateLimits(self.options)
        self.timers = TimerWheel()
        self.fair_gates = FairGates()
        self.holds = Blocks(self.timers, self.broker.counters)
        self.memory = MemoryGuard(self)
        self.now = 0.0
        self.connections: dict[Session, Connection] = {}
        self.open_connections: set[Connection] = set()
        self.draining = False
        self._handshakes: dict[Connection, float] = {}
        self._on_wheel = False
        self._alarm: _Alarm | None = None
        self._unfinished = trio.Event()
        self._emptied = trio.Event()

    def _open_storage(self) -> Storage:
        broker = self.broker
        facts = Metadata(broker.scheduler.clock, broker.scheduler.epoch)
        storage = broker.storage = Storage(
            facts, busy=self._on_storage, on_relief=self.relieve, on_state=broker.look_at_store
        )
        return storage

    def _on_storage(self) -> None:
        assert self.committer is not None  # there is a store
        self.committer.ask()

    def relieve(self) -> None:
        """Publishers who are held for store, journal or memory look whether they still have to be."""
        self.back_pressure.relieve()

    def access_of(self, identity: Identity, link: Link) -> Access | None:
        """What somebody may do who came by that way; None: everything."""
        if self._authorizer is None:
            return None
        return self._authorizer.access_of(identity, link.transport, link.remote.address)

    def shutting_down(self) -> SessionEnded:
        """What clients are told while it drains."""
        retry = self.options.drain_retry
        return SessionEnded("server is shutting down", f"connect again in {retry} ms", retry_after=retry)

    def enter(self, connection: Connection) -> None:
        """A connection begins; it has `connect_timeout` to become a session."""
        self.open_connections.add(connection)
        deadline = trio.current_time() + self.options.connect_timeout
        self._handshakes[connection] = deadline
        if not self._on_wheel:
            self._on_wheel = True
            self.timers.add(self, deadline)

    def welcome(self, connection: Connection, session: Session) -> None:
        """A connection has become a session."""
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
        self._on_wheel = False
        return math.inf

    def leave(self, connection: Connection) -> None:
        """A connection has ended."""
        self.open_connections.discard(connection)
        self._handshakes.pop(connection, None)
        if not self.open_connections:
            self._emptied.set()

    async def wait_empty(self) -> None:
        """Wait until all connections have ended."""
        while self.open_connections:
            if self._emptied.is_set():  # several may wait on one event
                self._emptied = trio.Event()
            await self._emptied.wait()

    # what the broker wants later

    async def run(self) -> None:
        """Turn the wheel, and do what the broker left unfinished, until cancelled."""
        async with trio.open_nursery() as nursery:
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
                    try:
                        more = self.broker.scheduler.proceed()
                    except Exception:  # one fault must not stop what else is to be done
                        log.exception("something on the agenda failed")
                    self.broker.take_full()  # nobody's doing who could be held for it
                    await self.flush()
                    await trio.lowlevel.checkpoint()

    def _on_unfinished(self) -> None:
        self._unfinished.set()

    def _wake_agenda(self, due: float) -> None:
        self._alarm = alarm = _Alarm(self)  # an earlier one counts no more
        # A far date may be called off many times; an alarm that finds nothing to do costs nothing.
        self.timers.add(alarm, min(due, trio.current_time() + _LONGEST_ALARM))

    def ring(self, alarm: _Alarm) -> None:
        """The broker's agenda is due."""
        if alarm is not self._alarm:
            return
        try:
            self.broker.scheduler.tick()
        finally:
            self.broker.take_full()
            self._unfinished.set()  # what that put into outboxes is flushed there

    # back-pressure

    def _on_pressure(self) -> None:
        log.warning(
            "memory is short, publishers are held back",
            octets=self.broker.stored_bytes,
            memory_limit=self.broker.quotas.memory_limit,
            waiting=self.broker.waiting,
            **self.memory.facts(),
        )
        self.memory.look_soon()

    def _on_relief(self) -> None:
        log.info("memory is there again", octets=self.broker.stored_bytes)
        self.relieve()

    @property
    def stored(self) -> int:
        """Messages that were given to the store since the start; it only grows."""
        storage = self.broker.storage
        return 0 if storage is None else storage.entered

    async def flush(self) -> None:
        """Write what lies in outboxes, as far as their sockets take it."""
        dirty = self.broker.dirty
        count = 0
        try:
            while dirty:
                _flush(dirty.popleft())
                count += 1
                if count % _FLUSHES_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()
        finally:
            # Cancelled in between: what lies here belongs to others.
            for _ in range(len(dirty)):
                _flush(dirty.popleft())


class _Alarm:
    """Stands on the wheel for the broker's agenda."""

    __slots__ = ("_server",)

    def __init__(self, server: Server) -> None:
        self._server = server

    def tick(self, now: float) -> float:
        """It is time."""
        self._server.ring(self)
        return math.inf
