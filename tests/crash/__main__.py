"""`python -m tests.crash`, or `make crash`: many rounds, and what they have shown in one line.

A round that failed is run again by `make crash ARGS="--seed N --rounds 1"`; its plan is the same, its timing nearly.
With `--cluster` the rounds are those of `tests.crash.cluster`.

Exit status: 0; 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import SystemRandom

import trio

from .books import KINDS, Complaint
from .cluster import plan as cluster_plan
from .cluster.round import ClusterOutcome, ClusterRound
from .plan import plan
from .round import Outcome, Round

# Rounds that run at a time: much of each is waiting.
_AT_ONCE = 4

CLUSTER_ACTS = 5
"""Acts in a round of a cluster."""


async def run_rounds(first: int, count: int, *, most_lives: int = 4) -> list[Outcome]:
    """Run rounds with the seeds from `first` on; so many lives of the gateway in each of them, but for the last one."""
    outcomes: list[Outcome] = []
    seeds = iter(range(first, first + count))

    async def work() -> None:
        for seed in seeds:
            with tempfile.TemporaryDirectory(prefix="crash-") as folder:
                outcomes.append(await Round(plan(seed, most_lives), Path(folder)).run())
                print(outcomes[-1], flush=True)

    async with trio.open_nursery() as nursery:
        for _ in range(_AT_ONCE):
            nursery.start_soon(work)
    return outcomes


async def run_cluster_rounds(first: int, count: int, *, acts: int = CLUSTER_ACTS) -> list[ClusterOutcome]:
    """Run rounds of a cluster, one after the other, with the seeds from `first` on and so many acts each."""
    outcomes = []
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory(prefix="crash-") as folder:
            outcomes.append(await ClusterRound(cluster_plan.plan(seed, acts), Path(folder)).run())
            print(outcomes[-1], flush=True)
    return outcomes


def summary(outcomes: list[Outcome], seconds: float) -> str:
    """What they have shown, in one line."""

    kills = sum(outcome.kills for outcome in outcomes)
    return (
        f"{len(outcomes)} rounds in {seconds:.0f} s, {kills} kills ({_listed([each.ends for each in outcomes])}; logs "
        f"damaged: {_listed([each.damage for each in outcomes])}); {_listed([each.counts for each in outcomes])}; "
        f"{_found([each.complaints for each in outcomes])}"
    )


def cluster_summary(outcomes: list[ClusterOutcome], seconds: float) -> str:
    """The same for a cluster, with the times from the loss of a primary to the first delivery by the next one."""
    pauses: dict[str, list[float]] = {}
    for each in outcomes:
        for why, pause in each.pauses:
            pauses.setdefault(why, []).append(pause)
    times = "; ".join(
        f"{why}: median {statistics.median(found):.1f} s, worst {max(found):.1f} s of {len(found)}"
        for why, found in sorted(pauses.items())
    )
    return (
        f"{len(outcomes)} rounds of a cluster in {seconds:.0f} s ({_listed([each.acts for each in outcomes])}); "
        f"{_listed([each.counts for each in outcomes])}; {_found([each.complaints for each in outcomes])}\n"
        f"first delivery by the next primary: {times or 'none'}"
    )


def _listed(counts: list[Counter[str]]) -> str:
    total: Counter[str] = sum(counts, Counter())
    return ", ".join(f"{name} {count}" for name, count in total.most_common()) or "none"


def _found(complaints: list[list[Complaint]]) -> str:
    kinds = Counter(complaint.kind for each in complaints for complaint in each)
    return ", ".join(f"{kind} {kinds[kind]}" for kind in KINDS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000), help="of the first round")
    parser.add_argument("--cluster", action="store_true", help="rounds of three NATS servers and their gateways")
    options = parser.parse_args()
    print(f"from seed {options.seed} on")
    started = time.perf_counter()
    if options.cluster:
        found = trio.run(run_cluster_rounds, options.seed, options.rounds)
        print(cluster_summary(found, time.perf_counter() - started))
        return int(any(outcome.complaints for outcome in found))
    outcomes = trio.run(run_rounds, options.seed, options.rounds)
    print(summary(outcomes, time.perf_counter() - started))
    return int(any(outcome.complaints for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
