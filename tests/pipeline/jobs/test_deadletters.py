"""Dead letters are a list, and nothing is lost of it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pyarrow

from gateway.pipeline.jobs import JOBS
from tests.pipeline import rows

JOB = JOBS["deadletters"]
NOW = rows.START + timedelta(hours=3)
_COLUMNS = [name for name in JOB.columns if name != "event"]


def table_of(told: list[rows.Row]) -> pyarrow.Table:
    return rows.table([each for each in told if each["event"] == "dead_lettered"]).select(_COLUMNS)


def test_snapshot_has_the_newest_and_the_most_frequent() -> None:
    told = [rows.dead_lettered(at, destination="/queue/a", reason="rejected", seq=at + 1) for at in range(3)]
    told.append(rows.dead_lettered(90, destination="/queue/b", reason=None, headers={"dlq-reason": "x"}, seq=9))
    told.append(rows.dead_lettered(-90_000))
    shown = JOB.snapshot(table_of(told), NOW)
    assert shown["total"] == 4
    assert shown["places"] == [
        {"destination": "/queue/a", "reason": "rejected", "count": 3, "last": "2026-03-01T12:00:02Z"},
        {"destination": "/queue/b", "reason": None, "count": 1, "last": "2026-03-01T12:01:30Z"},
    ]
    assert shown["newest"][0] == {
        "ts": "2026-03-01T12:01:30Z",
        "destination": "/queue/b",
        "message_id": "r-9",
        "reason": None,
        "delivery_count": 1,
        "size": 100,
        "headers": {"dlq-reason": "x"},
        "headers_left_out": 0,
    }
    assert [each["message_id"] for each in shown["newest"]] == ["r-9", "r-3", "r-2", "r-1"]
    assert (shown["places_left_out"], shown["newest_left_out"]) == (0, 0)


def test_snapshot_of_very_many_is_small() -> None:
    headers: dict[str, Any] = {f"{number}-{'ä' * 5000}": "\0" * 5000 for number in range(40)}
    told = [
        rows.dead_lettered(
            number % 3600, destination=f"/queue/{number}", headers=headers if number % 3600 > 3590 else {}
        )
        for number in range(10_000)
    ]
    table = table_of(told)
    for limit in (2 * 1024 * 1024, 512 * 1024):
        shown = JOB.snapshot(table, NOW, limit)
        assert len(json.dumps(shown)) <= limit
        assert len(shown["places"]) + shown["places_left_out"] == 10_000
        assert 0 < len(shown["newest"]) == 10_000 - shown["newest_left_out"]
        assert shown["newest"][0]["headers_left_out"] == 8
