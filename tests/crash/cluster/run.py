"""Many rounds, some of them at a time: each is mostly waiting, for leases, elections and processes that are stopped.

A round has a process, a folder and a network of its own.  What it has shown is printed when it ends, and the sums of
all behind the last one.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import trio

from tests.cluster.network import network
from tests.crash.books import Complaint
from tests.crash.figures import listed, violations

from .plan import ClusterPlan, plan
from .round import ClusterOutcome, ClusterRound

ACTS = 5
"""In a round."""

JOBS = 4
"""Rounds at a time that two cores carry."""

# Characters of a traceback: those at its end.
_LONGEST_FAULT = 2_000
# Seeds of rounds with complaints that the summary names.
_MOST_NAMED = 20


def run_cluster_rounds(
    first: int, count: int, *, acts: int = ACTS, jobs: int = JOBS, edges: int = 0
) -> list[ClusterOutcome]:
    """Run rounds with the seeds from `first` on, so many at a time.  Raises NoNetwork."""
    with network(1):
        pass
    outcomes = []
    # Each process is a new one: threads and sockets of this one are not theirs.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        rounds = [pool.submit(_outcome, plan(seed, acts, edges)) for seed in range(first, first + count)]
        try:
            for each in as_completed(rounds):
                outcomes.append(each.result())
                print(outcomes[-1], flush=True)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)  # what the others have shown is summed up all the same
    return sorted(outcomes, key=lambda outcome: outcome.seed)


def _outcome(plan: ClusterPlan) -> ClusterOutcome:
    """Run one; a fault of the harness is no reason not to run the others."""
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        try:
            return trio.run(ClusterRound(plan, Path(folder)).run)
        except Exception:
            return ClusterOutcome(plan.seed, complaints=[Complaint("error", traceback.format_exc()[-_LONGEST_FAULT:])])


def cluster_summary(outcomes: list[ClusterOutcome], seconds: float) -> str:
    """What they have shown: a line for each act, with the times from the loss of a primary to the next delivery."""
    acts: Counter[str] = sum([each.acts for each in outcomes], Counter())
    pauses: dict[str, list[float]] = {}
    for each in outcomes:
        for why, pause in each.pauses:
            pauses.setdefault(why, []).append(pause)
    lines = [f"{len(outcomes)} rounds of a cluster in {seconds:.0f} s, {acts.total()} acts"]
    lines += [f"  {count:5} {act}{_times(pauses.get(act, []))}" for act, count in sorted(acts.items())]
    lines.append(listed(each.counts for each in outcomes))
    lines.append(f"violations: {violations(each.complaints for each in outcomes)}")
    if bad := [str(each.seed) for each in outcomes if each.complaints]:
        lines.append(f"in {len(bad)} rounds: seeds {' '.join(bad[:_MOST_NAMED])}")
    return "\n".join(lines)


def _times(pauses: list[float]) -> str:
    if not pauses:
        return ""
    median, worst = statistics.median(pauses), max(pauses)
    return f": first delivery by the next primary after {median:.1f} s (median of {len(pauses)}), {worst:.1f} s at most"
