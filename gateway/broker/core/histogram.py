"""Histogram of times: counts in fixed buckets, so that adding one costs a search among fifty numbers and no memory.

The buckets are the same everywhere: six to a decade, from 10 microseconds to 1,000 seconds.  A quantile that is read
out of one is wrong by some 5 % where times spread, and by two thirds at worst, where all of them are equal.  Counts
only grow; for those of the last seconds, a reader keeps the earlier ones (`gateway/observe/sampler.py`).
"""

from bisect import bisect_left

BOUNDS: tuple[int, ...] = (*[step * 10**decade for decade in range(8) for step in (10, 15, 20, 30, 50, 70)], 10**9)
"""Upper ends of the buckets in microseconds, each the last that counts there."""


class Histogram:
    """Times, counted."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)  # of each bucket; the last is for times longer than all bounds
        self.total = 0.0  # microseconds, of all together

    def add(self, microseconds: float, times: int = 1) -> None:
        """Count a time, as often as it was measured."""
        self.counts[bisect_left(BOUNDS, microseconds)] += times
        self.total += microseconds * times
