"""Percentiles out of histograms: of what came in the last steps, and of nothing else."""

from __future__ import annotations

import random

import pytest

from gateway.broker.core.histogram import BOUNDS, Histogram
from gateway.observe.latency import LatencyWindow, Percentiles, percentiles


@pytest.fixture
def histogram() -> Histogram:
    return Histogram()


def counts_of(*times: float) -> list[int]:
    """Of so many microseconds each."""
    histogram = Histogram()
    for each in times:
        histogram.add(each)
    return histogram.counts


def test_within_a_bucket_times_lie_evenly() -> None:
    assert percentiles(counts_of(*[170] * 100)) == Percentiles(0.175, 0.198, 0.2)  # from 150 to 200


def test_what_is_longer_than_all_bounds_counts_as_the_last() -> None:
    assert percentiles(counts_of(2e9)) == Percentiles(*[BOUNDS[-1] / 1000] * 3)


def test_a_percentile_is_nearly_right() -> None:
    rng = random.Random(7)
    times = sorted(rng.lognormvariate(6.0, 1.5) for _ in range(10_000))
    found = percentiles(counts_of(*times))
    assert found is not None
    for part, milliseconds in zip((5_000, 9_500, 9_900), found, strict=True):
        assert milliseconds * 1000 == pytest.approx(times[part], rel=0.1)


class TestWindow:
    def test_a_step_is_its_own(self, histogram: Histogram) -> None:
        window = LatencyWindow(histogram, 2)
        histogram.add(12)
        first = window.step()
        histogram.add(60_000)
        second = window.step()
        assert first is not None
        assert second is not None
        assert first.p99 < 1 < second.p50
        assert window.step() is None

    def test_all_steps_of_the_window_count_together(self, histogram: Histogram) -> None:
        window = LatencyWindow(histogram, 2)
        assert window.percentiles() is None
        histogram.add(12, 90)
        window.step()
        histogram.add(60_000, 10)
        window.step()
        both = window.percentiles()
        assert both is not None
        assert both.p50 <= 0.015
        assert both.p95 > 50

    def test_older_steps_are_forgotten(self, histogram: Histogram) -> None:
        window = LatencyWindow(histogram, 2)
        histogram.add(60_000)
        window.step()
        assert window.percentiles() is not None
        window.step()
        assert window.percentiles() is not None
        window.step()
        assert window.percentiles() is None
