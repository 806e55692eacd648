"""A session is one row, however its rows are split; dead letters are a list, of which nothing is lost."""

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
    (session,) = shown["sessions"]
    assert (session["state"], session["reason"], session["principal"]) == ("ended", "malformed", "anna")
    times = ("2026-03-01T12:00:01Z", "2026-03-01T12:00:07.500Z")
    assert (session["connected_at"], session["disconnected_at"]) == (session["first_at"], session["last_at"]) == times
    counts = {"accepted": 1, "octets": 70, "delivered": 1, "redelivered": 1, "octets_delivered": 35}
    counts |= {"nacked": 1, "errors": 1}  # what is 0 is left out
    assert {name: value for name, value in session.items() if name in shown["totals"]} == counts
    assert (shown["totals"]["octets"], shown["totals"]["acked"], shown["left_out"]) == (70, 0, 0)
    assert shown["states"] == {"connected": 0, "ended": 1, "lost": 0}


def of(session: str | None, at: float, epoch: int = 1, gateway: str = "g1") -> dict[str, Any]:
    return session_of([rows.accepted(at, session=session, gateway=gateway, epoch=epoch)])


def test_connected_sessions_come_first_then_the_newest() -> None:
    found = [of("a", 10, 2), of("b", 20, 2), of("c", 9999, 1), of("e", 5, 1, "g2"), of(None, 7), of("old", -90_000)]
    found.append(session_of([rows.disconnected(9000, session="d", epoch=2)]))
    shown = JOB.snapshot(table_of(found), rows.START + timedelta(hours=3))
    states = [(each["session"], each["state"]) for each in shown["sessions"]]
    running = [("b", "connected"), ("a", "connected"), ("e", "connected")]
    assert states == [*running, ("d", "ended"), ("c", "lost")]
    assert shown["states"] == {"connected": 3, "ended": 1, "lost": 1}
    assert shown["totals"]["accepted"] == 5  # also that of no session


def test_snapshot_of_very_many_sessions_is_small() -> None:
    usual = of("s", 0) | {"principal": "ä" * 500, "reason": "ä" * 500}
    table = table_of([{**usual, "session": f"s{number}"} for number in range(10_000)])
    for limit in (2 * 1024 * 1024, 64 * 1024):
        shown = JOB.snapshot(table, NOW, limit)
        assert limit / 4 < len(json.dumps(shown)) <= limit
        assert 5 < len(shown["sessions"]) == 10_000 - shown["left_out"]
        assert shown["totals"]["accepted"] == shown["states"]["connected"] == 10_000


LETTERS = JOBS["deadletters"]
LATER = rows.START + timedelta(hours=3)
_COLUMNS = [name for name in LETTERS.columns if name != "event"]


def letters_of(told: list[rows.Row]) -> pyarrow.Table:
    return rows.table([each for each in told if each["event"] == "dead_lettered"]).select(_COLUMNS)


def test_snapshot_has_the_newest_and_the_most_frequent() -> None:
    told = [rows.dead_lettered(at, destination="/queue/a", reason="rejected", seq=at + 1) for at in range(3)]
    told.append(rows.dead_lettered(90, destination="/queue/b", reason=None, headers={"dlq-reason": "x"}, seq=9))
    told.append(rows.dead_lettered(-90_000))
    shown = LETTERS.snapshot(letters_of(told), LATER)
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


def test_snapshot_of_very_many_letters_is_small() -> None:
    headers: dict[str, Any] = {f"{number}-{'ä' * 5000}": "\0" * 5000 for number in range(40)}
    told = [rows.dead_lettered(0, destination=f"/queue/{number}") for number in range(10_000)]
    table = letters_of([*told, *[rows.dead_lettered(1, destination="/queue/0", headers=headers)] * 20])
    for limit in (2 * 1024 * 1024, 512 * 1024):
        shown = LETTERS.snapshot(table, LATER, limit)
        assert len(json.dumps(shown)) <= limit
        assert len(shown["places"]) + shown["places_left_out"] == 10_000
        assert 0 < len(shown["newest"]) == 10_020 - shown["newest_left_out"]
        assert shown["newest"][0]["headers_left_out"] == 8
