"""Percentiles of the last seconds, out of histograms that only grow.

A window keeps what the counts were at each of its last steps; the difference of two is what came between them.  Within
a bucket times are taken to lie evenly, so a percentile is wrong by less than the bucket is wide (`histogram`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from gateway.broker.core.histogram import BOUNDS, Histogram


class Percentiles(NamedTuple):
    """Milliseconds within which half, 95 % and 99 % of all were done."""

    p50: float
    p95: float
    p99: float


class LatencyWindow:
    """The last steps of a histogram.

    Args:
        steps: how many.
    """

    def __init__(self, histogram: Histogram, steps: int) -> None:
        self._histogram = histogram
        self._before: deque[list[int]] = deque([list(histogram.counts)], maxlen=steps + 1)

    def step(self) -> Percentiles | None:
        """End a step; returns what it had, None: nothing."""
        self._before.append(list(self._histogram.counts))
        return percentiles(_between(self._before[-2], self._before[-1]))

    def percentiles(self) -> Percentiles | None:
        """Of all steps of the window; None: there was nothing in them."""
        return percentiles(_between(self._before[0], self._before[-1]))


def _between(before: Sequence[int], after: Sequence[int]) -> list[int]:
    return [late - early for early, late in zip(before, after, strict=True)]


def percentiles(counts: Sequence[int]) -> Percentiles | None:
    """Of so many in each bucket; None: there are none."""
    total = sum(counts)
    if not total:
        return None
    return Percentiles(*[round(_percentile(counts, total * part) / 1000, 3) for part in (0.5, 0.95, 0.99)])


def _percentile(counts: Sequence[int], wanted: float) -> float:
    """The time, in microseconds, within which so many were done; what is longer than all bounds counts as the last."""
    low = 0
    for bound, count in zip(BOUNDS, counts, strict=False):
        if wanted <= count:
            return low + (bound - low) * wanted / count
        wanted -= count
        low = bound
    return low
