"""Histogram: which bucket a time counts in, and what is known of all together."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gateway.broker.core.histogram import BOUNDS, Histogram


def test_the_bounds_go_from_10_microseconds_to_1000_seconds_in_even_steps() -> None:
    assert (BOUNDS[0], BOUNDS[-1], len(BOUNDS)) == (10, 1_000 * 1_000_000, 49)
    assert all(1.3 < high / low < 1.7 for low, high in pairwise(BOUNDS))


@pytest.mark.parametrize(
    ("microseconds", "end"),
    [(0, 10), (10, 10), (10.1, 15), (99, 100), (100, 100), (101, 150), (10**9, 10**9), (10**9 + 1, float("inf"))],
)
def test_a_bound_is_the_last_that_counts_in_its_bucket(microseconds: float, end: float) -> None:
    histogram = Histogram()
    histogram.add(microseconds)
    histogram.add(microseconds, 100)
    histogram.add(1e12, 0)
    found = dict(zip([*BOUNDS, float("inf")], histogram.counts, strict=True))
    assert {bound: count for bound, count in found.items() if count} == {end: 101}
    assert histogram.total == pytest.approx(101 * microseconds)
