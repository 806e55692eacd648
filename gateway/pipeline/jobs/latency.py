"""Latencies as histograms: buckets that grow with the time, so that a few hundred hold everything.

    bucket = floor(log2(us + 1) * 8)        eight for each doubling

Histograms of minutes, destinations or gateways can be added without a loss; percentiles cannot.  A bucket is less than
9.1 % wide, so the error of a percentile is 4.5 % at most (`ERROR`), and there is none up to 11 us.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

PER_OCTAVE = 8
ERROR = 0.045  # the greatest error of a percentile, in proportion to it
LAST = 63 * PER_OCTAVE  # the bucket of the longest possible time
# A logarithm that should be whole may be computed a little less.  Below 2**40 us, which is 12 days, no other time is as
# near to a whole number; beyond, a time at the end of a bucket may be counted with the next one.
_SLACK = 1.5e-13
# For the error of binary fractions in a share of a count: 0.07 * 100.
_ROUNDING = 1e-9
QUANTILES = (0.5, 0.95, 0.99)


def _start(bucket: int) -> int:
    """The least us of a bucket: in whole numbers, (us + 1) ** 8 is at least 2 ** bucket."""
    root: int = round(2.0 ** (bucket / PER_OCTAVE))
    while root**PER_OCTAVE < 1 << bucket:
        root += 1
    while (root - 1) ** PER_OCTAVE >= 1 << bucket:
        root -= 1
    return root - 1


_STARTS = tuple([_start(bucket) for bucket in range(LAST + 2)])

STARTS = _STARTS[: LAST + 1]  # the least us of each bucket; all of them fit into 64 bits


def bounds(bucket: int) -> tuple[int, int]:
    """The times of a bucket: low <= us < high.  Some of the first buckets are empty, and low is high."""
    return _STARTS[bucket], _STARTS[bucket + 1]


def middle(bucket: int) -> float:
    """The time that stands for a whole bucket, in us."""
    low, high = bounds(bucket)
    last = max(high - 1, low)
    return float(low) if low == last else 2 * low * last / (low + last)


def percentile(counts: Mapping[int, int], quantile: float) -> float | None:
    """The time at place ceil(quantile * n) of n times in order, in us, by the times in each bucket; None: no times."""
    place = max(1, ceil(quantile * sum(counts.values()) - _ROUNDING))
    for each in sorted(counts):
        place -= counts[each]
        if place <= 0:
            return middle(each)
    return None


def percentiles(counts: Mapping[int, int]) -> tuple[float, float, float] | None:
    """The 50th, 95th and 99th percentile, in us; None: there are no times."""
    p50, p95, p99 = [percentile(counts, each) for each in QUANTILES]
    return None if p50 is None or p95 is None or p99 is None else (p50, p95, p99)


def column(us: Column) -> Column:
    """The bucket of a column of times, as int; null for a null time."""
    from pyspark.sql import functions as f

    return f.floor(f.log2(us + 1) * PER_OCTAVE + _SLACK).cast("int")
