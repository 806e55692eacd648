"""Counts how often the server waits for the disk: `strace` on its fsync and fdatasync calls.

It stops the server at every system call, so it has a short round of its own, whose times mean nothing.  Where it is
not there, or may not look, the count is missing and the sample says why.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable

from benchmarks.loop import Sample
from benchmarks.server import Server
from benchmarks.wire import DeliveryError

# Seconds of the round; and after which a tracer that should end is given up.
_ROUND, _END = 0.5, 10.0
# A line of `strace -c`: the fourth column counts calls, the fifth one, errors, may be empty.
_CALLS = re.compile(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) .*\b(?:fsync|fdatasync)$", re.MULTILINE)


def syncs(server: Server, run: Callable[[float], None], done: Callable[[], int]) -> Sample:
    """Calls of fsync and fdatasync for each operation; `done` counts operations while `run` is at it."""
    program = shutil.which("strace")
    if program is None:
        return Sample(0, missing="not counted: strace is not there")
    with tempfile.NamedTemporaryFile("r") as summary:
        command = [program, "-f", "-c", "-e", "trace=fsync,fdatasync", "-o", summary.name, "-p", str(server.pid)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None  # it is a pipe
            said = tracer.stderr.readline().strip()
            if "attached" not in said:
                return Sample(0, missing=f"not counted: {said}")
            try:
                before = done()
                run(_ROUND)
                operations = done() - before
            finally:
                tracer.send_signal(signal.SIGINT)
                tracer.wait(_END)
        calls = calls_in(summary.read())
    if not operations:
        raise DeliveryError(f"nothing was done in {_ROUND} s under strace")
    return Sample(calls / operations, note=f"{calls:,} for {operations:,} receipts")


def calls_in(summary: str) -> int:
    """Calls that a summary of `strace -c` counts."""
    return sum(map(int, _CALLS.findall(summary)))
