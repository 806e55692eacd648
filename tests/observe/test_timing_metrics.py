"""Histograms, as Prometheus wants them."""

from __future__ import annotations

import pytest

from gateway.broker.core.histogram import BOUNDS, Histogram
from gateway.observe.timing_metrics import TURN, TimingCollector, buckets


def test_buckets_count_all_below() -> None:
    histogram = Histogram()
    for microseconds in (5, 10, 11, 20, 10**10):
        histogram.add(microseconds)
    found = dict(buckets(histogram))
    assert (found["1e-05"], found["2e-05"], found["5e-05"]) == (2, 4, 4)
    assert (found["1000"], found["+Inf"]) == (4, 5)


def test_bounds_are_one_two_five() -> None:
    bounds = [float(bound) for bound, _ in buckets(Histogram())]
    assert bounds[:4] == pytest.approx([1e-05, 2e-05, 5e-05, 1e-04])
    assert bounds[-2:] == [BOUNDS[-1] / 1e6, float("inf")]
    assert bounds == sorted(bounds)


def test_what_is_not_there_is_not_shown() -> None:
    histogram = Histogram()
    histogram.add(2_000_000, times=3)
    families = list(TimingCollector((TURN, lambda: histogram), (("gateway_x_seconds", "X."), lambda: None)).collect())
    assert [family.name for family in families] == ["gateway_turn_seconds"]
    values = {sample.name: sample.value for sample in families[0].samples if "le" not in sample.labels}
    assert values == {"gateway_turn_seconds_count": 3, "gateway_turn_seconds_sum": 6.0}
