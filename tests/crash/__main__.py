"""`python -m tests.crash`, or `make crash`: many rounds, and what they have shown in one line.

A round that failed is run again by `make crash ARGS="--seed N --rounds 1"`; its plan is the same, its timing nearly.

Exit status: 0; 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import SystemRandom

import trio

from .books import KINDS
from .plan import plan
from .round import Outcome, Round

# Rounds that run at a time: much of each is waiting.
_AT_ONCE = 4


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


def summary(outcomes: list[Outcome], seconds: float) -> str:
    """What they have shown, in one line."""

    def listed(name: str) -> str:
        total: Counter[str] = sum((getattr(outcome, name) for outcome in outcomes), Counter())
        return ", ".join(f"{name} {count}" for name, count in total.most_common()) or "none"

    kinds = Counter(complaint.kind for outcome in outcomes for complaint in outcome.complaints)
    found = ", ".join(f"{kind} {kinds[kind]}" for kind in KINDS)
    kills = sum(outcome.kills for outcome in outcomes)
    return (
        f"{len(outcomes)} rounds in {seconds:.0f} s, {kills} kills ({listed('ends')}; logs damaged: "
        f"{listed('damage')}); {listed('counts')}; {found}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000), help="of the first round")
    options = parser.parse_args()
    print(f"from seed {options.seed} on")
    started = time.perf_counter()
    outcomes = trio.run(run_rounds, options.seed, options.rounds)
    print(summary(outcomes, time.perf_counter() - started))
    return int(any(outcome.complaints for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
