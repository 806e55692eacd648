"""Metrics of destinations: sums over all of them, and single ones that the operator names.

    round     looks at every destination once; its sums are shown until the next round is complete
    scrape    continues the round with a limited number of destinations, so it takes a bounded time

Known weakness: with a million queues a round takes a hundred scrapes, and the sums are as old.

Names of single destinations become a label, so their number is limited, and one that is shown stays until it is
deleted.  A name without wildcards always has its place: clients can create any number that match a pattern.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from gateway.broker.core.counters import Counts
from gateway.broker.model.destinations import QUEUE
from gateway.broker.model.patterns import Pattern, has_wildcard
from gateway.broker.model.policy import DEAD_LETTERS
from gateway.broker.queue.queue import Queue

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.topic.topic import Topic

PER_SCRAPE = 10_000  # destinations of one scrape: 1 us each, where messages wait
NAMES_PER_SCRAPE = 2_000  # names that one scrape compares with patterns: 3 ms for each pattern
MOST_SHOWN = 100  # single destinations; each is twelve time series
LONGEST_NAME = 256  # Characters of a name that becomes a label.  A client may send one of 64 KiB.


@dataclass
class Sums:
    """Sums of a round."""

    unconsumed: int = 0  # messages in queues without a consumer, apart from dead letters
    unconsumed_queues: int = 0  # number of those queues
    dead_letters: int = 0  # messages in dead-letter queues
    full: int = 0  # queues that hold publishers back
    oldest: int | None = None  # number of the oldest waiting message, apart from dead letters; None: no message waits


class DestinationMetrics:
    """Looks at destinations during a scrape.

    `dead_letters`: names of dead-letter queues beside those with the usual prefix.  `shown`: names and patterns of
    single destinations.
    """

    def __init__(self, broker: Broker, dead_letters: Collection[str] = (), shown: Sequence[str] = ()) -> None:
        self._broker = broker
        self._dead_letters = frozenset(dead_letters)
        self._round: list[Queue | Topic] = []
        self._place = 0  # in the round
        self._sums = self._last = Sums()
        single = dict.fromkeys([text for text in shown if not has_wildcard(text) and len(text) <= LONGEST_NAME])
        self._single = dict.fromkeys(islice(single, MOST_SHOWN))
        self._patterns = [Pattern(text) for text in shown if has_wildcard(text)]
        self._names: Iterator[str] = iter(())
        self._found: dict[str, None] = {}  # by patterns

    def metrics(self) -> Iterator[Metric]:
        self._look()
        last = self._last
        yield GaugeMetricFamily(
            "gateway_messages_unconsumed",
            "Messages that wait in queues without a consumer, apart from dead letters.",
            last.unconsumed,
        )
        yield GaugeMetricFamily(
            "gateway_queues_unconsumed", "Queues without a consumer in which messages wait.", last.unconsumed_queues
        )
        yield GaugeMetricFamily("gateway_dead_letters_waiting", "Messages in dead-letter queues.", last.dead_letters)
        yield GaugeMetricFamily("gateway_queues_full", "Queues that hold their publishers back.", last.full)
        yield GaugeMetricFamily(
            "gateway_destinations_losing",
            "Destinations that lost messages within the last minute: dropped, expired or dead letters.",
            self._broker.context.tallies.losing,
        )
        yield GaugeMetricFamily(
            "gateway_oldest_message_age_seconds",
            "Age of the oldest message in a queue, at least, apart from dead letters and durable subscriptions; "
            "0: no message waits.",
            self._age(last.oldest),
        )
        if self._single or self._patterns:
            self._find()
            yield from self._each()

    def is_dead_letters(self, name: str) -> bool:
        """Whether a queue holds dead letters."""
        return name.startswith(QUEUE + DEAD_LETTERS) or name in self._dead_letters

    def _look(self) -> None:
        if not self._place:
            self._round = list(self._broker.destinations.values())
            self._sums = Sums()
        end = self._place + PER_SCRAPE
        for target in self._round[self._place : end]:
            if isinstance(target, Queue) and (target.waiting or target.full):
                self._add(target)
        self._place = end
        if end >= len(self._round):
            self._last, self._round, self._place = self._sums, [], 0

    def _add(self, queue: Queue) -> None:
        sums = self._sums
        sums.full += queue.full
        if self.is_dead_letters(queue.name):
            sums.dead_letters += queue.waiting
            return
        number = queue.oldest()
        if number is not None and (sums.oldest is None or number < sums.oldest):
            sums.oldest = number
        if queue.waiting and not queue.subscriptions:
            sums.unconsumed += queue.waiting
            sums.unconsumed_queues += 1

    def _age(self, number: int | None) -> float:
        return 0.0 if number is None else self._broker.dates.age(number).seconds

    def _find(self) -> None:
        """Compare more names with the patterns, as long as there is room."""
        known, room = self._broker.destinations, MOST_SHOWN - len(self._single)
        self._found = {name: None for name in self._found if name in known}
        if not self._patterns or len(self._found) >= room:
            return
        names = list(islice(self._names, NAMES_PER_SCRAPE))
        if not names:
            self._names = iter(list(known))
            names = list(islice(self._names, NAMES_PER_SCRAPE))
        for name in names:
            if len(self._found) < room and self._may_be_shown(name):
                self._found[name] = None

    def _may_be_shown(self, name: str) -> bool:
        if name not in self._broker.destinations or name in self._single or len(name) > LONGEST_NAME:
            return False
        return any(pattern.matches(name) for pattern in self._patterns)

    def _each(self) -> Iterator[Metric]:
        label = ["destination"]
        waiting = GaugeMetricFamily(
            "gateway_destination_messages_waiting", "Messages that no consumer has.", labels=label
        )
        age = GaugeMetricFamily(
            "gateway_destination_oldest_message_age_seconds",
            "Age of the oldest message that no consumer has, at least; 0: there is none.",
            labels=label,
        )
        nbytes = GaugeMetricFamily("gateway_destination_waiting_bytes", "Memory of these messages.", labels=label)
        unacknowledged = GaugeMetricFamily(
            "gateway_destination_messages_unacknowledged", "Messages delivered and not acknowledged.", labels=label
        )
        consumers = GaugeMetricFamily("gateway_destination_subscriptions", "Subscriptions.", labels=label)
        counts = CounterMetricFamily(
            "gateway_destination_messages",
            "Messages since the destination came to be; a loss counts in one way.",
            labels=[*label, "event"],
        )
        known = self._broker.destinations
        for name in (*[name for name in self._single if name in known], *self._found):
            target = known[name]
            waits, cost = (target.waiting, target.nbytes) if isinstance(target, Queue) else (0, 0)
            waiting.add_metric([name], waits)
            age.add_metric([name], self._age(target.oldest() if isinstance(target, Queue) else None))
            nbytes.add_metric([name], cost)
            unacknowledged.add_metric([name], sum([len(each.ledger or ()) for each in target.subscriptions]))
            consumers.add_metric([name], len(target.subscriptions))
            for event in Counts._fields:
                counts.add_metric([name, event], getattr(target.tally, event))
        yield from (waiting, age, nbytes, unacknowledged, consumers, counts)
