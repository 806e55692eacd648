"""Memory guard: whether memory is left, and which session has to go when there is none.

Two accounts.  `memory_limit` counts messages at the moment that they are kept; the broker keeps that account, and it
misses much: outboxes, subscriptions, buffers, memory that the allocator could not give back.  `memory_mark` is for the
process as a whole, by its resident memory, which the guard reads some times a second.  Both have the same levels:

    from 3/4 on   publishers are blocked (`back_pressure`)
    stuck         for some seconds that made no room: the session goes that has most of the incomplete messages, or of
                  the bytes that clients do not read
    full          a SEND that would be kept is refused, `/readyz` says why no new client should come, and the sessions
                  that cost most are closed; then there is a pause, because that takes a moment to help

What is lost with a session counts.  Messages that a consumer has not acknowledged do not, because they go back to their
queue, and consumers alone make room; but a consumer that has a quarter of all memory goes, too.

Resident memory does not fall when memory is freed, until `malloc_trim` gives it back (143 ms for 768 MiB), so that is
called when much was freed.  What is resident then and belongs to no client is a reason neither to block publishers nor
to close sessions: it would not help, and would not end.  The log says so, and the kernel decides.
"""

import heapq
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import structlog
import trio

from gateway.broker import Broker, Session
from gateway.broker.errors import TooCostly
from gateway.broker.session.cost import Cost, cost_of
from gateway.log_limiter import LogLimiter

from .connected import Connected, log_fields
from .timers import TimerWheel

log = structlog.get_logger("gateway.memory")

# Seconds between looks: while there is plenty, and from half of the mark on, or under pressure.  At 500 MiB/s, what one
# client can send through loopback, the latter are 50 MiB.
_CALM, _ALERT = 0.5, 0.1
# Parts of the limit: what the sessions must have together for it to help that some go; what a consumer must have not
# acknowledged to go for it; and what is freed at once.
_GOOD_PART, _LARGE_CONSUMER, _SLICE = 8, 4, 32
# Sessions that go at one look, at most, and seconds until more of them do.
_MOST_AT_ONCE, _PAUSE = 64, 1.0
# Seconds of pressure after which memory counts as stuck.
_STUCK = 5.0
# Freed memory is given back to the system when it is so many bytes, or so many seconds have gone by; at any rate not
# sooner than after so many.  128 MiB take 25 ms.
_MUCH_FREED, _TRIM_PAUSE, _SOONEST_TRIM = 128 * 1024 * 1024, 5.0, 0.5
# Publishers go on when it is so much, as a part of the mark, below what they were blocked at: no to and fro.
_BACK_BY = 16
# Seconds in which the log says once that nothing helps.
_QUIET = 10.0

# Bytes of an incomplete frame up to which it is not counted: a client that sends in bulk always has a little of one.
_LITTLE = 4 * 1024
# Bytes beyond which a client is blocked in the middle of its frame, or refused: more than comes with one read.
_MUCH = 64 * 1024


class PartialFrame:
    """The incomplete frame of one connection, in the broker's account of memory; looked at once a chunk.

    A large frame takes memory long before it is a message, and of many clients at once it can be all there is.
    """

    __slots__ = ("_broker", "nbytes")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.nbytes = 0

    @property
    def is_large(self) -> bool:
        """True if the client may be blocked in the middle of it."""
        return self.nbytes > _MUCH

    def note(self, nbytes: int) -> None:
        """So many bytes of it have come.  Raises `NotAllowed` if memory is full: the message would be refused, too."""
        nbytes = nbytes if nbytes > _LITTLE else 0
        grown = nbytes - self.nbytes
        if not grown:
            return
        self.nbytes = nbytes
        self._broker.memory.buffer(grown)
        if grown > 0 and nbytes > _MUCH and self._broker.context.checks_sends:
            self._broker.memory.check()

    def end(self) -> None:
        """The frame is complete, or never will be."""
        self.note(0)


class _Candidate(NamedTuple):
    """A session that could be closed, and what it costs."""

    session: Session
    connection: Connected
    cost: Cost

    @property
    def own(self) -> int:
        """Bytes that go with it."""
        own: int = self.cost.own
        return own + self.connection.incomplete_bytes

    def sentence(self) -> str:
        """All that it has, the most first."""
        outbox, transactions, subscriptions, unacknowledged = self.cost
        parts = {
            "that wait to be read": outbox,
            "in open transactions": transactions,
            "of subscriptions and what waits for them": subscriptions,
            "of an incomplete message": self.connection.incomplete_bytes,
            "not acknowledged": unacknowledged,
        }
        most = sorted(parts.items(), key=lambda item: -item[1])
        return ", ".join([f"{nbytes:,} bytes {kind}" for kind, nbytes in most if nbytes])


class MemoryGuard:
    """Reads what the process takes, tells the broker, and closes sessions.

    A client counts as one that does not read after `patience` seconds without a write.
    """

    def __init__(
        self, broker: Broker, timers: TimerWheel, connections: Mapping[Session, Connected], patience: float
    ) -> None:
        self.mark = 0  # bytes that the process may take; 0: only `memory_limit` counts
        self.resident = 0  # bytes that it took at the last look, with those of `elsewhere`
        self.elsewhere: Callable[[], int] = lambda: 0  # bytes that other processes of the same gateway take
        self.closed = 0  # sessions that had to go since the start
        self._broker = broker
        self._timers = timers
        self._connections = connections
        self._patience = patience
        self._name = "memory_mark"
        self._read: Callable[[], int] = lambda: 0
        self._trim: Callable[[], object] = lambda: None
        self._has_timer = False
        self._is_scarce = False
        self._pause_until = self._pressed_since = -math.inf
        self._trimmed_at = -math.inf
        self._most_accounted = 0
        self._limiter = LogLimiter(quiet=_QUIET)

    def watch(self, mark: int, name: str, read: Callable[[], int], trim: Callable[[], object]) -> None:
        """Read the process's memory from now on: `mark` bytes may be taken, by a setting called `name` in words.

        `read` returns the bytes that are taken, `trim` gives back to the system what was freed.
        """
        self.mark, self._name, self._read, self._trim = mark, name, read, trim
        self._broker.memory.crowd = min(self._broker.memory.crowd, mark // _GOOD_PART)
        self.look_soon()

    @property
    def reason(self) -> str:
        """Why no new client should come, as a sentence; empty: there is memory."""
        return self._broker.memory.is_full or self._at_mark()

    def facts(self) -> dict[str, int]:
        """For the log."""
        return {"resident": self.resident, "memory_mark": self.mark} if self.mark else {}

    def look_soon(self) -> None:
        """There is a reason to look."""
        if not self._has_timer:
            self._has_timer = True
            self._pressed_since = trio.current_time()
            self._timers.add(self, self._pressed_since)

    def tick(self, now: float) -> float:
        """Look; returns when to look again."""
        broker = self._broker
        if self.mark:
            self._measure(now)
        if not broker.memory.pressed:
            self._pressed_since = now
        if now >= self._pause_until:
            self._make_room(now)
        if broker.memory.pressed or (self.mark and self.resident > self.mark // 2):
            return now + _ALERT
        if self.mark:
            return now + _CALM
        self._has_timer = False
        return math.inf

    def _at_mark(self) -> str:
        if not self.mark or self.resident < self.mark:
            return ""
        return f"the process takes {self.resident:,} bytes of memory, {self.mark:,} may ({self._name})"

    def _measure(self, now: float) -> None:
        """Read what the process takes, and tell the broker."""
        broker, high = self._broker, self.mark * 3 // 4
        self.resident = self._read() + self.elsewhere()
        if self.resident < high - self.mark // _BACK_BY:
            self._judge(scarce=False)
            return
        outboxes = sum([session.outbox.size for session in broker.sessions.values()])
        accounted = broker.memory.used + outboxes
        self._give_back(now, accounted)
        is_ours = accounted >= self.mark // _GOOD_PART
        scarce = is_ours and (self.resident >= high or self._is_scarce)
        self._judge(
            scarce=scarce,
            flooded=scarce and outboxes >= self.mark // _GOOD_PART,
            nearly_exhausted=is_ours and self.resident >= self.mark - self.mark // _BACK_BY,
            exhausted=self._at_mark() if is_ours else "",
        )

    def _judge(
        self, *, scarce: bool, flooded: bool = False, nearly_exhausted: bool = False, exhausted: str = ""
    ) -> None:
        self._is_scarce = scarce
        self._broker.judge_memory(
            scarce=scarce, flooded=flooded, nearly_exhausted=nearly_exhausted, exhausted=exhausted
        )

    def _give_back(self, now: float, accounted: int) -> None:
        """Have freed memory given back to the system, if there is much of it, and read again."""
        self._most_accounted = max(self._most_accounted, accounted)
        much = self._most_accounted - accounted >= min(_MUCH_FREED, self.mark // _GOOD_PART)
        is_time = self.resident - accounted > self.mark // _GOOD_PART and now >= self._trimmed_at + _TRIM_PAUSE
        if is_time or (much and now >= self._trimmed_at + _SOONEST_TRIM):
            self._trim()
            self._trimmed_at, self._most_accounted = now, accounted
            self.resident = self._read() + self.elsewhere()

    def _make_room(self, now: float) -> None:
        """Close the sessions that cost most, if memory is full or stuck."""
        broker = self._broker
        limit, stored = broker.quotas.memory_limit, broker.memory.used
        if stored >= limit:
            # Messages in outboxes are not in this account: to close their readers would free nothing of it.
            self._close(now, broker.memory.is_full, limit, stored - limit, lambda each: each.own - each.cost.outbox)
        elif at_mark := self._at_mark():
            self._close(now, at_mark, self.mark, self.resident - self.mark, lambda each: each.own)
        elif broker.memory.pressed and now - self._pressed_since >= _STUCK:
            self._close_stuck(now)

    def _close_stuck(self, now: float) -> None:
        broker = self._broker
        has_incomplete = broker.memory.partial >= 3 * broker.memory.crowd
        since = now - self._patience

        def stuck(each: _Candidate) -> int:
            """Bytes of an incomplete message, and those that a client does not read."""
            incomplete = each.connection.incomplete_bytes if has_incomplete else 0
            writer = each.connection.writer
            is_unread = broker.memory.flooded and writer is not None and writer.last_write < since
            return incomplete + (each.cost.outbox if is_unread else 0)

        if has_incomplete:
            names = f"memory_limit, {self._name}" if self.mark else "memory_limit"
            reason = f"incomplete messages cost {broker.memory.partial:,} bytes, and memory is short ({names})"
            self._close(now, reason, _GOOD_PART * broker.memory.crowd, 0, stuck)
        elif broker.memory.flooded:
            reason = f"memory is short ({self._name}), and much of it waits for clients that do not read"
            self._close(now, reason, self.mark, 0, stuck)

    def _close(self, now: float, reason: str, limit: int, excess: int, weight_of: Callable[[_Candidate], int]) -> None:
        """Close the sessions that cost most: of `limit` bytes that may be taken, `excess` are too many."""
        self._pause_until = now + _PAUSE
        candidates = [
            _Candidate(session, connection, cost_of(session))
            for session, connection in self._connections.items()
            if not session.failed
        ]
        weights = [(weight_of(each), each) for each in candidates]
        total = sum([weight for weight, _ in weights])
        if total < max(limit // _GOOD_PART, excess):
            consumer = max(candidates, key=lambda each: each.cost.unacknowledged, default=None)
            if consumer is not None and consumer.cost.unacknowledged >= limit // _LARGE_CONSUMER:
                self._end(consumer, reason)
            elif self._limiter.admit() is not None:
                log.error("memory is full, and closing clients would not help", reason=reason, clients_cost=total)
            return
        goal = max(excess, limit // _SLICE)
        for weight, candidate in heapq.nlargest(_MOST_AT_ONCE, weights, key=lambda pair: pair[0]):
            self._end(candidate, reason)
            goal -= weight
            if goal <= 0:
                return

    def _end(self, candidate: _Candidate, reason: str) -> None:
        self.closed += 1
        session, costs = candidate.session, candidate.sentence()
        detail = f"{reason}; this client is the one, or among those, that cost most: {costs}"
        candidate.connection.end(TooCostly("memory is full", detail))
        log.warning("a client is closed to make room in memory", **log_fields(session), reason=reason, costs=costs)
