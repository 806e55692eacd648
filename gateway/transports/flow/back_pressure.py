"""Back-pressure: the end of a publisher's turn, and what the publisher may have to wait for there.

A turn is what one reader does between two waits: it handles the frames of a chunk, and all that they cause lies in
outboxes.  At its end these are flushed.  Then the publisher is blocked, which means that its socket is not read, for:

    slow subscriber    a subscriber that it publishes to has not read enough; for a bounded time, then that subscriber
                       no longer counts
    queue full         the queues that it filled have no room, by their policies
    memory short       it adds to what is short: its messages are kept, or it is in the middle of a large frame
    disk slow, disk full, journal slow
    max_..._per_second it has sent as much as it may for now, or its user or address has

Meanwhile its heart-beat clock stands still, and once a second the gateway looks whether the peer is still there.  A
client that holds unacknowledged messages or transactions is never blocked without a bound: what it would acknowledge
could be what all others wait for.  To its user a blocked program seems to hang, so operators see it: in a list, in a
counter, and by a line in the log for a block that lasts.
"""

import collections
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from typing import NamedTuple, Protocol, cast

import structlog
import trio

from gateway.broker import Broker, Session
from gateway.broker.core.counters import Counters
from gateway.broker.core.histogram import Histogram
from gateway.broker.core.outbox import Fillable, Outbox
from gateway.log_limiter import LogLimiter

from .connected import Connected, log_fields
from .memory_guard import PartialFrame
from .rate_limits import LIMITS, RateLimit
from .timers import TimerWheel

log = structlog.get_logger("gateway.holds")

QUEUE_FULL, SLOW_SUBSCRIBER, MEMORY_SHORT = "queue full", "slow subscriber", "memory short"
DISK_SLOW, DISK_FULL, JOURNAL_SLOW = "disk slow", "disk full", "journal slow"
REASONS = (QUEUE_FULL, SLOW_SUBSCRIBER, MEMORY_SHORT, DISK_SLOW, DISK_FULL, JOURNAL_SLOW, *LIMITS)
"""All that publishers are blocked for."""

# A subscriber that took less than this part of `max_outbound` while a publisher waited is too slow to be waited for.
_LEAST_SHARE = 16
# Seconds between looks whether a client that is not read is still there.
_LOOK_FOR_PEER = 1.0
# Seconds for which a full queue blocks a client that consumes something itself.  It could be one of a circle of workers
# that wait for each other; so each of them goes on, one SEND at a time.
_LONGEST_BLOCK_OF_CONSUMERS = 5.0
# Seconds for which memory that is nearly full blocks such a client: else all of them would be refused at its end,
# before those that cost most have gone.
_LONGEST_BLOCK_AT_THE_END = 1.0
# Seconds after which a block is worth a line.  Less than those for which a full queue blocks a consumer: else a circle
# of workers that wait for each other would never be seen.
_LASTING = 3.0
# Seconds in which there is one line for each queue, subscriber, user or address that publishers are blocked for.
_QUIET = 60.0


class Blockable(Protocol):
    """What can be blocked: a connection, or the server's own functions."""

    @property
    def session(self) -> Session | None:
        """The session that publishes."""

    @property
    def must_read(self) -> bool:
        """True if it has unacknowledged messages or open transactions: its ACKs and COMMITs must always be read."""

    def held(self) -> AbstractContextManager[None]:
        """Entered while it is not read, so that its heart-beat clock stands still."""

    def peer_has_gone(self) -> bool:
        """True if the other end has closed, which the reader of a blocked client does not see."""


class Caused(NamedTuple):
    """What a turn has caused that its client may have to wait for."""

    kept: bool = True  # the methods of `Turn` explain each
    stored: bool = False
    published: bool = False
    midway: bool = False


class Turn:
    """What a client has caused since its turn began.

    At `began` (`time.perf_counter`) the broker had `delivered` so many messages.
    """

    # One for each connection, of which ten thousand may be idle: without a dictionary it costs some 200 bytes less.
    __slots__ = (
        *("_broker", "_counters", "_frames", "_incomplete", "_kept", "_published", "_session", "_stored"),
        *("began", "delivered"),
    )

    def __init__(self, broker: Broker, session: Session, incomplete: PartialFrame) -> None:
        self._broker = broker
        self._counters = broker.counters
        self._session = session
        self._incomplete = incomplete
        self.begin()

    def begin(self) -> None:
        broker, counters = self._broker, self._counters
        self.delivered = counters.delivered
        self._published = counters.published
        self._kept = broker.memory.kept
        storage = broker.storage
        self._stored = 0 if storage is None else storage.entered
        self._frames = self._session.frames_in
        self.began = perf_counter()

    def caused_work(self) -> bool:
        """True if the turn had frames; a chunk of heart-beats, or of a part of a frame, has none."""
        return self._session.frames_in != self._frames

    def has_kept(self) -> bool:
        """True if the broker has messages of this turn to keep; topics keep none."""
        return self._broker.memory.kept != self._kept

    def has_stored(self) -> bool:
        """True if messages of this turn go to the store."""
        storage = self._broker.storage
        return storage is not None and storage.entered != self._stored

    def has_published(self) -> bool:
        """True if it had any SEND."""
        return self._counters.published != self._published

    def is_midway(self) -> bool:
        """True if the client has begun a large frame."""
        return self._incomplete.is_large

    def caused(self) -> Caused:
        """All of these, as they are now: other clients have their turns while this one waits."""
        return Caused(self.has_kept(), self.has_stored(), self.has_published(), self.is_midway())


def _full(queues: Iterable[Fillable]) -> str | None:
    return next((queue.name for queue in queues if queue.full), None)


class BackPressure:
    """The waits of all publishers; a slow subscriber is waited for during the seconds of `patience`."""

    def __init__(
        self,
        broker: Broker,
        timers: TimerWheel,
        flush: Callable[[], Awaitable[None]],
        patience: float,
        connections: Mapping[Session, Connected],
    ) -> None:
        # How long turns took, from a chunk until what it caused was handed to the sockets, without waits behind that.
        self.turns = Histogram()
        self.blocked = BlockedPublishers(timers, broker.counters)
        self._broker = broker
        self._flush = flush
        self._patience = patience
        self._connections = connections
        self._relief = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    def relieve(self) -> None:
        """Publishers that wait for store, journal or memory look whether they still have to."""
        self._relief.unpark_all()

    def room_came(self) -> None:
        """Publishers that wait for a queue look whether they still have to."""
        self._room.unpark_all()

    async def end_turn(self, publisher: Blockable, turn: Turn | None = None) -> None:
        """Flush, and block the publisher as long as what it caused makes it wait.

        `turn` is None for one of the server's own functions, which may have had messages kept.
        """
        context = self._broker.context
        strained, full = context.slow_consumers.take_strained(), context.take_full()
        await self._flush()
        if turn is not None and turn.caused_work():
            self.turns.add((perf_counter() - turn.began) * 1e6)
        if strained or full or self.is_short:
            await self.block(publisher, Caused() if turn is None else turn.caused(), strained, full)

    @property
    def is_short(self) -> bool:
        """True if a publisher may have to wait for memory, disk or journal."""
        broker = self._broker
        storage = broker.storage
        return (
            broker.memory.pressed
            or broker.records.is_behind
            or (storage is not None and (storage.holds_back or storage.is_short))
        )

    async def block(self, publisher: Blockable, caused: Caused, strained: set[Outbox], full: set[Fillable]) -> None:
        """Block a publisher that has strained these outboxes, and filled these queues, as long as it must wait."""
        broker = self._broker
        if strained:
            await self._wait_for(strained, publisher)
        if full:
            await self._wait_for_room(full, publisher)
        if broker.memory.pressed and (caused.kept or caused.midway):
            await self._wait_for_memory(publisher, kept=caused.kept)
        if caused.stored and not publisher.must_read:
            await self._wait_for_disk(publisher)
        records = broker.records
        if records.is_behind and caused.published and not publisher.must_read:
            await self._wait_for_relief(publisher, JOURNAL_SLOW, lambda: records.is_behind)

    async def _wait_for_memory(self, publisher: Blockable, *, kept: bool) -> None:
        """Block a publisher until it may add to what is short.

        Either its messages are kept, or it is in the middle of a large frame.
        """
        broker = self._broker

        def is_short() -> bool:
            # It may become one that must be read while it waits: by messages of a consumer that has gone.
            return broker.memory.pressed and not publisher.must_read and (kept or broker.memory.is_crowded)

        if is_short():
            await self._wait_for_relief(publisher, MEMORY_SHORT, is_short)
        elif kept and broker.memory.nearly_full:
            with trio.move_on_after(_LONGEST_BLOCK_AT_THE_END):
                await self._wait_for_relief(publisher, MEMORY_SHORT, lambda: broker.memory.nearly_full)

    async def _wait_for(self, strained: set[Outbox], publisher: Blockable) -> None:
        """Block a publisher until its subscribers have read; not longer than `slow_consumer_timeout`."""
        late = [each for each in strained if each.size > each.high and not each.closed]
        if not late:
            return
        before = {each: each.gone for each in late}
        with self.blocked.block(publisher, SLOW_SUBSCRIBER) as block, trio.move_on_after(self._patience):
            for outbox in late:
                block.receiver = outbox.peer.id
                receiver = self._connections.get(cast("Session", outbox.peer))
                writer = receiver.writer if receiver is not None else None
                while writer is not None and outbox.size > outbox.relief and not outbox.closed:
                    await writer.wait_relief()
        for outbox in late:
            too_slow = outbox.gone - before[outbox] < outbox.limit // _LEAST_SHARE
            outbox.excused = too_slow and outbox.size > outbox.relief and not outbox.closed

    async def _wait_for_room(self, queues: set[Fillable], publisher: Blockable) -> None:
        """Block a publisher until the queues that it filled have room, by their policies."""
        session = publisher.session
        assert session is not None  # only a session publishes
        # A consumer of such a queue is not blocked for it: it may be the only one that makes room.
        queues -= {each.queue for each in session.subscriptions.values() if not each.options.browser}
        if not _full(queues):
            return
        longest = _LONGEST_BLOCK_OF_CONSUMERS if publisher.must_read or session.subscriptions else math.inf
        with self.blocked.block(publisher, QUEUE_FULL) as block, trio.move_on_after(longest):
            while (full := _full(queues)) and not publisher.peer_has_gone():
                block.destination = full
                with trio.move_on_after(_LOOK_FOR_PEER):
                    await self._room.park()

    async def _wait_for_disk(self, publisher: Blockable) -> None:
        """Block a publisher until less waits to be written, and there is room for it.

        While room is short durable messages are refused; this is for messages that are stored because they are many.
        A consumer is not blocked for room: it may take hours, and consuming makes room.
        """
        storage, session = self._broker.storage, publisher.session
        assert storage is not None  # a message is to be stored
        assert session is not None  # only a session publishes
        if storage.holds_back:
            await self._wait_for_relief(publisher, DISK_SLOW, lambda: storage.holds_back)
        if storage.is_short and not session.subscriptions:
            await self._wait_for_relief(publisher, DISK_FULL, lambda: storage.is_short)

    async def _wait_for_relief(self, publisher: Blockable, reason: str, is_due: Callable[[], bool]) -> None:
        with self.blocked.block(publisher, reason):
            while is_due() and not publisher.peer_has_gone():
                with trio.move_on_after(_LOOK_FOR_PEER):
                    await self._relief.park()

    async def slow_down(self, publisher: Blockable, limit: RateLimit) -> None:
        """Block a client that has sent more than it may."""
        with self.blocked.block(publisher, limit.reason) as block:
            block.shared_by = limit.shared_by
            while (rest := limit.until - trio.current_time()) > 0 and not publisher.peer_has_gone():
                with trio.move_on_after(min(rest, _LOOK_FOR_PEER)):
                    await trio.sleep_forever()


class BlockedPublisher:
    """A publisher that waits."""

    __slots__ = ("destination", "reason", "receiver", "session", "shared_by", "since")

    def __init__(self, session: Session, reason: str, destination: str | None) -> None:
        self.session = session
        self.reason = reason  # one of `REASONS`
        self.destination = destination  # the queue that is full; None: it does not wait for a queue
        self.receiver: str | None = None  # id of the session that reads slowly; None: it does not wait for one
        self.shared_by = ""  # the user or the address that has used up a shared rate
        self.since = time.time()  # seconds since the epoch

    def row(self) -> dict[str, object]:
        """As the admin API shows it."""
        return {"reason": self.reason, "destination": self.destination, "receiver": self.receiver, "since": self.since}


class BlockedPublishers:
    """All publishers that wait now; `totals` counts by reason how often one was blocked since the start."""

    def __init__(self, timers: TimerWheel, counters: Counters) -> None:
        self._timers = timers
        self._counters = counters
        self.totals = dict.fromkeys(REASONS, 0)
        self._all: dict[BlockedPublisher, None] = {}
        self._unlogged: dict[BlockedPublisher, float] = {}  # and when the log is to be told
        self._limiter = LogLimiter(quiet=_QUIET)
        self._has_timer = False

    def __len__(self) -> int:
        return len(self._all)

    def by_session(self) -> dict[str, BlockedPublisher]:
        """Session id -> its block; of the server's own session, whose functions wait one by one, the oldest."""
        return {block.session.id: block for block in reversed(self._all)}

    def by_reason(self) -> dict[str, int]:
        """Reason -> how many wait for it now."""
        now = collections.Counter([block.reason for block in self._all])
        return {reason: now[reason] for reason in REASONS}

    @contextmanager
    def block(self, publisher: Blockable, reason: str, destination: str | None = None) -> Iterator[BlockedPublisher]:
        """Block a publisher while this is entered."""
        session = publisher.session
        assert session is not None  # only a session publishes
        block = BlockedPublisher(session, reason, destination)
        self._counters.held_publishers += 1
        self.totals[reason] += 1
        self._all[block] = None
        self._unlogged[block] = due = trio.current_time() + _LASTING
        if not self._has_timer:
            self._has_timer = True
            self._timers.add(self, due)
        try:
            with publisher.held():
                yield block
        finally:
            del self._all[block]
            self._unlogged.pop(block, None)

    def tick(self, now: float) -> float:
        """Log the blocks that last."""
        while self._unlogged:
            block, due = next(iter(self._unlogged.items()))
            if due > now:
                return due
            del self._unlogged[block]
            self._log(block)
        self._has_timer = False
        return math.inf

    def _log(self, block: BlockedPublisher) -> None:
        if block.reason == MEMORY_SHORT:  # it has lines of its own
            return
        cause = block.destination or block.receiver or f"{block.reason} {block.shared_by}"
        if self._limiter.admit(cause) is None:
            return
        log.warning("a publisher is held back", **log_fields(block.session), **block.row(), held=len(self._all))
