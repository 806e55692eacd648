"""When a client that publishes is not read: the end of its turn, and what it may have to wait for there.

    slow subscriber    whom it writes to has not read enough; for a bounded time, then that one no longer counts
    queue full         the queues that it filled have no room, by their policies
    memory short       whoever adds to what is short: who sends what is kept; who is in the middle of a large frame,
                       while much of it is incomplete frames
    disk slow, disk full, journal slow
    max_..._per_second it has sent as much as it may for now, or its user or address has

While it waits its heart-beat clock stands still, and it is seen once a second whether it is there at all.  Who holds
messages of others, or transactions, is held for none of these that might last for ever: what it would acknowledge could
be what all wait for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, cast

import trio

from gateway.broker.core.histogram import Histogram
from gateway.broker.core.outbox import Outbox, Source

from .blocked_publishers import (
    DISK_FULL,
    DISK_SLOW,
    JOURNAL_SLOW,
    MEMORY_SHORT,
    QUEUE_FULL,
    SLOW_SUBSCRIBER,
    BlockedPublisher,
)
from .rate_limits import RateLimit

if TYPE_CHECKING:
    from gateway.broker import Session

    from ..server import Server

# A receiver that took less than this part of `max_outbound` while it was waited for is too slow to be waited for again.
_LEAST_SHARE = 16
# Seconds between looks whether a client that is not read is still there.
_LOOK_FOR_PEER = 1.0
# Seconds for which a full queue holds back a client that consumes something itself.  It could be one of a circle of
# workers that wait for each other; so each of them goes on, one SEND at a time.
_LONGEST_HOLD_OF_CONSUMERS = 5.0
# Seconds for which memory that is nearly full holds back such a client: else all of them would be refused at its end,
# before those who cost most have gone.
_LONGEST_HOLD_AT_THE_END = 1.0


def _full(queues: Iterable[Source]) -> str | None:
    """The name of one that has no room; None: all have."""
    return next((queue.name for queue in queues if queue.full), None)


class BackPressure:
    """The waits of all publishers.

    Attributes:
        turns: how long turns of clients took, from a chunk of bytes until what it caused was handed to the sockets;
            what is waited for behind that is none of it.
    """

    def __init__(self, server: Server) -> None:
        self.turns = Histogram()
        self._server = server
        self._relief = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    def relieve(self) -> None:
        """Those who wait for store, journal or memory look whether they still have to."""
        self._relief.unpark_all()

    def has_room(self) -> None:
        """Those who wait for a queue look likewise."""
        self._room.unpark_all()

    async def settle(
        self,
        connection: BlockedPublisher,
        *,
        kept: bool,
        stored: bool = False,
        published: bool = False,
        midway: bool = False,
        began: float = 0.0,
    ) -> None:
        """End a turn: flush, and hold the connection whose turn it was back as long as it must be.

        Short memory holds back those whose messages were `kept`; topics keep nothing, and who subscribes or
        acknowledges makes room.  In the same way a disk that does not keep up, or is nearly full, holds back only those
        whose messages are to be `stored`; and a journal, those who `published` anything.

        Args:
            midway: it has begun a large frame.
            began: when the turn did, by `time.perf_counter`; 0: it counts for nothing.
        """
        broker = self._server.broker
        strained, full = broker.context.slow_consumers.take_strained(), broker.context.take_full()
        await self._server.flush()
        if began:
            self.turns.add((perf_counter() - began) * 1e6)
        if strained:
            await self._wait_for(strained, connection)
        if full:
            await self._wait_for_room(full, connection)
        if broker.memory.pressed and (kept or midway):
            await self._wait_for_memory(connection, kept=kept)
        if stored and not connection.must_read:
            await self._wait_for_disk(connection)
        records = broker.records
        if published and records is not None and records.is_behind and not connection.must_read:
            await self._wait_for_relief(connection, JOURNAL_SLOW, lambda: records.is_behind)

    async def _wait_for_memory(self, connection: BlockedPublisher, *, kept: bool) -> None:
        """Hold a publisher back until it may add to what is short.

        Who must not be held may become so as it is: by messages of a consumer that has gone.

        Args:
            kept: what it has sent; else it is in the middle of a large frame.
        """
        broker = self._server.broker

        def is_short() -> bool:
            return broker.memory.pressed and not connection.must_read and (kept or broker.memory.is_crowded)

        if is_short():
            await self._wait_for_relief(connection, MEMORY_SHORT, is_short)
        elif kept and broker.memory.nearly_full:
            with trio.move_on_after(_LONGEST_HOLD_AT_THE_END):
                await self._wait_for_relief(connection, MEMORY_SHORT, lambda: broker.memory.nearly_full)

    async def _wait_for(self, strained: set[Outbox], publisher: BlockedPublisher) -> None:
        """Hold a publisher back until those it writes to have read; not longer than `slow_consumer_timeout`."""
        late = [each for each in strained if each.size > each.high and not each.closed]
        if not late:
            return
        before = {each: each.gone for each in late}
        holding = self._server.holds.hold(publisher, SLOW_SUBSCRIBER, receiver=late[0].peer.id)
        with holding as hold, trio.move_on_after(self._server.options.slow_consumer_timeout):
            for outbox in late:
                hold.receiver = outbox.peer.id
                receiver = self._server.connections.get(cast("Session", outbox.peer))
                writer = receiver.writer if receiver is not None else None
                while writer is not None and outbox.size > outbox.relief and not outbox.closed:
                    await writer.wait_relief()
        for outbox in late:
            too_slow = outbox.gone - before[outbox] < outbox.limit // _LEAST_SHARE
            outbox.excused = too_slow and outbox.size > outbox.relief and not outbox.closed

    async def _wait_for_room(self, queues: set[Source], connection: BlockedPublisher) -> None:
        """Hold a publisher back until the queues that it filled have room, by their policies.

        Who consumes one of them is not held for it: nobody else may be there to make room.
        """
        session = connection.session
        assert session is not None  # only a session publishes
        queues -= {each.queue for each in session.subscriptions.values() if not each.options.browser}
        if not _full(queues):
            return
        longest = _LONGEST_HOLD_OF_CONSUMERS if connection.must_read or session.subscriptions else math.inf
        with self._server.holds.hold(connection, QUEUE_FULL) as hold, trio.move_on_after(longest):
            while (full := _full(queues)) and not connection.peer_has_gone():
                hold.destination = full
                with trio.move_on_after(_LOOK_FOR_PEER):
                    await self._room.park()

    async def _wait_for_disk(self, connection: BlockedPublisher) -> None:
        """Hold a publisher back until less waits to be written, and there is room for it.

        While room is short durable messages are refused; this is for others, which are stored because they are many.
        Who consumes is not held for that, for it may take hours, and consuming makes room.
        """
        storage, session = self._server.broker.storage, connection.session
        assert storage is not None  # something is to be stored
        assert session is not None  # only a session publishes
        if storage.is_behind:
            await self._wait_for_relief(connection, DISK_SLOW, lambda: storage.is_behind)
        if storage.is_short and not session.subscriptions:
            await self._wait_for_relief(connection, DISK_FULL, lambda: storage.is_short)

    async def _wait_for_relief(self, connection: BlockedPublisher, reason: str, is_due: Callable[[], bool]) -> None:
        """Hold a publisher back until that is over."""
        with self._server.holds.hold(connection, reason):
            while is_due() and not connection.peer_has_gone():
                with trio.move_on_after(_LOOK_FOR_PEER):
                    await self._relief.park()

    async def slow_down(self, connection: BlockedPublisher, pace: RateLimit) -> None:
        """Hold a client back that sends more than it may."""
        with self._server.holds.hold(connection, pace.reason) as hold:
            hold.whose = pace.whose
            while (rest := pace.until - trio.current_time()) > 0 and not connection.peer_has_gone():
                with trio.move_on_after(min(rest, _LOOK_FOR_PEER)):
                    await trio.sleep_forever()
