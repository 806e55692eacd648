"""Gauges for the recorder, every few seconds: sessions with unacknowledged messages, queues with waiting ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from .queue.queue import Queue

if TYPE_CHECKING:
    from .broker import Broker
    from .core.events import EventLog
    from .queue.subscription import Subscription
    from .session.session import Session


class Gauges:
    """Samples all sessions and queues; `pause`: seconds between two looks."""

    def __init__(self, broker: Broker, records: EventLog, pause: float) -> None:
        self._broker = broker
        self._records = records
        self._pause = pause
        # Those with messages at the last look, and at this one: the end of it is told as well, once.
        self._before: set[Subscription | Queue] = set()
        self._now: set[Subscription | Queue] = set()

    def begin(self) -> None:
        """Look, and again later."""
        scheduler = self._broker.scheduler
        # Kept for one look only, so that what has gone is not kept alive by it for longer.
        self._before, self._now = self._now, set()
        scheduler.at(scheduler.clock() + self._pause, self.begin)
        scheduler.run(self._look())

    def _look(self) -> Iterator[None]:
        broker = self._broker
        # As they are now: both tables may change between two slices.
        sessions = list(broker.sessions.values())
        every = chain(broker.destinations.values(), broker.registry.hidden.values())
        queues = [target for target in every if isinstance(target, Queue)]
        targets: list[Session | Queue] = [*sessions, *queues]
        most = broker.context.work_limits.gauge_looks
        for count, each in enumerate(targets):
            if count and count % most == 0:
                yield
            if isinstance(each, Queue):
                self._of_queue(each)
            else:
                # Those in mode auto have nothing unacknowledged.
                for subscription in each.subscriptions.acknowledging.values():
                    self._of_subscription(subscription)

    def _of_subscription(self, subscription: Subscription) -> None:
        if subscription.ledger:
            oldest = next(iter(subscription.ledger.values()))
            self._records.pending(subscription, len(subscription.ledger), oldest)
            self._now.add(subscription)
        # Once, when it has become empty: else its last gauge would stand for ever.
        elif subscription in self._before:
            self._records.pending(subscription, 0, None)

    def _of_queue(self, queue: Queue) -> None:
        unacknowledged = sum([len(each.ledger) for each in queue.subscriptions if each.ledger])
        if queue.waiting or unacknowledged:
            self._records.waiting(queue.name, unacknowledged, queue.waiting, queue.in_memory.ready_lists[0].oldest())
            self._now.add(queue)
        elif queue in self._before:
            self._records.waiting(queue.name, 0, 0, None)
