"""The journal as a whole, with its thread, and what `kill -9` leaves of it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gateway.journal import Journal, JournalError, found
from tests.journal.desk import EARLIER, GATEWAY, START, Clock, opened, rows_of


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    deaths: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: deaths.append(arguments.exc_value))
    return deaths


def tell(journal: Journal, count: int) -> None:
    names = journal.names_of_session("tcp", "here", "me", "s")
    for _ in range(count):
        journal.record("connected", journal.clock(), names)


def test_writes_what_it_is_told(tmp_path: Path) -> None:
    """With the real clock, rows that come while others are written, and large bodies among them."""
    with_threads = threading.active_count()
    journal = Journal(tmp_path, "g1", run="r", segment_bytes=500_000)
    journal.start()
    names = journal.names_of_session("tcp", "here", "me", "s")
    for number in range(20_000):
        body = b"x" * (100_000 if not number % 1000 else 100)
        journal.accepted(journal.clock(), names, "/queue/a", number, {"number": str(number)}, body)
    assert journal.close() == 0
    assert threading.active_count() == with_threads
    rows = rows_of(tmp_path)
    assert [row["seq"] for row in rows] == list(range(1, 20_001))
    assert [row["message_id"] for row in rows] == [f"r-{number}" for number in range(20_000)]
    assert [row["size"] for row in rows] == [len(row["body"]) for row in rows]  # type: ignore[arg-type]
    times = [row["ts"] for row in rows]
    assert times == sorted(times)  # type: ignore[type-var]
    assert len(found(tmp_path / "g1")) > 1
    assert not found(tmp_path / "g1", ".open")
    assert journal.worker.rows == 20_000
    assert journal.worker.nbytes == sum([path.stat().st_size for path in found(tmp_path / "g1")])


def test_time_never_goes_back(tmp_path: Path) -> None:
    """Whatever the wall clock does."""
    clock = Clock()
    journal = opened(tmp_path, clock, wall=lambda: START * 1000)
    tell(journal, 1)
    clock.go(3600.5)
    tell(journal, 1)
    journal.close()
    assert [row["ts"] for row in rows_of(tmp_path)] == [START, START + 3_600_500_000]
    assert clock() > EARLIER


def test_each_start_has_an_epoch(tmp_path: Path) -> None:
    epochs = []
    for _ in range(3):
        journal = opened(tmp_path)  # at the same time, by the clock
        epochs.append(journal.epoch)
        tell(journal, 1)
        journal.close()
    assert epochs == [START, START + 1, START + 2]
    assert [(row["epoch"], row["seq"]) for row in rows_of(tmp_path)] == [(epoch, 1) for epoch in epochs]


@pytest.mark.parametrize("limit", [1000, 2**40])
def test_a_limit_that_is_none(tmp_path: Path, limit: int) -> None:
    with pytest.raises(ValueError, match="the journal's queue may have 65536 to"):
        opened(tmp_path, limit=limit)
    assert not list(tmp_path.iterdir())


def test_callbacks_go_by_call_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soon: list[object] = []
    states: list[str] = []
    journal: Journal = opened(tmp_path, call_soon=soon.append, on_state=lambda: states.append(journal.failure))
    monkeypatch.setattr(journal.segments, "write", lambda *_: os.open(tmp_path / "no" / "file", os.O_RDONLY))
    tell(journal, 1)
    journal.worker.step()
    assert not states
    assert len(soon) == 1
    soon[0]()  # type: ignore[operator]
    assert states == ["the journal cannot be written: No such file or directory"]
    assert journal.close() == 1


def test_a_disk_that_hangs(tmp_path: Path) -> None:
    """The end is bounded; who comes next cannot have the folder, for something may still be written."""
    journal = Journal(tmp_path, "g1", run="r")
    begun, go_on = threading.Event(), threading.Event()
    write = journal.segments.write

    def hang(*arguments: object) -> int:
        begun.set()
        assert go_on.wait(10)
        return write(*arguments)  # type: ignore[arg-type]

    journal.segments.write = hang  # type: ignore[method-assign, assignment]
    tell(journal, 3)
    journal.start()
    assert begun.wait(10)
    assert journal.close(0.01) == 3
    with pytest.raises(JournalError):
        opened(tmp_path)
    go_on.set()
    assert journal.close() == 0
    assert len(rows_of(tmp_path)) == 3


def test_the_end_comes_between_two_steps(tmp_path: Path) -> None:
    """The thread has looked whether it is to end, and not yet begun the step, which forgets that it was rung."""
    journal = Journal(tmp_path, "g1", run="r")
    step = journal.worker.step
    stepping, closing = threading.Event(), threading.Event()

    def late() -> float | None:
        stepping.set()
        assert closing.wait(10)
        return step()

    journal.worker.step = late  # type: ignore[method-assign]
    journal.start()
    assert stepping.wait(10)
    journal.worker.finish(0)
    closing.set()
    assert journal.worker.finish(10)
    journal.close()


def test_a_thread_that_dies(tmp_path: Path, told: list[object]) -> None:
    """A fault of the program is shown, and holds nobody back."""
    relieved, said = threading.Event(), threading.Event()
    journal = Journal(tmp_path, "g1", run="r", limit=80_000, holds=True, on_relief=relieved.set, on_state=said.set)
    journal.segments.write = lambda *_: 1 // 0  # type: ignore[method-assign]
    while not journal.is_behind:
        tell(journal, 1)
    journal.start()
    assert relieved.wait(10)
    assert journal.close() > 0
    assert journal.failure.startswith("the journal has stopped: ZeroDivisionError")
    assert said.is_set()
    assert not journal.is_behind
    assert [type(each) for each in told] == [ZeroDivisionError]


def test_each_segment_follows_the_wall_clock(tmp_path: Path) -> None:
    clock, ahead = Clock(), [0]
    journal = opened(tmp_path, clock, segment_seconds=1.0, wall=lambda: clock.wall() + ahead[0] * 1_000_000_000)
    for ahead[0] in (0, 3600, 0, 60):
        clock.go(10)
        tell(journal, 1)
        journal.worker.step()
        clock.go(10)
        journal.worker.step()  # which completes the segment
    journal.close()
    assert [row["ts"] for row in rows_of(tmp_path)] == [START + at * 1_000_000 for at in (10, 3630, 3650, 3670)]


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
