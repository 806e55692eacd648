"""The figures of a report, and the steps of time that it divides its span into: plain numbers, and nothing of how they
are read or shown.

Counts are rows of the journal, by the name of their event.  The span is [since, until), in UTC.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ..jobs import latency
from ..jobs.figures import Figures, Histogram, add

FLOWS = ("accepted", "delivered", "acked")
EXCEPTIONS = ("nacked", "redelivered", "expired", "dead_lettered", "dropped")
EVENTS = (*FLOWS, *EXCEPTIONS)  # the events of messages, in the order in which they are shown
Counts = Mapping[str, int]
Percentiles = tuple[float | None, float | None, float | None]


def percentiles(histogram: Histogram) -> Percentiles:
    """p50, p95 and p99 in microseconds; None: the histogram is empty."""
    return latency.percentiles(histogram) or (None, None, None)


@dataclass(frozen=True, slots=True)
class Step:
    """A piece of the span: from `start` to `end`, both inside of it."""

    start: datetime
    end: datetime
    figures: Figures


@dataclass(frozen=True, slots=True)
class DestinationFigures:
    """A destination."""

    name: str
    figures: Figures
    waiting: int | None = None  # the most messages that waited at a time; None: not known, or it keeps none


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason of an event, and how often it came; `destination` is None if the event has none."""

    event: str
    destination: str | None
    reason: str | None
    count: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class LastDeadLetter:
    """One dead letter; `size` in bytes."""

    ts: datetime
    destination: str
    message_id: str | None
    reason: str | None
    delivery_count: int | None
    size: int | None
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConsumerAlarm:
    """A subscription that was stuck or slow."""

    kind: str  # `stuck` or `slow`
    raised: datetime
    cleared: datetime | None  # None: not before the end of the span
    gateway: str
    session: str | None
    principal: str | None
    peer: str | None
    subscription: str | None
    destination: str | None
    pending: int  # the most deliveries without ACK
    oldest_us: int  # the highest age of the oldest of them, in microseconds


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows that the journal lost, how many and why; `at` is when it told, so they were lost before."""

    gateway: str
    epoch: int
    at: datetime
    rows: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """All figures."""

    since: datetime
    until: datetime
    made: datetime  # when the report was made
    step: timedelta
    gateways: tuple[str, ...] = ()
    rows: int = 0  # of all events, read
    first: datetime | None = None  # of the rows read; None: there were none
    last: datetime | None = None
    events: Counts = field(default_factory=dict)  # rows of each event
    transports: Counts = field(default_factory=dict)  # sessions begun, by transport
    steps: tuple[Step, ...] = ()
    destinations: tuple[DestinationFigures, ...] = ()  # the busiest first; `others` counts those beyond
    others: int = 0
    reasons: tuple[Reason, ...] = ()  # of each event that has one, the most frequent first
    unlisted: Counts = field(default_factory=dict)  # how many more reasons an event has than `reasons`
    dead_letters: tuple[LastDeadLetter, ...] = ()
    consumers: tuple[ConsumerAlarm, ...] = ()  # the latest first
    stuck_after: timedelta = timedelta(seconds=60)  # the limit from which on a consumer is stuck or slow
    gaps: tuple[Gap, ...] = ()

    def total(self, event: str) -> int:
        return self.events.get(event, 0)

    @property
    def whole(self) -> Figures:
        return add([step.figures for step in self.steps])

    @property
    def missing(self) -> int:
        return sum([gap.rows for gap in self.gaps])

    def because(self, *events: str) -> list[Reason]:
        """The reasons of these events, the most frequent first."""
        return [each for each in self.reasons if each.event in events]

    def consumers_that_were(self, kind: str) -> list[ConsumerAlarm]:
        """The consumers that were `stuck` or `slow`."""
        return [each for each in self.consumers if each.kind == kind]


SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

STEPS = (
    *(seconds * SECOND for seconds in (1, 5, 15)),
    *(MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY),
)
MOST_STEPS = 180  # as many points as a chart can show


def step_of(span: timedelta) -> timedelta:
    """The shortest step that divides a span into at most `MOST_STEPS`."""
    return next((step for step in STEPS if span <= step * MOST_STEPS), STEPS[-1])


def floor(when: datetime, step: timedelta) -> datetime:
    """The start of the step that a moment is in; steps are counted from 1970 on."""
    return EPOCH + (when - EPOCH) // step * step


def steps(since: datetime, until: datetime, step: timedelta) -> Iterator[tuple[datetime, datetime]]:
    """The steps of [since, until); the first and the last are cut to it."""
    start = floor(since, step)
    while start < until:
        yield max(start, since), min(start + step, until)
        start += step
