"""From partial rows to alarms: the fold over batches, and the snapshot."""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.pipeline.jobs import JOBS, AlarmLimits
from gateway.pipeline.jobs.consumers import fold
from tests.pipeline import rows
from tests.pipeline.jobs.reference import in_order, looks_of
from tests.pipeline.jobs.story import CHANCES, OVER, UNDER, cut, life, numbered

JOB = JOBS["consumers"]
NOW = rows.START + timedelta(hours=2)
LIMITS = AlarmLimits(stuck_after=60)


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


@given(CHANCES, st.integers(1, 20))
@settings(deadline=None, max_examples=25)
def test_it_makes_no_difference_how_rows_are_split(random: Random, parts: int) -> None:
    lived = life(random)
    whole, table = folded([lived])
    one, other = [cut(random, [row for row in lived if row["gateway"] == gateway], parts) for gateway in ("g0", "g1")]
    state, pieces = folded([[*second, *first] for first, second in zip(one, other, strict=True)])
    assert in_order(pieces) == in_order(table)
    assert state == whole


def test_consumer_that_is_stuck_among_some_that_are_not() -> None:
    several = [*looks(0, 10, session="bad"), rows.gauge_subscription(1, session="good", oldest_us=UNDER)]
    several += [rows.acked(2, session="good"), *looks(3, session="late"), *looks(5, 15, session="slow")]
    several = numbered([*several, rows.acked(8, session="slow"), rows.accepted(16)])
    assert told(*several) == [(10, "raised", "stuck", "bad"), (15, "raised", "slow", "slow")]
    assert told(*several, limits=AlarmLimits(stuck_after=71)) == []


def test_a_pattern_settles_under_the_names_of_destinations() -> None:
    several = [*looks(0, 10, destination="/queue/*"), rows.acked(5, destination="/queue/a")]
    several += [*looks(1, 11, subscription="1"), rows.nacked(6, subscription=None)]
    several += [*looks(2, 12, subscription=None, destination="/queue/b")]
    found = [(at, kind) for at, _, kind, _ in told(*numbered(several))]
    assert found == [(10, "slow"), (11, "stuck"), (12, "slow")]


def test_end_of_a_session_is_that_of_its_subscriptions() -> None:
    ends = [*looks(0, 10), *looks(11, 21, subscription=None, destination="/queue/b"), rows.disconnected(22)]
    several = numbered(ends)
    cleared = [each for each in told(*several) if each[1] == "cleared"]
    assert cleared == [(22, "cleared", "stuck", "s1")] * 2
    state, _ = folded([several[:-1]])
    assert len(state["suspects"]) == 2
    state, table = fold(state, looks_of(several[-1:]), LIMITS)
    assert table["state"].to_pylist() == ["cleared", "cleared"]
    assert state["suspects"] == []


def test_snapshot_has_what_is_raised_now_and_what_changed() -> None:
    several = [*looks(0, 10, session="a"), rows.disconnected(11, session="a")]
    several += looks(20, 30, session="b", oldest_us=80_000_000)
    several += looks(*range(40, 340, 10), session="b", pending=7)
    several += looks(21, 31, session="c", oldest_us=90_000_000)
    several += [*looks(*range(41, 345, 10), session="c"), rows.acked(335, session="c")]
    shown = JOB.snapshot(folded([numbered(several)])[1], NOW)
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


def test_snapshot_of_very_many_alarms_is_small() -> None:
    several = [look for number in range(2000) for look in looks(0, 10, session=f"s{number}", destination="/ä" * 300)]
    table = folded([several])[1]
    for limit in (2 * 1024 * 1024, 64 * 1024):
        shown = JOB.snapshot(table, NOW, limit)
        assert limit / 4 < len(json.dumps(shown)) <= limit
        assert shown["stuck"] == len(shown["raised"]) + shown["raised_left_out"] == 2000
        assert len(shown["changes"]) + shown["changes_left_out"] == 2000
