"""The process of an edge, alone."""

from __future__ import annotations

import subprocess
import sys


def test_it_ends_without_a_word_if_its_gateway_has_ended_before_it_was_told_anything() -> None:
    command = [sys.executable, "-m", "gateway.edge_process"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
