"""The benchmarks run and check what they receive.  Their figures are not judged here: machines are shared and noisy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_a_short_run(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "benchmarks", "--seconds", "0.3", "--rounds", "1", "--json", str(report), "q100"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "q100" in done.stdout
    assert json.loads(report.read_text())
