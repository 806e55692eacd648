"""`python -m tests.crash`, or `make crash`: many rounds, and what they have shown in one line.

A round that failed is run again by `make crash ARGS="--seed N --rounds 1"`; its plan is the same, its timing nearly.
With `--cluster` the rounds are those of `tests.crash.cluster`.

Exit status: 0; 1 where a promise was broken, or an interrupt has ended the rounds of a cluster.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from random import SystemRandom

import trio

from tests.cluster.network import NoNetwork

from .cluster.run import ACTS, JOBS, cluster_summary, run_cluster_rounds
from .figures import listed, violations
from .plan import plan
from .round import Outcome, Round

# Rounds that run at a time, without edges and with: much of each is waiting.
_AT_ONCE, _AT_ONCE_WITH_EDGES = 4, 2


async def run_rounds(first: int, count: int, *, most_lives: int = 4, edges: int = 0) -> list[Outcome]:
    """Run rounds with the seeds from `first` on; so many lives of the gateway in each of them, but for the last one."""
    outcomes: list[Outcome] = []
    seeds = iter(range(first, first + count))

    async def work() -> None:
        for seed in seeds:
            with tempfile.TemporaryDirectory(prefix="crash-") as folder:
                outcomes.append(await Round(plan(seed, most_lives, edges), Path(folder)).run())
                print(outcomes[-1], flush=True)

    async with trio.open_nursery() as nursery:
        for _ in range(_AT_ONCE_WITH_EDGES if edges else _AT_ONCE):
            nursery.start_soon(work)
    return outcomes


def summary(outcomes: list[Outcome], seconds: float) -> str:
    """What they have shown, in one line."""

    kills = sum(outcome.kills for outcome in outcomes)
    return (
        f"{len(outcomes)} rounds in {seconds:.0f} s, {kills} kills ({listed([each.ends for each in outcomes])}; logs "
        f"damaged: {listed([each.damage for each in outcomes])}; acts: {listed([each.acts for each in outcomes])}); "
        f"{listed([each.counts for each in outcomes])}; "
        f"{violations([each.complaints for each in outcomes])}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000), help="of the first round")
    parser.add_argument("--edges", type=int, default=0, help="of each gateway")
    parser.add_argument("--cluster", action="store_true", help="rounds of three machines; needs root")
    parser.add_argument("--acts", type=int, default=ACTS, help="in a round of a cluster")
    parser.add_argument("--jobs", type=int, default=JOBS, help="rounds of a cluster at a time, each in a process")
    options = parser.parse_args()
    print(f"from seed {options.seed} on")
    started = time.perf_counter()
    if options.cluster:
        try:
            found = run_cluster_rounds(
                options.seed, options.rounds, acts=options.acts, jobs=options.jobs, edges=options.edges
            )
        except NoNetwork as error:
            sys.exit(str(error))
        print(cluster_summary(found, time.perf_counter() - started))
        return int(len(found) < options.rounds or any(outcome.complaints for outcome in found))
    outcomes = trio.run(partial(run_rounds, options.seed, options.rounds, edges=options.edges))
    print(summary(outcomes, time.perf_counter() - started))
    return int(any(outcome.complaints for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
