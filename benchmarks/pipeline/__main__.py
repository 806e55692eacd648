"""`python -m benchmarks.pipeline`: measure the parts that were asked for, each in a process of its own.

So none has the heap, the compiled code or the caches of another, and what a part spent is what its processes spent.

Exit status: 0; 1 when a part failed; with `--strict` also 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.pipeline.measured import HEADING, Figure

# Name -> module, function, what it is about.
PARTS = {
    "loop": ("loop", "figures", "what a row of the journal costs the event loop"),
    "gateway": ("gateway", "figures", "the gateway with its journal and without"),
    "archive": ("archive", "figures", "segments to Parquet"),
    "metrics": ("jobs", "figures", "the metrics job over ten million rows"),
    "report": ("jobs", "report", "the report over ten million rows"),
    "source": ("source", "figures", 'format("stomp") reading'),
    "suite": ("suite", "figures", "the tests that start Spark"),
}
_QUICK = 0.02
_PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy")


def main() -> int:
    options = _options()
    if options.child:
        return _measure(options.child, options.scale)
    print(_machine())
    print(HEADING)
    figures: list[Figure] = []
    failed = False
    for name in options.part or [name for name in PARTS if name != "suite" or not options.quick]:
        for figure in _part(name, options.scale):
            if figure is None:
                failed = True
                continue
            figures.append(figure)
            print(figure.line(), flush=True)
    if options.json:
        document = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": _machine()}
        rows = [asdict(figure) | {"verdict": figure.verdict} for figure in figures]
        options.json.write_text(json.dumps(document | {"figures": rows}, indent=1) + "\n")
    missed = [figure for figure in figures if figure.verdict == "MISSED"]
    print(f"{len(figures)} figures, {len(missed)} goals missed" + (", and a part failed" if failed else ""))
    return int(failed or bool(options.strict and missed))


def _part(name: str, scale: float) -> Iterator[Figure | None]:
    """The figures of a part, as its process prints them; None: it failed, and has said why."""
    command = [sys.executable, "-m", "benchmarks.pipeline", "--child", name, "--scale", str(scale)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield Figure(**json.loads(line))
    if process.returncode:
        print(f"{name}: failed with status {process.returncode}", flush=True)
        yield None


def _measure(name: str, scale: float) -> int:
    """Be the process of a part: print each figure as JSON."""
    module, function, _ = PARTS[name]
    measure: Callable[[float], Iterator[Figure]] = getattr(
        importlib.import_module(f"benchmarks.pipeline.{module}"), function
    )
    for figure in measure(scale):
        print(json.dumps(asdict(replace(figure, load=os.getloadavg()[0]))), flush=True)
    return 0


def _machine() -> str:
    """What all of it ran on."""
    found = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    load = ", ".join([f"{each:.1f}" for each in os.getloadavg()])
    cores = len(os.sched_getaffinity(0))
    return f"{', '.join(found)}; {platform.system()} {platform.release()}, {cores} cores, load average {load}"


def _options() -> argparse.Namespace:
    listing = "\n".join([f"  {name:8} {what}" for name, (_, _, what) in PARTS.items()])
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipeline",
        description="The goals of the data pipeline, and what was measured.",
        epilog=f"parts:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", nargs="*", help="names of parts; all when none is given")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see it run; the suite is left out")
    parser.add_argument("--scale", type=float, default=1.0, help="below 1: smaller sizes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to this file")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a goal is missed")
    parser.add_argument("--child", choices=list(PARTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := [name for name in options.part if name not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if options.quick:
        options.scale = _QUICK
    return options


if __name__ == "__main__":
    sys.exit(main())
