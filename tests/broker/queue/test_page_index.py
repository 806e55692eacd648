"""Rows of a backlog that go from the middle."""

from __future__ import annotations

import pytest

from gateway.broker.queue import page_index as module
from gateway.broker.queue.page_index import PageIndex


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> PageIndex:
    monkeypatch.setattr(module, "_SLACK", 3)
    rows = PageIndex()
    for number in range(1, 11):
        rows.add(number if number % 3 else -number, 100 + number, 0.0)
    return rows


def test_found_wherever_they_stand(rows: PageIndex) -> None:
    assert [rows.size_of(row) for row in (1, -3, 10)] == [101, 103, 110]
    assert [rows.size_of(row) for row in (3, -1, 0, 11)] == [None] * 4


def test_removed(rows: PageIndex) -> None:
    assert [rows.remove(row) for row in (2, -6, 2, 99)] == [102, 106, None, None]
    assert list(rows.all()[0]) == [1, -3, 4, 5, 7, 8, -9, 10]
    assert [list(each) for each in rows.all()] == [
        [1, -3, 4, 5, 7, 8, -9, 10],
        [101, 103, 104, 105, 107, 108, 109, 110],
    ]
    assert len(rows) == 8
    assert rows.take(3) == [(1, 101), (-3, 103), (4, 104)]
    assert rows.take(2) == [(5, 105), (7, 107)]


def test_most_of_them(rows: PageIndex) -> None:
    """Their places are forgotten."""
    rows.take(1)
    for row in (2, -3, 4, 5, -6, 7):
        rows.remove(row)
    assert list(rows.all()[0]) == [8, -9, 10]
    assert len(rows._rows) < 9
    assert rows.remove(-9) == 109
    assert rows.take(5) == [(8, 108), (10, 110)]
    assert len(rows) == 0
