"""`make attacks`: what each attack costs a neighbour who behaves well.

    python -m tests.attacks                       all of them, 5 s each
    python -m tests.attacks --seconds 2 loris     those whose name has one of these words

The neighbour's p99 is taken without the attack and under it; the machine is shared by gateway, neighbour and attacker,
so the attacker is nice to the others.  Status 1 if a latency is more than three times its quiet value, and more than
the few milliseconds that any busy machine may take; or if anything that `make test` looks at is not as it must be.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import trio

from .attacks import ATTACKS, Attack, settings_in
from .siege import MARK, besieged

FACTOR = 3.0
UNNOTICED = 5.0
"""Milliseconds: below this a latency is the machine's."""


def main() -> int:
    """Run the attacks that were chosen, and print a row for each."""
    parser = argparse.ArgumentParser(prog="make attacks")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--seconds", type=float, default=5.0)
    chosen = parser.parse_args()
    os.nice(10)
    print("| attack | over | stopped by | MiB at most | neighbour's p99, quiet | under attack |")
    print("|---|---|---|---|---|---|")
    failed = 0
    for attack in ATTACKS:
        if not chosen.words or any(word in attack.name for word in chosen.words):
            for kind in attack.kinds:
                failed += not row(attack, kind, chosen.seconds)
    return int(failed > 0)


def row(attack: Attack, kind: str, seconds: float) -> bool:
    """One row; whether all is as it must be."""
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_in(Path(folder), attack)
        with besieged(kind, settings, login=attack.login, passcode=attack.passcode) as siege:
            siege.neighbour.measured()
            time.sleep(min(seconds, 2.0))
            quiet = siege.neighbour.measured()["p99"]
            said = ""
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                said = trio.run(attack.run, siege)
            under = siege.neighbour.measured()["p99"]
            peak = siege.peak
            missing = [words for words in attack.names if words not in said + siege.gateway.log]
    good = not missing and peak < MARK and under <= max(FACTOR * quiet, UNNOTICED)
    stopped = ", ".join(attack.names) if not missing else f"NOT NAMED: {missing}"
    print(
        f"| {attack.name} | {kind} | {stopped} | {peak:.0f} | {quiet:.2f} ms | {under:.2f} ms{'' if good else ' !'} |"
    )
    return good


if __name__ == "__main__":
    sys.exit(main())
