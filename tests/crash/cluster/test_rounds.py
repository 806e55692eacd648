"""A few rounds of the crash test of a cluster.  Each act of them takes some ten seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.__main__ import cluster_summary, run_cluster_rounds

from .plan import Act, ClusterPlan
from .round import ClusterRound

ROUNDS, ACTS = 2, 3


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_what_was_promised_holds() -> None:
    outcomes = await run_cluster_rounds(1, ROUNDS, acts=ACTS)
    assert not [str(outcome) for outcome in outcomes if outcome.complaints], cluster_summary(outcomes, 0)
    assert len(outcomes) == ROUNDS
    assert all(outcome.acts.total() == ACTS + 1 and outcome.pauses for outcome in outcomes)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("lie", "way", "kinds"),
    [
        ("early-receipts", "kill", {"lost"}),
        ("unfenced", "stop", {"fenced", "two"}),
        ("gappy", "kill", {"lost", "replica"}),
    ],
)
async def test_a_lie_is_found(lie: str, way: str, kinds: set[str], tmp_path: Path) -> None:
    acts = [Act("primary", way, 2.0, 1.0)] * 2
    outcome = await ClusterRound(ClusterPlan(1, 2, 4, acts, "kill"), tmp_path, lie=lie).run()
    assert kinds <= {complaint.kind for complaint in outcome.complaints}, str(outcome)
