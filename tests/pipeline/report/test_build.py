"""From the archive to the page: rows made up, read by Spark, and their counts in Chromium."""

from __future__ import annotations

import functools
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gateway.pipeline.jobs import AlarmLimits
from gateway.pipeline.report import build
from gateway.pipeline.report.build import alarms, report
from gateway.pipeline.report.figures import Report
from tests.pipeline import rows as synthetic
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


def told(state: str, at: int, **columns: Any) -> dict[str, Any]:
    names = {"gateway": "g", "epoch": 1, "session": "s", "principal": "p", "peer": "a", "subscription": "0"}
    row = {**names, "destination": "/queue/a", "kind": "stuck", "since": START, "pending": 1, "oldest_us": 9}
    return {**row, "state": state, "ts": START + timedelta(seconds=at), **columns}


def test_an_alarm_is_one_consumer() -> None:
    later = START + timedelta(seconds=400)
    rows = [
        told("raised", 0),
        told("held", 300, pending=8, oldest_us=7),
        told("cleared", 400),
        told("raised", 400, kind="slow", since=later),
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
