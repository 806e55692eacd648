"""Buckets are exact, in Python as in Spark, and percentiles are as near as they say."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from math import ceil

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from gateway.pipeline.jobs import latency

TIMES = st.one_of(st.integers(0, 200), st.integers(0, 10**7), st.integers(0, 2**63 - 1))


@given(TIMES)
def test_bucket_of_a_time_holds_it(us: int) -> None:
    bucket = latency.bucket(us)
    low, high = latency.bounds(bucket)
    assert low <= us < high or bucket == latency.LAST
    # floor(log2(us + 1) * 8), in whole numbers
    assert 2**bucket <= (us + 1) ** 8
    assert (us + 1) ** 8 < 2 ** (bucket + 1) or bucket == latency.LAST


def test_buckets_leave_nothing_out() -> None:
    bounds = [latency.bounds(bucket) for bucket in range(latency.LAST + 1)]
    assert bounds[0] == (0, 1)
    assert all(high == low for (_, high), (low, _) in pairwise(bounds))
    assert bounds[latency.LAST][0] == 2**63 - 1


@given(
    st.lists(st.one_of(st.integers(0, 200), st.integers(0, 10**7)), min_size=1, max_size=300),
    st.integers(1, 1000).map(lambda permille: Fraction(permille, 1000)),
)
def test_percentile_is_near_the_true_one(times: list[int], quantile: Fraction) -> None:
    counts = Counter([latency.bucket(us) for us in times])
    true = sorted(times)[ceil(quantile * len(times)) - 1]
    found = latency.percentile(counts, float(quantile))
    assert found is not None
    assert abs(found - true) <= latency.ERROR * true


@pytest.mark.spark
def test_spark_counts_as_python_does(spark: SparkSession) -> None:
    """At every limit of a bucket up to 12 days, one less and one more; and where the time is null."""
    limits = [latency.bounds(bucket)[0] for bucket in range(40 * latency.PER_OCTAVE)]
    times = sorted({max(0, us + more) for us in limits for more in (-1, 0, 1)})
    frame = spark.createDataFrame(pyarrow.table({"us": [*times, None]}))
    found = frame.select("us", latency.column(frame.us).alias("bucket")).toArrow().to_pylist()
    assert found == [*[{"us": us, "bucket": latency.bucket(us)} for us in times], {"us": None, "bucket": None}]
