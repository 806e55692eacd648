"""Tally: how many messages came to one destination, went out of it, and were lost there.

The counts are plain integers, raised in passing; a message that is not lost pays for no loss.  A look at a tally, every
few seconds, makes rates of them (`gateway/observe/destination_watch.py`).  A destination that goes, as an empty queue
does, leaves its tally behind if it lost messages: else a queue in which every message expires would show no loss.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from .counters import LOSSES, Drop

LOSING = 60.0
"""Seconds for which a destination counts as one that loses messages, after the last one."""

# Names of destinations that have gone and lost messages; and the longest of them, in characters.
_MOST_KEPT, _LONGEST = 500, 256


class Counts(NamedTuple):
    """Messages of a destination; each that is lost counts in one way only."""

    published: float = 0  # came, from clients or the server itself
    delivered: float = 0  # went into outboxes of consumers and subscribers
    acknowledged: float = 0
    dropped: float = 0  # by a limit, or given back and not wanted as dead letters: `LOSSES`
    dead_lettered: float = 0
    expired: float = 0
    conflated: float = 0  # replaced by a newer one of their key

    @property
    def lost(self) -> float:
        """Not conflated: that a newer one takes its place is what the key is for."""
        return round(self.dropped + self.dead_lettered + self.expired, 1)


_NOTHING = Counts()


class Tally:
    """The counts of one destination, since it came to be; a topic shares its own with its subscribers' queues.

    Attributes:
        drops: by reason; None: nothing was dropped.
        rates: per second, between the last two looks.
        lost_age: how long before the last look a loss was found; None: nothing was lost.
    """

    __slots__ = (
        *("_before", "_looked_at", "_lost_at", "drops", "lost_age", "name", "rates"),
        *("acknowledged", "conflated", "dead_lettered", "delivered", "expired", "published"),
    )

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.published = self.delivered = self.acknowledged = 0
        self.dead_lettered = self.expired = self.conflated = 0
        self.drops: dict[Drop, int] | None = None
        self.rates = self._before = _NOTHING
        self._looked_at = now
        self._lost_at = 0.0
        self.lost_age: float | None = None

    @property
    def dropped(self) -> int:
        """All losses by drops."""
        return sum(self.drops.values()) if self.drops is not None else 0

    @property
    def lost(self) -> int:
        """Messages that were lost."""
        return self.dropped + self.dead_lettered + self.expired

    def drop(self, why: Drop) -> None:
        """Count a message that was thrown away, if it is a loss."""
        if why in LOSSES:
            if self.drops is None:
                self.drops = {}
            self.drops[why] = self.drops.get(why, 0) + 1

    def look(self, now: float) -> bool:
        """Work out the rates since the last look; False: nothing happened."""
        seconds, self._looked_at = now - self._looked_at, now
        before, came, went, settled = self._before, self.published, self.delivered, self.acknowledged
        found = came, went, settled, self.dropped, self.dead_lettered, self.expired, self.conflated
        # Nearly all destinations of a large gateway are idle: a plain tuple costs a quarter of the other.
        if found == before:
            self.rates = _NOTHING
            if self.lost_age is not None:
                self.lost_age = now - self._lost_at
            return False
        counts = Counts(*found)
        if counts.lost > before.lost:
            self._lost_at = now
        if counts.lost:
            self.lost_age = now - self._lost_at
        # A destination that has just come is not ten times as busy as it will be.
        seconds = max(seconds, 1.0)
        self.rates = Counts(*[round((late - early) / seconds, 1) for early, late in zip(before, counts, strict=True)])
        self._before = counts
        return True

    @property
    def is_losing(self) -> bool:
        """True if a message was lost lately."""
        return self.lost_age is not None and self.lost_age < LOSING


class Tallies:
    """The tallies of all destinations, and of those that have gone and lost messages.  `clock`: the broker's."""

    __slots__ = ("_clock", "gone", "losing")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.losing = 0  # how many are losing messages, by the last look at all of them
        self.gone: OrderedDict[str, Tally] = OrderedDict()  # by name, the one that went last at the end

    def begin(self, name: str) -> Tally:
        """The tally of a destination that comes to be; it goes on where it lost messages before."""
        return self.gone.pop(name, None) or Tally(name, self._clock())

    def end(self, tally: Tally) -> None:
        """A destination goes."""
        if tally.lost and len(tally.name) <= _LONGEST:
            self.gone[tally.name] = tally
            if len(self.gone) > _MOST_KEPT:
                self.gone.popitem(last=False)
