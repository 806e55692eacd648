"""The benchmarks run and check what they receive.  Their figures are not judged here: machines are shared and noisy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.catalogue import SCENARIOS
from benchmarks.wire import Inbound, frame

SMALL = ["--rounds", "1", "--seconds", "0.3", "--scale", "0.005", "--transport", "tcp"]


def run(*arguments: str, report: Path) -> list[dict[str, Any]]:
    """The rows that a run with these arguments wrote."""
    command = [sys.executable, "-m", "benchmarks", *SMALL, "--json", str(report), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows: list[dict[str, Any]] = json.loads(report.read_text())["rows"]
    assert all(row["scenario"] in done.stdout for row in rows)
    return rows


OTHERS = [each.name for each in SCENARIOS if each.parts or each.settings]


@pytest.mark.parametrize("name", ["q100", *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_a_short_run(name: str, tmp_path: Path) -> None:
    rows = run(name, report=tmp_path / "report.json")
    assert rows
    assert all(row["samples"] and not row["failure"] for row in rows)


@pytest.mark.long
def test_a_short_run_in_a_cluster(tmp_path: Path) -> None:
    rows = run("--cluster", "durable10", report=tmp_path / "report.json")
    assert {row["scenario"].partition("/")[0] for row in rows} == {"durable10", "durable10-cluster"}
    assert all(row["samples"] and not row["failure"] for row in rows)


@pytest.mark.long
def test_a_short_run_with_edges(tmp_path: Path) -> None:
    rows = run("--edges", "1", "q100", "dest10k", report=tmp_path / "report.json")
    divided = {"q100-edges1", "q100-edges1/primary", "q100-edges1/edges"}
    assert {row["scenario"] for row in rows} == {"q100", "dest10k"} | divided
    assert all(row["samples"] and not row["failure"] for row in rows)
    cost = {row["scenario"]: row["cost"] for row in rows}
    assert cost["q100-edges1"] == pytest.approx(cost["q100-edges1/primary"] + cost["q100-edges1/edges"])


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [(["q100", "fan100x1", "rcpt8", "storm"], "| `storm`"), (["--profile", "rcpt8"], "(_carry_out)")],
)
def test_a_short_run_of_the_primary_alone(arguments: list[str], shown: str) -> None:
    command = [sys.executable, "-m", "benchmarks.primary", "--rounds", "1", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert shown in done.stdout


def test_a_shorter_frame_behind_a_run_counts() -> None:
    """It is whole, though it is not as long as those before it: the tail of a run would wait for it for ever."""
    frames = [frame("MESSAGE", b"body", subscription=number) for number in (*range(10, 20), 5)]
    tails = Inbound().tails(b"".join(frames), 4)
    assert [each[-4:] for each in tails] == [b"body"] * 11


@pytest.mark.long
def test_a_short_run_of_the_pipeline(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "benchmarks.pipeline", "--scale", "0.01", "--json", str(report), "loop", "archive"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(report.read_text())["figures"]
    assert figures[-1]["name"] == "archiver"
    assert all(figure["value"] > 0 and figure["name"] in done.stdout for figure in figures)
