"""Broker: the one core that all connections share.

    connection -> open_session -> Session.handle(frame) -> router -> queue or topic -> outbox -> connection

One thread, no I/O, and no clock but the one that it is given.  All methods return at once.
"""

import secrets
from collections import deque
from collections.abc import Callable

from gateway.codec import Version, encoder

from .core.arguments_check import ArgumentsNotice
from .core.context import Context
from .core.events import EventLog
from .core.memory import Memory
from .core.outbox import Outbox
from .core.ports import ANONYMOUS, Carrier
from .core.scheduler import Scheduler
from .core.storage import Storage
from .core.work_limits import WORK_LIMITS, WorkLimits
from .errors import SessionEnded, TakenOver
from .headers.parse import Misspelt
from .model.access import Access
from .model.policy import Policies, Quotas
from .queue.queue import Queue
from .routing.registry import Registry
from .routing.router import Router
from .session.session import Session

# The part of `max_outbound` that an outbox may have while outboxes are what memory is short of.
_SQUEEZED = 32


class Broker:
    """Sessions, and the context, registry and router that they share.

    Args:
        clock: seconds, never going back.
        epoch: seconds since the epoch.
        wake: asks for a call of `scheduler.tick` at a time of `clock`.
        busy: asks for calls of `scheduler.proceed`.
        on_pressure: called when memory becomes short.
        on_relief: called when it is short no longer.
        on_room: called when a full queue has room again.
        on_arguments: called when a client's queue arguments come into force, or come too late.
        on_misspelt: called with a SUBSCRIBE header that looks like a known one and has no effect, the session's id and
            its login.
        work_limits: smaller ones are for tests.
    """

    def __init__(
        self,
        quotas: Quotas | None = None,
        policies: Policies | None = None,
        *,
        clock: Callable[[], float] = lambda: 0.0,
        epoch: Callable[[], float] = lambda: 0.0,
        wake: Callable[[float], None] = lambda due: None,
        busy: Callable[[], None] = lambda: None,
        on_pressure: Callable[[], None] = lambda: None,
        on_relief: Callable[[], None] = lambda: None,
        on_room: Callable[[], None] = lambda: None,
        on_arguments: Callable[[ArgumentsNotice], None] = lambda notice: None,
        on_misspelt: Callable[[Misspelt, str, str], None] = lambda header, session, login: None,
        work_limits: WorkLimits = WORK_LIMITS,
    ) -> None:
        self.quotas = quotas or Quotas()
        policies = policies or Policies()
        self.sessions: dict[str, Session] = {}  # by id
        # Login and client-id -> the session that has them, the one that came last; others are about to go.
        self.known: dict[tuple[str, str], Session] = {}
        self.scheduler = Scheduler(clock, epoch, wake, busy, work_limits)
        self.memory = Memory(self.quotas, self._on_memory)
        self._on_pressure, self._on_relief = on_pressure, on_relief
        # What the parts of the broker share; some of it has a name here, too.
        self._on_close = self._forget_session  # one object for all sessions
        self.context = Context(
            self.quotas,
            policies,
            self.scheduler,
            self.memory,
            self,
            self.sessions,
            on_room=on_room,
            on_arguments=on_arguments,
            on_misspelt=on_misspelt,
            work_limits=work_limits,
        )
        self.counters = self.context.counters
        self.dates = self.context.ages
        # Outboxes with frames, until the transports flush them: so frames of one turn go out together.
        self.dirty: deque[Outbox] = self.context.dirty
        self.registry = Registry(self.context, policies)  # which destinations there are
        self.router = Router(self.context, self.registry, policies)  # the way of messages to them
        self.destinations = self.registry.destinations
        # What queues and topics need of these two (`Destinations`): they are of lower layers, and import neither.
        self.deposit = self.router.deposit
        self.tell_requester = self.router.tell_requester
        self.find = self.registry.find
        self.home_of = self.registry.home_of
        self.forget_if_idle = self.registry.forget_if_idle

    # sessions

    def open_session(
        self,
        version: Version,
        login: str,
        *,
        peer: str,
        transport: str,
        connected_at: float,
        carrier: Carrier,
        client_id: str = "",
        access: Access | None = None,
        frame_end: bytes = encoder.END,
    ) -> Session:
        """Open the session of a client that has logged in, and end the one before of the same client-id."""
        session = Session(
            self.context,
            self.router,
            secrets.token_hex(8),
            version,
            login,
            peer=peer,
            transport=transport,
            connected_at=connected_at,
            carrier=carrier,
            client_id=client_id,
            access=access,
            frame_end=frame_end,
            on_close=self._on_close,
        )
        self.sessions[session.id] = session
        # A client that lost its connection comes again before the old one is found dead: it must not wait for that.
        if client_id:
            ghost = self.known.get((login, client_id))
            self.known[login, client_id] = session
            if ghost is not None:
                ghost.end(TakenOver(peer))
        self.counters.sessions += 1
        self.records.tell("connected", session)
        if self.context.announcer is not None:
            self.context.announcer.session_begun(session)
        return session

    def _forget_session(self, session: Session) -> None:
        """Forget a session that has closed."""
        self.sessions.pop(session.id, None)
        self.context.slow_consumers.forget(session)
        key = session.login, session.client_id
        # Unless it was taken over, and a later session has the name now.
        if self.known.get(key) is session:
            del self.known[key]
        # Such a user is one session: its destinations have a name that no other session will have.
        if session.login == ANONYMOUS and len(self.registry.streams):
            self.registry.streams.forget_user(session.user)

    def end_session(self, session_id: str, reason: str) -> bool:
        """End a session for an operator; False: there is none of that id."""
        session = self.sessions.get(session_id)
        if session is None:
            return False
        session.end(SessionEnded("session ended", reason))
        return True

    # memory

    def judge_memory(self, *, scarce: bool, flooded: bool, nearly_exhausted: bool, exhausted: str) -> None:
        """Take the memory guard's finding, see `Memory.judge`."""
        was_flooded = self.memory.flooded
        self.memory.judge(scarce=scarce, flooded=flooded, nearly_exhausted=nearly_exhausted, exhausted=exhausted)
        # While outboxes are what fills the memory, slow clients get less of it, or end.
        if flooded or was_flooded:
            limit = self.quotas.max_outbound
            for session in self.sessions.values():
                session.outbox.set_limit(limit // _SQUEEZED if flooded else limit)

    def _on_memory(self) -> None:
        """Hold publishers back, or let them go on."""
        # Memory that is short is one of the two reasons to check SENDs in full.
        self.look_at_store()
        if self.memory.pressed:
            self._on_pressure()
        else:
            self._on_relief()

    def look_at_store(self) -> None:
        """Check SENDs in full while the store has failed."""
        self.context.check_stores()

    # clusters

    def suspend(self, storage: Storage) -> bool:
        """Hold durable messages back from consumers, and their publishers, until `resume`: another node may be about
        to go on with them.

        Subscribers of topics go on, also in streams: each has a copy of its own, and one node takes none from another.
        False: it is so already.
        """
        if storage.is_suspended:
            return False
        storage.suspend()
        self._tell_queues()
        return True

    def resume(self, storage: Storage) -> bool:
        """Go on; False: nothing was suspended."""
        if not storage.is_suspended:
            return False
        storage.resume()
        self._tell_queues()
        return True

    def _tell_queues(self) -> None:
        for queue in [*self.destinations.values(), *self.registry.hidden.values()]:
            if isinstance(queue, Queue):
                queue.suspend()

    # the context's, for the layers above

    @property
    def storage(self) -> Storage | None:
        """See `Context`; so is `records`."""
        return self.context.storage

    @storage.setter
    def storage(self, storage: Storage | None) -> None:
        self.context.storage = storage

    @property
    def records(self) -> EventLog:
        return self.context.records

    @records.setter
    def records(self, records: EventLog) -> None:
        self.context.records = records
