"""Samples: the rates of the gateway in each of the last seconds, for the console and `gateway top`.

One task wakes once a second, reads the counters of the broker and the system's figures of the process, and keeps the
difference to the second before; the lag of the event loop is the delay of its wake-up.  Nothing is counted for it on
the way of a message.  The last `KEPT` samples are kept, 700 bytes each; of older ones, one a minute (`history`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import structlog
import trio
from pydantic import ConfigDict

from gateway.broker.core.histogram import BOUNDS, Histogram
from gateway.transports.flow.process_memory import resident

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.transports.flow.connection_limits import ConnectionLimits

log = structlog.get_logger("gateway.sampler")

STEP = 1.0  # seconds between two samples
KEPT = 600  # samples: ten minutes
WINDOW = 10  # steps of the current percentiles

_RATES = ("published", "delivered", "acknowledged", "errors", "dropped", "dead_lettered", "expired", "conflated")


class Percentiles(NamedTuple):
    """Milliseconds within which 50 %, 95 % and 99 % were done."""

    p50: float
    p95: float
    p99: float


class LatencyWindow:
    """The last steps of a histogram, which only grows: the difference of two has the times between them.

    Within a bucket times are taken to lie evenly, so the error of a percentile is less than the width of its bucket.
    """

    def __init__(self, histogram: Histogram, steps: int) -> None:
        self._histogram = histogram
        self._before: deque[list[int]] = deque([list(histogram.counts)], maxlen=steps + 1)

    def step(self) -> Percentiles | None:
        """End a step; returns its percentiles, None: it had no times."""
        self._before.append(list(self._histogram.counts))
        return percentiles(_between(self._before[-2], self._before[-1]))

    def percentiles(self) -> Percentiles | None:
        """Of all steps of the window; None: they had no times."""
        return percentiles(_between(self._before[0], self._before[-1]))


def _between(before: Sequence[int], after: Sequence[int]) -> list[int]:
    return [late - early for early, late in zip(before, after, strict=True)]


def percentiles(counts: Sequence[int]) -> Percentiles | None:
    """Percentiles of the counts of buckets; None: all are 0."""
    total = sum(counts)
    if not total:
        return None
    return Percentiles(*[round(_percentile(counts, total * part) / 1000, 3) for part in (0.5, 0.95, 0.99)])


def _percentile(counts: Sequence[int], wanted: float) -> float:
    """The time in microseconds within which `wanted` were done; a time above all bounds counts as the last bound."""
    low = 0
    for bound, count in zip(BOUNDS, counts, strict=False):
        if wanted <= count:
            return low + (bound - low) * wanted / count
        wanted -= count
        low = bound
    return low


@dataclass(frozen=True, slots=True)
class Second:
    """One sample: messages and errors per second, CPU as a part of one core, and percentiles of turns."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")  # it is an object of the admin API, too

    at: float  # its end, in seconds since the epoch
    published: float
    delivered: float
    acknowledged: float
    errors: float
    dropped: float  # as losses of destinations
    dead_lettered: float
    expired: float  # dead letters or not
    conflated: float
    sessions: int
    connections: int
    waiting: int  # messages in queues that no consumer has
    octets: int  # memory of all messages
    memory: int  # of the process; 0: the system does not tell
    cpu: float  # of all threads
    lag_ms: float
    p50: float | None  # of the turns of clients, in milliseconds; None: there were none
    p95: float | None
    p99: float | None

    def as_dict(self) -> dict[str, float | None]:
        return {name: getattr(self, name) for name in self.__slots__}


class Sampler:
    """Takes the samples.

    Args:
        turns: durations of clients' turns.
        cpu: seconds that the process has used.
        memory: bytes of the process.
        epoch: seconds since the epoch.
    """

    def __init__(
        self,
        broker: Broker,
        limits: ConnectionLimits,
        turns: Histogram,
        *,
        cpu: Callable[[], float] = time.process_time,
        memory: Callable[[], int] = resident,
        epoch: Callable[[], float] = time.time,
    ) -> None:
        self._broker = broker
        self._limits = limits
        self._cpu, self._memory, self._epoch = cpu, memory, epoch
        self._samples: deque[Second] = deque(maxlen=KEPT)
        self._turns = LatencyWindow(turns, WINDOW)
        records = broker.records
        self._waited = LatencyWindow(records.waited, WINDOW) if records.is_on else None
        self._took = LatencyWindow(records.took, WINDOW) if records.is_on else None
        self._before: tuple[float, ...] = ()
        self.started_at = epoch()  # seconds since the epoch
        self.last: Second | None = None  # the latest sample; None: before the first

    async def run(self) -> None:
        """Take a sample each second, until cancelled."""
        due = trio.current_time()
        self._before = self._totals()
        self._note()
        while True:
            due += STEP
            await trio.sleep_until(due)
            now = trio.current_time()
            self._note()
            try:
                self._take(now - due)
            except Exception:  # a missing sample must not end the gateway
                log.exception("no sample could be taken")
            if now - due > STEP:
                due = now  # missed seconds are skipped

    def since(self, at: float) -> list[Second]:
        """The samples after a time, the oldest first; all of them if it is after the last: the clock was set back."""
        if self.last is not None and at > self.last.at:
            at = 0.0
        newer = list(takewhile(lambda sample: sample.at > at, reversed(self._samples)))
        return newer[::-1]

    def last_ones(self, most: int) -> list[Second]:
        """The last samples, so many at most."""
        return list(islice(reversed(self._samples), most))

    def turns(self) -> Percentiles | None:
        """Durations of clients' turns in the last seconds; None: there were none."""
        return self._turns.percentiles()

    def waited(self) -> Percentiles | None:
        """Times from SEND to the first delivery; None: there were none, or events are not recorded."""
        return self._waited.percentiles() if self._waited is not None else None

    def took(self) -> Percentiles | None:
        """Times from delivery to ACK; None: there were none, or events are not recorded."""
        return self._took.percentiles() if self._took is not None else None

    def _note(self) -> None:
        self._broker.dates.note(self._broker.router.number)

    def _totals(self) -> tuple[float, ...]:
        """Totals that only grow: seconds of the clock and of the CPU, then the counters of `_RATES`."""
        totals = self._broker.counters.totals() | self._broker.counters.losses()
        return trio.current_time(), self._cpu(), *[totals[name] for name in _RATES]

    def _take(self, lag: float) -> None:
        totals = self._totals()
        passed, cpu, *grown = [after - before for before, after in zip(self._before, totals, strict=True)]
        self._before = totals
        for window in (self._waited, self._took):
            if window is not None:
                window.step()
        at = round(self._epoch(), 3)
        if self.last is not None and at <= self.last.at:
            self._samples.clear()  # the clock was set back: `since` could not tell which are newer
        rates = {name: round(each / passed, 1) for name, each in zip(_RATES, grown, strict=True)}
        p50, p95, p99 = self._turns.step() or (None, None, None)
        broker = self._broker
        self.last = Second(
            at=at,
            **rates,
            sessions=len(broker.sessions),
            connections=self._limits.all_connections,
            waiting=broker.context.waiting,
            octets=broker.memory.used,
            memory=self._memory(),
            cpu=round(cpu / passed, 3),
            lag_ms=round(lag * 1000, 1),
            p50=p50,
            p95=p95,
            p99=p99,
        )
        self._samples.append(self.last)
