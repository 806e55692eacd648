"""Counters of the broker and of its destinations: plain integers, raised in passing and read by metrics and lists.

Nothing here costs more than an addition; a figure that needs a clock is made elsewhere.  Failures are counted by their
causes: the causes are words of ours, few, and there from the start.

A destination has a tally: messages that came, went out, and were lost there.  A look at it, every few seconds, makes
rates (`gateway/observe/destination_watch.py`).  A destination that goes, as an empty queue does, leaves its tally if it
lost messages: else a queue in which every message expires would show no loss.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple, get_args

from gateway.codec import ProtocolError

from ..errors import AccessRefused

Drop = Literal["queue-full", "rejected", "max-attempts", "expired", "max-retained", "queue-gone", "purged", "deleted"]
"""Why a message was thrown away: a limit; a NACK, its last attempt or its time, where nothing takes dead letters; too
many retained ones; it went with its queue; an operator purged the queue, or deleted it alone."""
LOSSES: tuple[Drop, ...] = ("queue-full", "rejected", "max-attempts", "expired")
"""The drops that count as losses of a destination."""
ERRORS = tuple(
    "malformed too-large not-allowed access-refused access-lost login-refused renewal-refused no-common-version "
    "schema too-many connect-timeout no-heart-beat slow-consumer memory-full ended internal".split()
)
"""The `cause` of each `ProtocolError`."""
EARLY = ("draining", "handshake")
"""Why a connection ended before STOMP began, where it was none of these: the server shuts down; or no PROXY header, no
TLS or no WebSocket was to be had of the client."""
METHODS = ("passcode", "token", "ticket", "cookie", "certificate", "custom", "none", "admin", "other")
"""The kind of credentials that were refused; `admin`: the token of the admin API; `other`: the kind is not known, or
the credentials were not looked at, because their address had failed too often."""
ACTIONS = ("send", "subscribe", "admin", "presence")
"""The actions that rules refuse."""


@dataclass(slots=True, eq=False)
class Counters:
    """Totals since the start."""

    connections: int = 0  # transport connections accepted
    sessions: int = 0  # sessions that reached CONNECTED
    # connections that ended before CONNECTED, by `ERRORS` and `EARLY`
    refusals: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*ERRORS, *EARLY), 0))
    # credentials that were refused, or refused unheard, at CONNECT, at a renewal, or for a ticket, by `METHODS`
    failed_logins: dict[str, int] = field(default_factory=lambda: dict.fromkeys(METHODS, 0))
    # actions that rules refused, by `ACTIONS`
    forbidden: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ACTIONS, 0))
    frames_in: int = 0  # frames of clients
    bytes_in: int = 0  # bytes received, as STOMP
    bytes_out: int = 0  # bytes handed to sockets, as STOMP
    published: int = 0  # messages accepted from SEND (at COMMIT inside a transaction)
    delivered: int = 0  # messages put into outboxes
    redelivered: int = 0  # those of them that were a further delivery
    unroutable: int = 0  # messages to a topic without subscribers
    acknowledged: int = 0  # messages settled by ACK
    rejected: int = 0  # messages settled by NACK
    ack_timeouts: int = 0  # messages that were taken from consumers that had not settled them in time
    late_acks: int = 0  # ACKs and NACKs of such messages
    dead_lettered: int = 0  # messages that went to a dead-letter queue
    moved: int = 0  # messages that an operator moved to another destination, or back to where they had come from
    expired: int = 0  # messages that reached the end of their time before they were consumed
    expired_for_good: int = 0  # those at a destination that became no dead letters
    drops: dict[Drop, int] = field(default_factory=lambda: dict.fromkeys(get_args(Drop), 0))  # messages thrown away
    conflated: int = 0  # messages that a newer one of their key replaced
    duplicates: int = 0  # messages with a dedup-id that was known
    failures: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ERRORS, 0))  # ERROR frames
    heartbeat_timeouts: int = 0  # sessions ended because the client was silent
    slow_consumers: int = 0  # sessions ended because the client did not read
    misspelt_headers: int = 0  # headers of SUBSCRIBE that are not known and look like one that is
    events_lost: int = 0  # events for applications that found no room
    held_publishers: int = 0  # times a connection was not read because a receiver or the memory was over its mark

    def fail(self, error: ProtocolError) -> None:
        """A session ends by an ERROR."""
        self.failures[error.cause] += 1
        if isinstance(error, AccessRefused) and error.action:
            self.forbidden[error.action] += 1

    def refuse(self, error: ProtocolError) -> None:
        """A connection that has no session ends by an ERROR."""
        self.failures[error.cause] += 1
        self.refusals[error.cause] += 1

    def fail_login(self, method: str) -> None:
        """Credentials of that kind were refused."""
        self.failed_logins[method if method in self.failed_logins else "other"] += 1

    def losses(self) -> dict[str, int]:
        """Messages that were lost, each in one way: one that expired and became a dead letter is a dead letter."""
        return {
            "dropped": sum([self.drops[why] for why in LOSSES]),
            "dead_lettered": self.dead_lettered,
            "expired": self.expired_for_good,
            "conflated": self.conflated,
        }

    def totals(self) -> dict[str, int]:
        """Everything by its name, without causes."""
        shown = [each.name for each in fields(self) if each.name != "expired_for_good"]  # it is told as a loss
        values = {_TOTALS.get(name, name): getattr(self, name) for name in shown}
        return {name: sum(value.values()) if isinstance(value, dict) else value for name, value in values.items()}


# What the sum of each count by cause is called.
_TOTALS = {"drops": "dropped", "failures": "errors", "failed_logins": "logins_failed", "refusals": "refused"}


# destinations

LOSING = 60.0
"""Seconds for which a destination counts as one that loses messages, after the last one."""
_WAYS = ("dropped", "dead_lettered", "expired")

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
    """

    __slots__ = (
        *("_before", "_looked_at", "_losses", "drops", "name", "rates"),
        *("acknowledged", "conflated", "dead_lettered", "delivered", "expired", "published"),
    )

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.published = self.delivered = self.acknowledged = 0
        self.dead_lettered = self.expired = self.conflated = 0
        self.drops: dict[Drop, int] | None = None
        self.rates = self._before = _NOTHING
        self._looked_at = now
        # by way: how many had been lost before the present losses began, and when the last one was found
        self._losses: dict[str, tuple[int, float]] | None = None

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
            return False
        counts = Counts(*found)
        if counts.lost > before.lost:
            self._note_losses(counts)
        # A destination that has just come is not ten times as busy as it will be.
        seconds = max(seconds, 1.0)
        self.rates = Counts(*[round((late - early) / seconds, 1) for early, late in zip(before, counts, strict=True)])
        self._before = counts
        return True

    def _note_losses(self, counts: Counts) -> None:
        losses = self._losses = self._losses or {}
        present = self.present_losses
        for way in _WAYS:
            if getattr(counts, way) > (early := getattr(self._before, way)):
                losses[way] = losses[way][0] if way in present else early, self._looked_at

    @property
    def present_losses(self) -> dict[str, int]:
        """What is lost at present, by way, and how many since it began: it ends a minute after the last one."""
        losses = (self._losses or {}).items()
        return {way: getattr(self, way) - before for way, (before, at) in losses if self._looked_at - at < LOSING}

    @property
    def lost_age(self) -> float | None:
        """How long before the last look a loss was found; None: nothing was lost."""
        return self._looked_at - max([at for _, at in self._losses.values()]) if self._losses else None

    @property
    def is_losing(self) -> bool:
        """True if a message was lost lately."""
        age = self.lost_age
        return age is not None and age < LOSING


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
