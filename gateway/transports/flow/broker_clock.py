"""The time of the broker, which a test sets forward: delays, expiry and back-off pass at once.

Connections go on by trio's clock: heart-beats and timeouts are agreed with clients, whose clocks go on.  The gateway of
a process has no `BrokerClock`; its broker reads trio's clock and the system's.
"""

from __future__ import annotations

import time

import trio

from gateway.broker import Broker

# Seconds: sums of floats may fall short of a date by less.
_ROUNDING = 1e-6


class BrokerClock:
    """Trio's clock and the system's, both `ahead` by the same number of seconds."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        """Seconds, never going back."""
        return trio.current_time() + self.ahead

    def epoch(self) -> float:
        """Seconds since the epoch."""
        return time.time() + self.ahead

    def advance(self, broker: Broker, seconds: float) -> None:
        """Set the clock of a broker forward, and carry out what falls due, each at its own time.

        What that puts into outboxes is flushed by the server's task.
        """
        scheduler = broker.scheduler
        until = self.now() + seconds
        while (due := scheduler.next_due) <= until:
            self._set(due + _ROUNDING)
            scheduler.tick()
            while scheduler.proceed():
                pass
        self._set(until)
        scheduler.tick()  # asks for the next wake, which comes sooner now
        broker.context.take_full()  # no publisher has caused it, so none is blocked
        scheduler.later(lambda: None)  # wakes the task that flushes

    def _set(self, now: float) -> None:
        self.ahead += max(now - self.now(), 0.0)
