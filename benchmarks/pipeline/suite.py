"""How long the tests take that start Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.pipeline.measured import Figure, watch

_FOLDERS = ("tests/pyspark_stomp", "tests/pipeline")


def figures(scale: float) -> Iterator[Figure]:
    """The figure of this part; a smaller scale takes the tests of the replay's plan alone."""
    which = _FOLDERS if scale == 1 else ("tests/pipeline/replay/test_plan.py",)
    plain = "addopts=--strict-markers --strict-config -ra"
    command = [sys.executable, "-m", "pytest", "-q", "-o", plain, *which]
    with watch() as spent:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    note = (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1].strip("= ")
    if done.returncode:
        raise RuntimeError(f"the tests fail: {note}")
    yield Figure("tests that start Spark", spent.seconds, "s", 240, at_least=False, note=note)
