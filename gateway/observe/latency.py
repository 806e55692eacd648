"""Percentiles of the last seconds, from histograms that only grow.

A window keeps the counts at each of its last steps; the difference of two has the times between them.  Within a bucket
times are taken to lie evenly, so the error of a percentile is less than the width of its bucket (`histogram`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from gateway.broker.core.histogram import BOUNDS, Histogram


class Percentiles(NamedTuple):
    """Milliseconds within which 50 %, 95 % and 99 % were done."""

    p50: float
    p95: float
    p99: float


class LatencyWindow:
    """The last steps of a histogram.  `steps`: how many."""

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
