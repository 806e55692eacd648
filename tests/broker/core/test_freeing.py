"""Freeing of large buffers, in steps."""

from __future__ import annotations

import pytest

from gateway.broker.core.freeing import freeing

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("buffers", "left"),
    [
        ([bytes(MIB)] * 16, [13, 10, 7, 4, 1]),
        ([bytes(4 * MIB)] * 3, [2, 1]),
        ([b"x", b""] * 5_000, [10_000 - 2048 * step for step in range(1, 5)]),
        ([b"x"] * 1_000, []),
    ],
    ids=["two mebibytes", "one however large", "so many small ones", "few small ones"],
)
def test_a_step_is_bounded(buffers: list[bytes], left: list[int]) -> None:
    assert [len(buffers) for _ in freeing([buffers])] == left
    assert buffers == []


def test_several_lists_are_emptied_one_after_the_other() -> None:
    lists = [[bytes(3 * MIB)], [], [bytes(3 * MIB)] * 2, [b"x"]]
    assert len(list(freeing(lists))) == 1
    assert lists == [[], [], [], []]
