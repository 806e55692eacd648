"""Publishers that are held: they are not read, because what they send has no room.

A program that is held hangs, for all that its user can see.  So whoever looks can see it: a list with who waits for
what, a counter, and a line in the log for a hold that lasts.

A full queue holds a publisher once for each message that it takes, so a hold must cost little: no timer, but one date
on the wheel for all of them (they all have the same time, so the oldest stands first).  And a thousand publishers to
one queue are one line a minute, not a thousand.
"""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import structlog
import trio

from gateway.broker import Session
from gateway.broker.core.counters import Counters

from .rate_limits import LIMITS
from .timers import TimerWheel

log = structlog.get_logger("gateway.holds")

QUEUE_FULL, SLOW_SUBSCRIBER, MEMORY_SHORT = "queue full", "slow subscriber", "memory short"
DISK_SLOW, DISK_FULL, JOURNAL_SLOW = "disk slow", "disk full", "journal slow"
REASONS = (QUEUE_FULL, SLOW_SUBSCRIBER, MEMORY_SHORT, DISK_SLOW, DISK_FULL, JOURNAL_SLOW, *LIMITS)
"""All there are."""

# Seconds after which a hold is worth a line.  Less than those for which a full queue holds a client that consumes
# something itself: a circle of workers that wait for each other would never be seen.
_LASTING = 3.0
# Seconds in which there is one line for each queue, receiver, user or address that publishers are held for.
_QUIET = 60.0


class BlockedPublisher(Protocol):
    """What ends a turn: a connection, or the server's own functions."""

    @property
    def session(self) -> Session | None:
        """Who publishes."""
        ...

    @property
    def must_read(self) -> bool:
        """It holds messages of others, or open transactions: it cannot be held for ever."""
        ...

    def held(self) -> AbstractContextManager[None]:
        """It is not read while this is entered."""
        ...

    def peer_has_gone(self) -> bool:
        """Nobody is there any more who could be held."""
        ...


class Block:
    """A publisher that is held.

    Attributes:
        session: whom it belongs to.
        reason: one of `REASONS`.
        destination: the queue that is full; None: it is not for a queue.
        receiver: id of the session that reads slowly; None: it is not for one.
        whose: the user, or the address, that has sent what all of its sessions may; empty: it is for nothing that
            sessions share.
        since: seconds since the epoch.
    """

    __slots__ = ("destination", "reason", "receiver", "session", "since", "whose")

    def __init__(self, session: Session, reason: str, destination: str | None, receiver: str | None) -> None:
        self.session = session
        self.reason = reason
        self.destination = destination
        self.receiver = receiver
        self.whose = ""
        self.since = time.time()

    def row(self) -> dict[str, object]:
        """As the admin API shows it."""
        return {
            "reason": self.reason,
            "destination": self.destination,
            "receiver": self.receiver,
            "since": self.since,
        }


class Blocks:
    """All publishers that are held now.

    Attributes:
        totals: reason -> how often somebody was held for it since the start.
    """

    def __init__(self, timers: TimerWheel, counters: Counters) -> None:
        self._timers = timers
        self._counters = counters
        self.totals = dict.fromkeys(REASONS, 0)
        self._all: dict[Block, None] = {}
        self._untold: dict[Block, float] = {}  # and when it is to be told
        self._told: dict[str, float] = {}  # what publishers were held for, and until when that is no news
        self._on_wheel = False

    def __len__(self) -> int:
        """How many there are."""
        return len(self._all)

    def by_session(self) -> dict[str, Block]:
        """Session id -> its hold; the oldest one of the server's own session, whose functions are held one by one."""
        return {hold.session.id: hold for hold in reversed(self._all)}

    def by_reason(self) -> dict[str, int]:
        """Reason -> how many are held for it now."""
        now = collections.Counter([hold.reason for hold in self._all])
        return {reason: now[reason] for reason in REASONS}

    @contextmanager
    def hold(
        self, publisher: BlockedPublisher, reason: str, destination: str | None = None, receiver: str | None = None
    ) -> Iterator[Block]:
        """Hold a publisher while this is entered; the rest of the arguments is as `Block` has it."""
        session = publisher.session
        assert session is not None  # only a session publishes
        hold = Block(session, reason, destination, receiver)
        self._counters.held_publishers += 1
        self.totals[reason] += 1
        self._all[hold] = None
        self._untold[hold] = due = trio.current_time() + _LASTING
        if not self._on_wheel:
            self._on_wheel = True
            self._timers.add(self, due)
        try:
            with publisher.held():
                yield hold
        finally:
            del self._all[hold]
            self._untold.pop(hold, None)

    def tick(self, now: float) -> float:
        """Tell of the holds that last."""
        while self._untold:
            hold, due = next(iter(self._untold.items()))
            if due > now:
                return due
            del self._untold[hold]
            self._tell(hold, now)
        self._on_wheel = False
        return math.inf

    def _tell(self, hold: Block, now: float) -> None:
        if hold.reason == MEMORY_SHORT:  # it has lines of its own
            return
        what = hold.destination or hold.receiver or f"{hold.reason} {hold.whose}"
        while self._told and next(iter(self._told.values())) <= now:
            del self._told[next(iter(self._told))]
        if what in self._told:
            return
        self._told[what] = now + _QUIET
        session = hold.session
        log.warning(
            "a publisher is held back",
            session=session.id,
            login=session.login,
            peer=session.peer,
            **hold.row(),
            held=len(self._all),
        )
