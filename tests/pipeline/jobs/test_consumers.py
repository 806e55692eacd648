"""From partial rows to alarms, look by look: the fold over batches, and the snapshot."""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.pipeline.jobs import JOBS, AlarmLimits
from gateway.pipeline.jobs.consumers import Look, Suspect, Watch, fold
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


LIMIT = 60
AGES = {"+": LIMIT + 1, "-": LIMIT - 1, "=": LIMIT, "o": 0}


def seconds(number: float) -> int:
    return round(number * 1_000_000)


class Scene:
    """One subscription; `told` are the rows about it, as text, and `rows` in full.

    A script says what happens: `10+` is a look at second 10 with a delivery over the limit, `-` one below it, `=` one
    as old as the limit, `o` none that is pending; `x` is the end of the subscription, `ack` an ACK before the next.
    """

    def __init__(self, script: str = "") -> None:
        self.rows: list[dict[str, Any]] = []
        self.watch = self.fresh([])
        self.seq = 0
        self.settled: list[tuple[int, int]] = []
        for word in script.split():
            self.happens(word)

    def fresh(self, suspects: list[dict[str, Any]]) -> Watch:
        return Watch(suspects, seconds(LIMIT), self.rows.append)

    def happens(self, word: str) -> None:
        self.seq += 1
        if word == "ack":
            self.settled.append((self.seq, self.seq))
            return
        at, kind = seconds(float(word[:-1])), word[-1]
        end = Look(self.seq, at, is_end=True)
        look = end if kind == "x" else Look(self.seq, at, 3 * (kind != "o"), seconds(AGES[kind]))
        suspect = Suspect("g", 1, "s", None, "/queue/a", "anna", "peer", 0, 0, 0, 0)
        self.watch.see(suspect, [look], self.settled)
        self.settled = []
        self.watch = self.fresh(json.loads(json.dumps(self.watch.state())))

    @property
    def told(self) -> str:
        return ", ".join([f"{row['ts'] // 1_000_000} {row['state']} {row['kind']}" for row in self.rows])


def every(start: int, stop: int, pause: int = 10) -> str:
    return " ".join([f"{at}+" for at in range(start, stop, pause)])


@pytest.mark.parametrize(
    ("script", "told"),
    [
        pytest.param("0+ 10+ 20+", "10 raised stuck", id="second look over the limit raises"),
        pytest.param("0+ 10- 20+ 30- 40+ 50-", "", id="looks that are not in a row raise nothing"),
        pytest.param("0= 10= 20=", "", id="limit itself is not over"),
        pytest.param("0+ 10+ 20- 30+ 40- 50-", "10 raised stuck, 50 cleared stuck", id="second look below clears"),
        pytest.param("0+ 10+ 20o", "10 raised stuck, 20 cleared stuck", id="nothing pending clears at once"),
        pytest.param("0+ 10+ 12x", "10 raised stuck, 12 cleared stuck", id="end of the subscription clears"),
        pytest.param("0+ 5x 10+ 20+", "20 raised stuck", id="subscribed again"),
        pytest.param(f"ack 0+ ack {every(10, 80)}", "10 raised slow", id="consumer that settles is slow for a limit"),
        pytest.param(
            f"ack 0+ ack {every(10, 90)} ack 90+",
            "10 raised slow, 80 cleared slow, 80 raised stuck, 90 cleared stuck, 90 raised slow",
            id="slow becomes stuck and slow again",
        ),
        pytest.param(every(0, 700), "10 raised stuck, 310 held stuck, 610 held stuck", id="lasting alarm"),
        pytest.param("0+ 10+ 100+ 110+", "10 raised stuck, 40 cleared stuck, 110 raised stuck", id="silence"),
    ],
)
def test_alarms_of_looks(script: str, told: str) -> None:
    scene = Scene(script)
    assert scene.told == told
    over = script.endswith("+")
    assert bool(scene.watch.state()) == over
    last = scene.rows[-1]["since"] if over and scene.rows else 0
    assert all(row["since"] <= row["ts"] for row in scene.rows)
    assert not last or last == max([row["ts"] for row in scene.rows if row["state"] == "raised"])


def test_messages_settled_after_a_look_count_for_the_next() -> None:
    scene = Scene("0+")
    suspect = Suspect(**scene.watch.state()[0])
    scene.watch.see(suspect, [], [(1, 7)])  # both sides of the look, in one tick
    scene.seq = 8
    scene.happens("10+")
    assert scene.told == "10 raised slow"


@pytest.mark.parametrize(("script", "pause"), [("0+ 10+", 10), ("0+ 300+", 300)])
def test_three_missing_looks_clear(script: str, pause: int) -> None:
    scene = Scene(script)
    over = 4 * pause
    for gateway, epoch, at in (("g", 1, over), ("g", 2, 9999), ("other", 1, 9999)):
        scene.watch.pass_time(gateway, epoch, seconds(at))
    assert scene.told == f"{pause} raised stuck"
    scene.watch.pass_time("g", 1, seconds(over) + 1)
    assert scene.told == f"{pause} raised stuck, {over} cleared stuck"
    assert scene.watch.state() == []


@pytest.mark.parametrize(("start", "cleared"), [(25, 25), (3, 10), (1000, 40)])
def test_a_restarted_gateway_clears(start: int, cleared: int) -> None:
    """The clock may go back, and silence comes first."""
    scene = Scene("0+ 10+")
    scene.watch.end("other", seconds(start))
    scene.watch.end("g", 1)
    assert scene.told == "10 raised stuck"
    scene.watch.end("g", seconds(start))
    assert scene.told == f"10 raised stuck, {cleared} cleared stuck"
