"""The queue between the loop and the thread."""

from __future__ import annotations

import threading

import pytest

from gateway.journal.rows import Piece, RowBuffer, bytes_of

LIMIT = 80_000
STEP = LIMIT // 8


def intake(*, holds: bool = False) -> RowBuffer:
    return RowBuffer(lambda: 7, LIMIT, holds=holds)


def fill(queue: RowBuffer, nbytes: int) -> None:
    for _ in range(nbytes // 1000):
        queue._enter(b"x" * 1000)


def drain(queue: RowBuffer) -> list[Piece]:
    rows: list[Piece] = []
    while queue.waiting:
        taken = queue.take()
        rows += taken
        queue.settle(sum([bytes_of(row) for row in taken]))
    return rows


def test_the_first_row_rings_and_then_a_step_does() -> None:
    """Else every row would ring while the thread lets some gather."""
    queue = intake()
    assert queue.is_empty()
    queue._enter(b"x" * 1000)
    assert queue.wake.is_set()
    queue.wake.clear()
    assert not queue.is_empty()
    fill(queue, STEP - 1000)
    assert not queue.wake.is_set()
    fill(queue, 2000)
    assert queue.wake.is_set()


class TestFull:
    def test_drops_and_counts(self) -> None:
        queue = intake()
        fill(queue, 2 * LIMIT)
        assert LIMIT < queue.queued <= LIMIT + STEP + 1000
        assert queue.rows_dropped == 2 * LIMIT // 1000 - queue.waiting
        assert queue.queued == sum([bytes_of(row) for row in queue._rows])

    def test_goes_on_when_a_quarter_is_free(self) -> None:
        queue = intake()
        fill(queue, 2 * LIMIT)
        dropped = queue.rows_dropped
        while queue.queued > LIMIT * 3 // 4:
            fill(queue, 1000)
            dropped += 1
            assert queue.rows_dropped == dropped
            queue.settle(sum([bytes_of(row) for row in queue.take()]))
        before = queue.waiting
        fill(queue, 1000)
        assert queue.rows_dropped == dropped
        assert queue.waiting == before + 2  # the row that tells of it, and the row
        assert queue._missing == 0

    @pytest.mark.parametrize(("failure", "reason"), [("", b"the queue is full"), ("no disk", b"no disk")])
    def test_says_why(self, failure: str, reason: bytes) -> None:
        queue = intake()
        queue.failure = failure
        fill(queue, 2 * LIMIT)
        drain(queue)
        queue.tell_missing()
        (row,) = drain(queue)
        assert isinstance(row, bytes)
        assert row.endswith(reason)

    def test_after_the_end(self) -> None:
        queue = intake()
        queue.end()
        fill(queue, 3000)
        assert (queue.waiting, queue.queued, queue.rows_dropped) == (0, 0, 3)


class TestHolding:
    def test_from_three_quarters_to_a_half(self) -> None:
        queue = intake(holds=True)
        fill(queue, LIMIT // 2 + 2000)
        assert not queue.is_behind
        fill(queue, LIMIT // 4 + STEP)
        assert queue.is_behind
        assert queue.rows_dropped == 0
        relieved = False
        while queue.queued > LIMIT // 2:
            assert not relieved
            assert queue.is_behind
            queue.settle(1000)
            relieved = queue.is_relieved()
        assert relieved
        assert not queue.is_behind
        assert not queue.is_relieved()

    def test_not_for_a_disk_that_takes_nothing(self) -> None:
        queue = intake(holds=True)
        fill(queue, LIMIT)
        assert queue.is_behind
        queue.failure = "no disk"
        assert queue.is_relieved()
        fill(queue, LIMIT)
        assert not queue.is_behind
        assert queue.rows_dropped


def test_takes_about_a_step() -> None:
    queue = intake()
    fill(queue, LIMIT)
    sizes = []
    while queue.waiting:
        nbytes = sum([bytes_of(row) for row in queue.take()])
        queue.settle(nbytes)
        sizes.append(nbytes)
    assert sum(sizes) == LIMIT
    assert max(sizes) <= 2 * STEP


def test_two_threads() -> None:
    """One appends and one takes: no row is lost, none comes twice, and nobody sleeps while there are rows."""
    queue = RowBuffer(lambda: 7, 64 * 1024 * 1024, holds=False)
    count = 100_000
    taken: list[Piece] = []

    def take() -> None:
        while len(taken) < count:
            queue.wake.clear()
            if queue.is_empty():
                assert queue.wake.wait(10)
                continue
            rows = queue.take()
            taken.extend(rows)
            queue.settle(sum([bytes_of(row) for row in rows]))

    thread = threading.Thread(target=take)
    thread.start()
    for number in range(count):
        queue._enter(b"%d" % number)
    thread.join(30)
    assert taken == [b"%d" % number for number in range(count)]
    assert queue.queued == queue.rows_dropped == 0
