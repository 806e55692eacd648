"""What Arrow counts is what the job `metrics` counts, and does not depend on how rows come or what a worker holds."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from gateway.pipeline.jobs import AlarmLimits, latency
from gateway.pipeline.report import counts
from gateway.pipeline.report.build import report
from tests.pipeline import rows
from tests.pipeline.jobs.reference import METRICS, metrics_of
from tests.pipeline.jobs.story import story
from tests.pipeline.rows import START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

END = START + timedelta(hours=1)
LIMIT = 60_000_000


def told(many: int = 400) -> list[rows.Row]:
    """Rows of the hour, and of what a report tells apart."""
    made = [row for row in story(Random(3), many) if START <= row["ts"] < END]
    return [
        *made,
        rows.accepted(1, destination="/reply-queue/one"),
        rows.delivered(2, destination="/reply-queue/two", size=None),
        rows.delivered(3, queue_us=2**62),
        *[rows.delivered(4, queue_us=us + more) for us in latency.STARTS[:480:8] for more in (0, 1)],
        rows.delivered(4, delivery_count=0),
        rows.acked(5, ack_us=None),
        rows.error(6, reason="é" * 301),
        rows.error(7, reason="é" * 302),
        rows.connected(8, transport="websocket"),
        rows.gauge_destination(9, depth=3),
        rows.journal_dropped(10, dropped_rows=41, reason="full"),
        rows.gauge_subscription(11, oldest_us=LIMIT + 1),
        rows.gauge_subscription(21, oldest_us=LIMIT),
    ]


def of_files(folder: Path, made: list[rows.Row]) -> pa.Table:
    paths = pa.RecordBatch.from_pydict({"path": [str(path) for path in rows.write(folder, made)]})
    return pa.Table.from_batches(counts.of_files([paths], START, END, 60, LIMIT))


def summed(table: pa.Table) -> list[dict[str, Any]]:
    """The partial rows, merged, in any order that is always the same."""
    sums = table.group_by(list(counts.KEYS)).aggregate(list(counts.MERGES.items()))
    return sorted(sums.to_pylist(), key=repr)


def test_steps_and_destinations_are_those_of_the_job(tmp_path: Path) -> None:
    made = told()
    found = of_files(tmp_path, made)
    whole = metrics_of(made)
    assert whole.schema == METRICS
    for kind, key, of_job in ((counts.STEPS, "at", "minute"), (counts.DESTINATIONS, "destination", "destination")):
        own = found.filter(pc.equal(found["of"], kind))
        expected = whole.group_by([of_job, "event", "bucket"]).aggregate([("count", "sum"), ("octets", "sum")])
        names = ("event", "bucket", "count", "octets")
        counted = [(row[key], *[row[name] for name in names]) for row in own.to_pylist()]
        names = ("event", "bucket", "count_sum", "octets_sum")
        assert sorted(counted, key=repr) == sorted(
            [(row[of_job], *[row[name] for name in names]) for row in expected.to_pylist()], key=repr
        )


def test_it_makes_no_difference_how_rows_come(tmp_path: Path) -> None:
    made = told()
    expected = summed(of_files(tmp_path, made))
    batches = rows.table(made).select(counts.READ).to_batches(max_chunksize=7)
    assert summed(pa.Table.from_batches(counts.of_rows(batches, 60, LIMIT))) == expected
    pieces = list(counts.of_rows(batches, 60, LIMIT, at_once=50, held=40))
    assert max([piece.num_rows for piece in pieces]) < sum([piece.num_rows for piece in pieces])
    assert summed(pa.Table.from_batches(pieces)) == expected
    assert list(counts.of_rows([], 60, LIMIT)) == []


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"nothing")
    batch = pa.RecordBatch.from_pydict({"path": [str(path)]})
    with pytest.raises(ValueError, match=f"while reading file {path}"):
        list(counts.of_files([batch], START, END, 60, LIMIT))


def test_workers_need_no_package_of_ours(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(counts)  # type: ignore[no-untyped-call]
    batches = rows.table(told(0)).select(counts.READ).to_batches()
    work = tmp_path / "work"
    work.write_bytes(cloudpickle.dumps((counts.of_rows, batches)))  # type: ignore[no-untyped-call]
    script = (
        "import pickle, sys; sys.modules['gateway'] = None; "
        f"count, batches = pickle.load(open({str(work)!r}, 'rb')); "
        f"sys.stdout.buffer.write(pickle.dumps(list(count(batches, 60, {LIMIT}))))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert summed(pa.Table.from_batches(pickle.loads(done.stdout))) == summed(of_files(tmp_path, told(0)))


@pytest.mark.long
@pytest.mark.spark
def test_a_uri_has_the_report_of_its_folder(spark: SparkSession, tmp_path: Path) -> None:
    from dataclasses import replace

    rows.write(tmp_path, told())
    of_folder, of_uri = [
        report(spark, archive, START, END, limits=AlarmLimits(stuck_after=60))
        for archive in (str(tmp_path), f"file://{tmp_path}")
    ]
    assert of_folder.rows > 100
    assert of_uri == replace(of_folder, made=of_uri.made)
