"""From rows to alarms: what Spark leaves of them, the fold over batches, and the snapshot."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from gateway.pipeline.jobs import JOBS, AlarmLimits
from gateway.pipeline.jobs.consumers import fold
from tests.pipeline import rows
from tests.pipeline.jobs.reference import LOOKS, in_order, looks_of
from tests.pipeline.jobs.story import CHANCES, cut, story

JOB = JOBS["consumers"]
NOW = rows.START + timedelta(hours=2)
LIMITS = AlarmLimits(stuck_after=60)
OVER, UNDER = 70_000_000, 1_000_000


def folded(batches: list[list[rows.Row]], limits: AlarmLimits = LIMITS) -> tuple[dict[str, Any], pyarrow.Table]:
    """The state behind the last batch, and all rows of the table."""
    state: dict[str, Any] = {}
    tables = []
    for batch in batches:
        state, table = fold(json.loads(json.dumps(state)), looks_of(batch), limits)
        tables.append(table)
    return state, pyarrow.concat_tables(tables)


def told(*several: rows.Row, limits: AlarmLimits = LIMITS) -> list[tuple[float, str, str, str]]:
    """Seconds after START, state, kind and session of what the table gets of one batch."""
    found = folded([list(several)], limits)[1].to_pylist()
    return [((row["ts"] - rows.START).total_seconds(), row["state"], row["kind"], row["session"]) for row in found]


def looks(*times: float, **columns: Any) -> list[rows.Row]:
    """Looks over the limit."""
    return [rows.gauge_subscription(at, **{"oldest_us": OVER, **columns}) for at in times]


def life(random: Random) -> list[rows.Row]:
    """Some consumers in their good and bad times, and gateways that start anew; in the order of their rows."""
    planned: list[tuple[float, str, dict[str, Any]]] = []
    for number in range(4):
        whose = {"gateway": f"g{number % 2}", "session": f"s{number % 3}-g{number % 2}"}
        names = {"subscription": random.choice(("0", None)), "destination": f"/queue/{number}"}
        over, settles, silent = False, False, False
        for turn in range(60):
            over ^= random.random() < (0.05 if over else 0.2)
            settles ^= random.random() < 0.2
            silent ^= random.random() < (0.3 if silent else 0.05)
            at = turn * 10 + random.random()
            if not silent:
                planned.append((at, "gauge_subscription", {**whose, **names, "oldest_us": OVER if over else UNDER}))
            times = [at + random.uniform(0, 9) for _ in range(random.randrange(3) if settles else 0)]
            planned += [(each, random.choice(("acked", "nacked")), {**whose, **names}) for each in times]
            planned.append((at + random.uniform(0, 9), "accepted", {"gateway": whose["gateway"]}))
            if random.random() < 0.03:
                planned.append((at + random.uniform(0, 9), "unsubscribed", {**whose, **names}))
            if random.random() < 0.02:
                planned.append((at + random.uniform(0, 9), "disconnected", whose))
    return _numbered(planned, {"g0": random.uniform(0, 800), "g1": 10_000.0})


def _numbered(planned: list[tuple[float, str, dict[str, Any]]], restarts: dict[str, float]) -> list[rows.Row]:
    found, numbers = [], Counter[tuple[str, int]]()
    for at, event, values in sorted(planned, key=lambda each: each[0]):
        again = at > restarts[values["gateway"]]
        epoch = rows.EPOCH + (round((400 + restarts[values["gateway"]]) * 1_000_000) if again else 0)
        numbers[values["gateway"], epoch] += 1
        seq = numbers[values["gateway"], epoch]
        found.append(rows.row(event, at, **{**values, "epoch": epoch, "seq": seq}))
    return found


@given(CHANCES, st.integers(1, 20))
@settings(deadline=None, max_examples=25)
def test_it_makes_no_difference_how_rows_are_split(random: Random, parts: int) -> None:
    lived = life(random)
    whole, table = folded([lived])
    one, other = [cut(random, [row for row in lived if row["gateway"] == gateway], parts) for gateway in ("g0", "g1")]
    state, pieces = folded([[*second, *first] for first, second in zip(one, other, strict=True)])
    assert in_order(pieces) == in_order(table)
    assert state == whole


def test_it_makes_no_difference_if_each_row_is_a_batch() -> None:
    lived = life(Random(5))
    whole, table = folded([lived])
    state, pieces = folded([[row] for row in lived])
    assert in_order(pieces) == in_order(table)
    assert state == whole


def test_alarms_are_raised_and_cleared_in_turns() -> None:
    states: Counter[str] = Counter()
    for number in range(20):
        found = folded([life(Random(number))])[1].to_pylist()
        states.update([row["state"] for row in found])
        raised: dict[tuple[Any, ...], Any] = {}
        for row in sorted(found, key=lambda row: (row["ts"], row["state"] != "cleared")):
            key = tuple([row[name] for name in ("gateway", "epoch", "session", "subscription", "destination")])
            if row["state"] == "raised":
                assert key not in raised
                raised[key] = row["kind"], row["ts"]
            else:
                assert raised[key] == (row["kind"], row["since"])
            if row["state"] == "cleared":
                del raised[key]
    assert states["raised"] > states["cleared"] > 40
    assert states["held"]


def test_consumer_that_is_stuck_among_some_that_are_not() -> None:
    several = [*looks(0, 10, session="bad"), rows.gauge_subscription(1, session="good", oldest_us=UNDER)]
    several += [rows.acked(2, session="good"), *looks(3, session="late"), *looks(5, 15, session="slow")]
    several += [rows.acked(8, session="slow"), rows.accepted(16)]
    for number, row in enumerate(sorted(several, key=lambda row: row["ts"])):
        row["seq"] = number
    assert told(*several) == [(10, "raised", "stuck", "bad"), (15, "raised", "slow", "slow")]
    assert told(*several, limits=AlarmLimits(stuck_after=71)) == []


def test_a_pattern_settles_under_the_names_of_destinations() -> None:
    several = [*looks(0, 10, destination="/queue/*"), rows.acked(5, destination="/queue/a")]
    several += [*looks(1, 11, subscription="1"), rows.nacked(6, subscription=None)]
    several += [*looks(2, 12, subscription=None, destination="/queue/b")]
    several.sort(key=lambda row: row["ts"])
    for number, row in enumerate(several):
        row["seq"] = number
    found = [(at, kind) for at, _, kind, _ in told(*several)]
    assert found == [(10, "slow"), (11, "stuck"), (12, "slow")]


def test_end_of_a_session_is_that_of_its_subscriptions() -> None:
    several = [*looks(0, 10), *looks(11, 21, subscription=None, destination="/queue/b"), rows.disconnected(22)]
    for number, row in enumerate(several):
        row["seq"] = number
    cleared = [each for each in told(*several) if each[1] == "cleared"]
    assert cleared == [(22, "cleared", "stuck", "s1")] * 2
    state, _ = folded([several[:-1]])
    assert len(state["suspects"]) == 2
    state, table = fold(state, looks_of(several[-1:]), LIMITS)
    assert table["state"].to_pylist() == ["cleared", "cleared"]
    assert state["suspects"] == []


def test_other_rows_advance_the_time() -> None:
    several = [*looks(0, 10), rows.gauge_destination(40)]
    assert told(*several) == [(10, "raised", "stuck", "s1")]
    assert told(*several, rows.accepted(41)) == [(10, "raised", "stuck", "s1"), (40, "cleared", "stuck", "s1")]


def test_a_restarted_gateway_clears_the_alarms_of_its_last_process() -> None:
    again = rows.EPOCH + round(400_015e6)
    start = again / 1e6 - rows.START.timestamp()
    assert told(*looks(0, 10), rows.connected(start, epoch=again, seq=1))[1:] == [(40, "cleared", "stuck", "s1")]
    late = looks(start - 20, start - 10)
    assert told(*late, rows.connected(start, epoch=again, seq=1))[1:] == [(start, "cleared", "stuck", "s1")]
    # its last rows may come when the new one's are there already
    _, table = folded([[rows.connected(start, epoch=again, seq=1)], late])
    assert table["state"].to_pylist() == ["raised", "cleared"]


def test_batch_without_rows() -> None:
    state, table = folded([looks(0, 10)])
    same, nothing = fold(state, LOOKS.empty_table(), LIMITS)
    assert same == state
    assert (nothing.num_rows, nothing.schema) == (0, table.schema)


@pytest.mark.spark
def test_spark_keeps_the_needed_rows(spark: SparkSession) -> None:
    random = Random(4)
    several = [*story(random, 1500), *life(random)]
    found = JOB.transform(rows.frame(spark, several).select(*JOB.columns)).toArrow()
    assert [(each.name, each.type) for each in found.schema] == [(each.name, each.type) for each in LOOKS]
    assert in_order(found) == in_order(looks_of(several))


@pytest.mark.spark
def test_settled_messages_are_one_row_between_two_looks(spark: SparkSession) -> None:
    """However long a batch is: a consumer that was never looked at leaves one row."""
    several = [rows.acked(at, session=f"s{at % 3}") for at in range(900)]
    several += [rows.gauge_subscription(at + 0.5, session="s0") for at in (300, 600)]
    several.sort(key=lambda row: row["ts"])
    for number, row in enumerate(several):
        row["seq"] = number
    found = JOB.transform(rows.frame(spark, several).select(*JOB.columns)).toArrow()
    assert Counter([row["session"] for row in found.to_pylist() if row["what"] == "settled"]) == {
        "s0": 3,
        "s1": 1,
        "s2": 1,
    }
    assert in_order(found) == in_order(looks_of(several))


def test_snapshot_has_what_is_raised_now_and_what_changed() -> None:
    several = [*looks(0, 10, session="a"), rows.disconnected(11, session="a")]
    several += looks(20, 30, session="b", oldest_us=80_000_000)
    several += looks(*range(40, 340, 10), session="b", pending=7)
    several += looks(21, 31, session="c", oldest_us=90_000_000)
    several += [*looks(*range(41, 345, 10), session="c"), rows.acked(335, session="c")]
    several.sort(key=lambda row: row["ts"])
    for number, row in enumerate(several):
        row["seq"] = number
    shown = JOB.snapshot(folded([several])[1], NOW)
    assert (shown["stuck"], shown["slow"]) == (1, 1)
    first, second = shown["raised"]
    assert (first["session"], first["kind"], first["state"], first["pending"]) == ("b", "stuck", "held", 7)
    assert (first["since"], first["ts"]) == ("2026-03-01T12:00:30Z", "2026-03-01T12:05:30Z")
    assert (second["session"], second["kind"], second["since"]) == ("c", "slow", "2026-03-01T12:05:41Z")
    changes = [(each["session"], each["state"], each["kind"]) for each in shown["changes"]]
    assert sorted(changes[:2]) == [("c", "cleared", "stuck"), ("c", "raised", "slow")]
    before = [("c", "raised"), ("b", "raised"), ("a", "cleared"), ("a", "raised")]
    assert changes[2:] == [(*each, "stuck") for each in before]
    assert (shown["raised_left_out"], shown["changes_left_out"]) == (0, 0)


def test_snapshot_of_nothing() -> None:
    for table in (pyarrow.table({}), folded([[]])[1]):
        shown = JOB.snapshot(table, NOW)
        assert (shown["stuck"], shown["slow"], shown["raised"], shown["changes"]) == (0, 0, [], [])


def test_snapshot_of_very_many_alarms_is_small() -> None:
    several = [look for number in range(10_000) for look in looks(0, 10, session=f"s{number}", destination="/ä" * 300)]
    table = folded([several])[1]
    for limit in (2 * 1024 * 1024, 64 * 1024):
        shown = JOB.snapshot(table, NOW, limit)
        assert limit / 4 < len(json.dumps(shown)) <= limit
        assert shown["stuck"] == len(shown["raised"]) + shown["raised_left_out"] == 10_000
        assert len(shown["changes"]) + shown["changes_left_out"] == 10_000
