"""Watch of destinations: their rates, a short series of the busiest, and those at which something is wrong.

    every 5 seconds   the tallies of all destinations are looked at, in slices, so that messages go on in between
    a series          the rates of the last five minutes, for a destination at which something happened meanwhile

Nothing is counted for it on the way of a message (`gateway/broker/core/counters.py`).  A look at an idle destination
costs 1 to 2 us; one with a series takes 3 KiB.

Known weakness: one look has a bounded number of destinations; of more than that, each is looked at less often, and its
rates are means of as long.
"""

from __future__ import annotations

import heapq
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import trio

from gateway.broker.core.counters import Counts, Tally
from gateway.broker.queue.queue import Queue

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.topic.topic import Topic

STEP = 5.0  # seconds between two looks
KEPT = 60  # values of a series: five minutes
MOST_SERIES = 500  # the busiest destinations
MOST_NAMED = 20  # destinations of one kind of trouble
PER_LOOK = 20_000  # destinations
SLICE = 200  # destinations of a turn: 0.3 ms, or 2 ms where all of them become busy

_SHOWN = ("published", "delivered", "acknowledged", "lost")

T = TypeVar("T")


class Series:
    """The last rates of one destination."""

    __slots__ = ("_idle", "_values")

    def __init__(self) -> None:
        self._values = {name: array("d") for name in _SHOWN}
        self._idle = 0

    def add(self, rates: Counts) -> None:
        """The rates of one more step."""
        self._idle = 0 if any(rates) else self._idle + 1
        for name, values in self._values.items():
            values.append(getattr(rates, name))
            if len(values) > KEPT:
                del values[0]

    @property
    def is_idle(self) -> bool:
        """True if all of it is 0."""
        return self._idle >= KEPT

    @property
    def recent(self) -> float:
        """How busy it was in the last step."""
        return self._values["published"][-1] + self._values["delivered"][-1]

    def as_dict(self) -> dict[str, object]:
        return {name: list(values) for name, values in self._values.items()}


@dataclass
class Troubles:
    """What a round found, by the names of destinations; of many, some."""

    losing: dict[str, Tally] = field(default_factory=dict)  # they lost messages within the last minute
    dead_letters: dict[str, int] = field(default_factory=dict)  # messages that wait in dead-letter queues
    unconsumed: dict[str, int] = field(default_factory=dict)  # messages that wait without a consumer
    still: dict[str, int] = field(default_factory=dict)  # that wait although there are consumers, which take none


class DestinationWatch:
    """Looks at the destinations of a broker."""

    def __init__(self, broker: Broker) -> None:
        self.troubles = Troubles()  # of the last round
        self.at = 0.0  # when the last values of all series were made, in seconds since the epoch
        self._broker = broker
        self._series: dict[Tally, Series] = {}
        self._round: list[Queue | Topic] = []
        self._place = 0  # in the round
        # of the round at hand
        self._found = self.troubles
        self._losing = 0

    def series(self, tally: Tally) -> dict[str, object] | None:
        """The last rates of a destination; None: it was idle, or others are busier."""
        found = self._series.get(tally)
        return None if found is None else found.as_dict()

    async def look(self) -> None:
        """Look at all destinations, or at the next ones of very many."""
        scheduler = self._broker.scheduler
        started, self.at = scheduler.clock(), scheduler.epoch()
        for place, (tally, series) in enumerate(list(self._series.items())):
            if place % SLICE == SLICE - 1:
                await trio.lowlevel.checkpoint()
            tally.look(started)
            series.add(tally.rates)
            if series.is_idle:
                del self._series[tally]
        if not self._place:
            self._round, self._found, self._losing = self._every_destination(), Troubles(), 0
        end = self._place + PER_LOOK
        for place in range(self._place, min(end, len(self._round)), SLICE):
            now = scheduler.clock()
            for target in self._round[place : min(place + SLICE, end)]:
                self._see(target, started, now)
            await trio.lowlevel.checkpoint()
        self._place = end if end < len(self._round) else 0
        if not self._place:
            for tally in self._broker.context.tallies.gone.values():
                if tally not in self._series:
                    tally.look(started)
                self._note_losses(tally)
            self.troubles, self._round = self._found, []
            self._broker.context.tallies.losing = self._losing
        self._trim(MOST_SERIES)

    def _every_destination(self) -> list[Queue | Topic]:
        registry = self._broker.registry
        return [*registry.destinations.values(), *registry.patterns.values(), *registry.hidden.values()]

    def _see(self, target: Queue | Topic, started: float, now: float) -> None:
        tally, found = target.tally, self._found
        if tally not in self._series and tally.look(now):
            series = self._series[tally] = Series()
            series.add(tally.rates)
            if len(self._series) > 2 * MOST_SERIES:
                self._trim(MOST_SERIES)
        self._note_losses(tally)
        if isinstance(target, Queue) and (waiting := target.waiting):
            name = target.name
            if target.takes_dead_letters:
                _note(found.dead_letters, name, waiting)
            elif not target.subscriptions:
                _note(found.unconsumed, name, waiting)
            elif not tally.rates.delivered + tally.rates.acknowledged:
                _note(found.still, name, waiting)

    def _note_losses(self, tally: Tally) -> None:
        if tally.is_losing:
            self._losing += 1
            _note(self._found.losing, tally.name, tally)

    def _trim(self, most: int) -> None:
        """Keep the busiest ones."""
        if len(self._series) > most:
            self._series = dict(heapq.nlargest(most, self._series.items(), key=lambda item: item[1].recent))


def _note(table: dict[str, T], name: str, value: T) -> None:
    if len(table) < MOST_NAMED:
        table[name] = value
