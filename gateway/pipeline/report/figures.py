"""The figures of a report, and nothing of how they are read or shown.

Counts are of rows of the journal, by the name of their event.  The span is [since, until), in UTC; `step` divides it,
and a first or last step may be shorter than the others.  What messages did is `jobs.figures.Figures`, the same as the
console shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ..jobs import latency
from ..jobs.figures import Figures, Histogram, add

FLOWS = ("accepted", "delivered", "acked")
EXCEPTIONS = ("nacked", "redelivered", "expired", "dead_lettered", "dropped")
EVENTS = (*FLOWS, *EXCEPTIONS)
"""What happens to messages, in the order in which it is shown."""

Counts = Mapping[str, int]
Percentiles = tuple[float | None, float | None, float | None]


def percentiles(histogram: Histogram) -> Percentiles:
    """p50, p95 and p99 in microseconds; None: there were no times."""
    return latency.percentiles(histogram) or (None, None, None)


@dataclass(frozen=True, slots=True)
class Step:
    """A piece of the span.

    Attributes:
        start, end: what of it lies in the span.
    """

    start: datetime
    end: datetime
    figures: Figures


@dataclass(frozen=True, slots=True)
class DestinationFigures:
    """A destination.

    Attributes:
        waiting: messages that waited there, at the most; None: nothing that lasted.
    """

    name: str
    figures: Figures
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something happened, and how often.

    Attributes:
        destination: None where the event has none.
    """

    event: str
    destination: str | None
    reason: str | None
    count: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class LastDeadLetter:
    """One dead letter; `size` in octets."""

    ts: datetime
    destination: str
    message_id: str | None
    reason: str | None
    delivery_count: int | None
    size: int | None
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConsumerAlarm:
    """A subscription that was stuck or slow.

    Attributes:
        kind: `stuck` or `slow`.
        raised, cleared: from when to when; None: still at the end of the span.
        pending: deliveries without ACK, at the most.
        oldest_us: age of the oldest of them in microseconds, at the most.
    """

    kind: str
    raised: datetime
    cleared: datetime | None
    gateway: str
    session: str | None
    principal: str | None
    peer: str | None
    subscription: str | None
    destination: str | None
    pending: int
    oldest_us: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows that are not there.

    Attributes:
        at: when the journal told of them: they were lost before that.
        rows: how many.
        reason: in the words of the journal.
    """

    gateway: str
    epoch: int
    at: datetime
    rows: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """All figures.

    Attributes:
        made: when.
        rows: of all events, read.
        first, last: of the rows read; None: there were none.
        events: of all events, how many rows.
        transports: sessions begun, by transport.
        destinations: the busiest first; `others` are those beyond.
        reasons: of every event that has one, the most frequent first.
        unlisted: how many more reasons an event has, where not all are among them.
        consumers: the latest first.
        stuck_after: the limit from which on they are stuck or slow.
    """

    since: datetime
    until: datetime
    made: datetime
    step: timedelta
    gateways: tuple[str, ...] = ()
    rows: int = 0
    first: datetime | None = None
    last: datetime | None = None
    events: Counts = field(default_factory=dict)
    transports: Counts = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    destinations: tuple[DestinationFigures, ...] = ()
    others: int = 0
    reasons: tuple[Reason, ...] = ()
    unlisted: Counts = field(default_factory=dict)
    dead_letters: tuple[LastDeadLetter, ...] = ()
    consumers: tuple[ConsumerAlarm, ...] = ()
    stuck_after: timedelta = timedelta(seconds=60)
    gaps: tuple[Gap, ...] = ()

    def total(self, event: str) -> int:
        """How many rows an event has."""
        return self.events.get(event, 0)

    @property
    def whole(self) -> Figures:
        """Of all steps together."""
        return add([step.figures for step in self.steps])

    @property
    def missing(self) -> int:
        """Rows that are known to be missing."""
        return sum([gap.rows for gap in self.gaps])

    def because(self, *events: str) -> list[Reason]:
        """The reasons of these events, the most frequent first."""
        return [each for each in self.reasons if each.event in events]

    def consumers_that_were(self, kind: str) -> list[ConsumerAlarm]:
        """`stuck` or `slow`."""
        return [each for each in self.consumers if each.kind == kind]
