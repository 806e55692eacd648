"""Large buffers are let go of in steps."""

from __future__ import annotations

from gateway.broker.core.freeing import freeing

MIB = 1024 * 1024


def test_a_step_is_two_mebibytes() -> None:
    buffers = [bytes(MIB) for _ in range(16)]
    left = [len(buffers) for _ in freeing([buffers])]
    assert left == [13, 10, 7, 4, 1]
    assert buffers == []


def test_one_is_a_step_however_large() -> None:
    buffers = [bytes(4 * MIB) for _ in range(3)]
    left = [len(buffers) for _ in freeing([buffers])]
    assert left == [2, 1]
    assert buffers == []


def test_of_small_ones_a_step_is_so_many() -> None:
    """Each takes its time, whatever it holds."""
    buffers = [b"x", b""] * 5_000
    left = [len(buffers) for _ in freeing([buffers])]
    assert left == [10_000 - 2048 * step for step in range(1, 5)]
    assert buffers == []


def test_what_is_small_is_one_step() -> None:
    buffers = [b"x"] * 1_000
    assert list(freeing([buffers])) == []
    assert buffers == []


def test_several_lists() -> None:
    lists = [[bytes(3 * MIB)], [], [bytes(3 * MIB)] * 2, [b"x"]]
    assert len(list(freeing(lists))) == 1
    assert lists == [[], [], [], []]


def test_nothing_is_no_step() -> None:
    assert list(freeing([])) == []
