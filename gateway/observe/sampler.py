"""What the gateway did in each of the last seconds, for whoever looks at it live.

One task wakes once a second, reads the broker's plain integers and what the system says of the process, and keeps the
difference to the second before; and it notes which message was the last so far, so that the broker can tell how old one
is.  Nothing is counted for it on the way of a message.  The last `KEPT` samples are kept,
600 bytes each, so 0.4 MiB in all; older ones are Prometheus's affair (`metrics`).

How late it wakes is the lag of the event loop: somebody's turn took so long, or the machine was busy.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import structlog
import trio

from gateway.broker.core.histogram import Histogram
from gateway.observe.latency import Percentiles, Window
from gateway.transports.flow.process_memory import resident

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.transports.flow.connection_limits import ConnectionLimits

log = structlog.get_logger("gateway.sampler")

STEP = 1.0
"""Seconds between two samples."""
KEPT = 600
"""Samples: ten minutes."""
WINDOW = 10
"""Steps that the percentiles of now are of."""

_RATES = ("published", "delivered", "acknowledged", "errors")


class Sample(NamedTuple):
    """One second.

    Attributes:
        at: its end, in seconds since the epoch.
        published, delivered, acknowledged, errors: of the counters of these names, per second.
        sessions, connections: at its end.
        waiting: messages in queues that nobody has.
        octets: what messages cost.
        memory: bytes that the process takes; 0 where the system does not tell.
        cpu: how much of a core the process used, with all its threads.
        lag_ms: how late the event loop came to this.
        p50, p95, p99: of the turns of clients, in milliseconds; None: there were none.
    """

    at: float
    published: float
    delivered: float
    acknowledged: float
    errors: float
    sessions: int
    connections: int
    waiting: int
    octets: int
    memory: int
    cpu: float
    lag_ms: float
    p50: float | None
    p95: float | None
    p99: float | None


class Sampler:
    """Takes the samples.

    Attributes:
        started_at: seconds since the epoch.
        last: the latest sample; None: there is none yet.

    Args:
        turns: how long turns of clients take.
        cpu: seconds that the process has used.
        memory: bytes that it takes.
        epoch: seconds since the epoch.
    """

    def __init__(
        self,
        broker: Broker,
        admission: ConnectionLimits,
        turns: Histogram,
        *,
        cpu: Callable[[], float] = time.process_time,
        memory: Callable[[], int] = resident,
        epoch: Callable[[], float] = time.time,
    ) -> None:
        self._broker = broker
        self._admission = admission
        self._cpu, self._memory, self._epoch = cpu, memory, epoch
        self._samples: deque[Sample] = deque(maxlen=KEPT)
        self._turns = Window(turns, WINDOW)
        records = broker.records
        self._waited = Window(records.waited, WINDOW) if records is not None else None
        self._took = Window(records.took, WINDOW) if records is not None else None
        self._before: tuple[float, ...] = ()
        self.started_at = epoch()
        self.last: Sample | None = None

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
            except Exception:  # nobody needs it so much that the gateway should end
                log.exception("no sample could be taken")
            if now - due > STEP:
                due = now  # seconds in which the process did not run are not made up for

    def since(self, at: float) -> list[Sample]:
        """The samples that are newer, the oldest first; all, if it is later than the last: the clock was set back."""
        if self.last is not None and at > self.last.at:
            at = 0.0
        newer = list(takewhile(lambda sample: sample.at > at, reversed(self._samples)))
        return newer[::-1]

    def turns(self) -> Percentiles | None:
        """Turns of clients in the last seconds; None: there were none.  Likewise the next two."""
        return self._turns.percentiles()

    def waited(self) -> Percentiles | None:
        """How long messages were on their way to their first delivery; None also where nobody records."""
        return self._waited.percentiles() if self._waited is not None else None

    def took(self) -> Percentiles | None:
        """How long deliveries were with a client until its ACK; likewise."""
        return self._took.percentiles() if self._took is not None else None

    def _note(self) -> None:
        """Up to which number messages have come."""
        self._broker.dates.note(self._broker.router.number)

    def _totals(self) -> tuple[float, ...]:
        """What only grows: seconds that went by, and that were computed, then what `_RATES` names."""
        counters = self._broker.counters
        return trio.current_time(), self._cpu(), *[getattr(counters, name) for name in _RATES]

    def _take(self, lag: float) -> None:
        totals = self._totals()
        passed, cpu, *grown = [after - before for before, after in zip(self._before, totals, strict=True)]
        self._before = totals
        for window in (self._waited, self._took):
            if window is not None:
                window.step()
        at = round(self._epoch(), 3)
        if self.last is not None and at <= self.last.at:
            self._samples.clear()  # the clock was set back, and nobody could tell which are newer
        published, delivered, acknowledged, errors = [round(each / passed, 1) for each in grown]
        p50, p95, p99 = self._turns.step() or (None, None, None)
        broker = self._broker
        self.last = Sample(
            at=at,
            published=published,
            delivered=delivered,
            acknowledged=acknowledged,
            errors=errors,
            sessions=len(broker.sessions),
            connections=self._admission.connections,
            waiting=broker.waiting,
            octets=broker.stored_bytes,
            memory=self._memory(),
            cpu=round(cpu / passed, 3),
            lag_ms=round(lag * 1000, 1),
            p50=p50,
            p95=p95,
            p99=p99,
        )
        self._samples.append(self.last)
