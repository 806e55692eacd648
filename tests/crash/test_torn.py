"""Damage to the last commit of a log costs that commit, and nothing else."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from gateway.stores.file import LOG_PAGES

from .torn import tear


def _killed(folder: Path, commits: int) -> Path:
    """The copy of a database whose log holds so many commits, as a kill leaves it."""
    path = folder / "base.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("CREATE TABLE lines (number INTEGER, body BLOB)")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        for number in range(commits):
            connection.execute("INSERT INTO lines VALUES (?, zeroblob(9000))", (number,))
        shutil.copy(path, folder / "copy.db")
        shutil.copy(f"{path}-wal", folder / "copy.db-wal")
    return folder / "copy.db"


@pytest.mark.parametrize("seed", range(12))
def test_the_last_commit_is_gone(seed: int, tmp_path: Path) -> None:
    path = _killed(tmp_path, 3)
    told = tear(Path(f"{path}-wal"), Random(seed), LOG_PAGES)
    with closing(sqlite3.connect(path)) as connection:
        found = [number for (number,) in connection.execute("SELECT number FROM lines")]
    assert found == [0, 1], told


def test_nothing_is_done_without_a_commit_or_where_a_checkpoint_may_have_begun(tmp_path: Path) -> None:
    assert tear(tmp_path / "none", Random(1), LOG_PAGES) == ""
    assert tear(Path(f"{_killed(tmp_path, 3)}-wal"), Random(1), 3) == ""
