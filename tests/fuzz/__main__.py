"""`make fuzz`: every target, two at a time, for so many minutes in all; status 1 if anything was found.

    python -m tests.fuzz                           all targets, half an hour
    python -m tests.fuzz --minutes 5 decoder       one

What breaks a target is left in `results/fuzz`, and its name is said; `python -m tests.fuzz --again FILE TARGET` runs it
once more, with its traceback.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz import CORPUS, TARGETS, target

RESULTS = Path("results/fuzz")
AT_ONCE = 2
LONGEST = 10
"""Seconds for one input, under instruments that make the code some ten times slower; more is a hang."""
MOST_MEMORY = 1024
"""MiB; more is a leak: no target keeps anything from one input to the next."""
LARGEST = 16 * 1024
"""Octets of an input."""
GRACE = 120
"""Seconds beside its time that a child may take to start and to end."""


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    if chosen.again is not None:
        (name,) = chosen.targets
        target(name)(chosen.again.read_bytes())
        print(f"{chosen.again} breaks {name} no more")
        return 0
    names = chosen.targets or TARGETS
    turns = -(-len(names) // AT_ONCE)
    seconds = max(1, int(chosen.minutes * 60 / turns))
    RESULTS.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(lambda name: fuzz(name, seconds), names))
    return int(any(outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make fuzz", description="Fuzz what reads the octets of strangers.")
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--minutes", type=float, default=30.0, help="in all (default: 30)")
    parser.add_argument("--again", type=Path, metavar="FILE", help="run one input once more")
    return parser


def fuzz(name: str, seconds: int) -> int:
    """Fuzz one target, and say in a line how it went; the child's exit status."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        found = Path(folder) / "found"
        found.mkdir()
        options = [
            f"-max_total_time={seconds}",
            f"-timeout={LONGEST}",
            f"-rss_limit_mb={MOST_MEMORY}",
            f"-max_len={LARGEST}",
            f"-artifact_prefix={RESULTS}/{name}-",
            "-print_final_stats=1",
        ]
        said, status = _child(name, [str(found), str(CORPUS / name), *options], seconds + GRACE)
        print(f"{name:16} {seconds} s, {_inputs(said)} inputs, {'nothing found' if status == 0 else 'FOUND:'}")
        if status:
            print(_told(said))
    return status


def _child(name: str, arguments: list[str], longest: float) -> tuple[str, int]:
    command = [sys.executable, "-m", "tests.fuzz.child", name, *arguments]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=longest, text=True, errors="replace"
        )
    except subprocess.TimeoutExpired as late:
        told = late.stdout or b""
        return (told.decode(errors="replace") if isinstance(told, bytes) else told) + "\nit does not end", 1
    return done.stdout, done.returncode


def _inputs(said: str) -> str:
    """How many inputs it was, by libFuzzer's own count."""
    for line in said.splitlines():
        if line.startswith("stat::number_of_executed_units:"):
            return line.split(":")[-1].strip()
    return "an unknown number of"


def _told(said: str) -> str:
    """What the child said of its end, without what it said on its way."""
    return "\n".join([line for line in said.splitlines() if not line.startswith(("#", "INFO:", "\tNEW_FUNC"))][-60:])


if __name__ == "__main__":
    sys.exit(main())
