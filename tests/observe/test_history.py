"""The history: a sample a minute, what its file survives, and points that fill their range."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import structlog
from trio.testing import MockClock

from gateway.observe.history import KEPT, History, merged
from gateway.observe.sampler import Second

START = 1_700_000_040.0  # a full minute
ZERO = dict.fromkeys(Second.__slots__, 0)


def sample(at: float, **values: Any) -> Second:
    return Second(**{**ZERO, "at": at, "p50": None, "p95": None, "p99": None, **values})


def opened(path: Path) -> tuple[History, list[str]]:
    with structlog.testing.capture_logs() as lines:
        found = History(path)
        found.open()
    return found, [line["event"] for line in lines]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db.history"


def test_one_of_many() -> None:
    """Means of what flows, and the largest of what is there: a peak must not vanish."""
    many = [sample(1, published=1.0, memory=5, lag_ms=1.5, p50=1.0), sample(2, published=2.0, memory=9, cpu=0.5)]
    found = merged(many, 60.0)
    assert (found.at, found.published, found.memory, found.lag_ms, found.cpu) == (60.0, 1.5, 9, 1.5, 0.25)
    assert (found.p50, found.p99) == (1.0, None)


class TestFile:
    async def test_it_outlives_the_process(self, path: Path) -> None:
        history, said = opened(path)
        for number in range(3):
            await history.add(sample(START + 60 * number, published=number, p99=0.5))
        with path.open("a") as file:
            file.write("[1700000220.0, 1")  # a kill cut it off
        again, told = opened(path)
        assert list(again.minutes) == list(history.minutes)
        assert said == told == []
        await again.add(sample(START + 180))
        assert len(opened(path)[0].minutes) == 4

    async def test_it_has_a_bound(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gateway.observe.history.KEPT", 20)
        history, _ = opened(path)
        sizes = []
        for number in range(45):
            await history.add(sample(START + 60 * number))
            sizes.append(os.stat(path).st_size)
        assert len(history.minutes) == len(opened(path)[0].minutes) == 20
        assert sizes[-1] < max(sizes) < 45 * 100

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "no JSON\n",
            '{"minutes": 0}\n',
            "{head}\n[1]\n",
            "{head}\n[]\n",
            "{head}\n7\n",
            '{head}\n["x"]\n',
            "{head}\n[null]\n",
            "{head}\n[NaN]\n",
            "{head}\n[" + "9" * 400 + ", 1.5" * 60 + "]\n",
            "{head}\n" + "[" * 200_000 + "\n",
            "x" * (5 << 20),
        ],
    )
    def test_one_that_is_damaged_or_old_is_replaced(self, path: Path, text: str) -> None:
        opened(path)
        head = path.read_text()
        path.write_text(text.replace("{head}", head.strip()))
        history, said = opened(path)
        assert said == ["the history begins anew"]
        assert not history.minutes
        assert path.read_text() == head

    async def test_a_disk_that_takes_nothing_is_told_once(self, path: Path) -> None:
        history, _ = opened(path)
        os.unlink(path)
        os.mkdir(path)
        with structlog.testing.capture_logs() as lines:
            await history.add(sample(START))
            await history.add(sample(START + 60))
        assert [line["event"] for line in lines] == ["the history cannot be written"]
        assert len(history.minutes) == 2

    async def test_a_disk_that_hangs_holds_up_nothing(self, path: Path, autojump_clock: MockClock) -> None:
        history, _ = opened(path)
        os.unlink(path)
        os.mkfifo(path)  # which waits for a reader
        for number in range(2):
            await history.add(sample(START + 60 * number))
        assert len(history.minutes) == 2
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))

    async def test_a_clock_that_was_set_back(self, path: Path) -> None:
        history, _ = opened(path)
        for number in (0, 1, 2, 1):
            await history.add(sample(START + 60 * number, errors=number))
        assert [each.at - START for each in history.minutes] == [each.at - START for each in opened(path)[0].minutes]
        assert [each.at - START for each in history.minutes] == [0, 60]


class TestTable:
    async def test_an_hour_is_full_and_says_where_it_was_down(self) -> None:
        history = History(None)
        history.open()
        for number in (50, 51, 55, 59, 60):
            await history.add(sample(START + 60 * number, published=number))
        now = START + 3_600 + 3
        found = await history.table("1h", (), now)
        assert (found["from"], found["to"], found["step"], found["kept"]) == (START, START + 3_600, 60, False)
        at, series = found["at"], found["series"]
        assert isinstance(at, list)
        assert isinstance(series, dict)
        assert at == [START + 60 * number for number in range(1, 61)]
        assert series["published"] == [None] * 49 + [50, 51, None, None, None, 55, None, None, None, 59, 60]
        assert found["gaps"] == [
            {"from": START + 60 * 51, "to": START + 60 * 54},
            {"from": START + 60 * 55, "to": START + 60 * 58},
        ]
        assert set(series) == set(ZERO) - {"at"}
        json.dumps(found, allow_nan=False)

    async def test_the_minute_that_has_just_ended_may_be_on_its_way(self) -> None:
        history = History(None)
        await history.add(sample(START))
        assert (await history.table("1h", (), START + 61))["to"] == START
        assert (await history.table("1h", (), START + 121))["to"] == START + 120

    async def test_a_day_has_points_of_five_minutes(self) -> None:
        history = History(None)
        for number in range(KEPT):
            await history.add(sample(START + 60 * number, published=number % 5, waiting=number))
        found = await history.table("24h", (), history.minutes[-1].at)
        series = found["series"]
        assert isinstance(series, dict)
        assert series["published"] == [2.0] * 288
        assert series["waiting"] == list(range(4, KEPT, 5))
        assert found["gaps"] == []

    async def test_five_minutes_of_seconds_and_before_a_restart_of_minutes(self) -> None:
        history = History(None)
        await history.add(sample(START, published=9))
        seconds = [sample(START + number + 0.3, published=number) for number in range(100, 200) if number % 50]
        found = await history.table("5m", seconds, START + 200.5)
        series, at = found["series"], found["at"]
        assert isinstance(series, dict)
        assert isinstance(at, list)
        points = dict(zip([each - START for each in at], series["published"], strict=True))
        assert len(points) == 300
        assert (points[-60], points[-59], points[0], points[1]) == (None, 9, 9, None)
        assert (points[102], points[151], points[200]) == (101, 149, 199), "of 150 there is none"
        assert found["gaps"] == [{"from": START, "to": START + 101}]
