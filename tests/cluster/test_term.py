"""Stages of a take-over: where its time went."""

from __future__ import annotations

from gateway.cluster.term import STAGES, TakeOver


def test_each_stage_begins_where_the_last_one_ended() -> None:
    times = iter((13.0, 13.25))
    took = TakeOver(10.0, lambda: next(times))
    assert (took.seconds, took.total) == ({}, 0.0)
    for stage in ("lease", "log"):
        took.reached(stage)
    took.reached("recovery", 14.0)
    took.reached("open", 14.0)
    assert took.seconds == dict(zip(STAGES, (3.0, 0.25, 0.75, 0.0), strict=True))
    assert took.total == 4.0
    assert list(took.stages())[1] == ("log", 13.0, 13.25)
