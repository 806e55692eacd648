"""One writer: lost answers do not double a commit, and another writer's commit ends this one."""

from __future__ import annotations

import pytest

from gateway.cluster.log import Fenced, LogUnavailable, LogWriter
from gateway.cluster.records import Assembler, Kind, Record, parse
from tests.cluster.logs import MemoryLog


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


def record(number: int, size: int = 5, epoch: int = 1) -> Record:
    return Record(Kind.BATCH, epoch, number, 1, bytes(size))


def records_of(log: MemoryLog) -> list[tuple[int, int]]:
    """Epoch and number of each whole record."""
    assembler = Assembler()
    found = [assembler.add(parse(data)) for data in log.messages]
    return [(each.epoch, each.number) for each in found if each]


def test_appends_one_behind_the_other(log: MemoryLog) -> None:
    writer = LogWriter(log, 0, longest=10)
    assert [writer.append(record(1)), writer.append(record(2, 25)), writer.append(record(3))] == [1, 4, 5]
    assert records_of(log) == [(1, 1), (1, 2), (1, 3)]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_lost_answer_does_not_double_a_part(log: MemoryLog, lost: int) -> None:
    writer = LogWriter(log, 0, longest=10)
    writer.append(record(1))
    log.lost_answers = lost
    commit = record(2, 25)
    for _ in range(lost):
        with pytest.raises(LogUnavailable):
            writer.append(commit)
    assert writer.append(commit) == len(log.messages) == 4
    writer.append(record(3))
    assert records_of(log) == [(1, 1), (1, 2), (1, 3)]


def test_a_log_that_is_down_is_tried_again(log: MemoryLog) -> None:
    writer = LogWriter(log, 0)
    log.is_down = True
    commit = record(1)
    with pytest.raises(LogUnavailable):
        writer.append(commit)
    log.is_down = False
    assert writer.append(commit) == 1


def test_another_writer_fences_this_one(log: MemoryLog) -> None:
    old = LogWriter(log, 0)
    old.append(record(1))
    LogWriter(log, 1).append(Record(Kind.EPOCH, 2, 0, 1, b""))
    with pytest.raises(Fenced):
        old.append(record(2))
    assert records_of(log) == [(1, 1), (2, 0)]


def test_a_writer_is_fenced_between_two_parts(log: MemoryLog) -> None:
    old = LogWriter(log, 0, longest=10)
    commit = record(1, 25)
    log.lost_answers = 1
    with pytest.raises(LogUnavailable):
        old.append(commit)
    LogWriter(log, 1).append(Record(Kind.EPOCH, 2, 0, 1, b""))
    # The first part got through, the second one comes too late.
    with pytest.raises(Fenced):
        old.append(commit)
    assert records_of(log) == [(2, 0)]


def test_a_writer_is_fenced_by_what_the_log_does_not_have_any_more(log: MemoryLog) -> None:
    old = LogWriter(log, 0)
    LogWriter(log, 0).append(Record(Kind.EPOCH, 2, 0, 1, b""))
    log.purge(2)
    with pytest.raises(Fenced):
        old.append(record(1))


def test_a_server_that_lags_does_not_fence(log: MemoryLog) -> None:
    writer = LogWriter(log, 0)
    log.lost_answers = log.lag = 1
    commit = record(1)
    for _ in range(2):
        with pytest.raises(LogUnavailable):
            writer.append(commit)
    log.lag = 0
    assert writer.append(commit) == 1
