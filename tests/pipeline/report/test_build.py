"""From the archive to a report: rows made up, counted in Arrow as the job `metrics` does, and read by Spark."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from gateway.pipeline.jobs import AlarmLimits, latency
from gateway.pipeline.report import build, counts
from gateway.pipeline.report.build import alarms, report
from gateway.pipeline.report.figures import Report
from tests.pipeline import rows as synthetic
from tests.pipeline.jobs.reference import METRICS, metrics_of
from tests.pipeline.jobs.story import story
from tests.pipeline.rows import START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTES = timedelta(minutes=1)


@functools.cache
def traffic() -> list[synthetic.Row]:
    """Ten minutes of two gateways, and what is before and behind them."""
    made = [
        synthetic.connected(0),
        synthetic.connected(1, session="s2", transport="websocket", gateway="g2"),
        synthetic.disconnected(590, session="s2", gateway="g2", reason="heart-beat missed"),
        synthetic.error(200, reason="malformed"),
        synthetic.error(201, reason="malformed", gateway="g2"),
        synthetic.error(202, reason="x" * 999),
        synthetic.journal_dropped(300, dropped_rows=41, reason="the queue is full"),
        synthetic.gauge_destination(10, depth=3),
        synthetic.gauge_destination(20, depth=17),
        synthetic.accepted(-1),
        synthetic.accepted(600),
    ]
    for at in range(0, 600, 4):
        name = "/queue/a" if at % 3 else "/queue/<b>"
        made.append(synthetic.accepted(at, destination=name, size=50))
        made.append(synthetic.delivered(at + 0.5, destination=name, queue_us=1000 * (1 + at % 5)))
        if at % 20 == 0:
            made.append(synthetic.nacked(at + 0.7, destination=name, reason="bad"))
            made.append(synthetic.redelivered(at + 0.8, destination=name))
            made.append(synthetic.dead_lettered(at + 0.9, destination=name, reason="rejected", headers={"kind": "k"}))
        else:
            made.append(synthetic.acked(at + 0.7, destination=name, ack_us=9000))
    # The subscription `stuck` never acknowledges; the last look is a minute before the end, so it is over by then.
    made += [
        synthetic.gauge_subscription(at, session="s9", subscription="stuck", pending=5, oldest_us=at * 1_000_000)
        for at in range(10, 540, 10)
    ]
    return made


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    synthetic.write(folder, traffic())
    return folder


@pytest.fixture(scope="module")
def built(spark: SparkSession, archive: Path) -> Report:
    return report(spark, str(archive), START, START + 10 * MINUTES, limits=AlarmLimits(stuck_after=60))


def inside() -> list[synthetic.Row]:
    return [row for row in traffic() if START <= row["ts"] < START + 10 * MINUTES]


@pytest.mark.spark
def test_counts_are_those_of_the_rows(built: Report) -> None:
    rows = inside()
    assert built.rows == len(rows)
    assert built.events == Counter([row["event"] for row in rows])
    assert built.gateways == ("g1", "g2")
    assert built.transports == {"tcp": 1, "websocket": 1}
    assert (built.first, built.last) == (min([row["ts"] for row in rows]), max([row["ts"] for row in rows]))
    assert [step.start for step in built.steps] == [START + place * built.step for place in range(120)]
    for step in built.steps:
        expected = Counter([row["event"] for row in rows if step.start <= row["ts"] < step.end])
        assert step.figures.counts == {event: expected[event] for event in step.figures.counts}
    assert built.whole.body_bytes["accepted"] == 150 * 50
    assert sum(built.whole.queue.values()) == 150
    assert sum(built.whole.ack.values()) == 120


@pytest.mark.spark
def test_destinations_reasons_letters_and_consumers(spark: SparkSession, archive: Path, built: Report) -> None:
    rows = inside()
    for each in built.destinations:
        own = Counter([row["event"] for row in rows if row["destination"] == each.name])
        assert each.figures.counts == {event: own[event] for event in each.figures.counts}
    assert [(each.name, each.waiting) for each in built.destinations] == [("/queue/a", 17), ("/queue/<b>", None)]
    assert built.others == 0
    errors = [(each.reason, each.count) for each in built.because("error")]
    assert errors == [("malformed", 2), ("x" * 300, 1)]
    assert [each.reason for each in built.because("disconnected")] == ["heart-beat missed"]
    assert sum([each.count for each in built.because("dead_lettered")]) == 30
    letters = sorted([row for row in rows if row["event"] == "dead_lettered"], key=lambda row: row["ts"], reverse=True)
    assert [each.message_id for each in built.dead_letters] == [row["message_id"] for row in letters[:20]]
    assert [each.ts for each in built.dead_letters] == [row["ts"] for row in letters[:20]]
    assert built.dead_letters[0].headers == {"kind": "k"}
    (gap,) = built.gaps
    assert (gap.gateway, gap.at, gap.rows, gap.reason) == ("g1", START + 5 * MINUTES, 41, "the queue is full")
    (found,) = built.consumers  # stuck, and without later looks
    assert (found.kind, found.session, found.subscription) == ("stuck", "s9", "stuck")
    assert (found.raised, found.cleared) == (START + timedelta(seconds=80), START + timedelta(seconds=560))
    assert (found.pending, found.oldest_us) == (5, 530_000_000)
    empty = report(spark, str(archive), START + timedelta(days=1), START + timedelta(days=2))
    assert (empty.rows, empty.steps, empty.first) == (0, (), None)


def alarm(state: str, at: int, **columns: Any) -> dict[str, Any]:
    names = {"gateway": "g", "epoch": 1, "session": "s", "principal": "p", "peer": "a", "subscription": "0"}
    row = {**names, "destination": "/queue/a", "kind": "stuck", "since": START, "pending": 1, "oldest_us": 9}
    return {**row, "state": state, "ts": START + timedelta(seconds=at), **columns}


def test_an_alarm_is_one_consumer() -> None:
    later = START + timedelta(seconds=400)
    rows = [
        alarm("raised", 0),
        alarm("held", 300, pending=8, oldest_us=7),
        alarm("cleared", 400),
        alarm("raised", 400, kind="slow", since=later),
    ]
    slow, stuck = alarms(rows)
    assert (slow.kind, slow.raised, slow.cleared) == ("slow", later, None)
    assert (stuck.raised, stuck.cleared, stuck.pending, stuck.oldest_us) == (START, later, 8, 9)


@pytest.mark.long
@pytest.mark.spark
def test_very_many_reasons_and_sessions_do_not_come_to_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [synthetic.error(at, reason=f"reason {at % 7}", gateway=f"g{at % 2}") for at in range(30)]
    for number in range(5):
        whose = {"session": f"s{number}", "destination": f"/queue/{number}"}
        made += [synthetic.gauge_subscription(at, oldest_us=70_000_000, **whose) for at in (0, 10)]
        made += [synthetic.accepted(number, destination=whose["destination"])] * (5 - number)
        made.append(synthetic.gauge_destination(10, destination=whose["destination"], depth=number + 1))
    synthetic.write(tmp_path, made)
    monkeypatch.setattr(build, "MOST_REASONS", 3)
    monkeypatch.setattr(build, "MOST_SUSPECTS", 2)
    monkeypatch.setattr(build, "MOST_DESTINATIONS", 2)
    found = report(spark, str(tmp_path), START, START + 10 * MINUTES)
    assert [(each.reason[-1], each.count) for each in found.because("error")] == [("0", 5), ("1", 5), ("2", 4)]
    assert found.unlisted == {"error": 4}
    assert len(found.consumers) == 5
    assert [(each.name, each.waiting) for each in found.destinations] == [("/queue/0", 1), ("/queue/1", 2)]


END = START + timedelta(hours=1)
LIMIT = 60_000_000


def told(many: int = 400) -> list[synthetic.Row]:
    """Rows of the hour, and of what a report tells apart."""
    made = [row for row in story(Random(3), many) if START <= row["ts"] < END]
    return [
        *made,
        synthetic.accepted(1, destination="/reply-queue/one"),
        synthetic.delivered(2, destination="/reply-queue/two", size=None),
        synthetic.delivered(3, queue_us=2**62),
        *[synthetic.delivered(4, queue_us=us + more) for us in latency.STARTS[:480:8] for more in (0, 1)],
        synthetic.delivered(4, delivery_count=0),
        synthetic.acked(5, ack_us=None),
        synthetic.error(6, reason="é" * 301),
        synthetic.error(7, reason="é" * 302),
        synthetic.connected(8, transport="websocket"),
        synthetic.gauge_destination(9, depth=3),
        synthetic.journal_dropped(10, dropped_rows=41, reason="full"),
        synthetic.gauge_subscription(11, oldest_us=LIMIT + 1),
        synthetic.gauge_subscription(21, oldest_us=LIMIT),
    ]


def of_files(folder: Path, made: list[synthetic.Row]) -> pa.Table:
    paths = pa.RecordBatch.from_pydict({"path": [str(path) for path in synthetic.write(folder, made)]})
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
    batches = synthetic.table(made).select(counts.READ).to_batches(max_chunksize=7)
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
    batches = synthetic.table(told(0)).select(counts.READ).to_batches()
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

    synthetic.write(tmp_path, told())
    of_folder, of_uri = [
        report(spark, archive, START, END, limits=AlarmLimits(stuck_after=60))
        for archive in (str(tmp_path), f"file://{tmp_path}")
    ]
    assert of_folder.rows > 100
    assert of_uri == replace(of_folder, made=of_uri.made)
