"""Figures add up: destinations and pieces of time are all that there is."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pyarrow
from hypothesis import given, settings

from gateway.pipeline.jobs import JOBS, figures
from gateway.pipeline.jobs.figures import EVENTS, KINDS
from tests.pipeline import rows
from tests.pipeline.jobs.reference import METRICS, folded, is_browsed, metrics_of
from tests.pipeline.jobs.story import CHANCES, story


@given(CHANCES)
@settings(deadline=None, max_examples=40)
def test_all_of_them_together_are_the_whole(random: Random) -> None:
    told = [row for row in story(random, 80) if not is_browsed(row)]
    table = metrics_of(told)
    whole = figures.figures(table)
    for event in EVENTS:
        own = [row for row in told if row["event"] == event]
        assert (whole.counts[event], whole.body_bytes[event]) == (len(own), sum([row["size"] or 0 for row in own]))
    ranking = figures.by_destination(table, random.randrange(5))
    assert figures.add([ranking.rest, *[each for _, each in ranking.top]]) == whole
    names = {folded(row["destination"]) for row in told if row["event"] in EVENTS}
    assert len(ranking.top) + ranking.others == len(names)
    for minutes in (1, 7):
        slots = figures.by_time(table, timedelta(minutes=minutes))
        assert figures.add([each for _, each in slots]) == whole
        for kind in KINDS:
            histograms = {at: dict(getattr(each, kind)) for at, each in slots if getattr(each, kind)}
            assert figures.heat(table, kind, timedelta(minutes=minutes)) == histograms


def test_busiest_destination_is_first() -> None:
    told = [rows.accepted(destination="/queue/b"), rows.accepted(destination="/queue/a")]
    told += [rows.accepted(destination="/queue/c"), rows.accepted(1, destination="/queue/c")]
    told += [rows.delivered(destination="/queue/d"), rows.expired(destination="/queue/e")]
    ranking = figures.by_destination(metrics_of(told))
    assert [name[-1] for name, _ in ranking.top] == ["c", "a", "b", "d", "e"]
    assert ranking.others == ranking.rest.messages == 0
    assert ranking.top[0][1].messages == 2


def test_no_rows() -> None:
    for table in (pyarrow.table({}), METRICS.empty_table()):
        assert figures.figures(table) == figures.add([])
        assert figures.by_destination(table).top == []
        assert figures.by_time(table) == []
        assert figures.heat(table) == {}
    for job in JOBS.values():
        shown = job.snapshot(pyarrow.table({}), rows.START)
        assert not any(each for each in shown.values() if isinstance(each, list))
