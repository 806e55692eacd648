"""Metrics of durations: the histograms of the broker in Prometheus' format.

They have six bounds a decade; every second one is shown: 1, 2, 5, 10 and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.broker.core.histogram import BOUNDS

if TYPE_CHECKING:
    from gateway.broker.core.histogram import Histogram

_STEP = 2

TURN = "gateway_turn_seconds", "Time from a chunk of bytes of a client until its effects were handed to the sockets."
QUEUE = "gateway_queue_seconds", "Time from the SEND to the first delivery."
ACK = "gateway_ack_seconds", "Time from the delivery to its ACK."


class TimingCollector(Collector):
    """Reads the histograms.

    `sources`: name and help, and a function that returns the histogram; None: it is not shown.
    """

    def __init__(self, *sources: tuple[tuple[str, str], Callable[[], Histogram | None]]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        for (name, text), find in self._sources:
            found = find()
            if found is not None:
                yield HistogramMetricFamily(name, text, buckets=buckets(found), sum_value=found.total / 1e6)


def buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Upper bound in seconds, and the number of times up to it."""
    found: list[tuple[str, float]] = []
    count = 0
    for number, (bound, own) in enumerate(zip(BOUNDS, histogram.counts, strict=False)):
        count += own
        if number % _STEP == 0:
            found.append((f"{bound / 1e6:g}", count))
    return [*found, ("+Inf", sum(histogram.counts))]
