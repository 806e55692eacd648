"""What `kill -9` leaves: all that had been written, each row once, and no file that is torn."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.journal import found
from tests.journal.desk import GATEWAY, opened, rows_of


def run(folder: Path, lines: int) -> int:
    """Let it write until it has told so often, and kill it; how many rows it told."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.journal.told", folder], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        told += process.stdout.readlines()
    return int([each for each in told if each.endswith("\n")][-1])


@pytest.mark.parametrize("rounds", [2, pytest.param(6, marks=pytest.mark.long)])
def test_kills(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(5)
    told = [run(tmp_path, chance.choice([1, 2, 5, 10])) for _ in range(rounds)]
    opened(tmp_path).close()
    assert not found(tmp_path / GATEWAY, ".open")
    rows = rows_of(tmp_path)  # none of the files is torn
    seqs: dict[object, list[object]] = {}
    for row in rows:
        seqs.setdefault(row["epoch"], []).append(row["seq"])
    assert len(seqs) == rounds
    for found_seqs, count in zip(seqs.values(), told, strict=True):  # both in the order of the starts
        assert found_seqs == list(range(1, len(found_seqs) + 1))
        assert len(found_seqs) >= count
