"""What `kill -9` leaves: every batch that was written is there as a whole, and no other in part.

A power cut is more than a kill: what the disk had not yet taken is gone.  As the log is all that a commit writes, that
is shown with logs that are cut, and logs with an end of garbage.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.stores import file
from tests.stores.batches import contents_of, opened, rows_of, stored
from tests.stores.writer import last_of, rows_after


def run(path: Path, lines: int) -> int:
    """Let it write until it has told so many batches, and kill it in the middle of the next; the last one it told."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.stores.writer", path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        told += process.stdout.readlines()  # those that it told before the kill came
    return int([each for each in told if each.endswith("\n")][-1])


def written(path: Path) -> int:
    """The last batch that the store holds: that one and those before it are whole, and there is nothing else."""
    store = opened(path)
    rows = rows_of(store)
    number = last_of(rows)
    assert rows == contents_of(store) == rows_after(number)
    assert store.read(rows) == [stored(row, size=3000) for row in rows]
    store.close(clean=False)
    return number


@pytest.mark.parametrize("rounds", [3, pytest.param(15, marks=pytest.mark.long)])
def test_kills(path: Path, rounds: int) -> None:
    chance = random.Random(4)
    total = 0
    for _ in range(rounds):
        told = run(path, chance.choice([1, 2, 5, 20, 60]))
        found = written(path)
        assert found in (told, told + 1)  # the last one may have been written, and not told
        assert found >= total
        total = found
    assert total > rounds


@pytest.mark.parametrize("moment", ["file.create", "os.link", "os.fsync", "file.check"])
def test_a_kill_before_the_first_batch(path: Path, moment: str) -> None:
    """A store that was never made whole is none, and is simply made."""
    script = (
        "import os, sys; from pathlib import Path; from gateway.stores import file; from tests.stores import batches"
    )
    script += f"\n{moment} = lambda *_: os.kill(os.getpid(), 9)\nbatches.opened(Path(sys.argv[1]))"
    assert subprocess.run([sys.executable, "-c", script, path], check=False).returncode == -signal.SIGKILL
    assert path.exists() is (moment == "file.check")
    assert written(path) == 0


def copy(left: Path, path: Path) -> Path:
    """A copy of a store that was killed; its log."""
    shutil.copy(left, path)
    return Path(shutil.copy(f"{left}-wal", f"{path}-wal"))


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A store that was killed, with all it did still in the log; and the last batch in it."""
    path = tmp_path_factory.mktemp("left") / "store.db"
    run(path, 10)
    another = path.with_name("copy.db")
    copy(path, another)
    return path, written(another)


class TestTornLog:
    """The frames of a log are a page each, with 24 bytes before it; the last one of a batch completes the batch."""

    @pytest.mark.parametrize("missing", [1, 100, file.PAGE, file.PAGE + 24, 3 * (file.PAGE + 24)])
    def test_that_is_cut(self, left: tuple[Path, int], path: Path, missing: int) -> None:
        log = copy(left[0], path)
        log.write_bytes(log.read_bytes()[:-missing])
        assert left[1] - 3 <= written(path) < left[1]

    @pytest.mark.parametrize("nbytes", [1, 100, file.PAGE, file.PAGE + 24, 3 * (file.PAGE + 24)])
    @pytest.mark.parametrize("garbage", [b"\0", b"\xa5"])
    def test_with_an_end_of_garbage(self, left: tuple[Path, int], path: Path, nbytes: int, garbage: bytes) -> None:
        log = copy(left[0], path)
        log.write_bytes(log.read_bytes()[:-nbytes] + garbage * nbytes)
        assert left[1] - 3 <= written(path) < left[1]

    def test_with_more_behind_it(self, left: tuple[Path, int], path: Path) -> None:
        """A log that was begun anew over an older one ends in the middle of it."""
        log = copy(left[0], path)
        with log.open("ab") as end:
            end.write(b"\xa5" * 10_000)
        assert written(path) == left[1]
