"""`python -m tests.crash`, or `make crash`: many rounds, and what they have shown in one line.

A round that failed is run again by `make crash ARGS="--seed N --rounds 1"`; its plan is the same, its timing nearly.

Exit status: 0; 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import SystemRandom

import trio

from .books import KINDS
from .plan import plan
from .points import LIES
from .round import Outcome, Round

# Rounds that run at a time: much of each is waiting.
_AT_ONCE = 4


async def run_rounds(
    first: int, count: int, *, most_lives: int = 4, lie: str = "", keep: bool = False, at_once: int = _AT_ONCE
) -> list[Outcome]:
    """Run rounds with the seeds from `first` on.

    Args:
        most_lives: of the gateway in each of them, but for the last one.
        keep: the folder of a round that failed stays, and its path is printed.
    """
    outcomes: list[Outcome] = []
    seeds = iter(range(first, first + count))

    async def work() -> None:
        for seed in seeds:
            folder = Path(tempfile.mkdtemp(prefix="crash-"))
            try:
                outcome = await Round(plan(seed, most_lives), folder, lie=lie).run()
                outcomes.append(outcome)
                print(outcome, flush=True)
            finally:
                if keep and outcomes and outcomes[-1].complaints:
                    print(f"  its folder is {folder}")
                else:
                    shutil.rmtree(folder)

    async with trio.open_nursery() as nursery:
        for _ in range(at_once):
            nursery.start_soon(work)
    return outcomes


def summary(outcomes: list[Outcome], seconds: float) -> str:
    """What they have shown, in one line."""
    ends: Counter[str] = Counter()
    damage: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    kinds = Counter(complaint.kind for outcome in outcomes for complaint in outcome.complaints)
    for outcome in outcomes:
        ends += outcome.ends
        damage += outcome.damage
        counts += outcome.counts
    found = ", ".join(f"{kind} {kinds[kind]}" for kind in KINDS)
    kills = sum(outcome.kills for outcome in outcomes)
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    return (
        f"{len(outcomes)} rounds in {seconds:.0f} s, {kills} kills ({_listed(ends)}; logs damaged: {_listed(damage)}); "
        f"{told}; {found}"
    )


def _listed(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common()) or "none"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000), help="of the first round")
    parser.add_argument("--at-once", type=int, default=_AT_ONCE, help="rounds at a time")
    parser.add_argument("--lie", choices=LIES, default="", help="a promise that the gateway breaks")
    parser.add_argument("--keep", action="store_true", help="keep the folders of rounds that failed")
    options = parser.parse_args()
    print(f"from seed {options.seed} on")
    started = time.perf_counter()
    outcomes = trio.run(
        lambda: run_rounds(options.seed, options.rounds, lie=options.lie, keep=options.keep, at_once=options.at_once)
    )
    print(summary(outcomes, time.perf_counter() - started))
    return int(any(outcome.complaints for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
