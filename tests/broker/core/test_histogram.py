"""The histogram: which bucket a time counts in, and what is known of all together."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gateway.broker.core.histogram import BOUNDS, Histogram


def counted(histogram: Histogram) -> dict[float, int]:
    """Upper end of each bucket that has something -> how much."""
    ends = [*BOUNDS, float("inf")]
    return {end: count for end, count in zip(ends, histogram.counts, strict=True) if count}


def test_the_bounds_go_from_10_microseconds_to_1000_seconds() -> None:
    assert BOUNDS[0] == 10
    assert BOUNDS[-1] == 1_000 * 1_000_000
    assert len(BOUNDS) == 49


def test_each_bound_is_at_most_seventeen_tenths_of_the_one_before() -> None:
    assert {1.3 < high / low < 1.7 for low, high in pairwise(BOUNDS)} == {True}


@pytest.mark.parametrize(
    ("microseconds", "end"),
    [(0, 10), (10, 10), (10.1, 15), (99, 100), (100, 100), (101, 150), (10**9, 10**9), (10**9 + 1, float("inf"))],
)
def test_a_bound_is_the_last_that_counts_in_its_bucket(microseconds: float, end: float) -> None:
    histogram = Histogram()
    histogram.add(microseconds)
    assert counted(histogram) == {end: 1}
    assert histogram.total == microseconds


def test_several_at_once() -> None:
    histogram = Histogram()
    histogram.add(12)
    histogram.add(14.5, 100)
    histogram.add(1e12, 0)
    assert counted(histogram) == {15: 101}
    assert histogram.total == 1_462
