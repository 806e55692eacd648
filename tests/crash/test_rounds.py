"""A few rounds of the crash test, and lies that it must find."""

from __future__ import annotations

from pathlib import Path

import pytest

from .__main__ import run_rounds, summary
from .finding import rounds_until
from .plan import PLACES, EdgeAct, Life, Plan
from .round import Outcome, Round


@pytest.mark.timeout(600)  # twelve rounds take twenty seconds on an idle machine, with edges a minute
@pytest.mark.parametrize(
    ("first", "count", "edges"),
    [(1, 3, 0), pytest.param(4, 12, 0, marks=pytest.mark.long), pytest.param(4, 8, 2, marks=pytest.mark.long)],
)
async def test_what_was_promised_holds(first: int, count: int, edges: int) -> None:
    outcomes = await run_rounds(first, count, most_lives=2, edges=edges)
    assert len(outcomes) == count
    assert sum(outcome.kills for outcome in outcomes) >= count
    assert not [str(outcome) for outcome in outcomes if outcome.complaints], summary(outcomes, 0)


@pytest.mark.parametrize(
    ("lie", "point", "kind"),
    [
        ("half-commits", "committed:15", "half"),  # between the halves
        pytest.param("early-receipts", "write:15", "lost", marks=pytest.mark.long),
        pytest.param("forgetful", "write:15", "doubled", marks=pytest.mark.long),
        pytest.param("hasty", "statement:60", "ghost", marks=pytest.mark.long),
        pytest.param("silent", "write:15", "missed", marks=pytest.mark.long),
    ],
)
async def test_a_lie_is_found(lie: str, point: str, kind: str, tmp_path: Path) -> None:
    # Where nobody consumes, all of a transaction is there at the end, or should be.
    consumers = {} if kind == "half" else {place.name: place.consumers for place in PLACES}
    life = Life("point", point, 10.0, 0, consumers)
    # A client has to see something in the moment before the kill, as it does in two lives of three.
    lives = [life] * (6 if kind == "ghost" else 1)

    async def run(seed: int, folder: Path) -> Outcome:
        return await Round(Plan(seed, 12, lives), folder, lie=lie).run()

    for outcome in await rounds_until({kind}, tmp_path, run):
        assert outcome.ends[point.partition(":")[0]] == len(lives), "the process did not come by that point"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("lie", "act", "count", "kind"),
    [
        ("blaming", "all edges kill", 5, "ghost"),  # a client has to have the one message that shows it
        ("one-for-all", "edge cut", 2, "noticed"),
        ("stuck", "edge hang", 1, "stalled"),
        ("swallowing", "all edges kill", 2, "lost"),
    ],
)
async def test_a_lie_about_edges_is_found(lie: str, act: str, count: int, kind: str, tmp_path: Path) -> None:
    victim, _, way = act.rpartition(" ")
    acts = (EdgeAct(victim, way, work=1.0),) * count
    life = Life("moment", "", 0.5, 0, {place.name: place.consumers for place in PLACES}, acts)

    async def run(seed: int, folder: Path) -> Outcome:
        return await Round(Plan(seed, 6, [life], edges=2), folder, lie=lie).run()

    for outcome in await rounds_until({kind}, tmp_path, run):
        assert outcome.acts == {act: count}
