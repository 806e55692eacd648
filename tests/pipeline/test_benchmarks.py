"""The benchmarks of the pipeline run, and say what they should.  Their figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_a_short_run(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "benchmarks.pipeline", "--scale", "0.01", "--json", str(report), "loop", "archive"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(report.read_text())["figures"]
    assert [figure["name"] for figure in figures][-1] == "archiver"
    assert all(figure["value"] > 0 and figure["name"] in done.stdout for figure in figures)
    assert "pyspark" in done.stdout
    assert "load average" in done.stdout
