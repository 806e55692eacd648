"""Slow consumers: outboxes that fill faster than their clients read.

over the high mark        the outbox is `strained`: the reader at work holds its publisher back until there is relief
excused, or far beyond    a publisher was held back for long enough, or there is none to hold back (delayed messages,
                          dead letters): at its limit the session ends
"""

from ..errors import OUTBOX, SLOW_LIMITS, SlowConsumer
from ..model.policy import Quotas
from .counters import Counters
from .memory import Memory
from .outbox import Outbox
from .ports import Peer

# An outbox without a publisher to hold back may have this many times its limit.
_HARD_LIMIT = 4


class SlowConsumers:
    """The slow consumers of one broker."""

    __slots__ = ("_counters", "_ended", "_memory", "_quotas", "by_limit", "on_high", "strained")

    def __init__(self, quotas: Quotas, memory: Memory, counters: Counters) -> None:
        # outboxes that the reader at work filled beyond their high mark; it empties the set
        self.strained: set[Outbox] = set()
        self.by_limit = dict.fromkeys(SLOW_LIMITS, 0)  # limit -> sessions that were ended for it
        self._quotas = quotas
        self._memory = memory
        self._counters = counters
        self._ended: set[Peer] = set()
        # One object for all outboxes: a bound method for each would cost 64 bytes an idle connection.
        self.on_high = self.strain

    def strain(self, outbox: Outbox) -> None:
        """Remember an outbox that is over its high mark."""
        if not outbox.excused and outbox.size <= _HARD_LIMIT * self._quotas.max_outbound:
            self.strained.add(outbox)
        elif outbox.size > outbox.limit:
            setting = "max_outbound, less while memory is short" if self._memory.flooded else "max_outbound"
            self.end(outbox.peer, SlowConsumer(f"more than {outbox.limit} bytes ({setting}) wait to be read", OUTBOX))

    def take_strained(self) -> set[Outbox]:
        """The outboxes that were filled beyond their high mark in this turn."""
        strained = self.strained
        if strained:
            self.strained = set()
        return strained

    def take_since(self, before: set[Outbox]) -> set[Outbox]:
        """Those that were filled beyond their high mark since a copy of `strained`; they are in it no more.

        The publisher whose frames are handled next did not cause these deliveries.
        """
        since = self.strained - before
        self.strained.intersection_update(before)
        return since

    def end(self, peer: Peer, error: SlowConsumer) -> None:
        """End the session of a slow consumer; once, however often it is found out."""
        # `Peer.end` takes effect in a later turn, and the fan-out goes on until then.
        if peer not in self._ended:
            self._ended.add(peer)
            self._counters.slow_consumers += 1
            self.by_limit[error.limit] += 1
            peer.end(error)

    def forget(self, peer: Peer) -> None:
        """Forget a session that has closed."""
        self._ended.discard(peer)
