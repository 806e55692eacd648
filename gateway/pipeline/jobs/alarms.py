"""Alarms: when a consumer is stuck or slow, and when that is over.

The gateway looks every few seconds at each subscription that has deliveries without ACK, and records the age of the
oldest: these are the looks (`gauge_subscription`).

    over        a look at which the oldest is older than the limit
    stuck       over, and since the look before, and the limit before that, nothing was settled
    slow        over, but something was: by ACK or NACK
    raised      at the second look in a row that is over
    cleared     at the second look in a row that is not, or at once when nothing is pending, or the subscription ended

A lasting alarm changes between stuck and slow, and is told again every few minutes (`held`).  If nothing is pending
there may be no looks: when three are missing, the alarm is over.  A new start of a gateway ends its alarms, too.

The state of a `Suspect` depends on the order of its rows alone: the alarms and their times are the same however the
rows were split into batches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Any

STUCK, SLOW = "stuck", "slow"
RAISED, HELD, CLEARED = "raised", "held", "cleared"

# The expected pause between looks while it is not known, in microseconds, as all times here.
_SECOND = 1_000_000
_UNKNOWN = 200 * _SECOND
_MISSING = 3
_HOLD = 300 * _SECOND
_ENOUGH = 2

_WHOSE = ("gateway", "epoch", "session", "subscription", "destination", "principal", "peer")

_last = itemgetter(1)

Key = tuple[str, int, str, str | None, str]  # gateway, epoch, session, subscription, destination


@dataclass(slots=True)
class Look:
    seq: int  # of its row
    ts: int  # of its row
    pending: int = 0  # deliveries without ACK
    oldest_us: int = 0  # age of the oldest
    is_end: bool = False  # the subscription ended


@dataclass(slots=True)
class Suspect:
    """A subscription that was over at its last looks, or has an alarm."""

    gateway: str
    epoch: int
    session: str
    subscription: str | None
    destination: str
    principal: str | None
    peer: str | None
    seq: int  # of the last look
    ts: int  # of the last look
    pending: int  # of the last look
    oldest_us: int  # of the last look
    pause: int = 0  # time between the last two looks; 0: there was one
    settled: bool = False  # something was settled since the last look
    settled_at: int | None = None  # the last look that saw something settled since the look before; None: none has
    under: int = 0  # looks in a row, the last ones, that were not over
    kind: str | None = None  # of the alarm; None: there is none yet
    since: int = 0  # when it was raised
    told: int = 0  # time of the last row about it

    @property
    def key(self) -> Key:
        """Identifies the subscription."""
        return self.gateway, self.epoch, self.session, self.subscription, self.destination

    def suspect_of(self, look: Look) -> Suspect:
        whose: dict[str, Any] = {name: getattr(self, name) for name in _WHOSE}
        return Suspect(**whose, seq=look.seq, ts=look.ts, pending=look.pending, oldest_us=look.oldest_us)

    @property
    def expires(self) -> int:
        """The time at which so many looks are missing that the alarm is over."""
        return self.ts + _MISSING * (self.pause or _UNKNOWN)


Tell = Callable[[dict[str, Any]], None]


class Watch:
    """Goes through the looks of all suspects."""

    def __init__(self, suspects: Sequence[dict[str, Any]], limit: int, tell: Tell) -> None:
        self._limit = limit  # microseconds; an older delivery is over
        self._tell = tell  # called with the rows of the table, with times in microseconds since 1970
        self.suspects = {each.key: each for each in [Suspect(**values) for values in suspects]}

    def state(self) -> list[dict[str, Any]]:
        return [asdict(self.suspects[key]) for key in sorted(self.suspects, key=repr)]

    def is_over(self, look: Look) -> bool:
        return look.pending > 0 and look.oldest_us > self._limit

    def see(self, subject: Suspect, looks: Sequence[Look], settled: Sequence[tuple[int, int]]) -> None:
        """Go through the `looks` of a batch at the subscription of `subject`, in the order of `seq`.

        `settled` has the first and last `seq` of rows that say that something was settled.
        """
        key = subject.key
        for look in looks:
            suspect = self.suspects.get(key)
            if suspect is not None and look.ts > suspect.expires:
                self._clear(suspect, suspect.expires)
                suspect = None
            if suspect is None:
                if self.is_over(look):
                    self.suspects[key] = subject.suspect_of(look)
            elif look.is_end:
                self._clear(suspect, look.ts)
            else:
                behind = bisect_right(settled, suspect.seq, key=_last)
                suspect.settled |= behind < len(settled) and settled[behind][0] < look.seq
                self._look(suspect, look)
        suspect = self.suspects.get(key)
        if suspect is not None and settled:
            suspect.settled |= settled[-1][1] > suspect.seq

    def end(self, gateway: str, epoch: int) -> None:
        """A gateway has started anew: the alarms of its earlier processes are over."""
        for suspect in [each for each in self.suspects.values() if each.gateway == gateway and each.epoch < epoch]:
            self._clear(suspect, min(max(epoch, suspect.ts), suspect.expires))

    def pass_time(self, gateway: str, epoch: int, now: int) -> None:
        """The present time of a gateway's process."""
        for suspect in [each for each in self.suspects.values() if (each.gateway, each.epoch) == (gateway, epoch)]:
            if now > suspect.expires:
                self._clear(suspect, suspect.expires)

    def _look(self, suspect: Suspect, look: Look) -> None:
        suspect.pause = max(look.ts - suspect.ts, _SECOND)
        suspect.seq, suspect.ts = look.seq, look.ts
        suspect.pending, suspect.oldest_us = look.pending, look.oldest_us
        if suspect.settled:
            suspect.settled_at = look.ts
        suspect.settled = False
        if self.is_over(look):
            self._still(suspect)
            return
        suspect.under += 1
        if suspect.kind is None or suspect.under >= _ENOUGH or not look.pending:
            self._clear(suspect, look.ts)

    def _still(self, suspect: Suspect) -> None:
        """A suspect is over once more."""
        now = suspect.ts
        suspect.under = 0
        settles = suspect.settled_at is not None and now - suspect.settled_at <= self._limit
        kind = SLOW if settles else STUCK
        if suspect.kind == kind:
            if now - suspect.told >= _HOLD:
                self._say(suspect, HELD, now)
            return
        if suspect.kind is not None:
            self._say(suspect, CLEARED, now)
        suspect.kind, suspect.since = kind, now
        self._say(suspect, RAISED, now)

    def _clear(self, suspect: Suspect, at: int) -> None:
        if suspect.kind is not None:
            self._say(suspect, CLEARED, at)
        del self.suspects[suspect.key]

    def _say(self, suspect: Suspect, state: str, at: int) -> None:
        suspect.told = at
        told = {name: getattr(suspect, name) for name in (*_WHOSE, "kind", "since", "pending", "oldest_us")}
        self._tell({"ts": at, "state": state, **told})
