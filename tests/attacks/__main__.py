"""`make attacks`: what each attack costs a neighbour that behaves well; `--seconds 5 loris` picks some by a word.

The neighbour's p99 latency is taken when all is quiet, beside a process that burns a core, and under the attack; of
each the least counts.  Burner and attacker run on other cores than the gateway, when the neighbour does not.  Status 1
if a latency is more than three times its quiet value, or if `test_attacks` would fail.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import trio

from .attacks import ATTACKS, Attack, settings_in
from .siege import MARK, Siege, besieged

FACTOR = 3.0
UNNOTICED = 1.0
"""Milliseconds: below this a latency is the machine's."""

_FORK = multiprocessing.get_context("fork")


def main() -> int:
    """Run the attacks that were chosen, and print a row for each."""
    parser = argparse.ArgumentParser(prog="make attacks")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each of the three, each time")
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
    heads = (
        "attack, over, stopped by, MiB at most, p99 ms: quiet, beside a burner, under attack, times quiet, turn, round"
    )
    print(f"| {heads.replace(', ', ' | ')} |")
    print("|---" * (heads.count(",") + 1) + "|")
    failed = 0
    for attack in ATTACKS:
        if not chosen.words or any(word in attack.name for word in chosen.words):
            for kind in attack.kinds:
                failed += not row(attack, kind, chosen.seconds, chosen.rounds)
    return int(failed > 0)


def row(attack: Attack, kind: str, seconds: float, rounds: int) -> bool:
    """One row; whether all is as it must be."""
    said = ""
    quiet, beside, under = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_in(Path(folder), attack)
        with besieged(kind, settings, login=attack.login, passcode=attack.passcode) as siege:
            _part(siege)
            for _ in range(rounds):
                quiet.append(measured(siege, lambda: time.sleep(seconds)))
                beside.append(measured(siege, lambda: burn(seconds)))
                under.append(measured(siege, lambda: said_to(attack, siege, seconds)))
                said += under[-1]["said"] or ""
            peak = siege.peak
            missing = [words for words in attack.names if words not in said + siege.gateway.log]
    p99 = [min(each["p99"] for each in all_of_them) for all_of_them in (quiet, beside, under)]
    good = not missing and peak < MARK and p99[2] <= max(FACTOR * p99[0], UNNOTICED)
    stopped = ", ".join(attack.names) if not missing else f"NOT NAMED: {missing}"
    latencies = " | ".join([f"{each:.2f}" for each in p99])
    own = " | ".join([f"{min(each[what] for each in under):.1f}" for what in ("turn", "round")])
    times = f"{p99[2] / p99[0]:.1f}{'' if good else ' !'}"
    print(f"| {attack.name} | {kind} | {stopped} | {peak:.0f} | {latencies} | {times} | {own} |", flush=True)
    return good


def measured(siege: Siege, what: Callable[[], str | None]) -> dict[str, Any]:
    """What the neighbour measured while something was done; `said` is what that returned."""
    siege.neighbour.measured()
    said = what()
    return {**siege.neighbour.measured(), "said": said}


def burn(seconds: float) -> None:
    """Take a core, and leave the gateway alone."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=_give_way) as process:
        time.sleep(seconds)
        process.kill()


def _part(siege: Siege) -> None:
    """The gateway has a core of its own, and its clients the others."""
    first, *others = sorted(os.sched_getaffinity(0))
    for thread in Path(f"/proc/{siege.gateway.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {first})
    os.sched_setaffinity(siege.neighbour.pid, others or {first})


def _give_way() -> None:
    first, *others = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, others or {first})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def said_to(attack: Attack, siege: Siege, seconds: float) -> str:
    """Attack again and again, by a process that gives way to others; returns what the last one was told.

    Raises:
        AssertionError: the attacker failed.
    """
    ours, theirs = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_attack, args=(theirs, attack, siege, seconds))
    process.start()
    theirs.close()
    try:
        said: str = ours.recv()
    except EOFError:
        raise AssertionError(f"{attack.name}: the attacker failed, as it says above") from None
    finally:
        process.join()
    return said


def _attack(told: Connection, attack: Attack, siege: Siege, seconds: float) -> None:
    _give_way()
    said = ""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        said = trio.run(attack.run, siege)
    told.send(said)


if __name__ == "__main__":
    sys.exit(main())
