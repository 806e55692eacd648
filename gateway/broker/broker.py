"""The broker: who is connected, which destinations there are, and the way of a message between them.

One thread, no I/O, no clock but the one it is given.  All methods return at once; whatever they cause to be written
lies in outboxes, and those are listed in `dirty` until the transports flush them.

Memory.  `stored_bytes` is what all kept messages cost: waiting, unacknowledged, in transactions, and those of which
only a part has come.  From 3/4 of the limit on, `pressed` tells the connections to stop reading those who publish; a
SEND at the limit itself, which only a session that must go on reading its ACKs can reach, is refused.  Nothing is
dropped.

Whoever knows what the whole process takes can say that it is too much (`judge_memory`): that is the same pressure, and
at its end SENDs are refused likewise.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable

from gateway.codec import Version, encoder

from .admin.messages import MessageAdmin
from .core.ages import MessageAges
from .core.counters import Counters
from .core.ports import ANONYMOUS, Application, Carrier
from .core.queue_arguments import ArgumentsNotice
from .core.scheduler import Scheduler
from .core.storage import Storage
from .errors import OUTBOX, SLOW_LIMITS, NotAllowed, SessionEnded, SlowConsumer, TakenOver
from .events import EventLog
from .headers.parse import Misspelt
from .model.access import Access
from .model.policy import Policies, Quotas
from .queue.outbox import Outbox
from .queue.queue import Queue
from .routing.registry import Registry
from .routing.router import Router
from .session.session import Session

# Times `max_outbound` that an outbox may hold though nobody was held back for it: what was delayed, or is a dead
# letter, has no publisher to hold.
_HARD_LIMIT = 4
# Of memory: so much of it is worth to hold back those who cause it.
_GOOD_PART = 8
# So much of it is left when even those who must be read are slowed down.
_LAST_PART = 16
# The part of `max_outbound` that an outbox may have while outboxes are what memory is short of.
_SQUEEZED = 32


class Broker:
    """The one core that all connections share.

    Attributes:
        quotas: the limits in force.
        counters: totals since the start.
        dates: when messages came.
        slow: limit -> how many slow consumers were ended for it.
        sessions: by id.
        known: login and client-id -> the session that has them, the one that came last; others are about to go.
        registry: which destinations there are.
        router: the way of messages to them.
        administration: an operator's way to the messages.
        destinations: canonical name -> queue or topic; the directory's.
        scheduler: what is to be done later.
        storage: what is to be stored; None: nothing outlives the process.
        records: told of what happens; None: nobody records.
        dirty: outboxes with something to flush.  Always the same object.
        strained: outboxes over their high mark that the reader at work just filled; it empties the set.
        stored_bytes: what kept messages cost, and incomplete ones.
        buffered: the part of it that is incomplete messages.
        kept: what messages cost that were kept since the start; it only grows.
        waiting: messages in queues that nobody has.
        subscriptions: how many there are.
        pressed: memory is short, by `stored_bytes` or by what the process takes.
        flooded: while it is short, outboxes have a good part of it, and may each have little.
        nearly_full: so short that whoever adds to it must be slowed down, and cannot be spared.
        crowd: of so many bytes on, incomplete messages have a good part of it.
        careful: a SEND has to be checked in full: `pressed`, or the store has failed.
        on_pressure: called when `pressed` begins.
        on_relief: called when it ends.
        full: queues at their limit that the reader at work just filled; it empties the set.
        on_room: called when a queue is no longer at its limit.
        on_wish: called when a client's queue arguments come into force, or come too late.
        on_misspelt: called with a SUBSCRIBE header that has no effect and looks like one that has, the session's id and
            its login.
        application: handles what is sent to `/app/`; None: nobody does.
        group_bytes: what the groups of all queues cost, nearly.
        dead_letters_under_way: how many dead letters became dead letters on their way, at the moment.

    Args:
        policies: the rules of destinations.
        clock: seconds, never going back.
        epoch: seconds since the epoch.
        wake: asks for a call of `scheduler.tick` at a time of `clock`.
        busy: asks for calls of `scheduler.proceed`.
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
        on_wish: Callable[[ArgumentsNotice], None] = lambda wish: None,
        on_misspelt: Callable[[Misspelt, str, str], None] = lambda header, session, login: None,
    ) -> None:
        self.quotas = quotas or Quotas()
        self.counters = Counters()
        self.slow = dict.fromkeys(SLOW_LIMITS, 0)
        self.dates = MessageAges(clock)
        self.scheduler = Scheduler(clock, epoch, wake, busy)
        self.storage: Storage | None = None
        self.records: EventLog | None = None
        policies = policies or Policies()
        self.registry = Registry(self, policies)
        self.router = Router(self, self.registry, policies)
        self.administration = MessageAdmin(self)
        self.sessions: dict[str, Session] = {}
        self.known: dict[tuple[str, str], Session] = {}
        self.destinations = self.registry.destinations
        self.dirty: deque[Outbox] = deque()
        self.strained: set[Outbox] = set()
        self.stored_bytes = 0
        self.kept = 0
        self.waiting = 0
        self.subscriptions = 0
        self.buffered = 0
        self.pressed = False
        self.flooded = False
        self._is_nearly_exhausted = False
        self.crowd = self.quotas.memory_limit // _GOOD_PART
        self.careful = False
        self.on_pressure = on_pressure
        self.on_relief = on_relief
        self.full: set[Queue] = set()
        self.on_room = on_room
        self.on_wish = on_wish
        self.on_misspelt = on_misspelt
        self.application: Application | None = None
        self.dead_letters_under_way = 0
        self.group_bytes = 0
        # What queues and topics need of the router.
        self.next_number = self.router.next_number
        self.deposit = self.router.deposit
        self.home_of = self.registry.home_of
        self.forget_if_idle = self.registry.forget_if_idle
        self._memory_high = self.quotas.memory_high
        self._is_scarce = False
        self._exhausted = ""
        self._slow: set[Session] = set()

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
        """A client has logged in.  Its last session is ended if it was under the same client-id: it is a ghost."""
        session = Session(
            self,
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
        )
        self.sessions[session.id] = session
        if client_id:
            ghost = self.known.get((login, client_id))
            self.known[login, client_id] = session
            if ghost is not None:
                ghost.end(TakenOver(peer))
        self.counters.sessions += 1
        if self.records is not None:
            self.records.connected(session)
        return session

    def forget_session(self, session: Session) -> None:
        """A session has closed."""
        self.sessions.pop(session.id, None)
        self._slow.discard(session)
        key = session.login, session.client_id
        if self.known.get(key) is session:
            del self.known[key]
        if session.login == ANONYMOUS and len(self.registry.streams):
            self.registry.streams.forget_mail(session.user)

    def end_session(self, session_id: str, reason: str) -> bool:
        """End a session on an operator's word; False when there is none of that id."""
        session = self.sessions.get(session_id)
        if session is None:
            return False
        session.end(SessionEnded("session ended", reason))
        return True

    # pressure

    def keep(self, nbytes: int) -> None:
        """Kept messages cost so much more."""
        self.stored_bytes += nbytes
        self.kept += nbytes
        if self.stored_bytes > self._memory_high and not self.pressed:
            self._weigh()

    def release(self, nbytes: int) -> None:
        """Kept messages cost so much less."""
        self.stored_bytes -= nbytes
        if self.pressed and self.stored_bytes <= self._memory_high:
            self._weigh()

    def buffer(self, nbytes: int) -> None:
        """Incomplete messages cost so much more, or less."""
        self.buffered += nbytes
        self.stored_bytes += nbytes
        self._weigh()

    @property
    def is_crowded(self) -> bool:
        """Incomplete messages have a good part of the memory."""
        return self.buffered > self.crowd

    @property
    def nearly_full(self) -> bool:
        """See the class."""
        limit = self.quotas.memory_limit
        return self._is_nearly_exhausted or self.stored_bytes >= limit - limit // _LAST_PART

    def judge_memory(self, *, scarce: bool, flooded: bool, nearly_exhausted: bool, exhausted: str) -> None:
        """Somebody has looked what the process takes.

        Args:
            scarce: it is so much that publishers are to be held back.
            flooded: outboxes have a good part of it.
            nearly_exhausted: it is nearly `exhausted`.
            exhausted: it is so much that nothing more is accepted, as a sentence; else empty.
        """
        self._is_scarce, self._is_nearly_exhausted, self._exhausted = scarce, nearly_exhausted, exhausted
        if flooded or self.flooded:
            self.flooded = flooded
            limit = self.quotas.max_outbound
            for session in self.sessions.values():
                session.outbox.set_limit(limit // _SQUEEZED if flooded else limit)
        self._weigh()

    def _weigh(self) -> None:
        """Pressure begins, or ends."""
        pressed = self._is_scarce or self.stored_bytes > self._memory_high
        if pressed == self.pressed:
            return
        self.pressed = pressed
        self.look_at_store()
        if pressed:
            self.on_pressure()
        else:
            self.on_relief()

    def look_at_store(self) -> None:
        """The store has failed, or works again, or memory is short, or no longer."""
        self.careful = self.pressed or (self.storage is not None and self.storage.failure != "")

    @property
    def memory_is_full(self) -> str:
        """Why nothing more is accepted, as a sentence; empty: there is memory."""
        limit = self.quotas.memory_limit
        if self.stored_bytes >= limit:
            return f"kept messages cost {self.stored_bytes} octets, {limit} may (memory_limit)"
        return self._exhausted

    def check_memory(self) -> None:
        """Refuse a SEND at the limit.

        Raises:
            NotAllowed: the limit is reached.
        """
        reason = self.memory_is_full
        if reason:
            raise NotAllowed("memory limit reached", reason)

    def take_strained(self) -> set[Outbox]:
        """The outboxes over their high mark that were filled in this turn."""
        strained = self.strained
        if strained:
            self.strained = set()
        return strained

    def take_full(self) -> set[Queue]:
        """The queues that came to their limit in this turn."""
        full = self.full
        if full:
            self.full = set()
        return full

    def strain(self, outbox: Outbox) -> None:
        """An outbox is over its high mark: who fills it waits, or it is closed if it was waited for long enough."""
        if not outbox.excused and outbox.size <= _HARD_LIMIT * self.quotas.max_outbound:
            self.strained.add(outbox)
        elif outbox.size > outbox.limit:
            setting = "max_outbound, less while memory is short" if self.flooded else "max_outbound"
            why = f"more than {outbox.limit} octets ({setting}) wait to be read"
            self.end_slow(outbox.session, SlowConsumer(why, OUTBOX))

    def end_slow(self, session: Session, error: SlowConsumer) -> None:
        """End a session whose client does not keep up; once, however often it is found out."""
        if session not in self._slow:
            self._slow.add(session)
            self.counters.slow_consumers += 1
            self.slow[error.limit] += 1
            session.end(error)
