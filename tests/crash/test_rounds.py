"""A few rounds of the crash test, and lies that it must find."""

from __future__ import annotations

from pathlib import Path

import pytest

from .__main__ import run_rounds, summary
from .plan import PLACES, Life, Plan
from .round import Round


@pytest.mark.timeout(300)  # twelve rounds take twenty on an idle machine
@pytest.mark.parametrize(("first", "count"), [(1, 3), pytest.param(4, 12, marks=pytest.mark.long)])
async def test_what_was_promised_holds(first: int, count: int) -> None:
    outcomes = await run_rounds(first, count, most_lives=2)
    assert len(outcomes) == count
    assert sum(outcome.kills for outcome in outcomes) >= count
    assert not [str(outcome) for outcome in outcomes if outcome.complaints], summary(outcomes, 0)


@pytest.mark.parametrize(
    ("lie", "point", "kind"),
    [
        ("early-receipts", "write:15", "lost"),
        ("half-commits", "committed:15", "half"),  # between the halves
        ("forgetful", "write:15", "doubled"),
        ("hasty", "statement:60", "ghost"),
        pytest.param("silent", "write:15", "missed", marks=pytest.mark.long),
    ],
)
async def test_a_lie_is_found(lie: str, point: str, kind: str, tmp_path: Path) -> None:
    # Where nobody consumes, all of a transaction is there at the end, or should be.
    consumers = {} if kind == "half" else {place.name: place.consumers for place in PLACES}
    life = Life("point", point, 10.0, 0, consumers)
    # A client has to see something in the moment before the kill, as it does in two lives of three.
    lives = [life] * (6 if kind == "ghost" else 1)
    outcome = await Round(Plan(1, 12, lives), tmp_path, lie=lie).run()
    assert kind in {complaint.kind for complaint in outcome.complaints}, str(outcome)
    assert outcome.ends[point.partition(":")[0]] == len(lives), "the process did not come by that point"
