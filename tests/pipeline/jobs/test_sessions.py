"""A session is one row, however its rows are split, and the sums are those of all rows."""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow
from hypothesis import given, settings

from gateway.pipeline.jobs import JOBS
from tests.pipeline import rows
from tests.pipeline.jobs.reference import TIME, in_order, merged, session_of, sessions_of
from tests.pipeline.jobs.story import CHANCES, split, story

JOB = JOBS["sessions"]
NOW = rows.START + timedelta(hours=2)
_TEXTS = ("gateway", "session", "transport", "peer", "principal", "reason")
_TIMES = ("connected_at", "disconnected_at", "first_at", "last_at")


def table_of(found: list[dict[str, Any]]) -> pyarrow.Table:
    names = [*JOB.keys, *JOB.merges]
    types = {**dict.fromkeys(_TEXTS, pyarrow.string()), **dict.fromkeys(_TIMES, TIME)}
    fields = [(name, types.get(name, pyarrow.int64())) for name in names]
    return pyarrow.Table.from_pylist(found, schema=pyarrow.schema(fields))


@given(CHANCES)
@settings(deadline=None, max_examples=40)
def test_it_makes_no_difference_how_rows_are_split(random: Random) -> None:
    told = story(random, 60)
    pieces = [table_of(sessions_of(part)) for part in split(random, told, 4)]
    assert in_order(merged(JOB, pieces)) == in_order(table_of(sessions_of(told)))


def test_session_from_its_start_to_its_end() -> None:
    told = [
        rows.connected(1),
        rows.accepted(2, size=70),
        rows.delivered(3, size=30),
        rows.redelivered(4, size=5),
        rows.nacked(5),
        rows.error(6),
        rows.disconnected(7.5, reason="malformed"),
    ]
    shown = JOB.snapshot(table_of([session_of(told)]), NOW)
    assert shown["sessions"] == [
        {
            "gateway": "g1",
            "epoch": rows.EPOCH,
            "session": "s1",
            "state": "ended",
            "transport": "tcp",
            "peer": "127.0.0.1:50000",
            "principal": "anna",
            "connected_at": "2026-03-01T12:00:01Z",
            "first_at": "2026-03-01T12:00:01Z",
            "disconnected_at": "2026-03-01T12:00:07.500Z",
            "last_at": "2026-03-01T12:00:07.500Z",
            "reason": "malformed",
            "accepted": 1,
            "octets": 70,
            "delivered": 1,
            "redelivered": 1,
            "octets_delivered": 35,
            "nacked": 1,
            "errors": 1,
        }
    ]
    assert (shown["totals"]["octets"], shown["totals"]["acked"], shown["left_out"]) == (70, 0, 0)
    assert shown["states"] == {"connected": 0, "ended": 1, "lost": 0}


def of(session: str | None, at: float, epoch: int = 1, gateway: str = "g1") -> dict[str, Any]:
    return session_of([rows.accepted(at, session=session, gateway=gateway, epoch=epoch)])


def test_connected_sessions_come_first_then_the_newest() -> None:
    ended = session_of([rows.disconnected(9000, session="d", epoch=2)])
    found = [
        of("a", 10, 2),
        of("b", 20, 2),
        of("c", 9999, 1),
        of("e", 5, 1, "g2"),
        of(None, 7),
        of("old", -90_000),
        ended,
    ]
    shown = JOB.snapshot(table_of(found), rows.START + timedelta(hours=3))
    states = [(each["session"], each["state"]) for each in shown["sessions"]]
    running = [("b", "connected"), ("a", "connected"), ("e", "connected")]
    assert states == [*running, ("d", "ended"), ("c", "lost")]
    assert shown["states"] == {"connected": 3, "ended": 1, "lost": 1}
    assert shown["totals"]["accepted"] == 5  # also that of no session


def test_snapshot_of_very_many_sessions_is_small() -> None:
    long, usual = "ä" * 500, of("s", 0)
    found = [{**usual, "session": f"s{number}", "principal": long, "reason": long} for number in range(10_000)]
    times = [rows.START + timedelta(seconds=number % 3600) for number in range(10_000)]
    table = table_of(found).drop_columns(["last_at"]).append_column("last_at", pyarrow.array(times, TIME))
    for limit in (2 * 1024 * 1024, 64 * 1024):
        shown = JOB.snapshot(table, NOW, limit)
        assert limit / 4 < len(json.dumps(shown)) <= limit
        assert 5 < len(shown["sessions"]) == 10_000 - shown["left_out"]
        assert shown["totals"]["accepted"] == shown["states"]["connected"] == 10_000
        last = [each["last_at"] for each in shown["sessions"]]
        assert last == sorted(last, reverse=True)
