"""A few rounds of the crash test of a cluster, and lies that it must find.  Each act takes some ten seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..finding import rounds_until
from .plan import Act, ClusterPlan
from .round import ClusterOutcome, ClusterRound
from .run import cluster_summary, run_cluster_rounds

ROUNDS, ACTS = 2, 3


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("edges", [0, 2], ids=["one process", "edges of each node"])
def test_what_was_promised_holds(edges: int) -> None:
    outcomes = run_cluster_rounds(1, ROUNDS, acts=ACTS, jobs=ROUNDS, edges=edges)
    assert not [str(outcome) for outcome in outcomes if outcome.complaints], cluster_summary(outcomes, 0)
    assert [outcome.acts.total() for outcome in outcomes] == [ACTS + 1] * ROUNDS


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("lie", "act", "edges", "kinds"),
    [
        ("early-receipts", "primary kill", 0, {"lost"}),
        ("early-receipts", "primary kill", 1, {"lost"}),
        ("swallowing", "edge kill", 2, {"lost"}),
        ("unfenced", "primary stop", 0, {"fenced", "two"}),
        ("gappy", "primary kill", 0, {"lost", "replica"}),
    ],
)
async def test_a_lie_is_found(lie: str, act: str, edges: int, kinds: set[str], tmp_path: Path) -> None:
    victim, way = act.split()
    acts = [Act(victim, way, 2.0, 1.0)] * 2

    async def run(seed: int, folder: Path) -> ClusterOutcome:
        return await ClusterRound(ClusterPlan(seed, 2, 4, acts, "kill", edges), folder, lie=lie).run()

    await rounds_until(kinds, tmp_path, run)
