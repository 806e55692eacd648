"""Each row counts once, in its minute and bucket, however the rows are split; snapshot and figures say the same."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from fractions import Fraction
from math import ceil
from random import Random

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from gateway.pipeline.jobs import JOBS, figures, latency
from gateway.pipeline.jobs.figures import EVENTS, KINDS
from tests.pipeline import rows
from tests.pipeline.jobs.reference import METRICS, bucket_of, folded, in_order, is_browsed, merged, metrics_of
from tests.pipeline.jobs.story import CHANCES, split, story

JOB = JOBS["metrics"]
NOW = rows.START + timedelta(hours=2)


@given(CHANCES, st.integers(1, 6))
@settings(deadline=None, max_examples=40)
def test_it_makes_no_difference_how_rows_are_split(random: Random, parts: int) -> None:
    told = story(random, 60)
    whole = in_order(merged(JOB, [metrics_of(told)]))
    pieces = [merged(JOB, [metrics_of(part)]) for part in split(random, told, parts)]
    assert in_order(merged(JOB, pieces)) == whole
    assert in_order(merged(JOB, [merged(JOB, pieces[:1]), merged(JOB, [*pieces[1:], pieces[0].slice(0, 0)])])) == whole


def test_snapshot_of_what_there_was() -> None:
    told = [
        *[rows.accepted(at, destination="/queue/a", size=10) for at in (0, 1, 61)],
        *[rows.delivered(at, destination="/queue/a", size=10, queue_us=1000) for at in (0, 1, 62)],
        rows.redelivered(63, destination="/queue/a", size=10, queue_us=5_000_000),
        *[rows.acked(at, destination="/queue/a", ack_us=3000) for at in (2, 3)],
        rows.nacked(62.5, destination="/queue/a", ack_us=9),
        rows.expired(62, destination="/queue/b", size=7),
        rows.accepted(-100_000, destination="/queue/old"),
    ]
    shown = JOB.snapshot(merged(JOB, [metrics_of(told)]), NOW)
    none = dict.fromkeys(EVENTS, 0)
    queue, ack = (pytest.approx(us, rel=latency.ERROR) for us in (1000, 3000))
    counts = {**none, "accepted": 3, "delivered": 3, "redelivered": 1, "acked": 2, "nacked": 1}
    own = {
        **counts,
        "octets": 30,
        "octets_delivered": 40,
        "queue": dict.fromkeys(("p50_us", "p95_us", "p99_us"), queue),
        "ack": dict.fromkeys(("p50_us", "p95_us", "p99_us"), ack),
    }
    assert shown["totals"] == {**own, "expired": 1}
    first, second = shown["destinations"]
    assert first == {"destination": "/queue/a", **own}
    assert (second["destination"], second["expired"], second["queue"]) == ("/queue/b", 1, None)
    assert shown["others"]["destinations"] == shown["others"]["accepted"] == 0
    minutes = shown["minutes"]
    assert minutes["at"] == ["2026-03-01T12:00:00Z", "2026-03-01T12:01:00Z"]
    assert (minutes["accepted"], minutes["octets"], minutes["expired"]) == ([2, 1], [20, 10], [0, 1])
    assert (minutes["queue_p50_us"], minutes["ack_p99_us"]) == ([queue, queue], [ack, None])
    assert shown["heat"] == {"queue": [("2026-03-01T12:00:00Z", 9, 3)], "ack": [("2026-03-01T12:00:00Z", 11, 2)]}


def test_snapshot_of_very_many_destinations_is_small() -> None:
    """Each has as many rows of an event as its number says."""
    numbers = range(10_000)
    listed = [
        {"minute": rows.START, "destination": f"/queue/{number:05}.{'x' * 60}", "event": event, "bucket": number % 200}
        | {"count": number, "octets": 0}
        for event in EVENTS
        for number in numbers
    ]
    table = pyarrow.Table.from_pylist(listed, METRICS)
    for limit, most in ((2 * 1024 * 1024, 1000), (256 * 1024, 999)):
        shown = JOB.snapshot(table, NOW, limit)
        assert len(json.dumps(shown)) <= limit
        counts = [each["accepted"] for each in shown["destinations"]]
        assert 100 < len(counts) <= most
        assert counts == sorted(counts, reverse=True)
        assert len(counts) + shown["others"]["destinations"] == 10_000
        assert sum(counts) + shown["others"]["accepted"] == shown["totals"]["accepted"] == sum(numbers)


@given(CHANCES)
@settings(deadline=None, max_examples=40)
def test_all_of_them_together_are_the_whole(random: Random) -> None:
    told = [row for row in story(random, 80) if not is_browsed(row)]
    table = metrics_of(told)
    whole = figures.figures(table)
    for event in EVENTS:
        own = [row for row in told if row["event"] == event]
        assert (whole.counts[event], whole.body_bytes[event]) == (len(own), sum([row["size"] or 0 for row in own]))
    ranking = figures.by_destination(table, random.randrange(5))
    assert figures.add([ranking.rest, *[each for _, each in ranking.top]]) == whole
    names = {folded(row["destination"]) for row in told if row["event"] in EVENTS}
    assert len(ranking.top) + ranking.others == len(names)
    for minutes in (1, 7):
        slots = figures.by_time(table, timedelta(minutes=minutes))
        assert figures.add([each for _, each in slots]) == whole
        for kind in KINDS:
            histograms = {at: dict(getattr(each, kind)) for at, each in slots if getattr(each, kind)}
            assert figures.heat(table, kind, timedelta(minutes=minutes)) == histograms


def test_no_rows() -> None:
    for table in (pyarrow.table({}), METRICS.empty_table()):
        assert figures.figures(table) == figures.add([])
        assert figures.by_destination(table).top == []
        assert figures.by_time(table) == []
        assert figures.heat(table) == {}
    for job in JOBS.values():
        shown = job.snapshot(pyarrow.table({}), rows.START)
        assert not any(each for each in shown.values() if isinstance(each, list))


TIMES = st.one_of(st.integers(0, 200), st.integers(0, 10**7), st.integers(0, 2**63 - 1))


@given(TIMES)
def test_bucket_of_a_time_holds_it(us: int) -> None:
    bucket = bucket_of(us)
    low, high = latency.bounds(bucket)
    assert low <= us < high or bucket == latency.LAST
    # floor(log2(us + 1) * 8), in whole numbers
    assert 2**bucket <= (us + 1) ** 8
    assert (us + 1) ** 8 < 2 ** (bucket + 1) or bucket == latency.LAST
    assert bucket == latency.LAST or latency.bounds(bucket + 1)[0] == high


@given(
    st.lists(st.one_of(st.integers(0, 200), st.integers(0, 10**7)), min_size=1, max_size=300),
    st.integers(1, 1000).map(lambda permille: Fraction(permille, 1000)),
)
def test_percentile_is_near_the_true_one(times: list[int], quantile: Fraction) -> None:
    counts = Counter([bucket_of(us) for us in times])
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
    assert found == [*[{"us": us, "bucket": bucket_of(us)} for us in times], {"us": None, "bucket": None}]
