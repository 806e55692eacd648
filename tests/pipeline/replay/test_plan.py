"""Options, plans, records and patterns of a replay: all that needs no Spark."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.model.patterns import Pattern, has_wildcard
from gateway.client import StompServer
from gateway.pipeline.broker_url import BrokerUrl
from gateway.pipeline.errors import JobFailure, UsageFailure
from gateway.pipeline.replay.messages import regular_expression
from gateway.pipeline.replay.plan import ReplayOptions, ReplayPlan
from gateway.pipeline.replay.record import ReplayPart, ReplayRecord, ReplayRecords

OPTIONS = ReplayOptions("2h", "now", "/queue/#", "/queue/again", "stomp://there")
PART = ReplayPart("g1", 7, 1, 10, 1000, 2000, 8, 800)
RECORD = ReplayRecord("r1", {"to": "/queue/again"}, "2026-03-01T12:00:00+00:00", "2026-03-01T13:00:00+00:00")
PLAN = ReplayPlan(OPTIONS, BrokerUrl(StompServer("there", 61_613)), "/archive", ReplayRecords(Path("/nowhere")), RECORD)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"id": "a b"}, "--id 'a b' must be up to 64 letters, digits, dots, hyphens and _"),
        ({"destination": ""}, "--destination is missing"),
        ({"to": ""}, "--to '' must be a destination"),
        ({"to": "/queue/{name}"}, "--to '/queue/{name}' must be a destination, in which {destination} may stand"),
    ],
)
def test_invalid_options(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageFailure) as caught:
        replace(OPTIONS, **changes).check()  # type: ignore[arg-type]
    assert str(caught.value).startswith(sentence)
    for to in ("/queue/again", "{destination}", "/queue/again{destination}"):
        replace(OPTIONS, to=to, id="orders-2026.11_21").check()


# plans


def test_a_plan_in_words() -> None:
    name = "/queue/\x1b]0;owned\x07\u202e" + "x" * 5000  # text of clients is escaped on a terminal
    plan = replace(
        PLAN,
        options=replace(OPTIONS, rate=4),
        record=replace(RECORD, rows=1200).begun(PART, "2026-03-01"),
        parts=(PART, replace(PART, first=11, last=20, rows=4, size=200)),
        destinations=((name, 11),),
        partial=3,
        nowhere=2,
        late=4,
        examples=("example  one",),
    )
    lines = plan.text().splitlines()
    assert lines[1] == "from     /archive: 2026-03-01 12:00:00 UTC to 2026-03-01 13:00:00 UTC, destination /queue/#"
    assert lines[3:5] == ["messages 12, 1,000 bytes of bodies", "rate     4/s, so it takes 3 s at least"]
    assert lines[6] == "before   1,200 were sent already and are not sent again"
    assert [line[:10] for line in lines[7:]] == ["partial  3", "nowhere  2", "late     4", "doubt    a", "example  o"]
    assert lines[5].isprintable()
    assert len(lines[5]) <= 300


# records


def test_a_record(tmp_path: Path) -> None:
    records = ReplayRecords(tmp_path)
    assert records.read("r1") is None
    second = replace(PART, first=11, last=20)
    with records.held("r1"):
        record = RECORD.begun(PART, "then").done(PART).begun(second, "later")
        records.write(record)
    assert records.read("r1") == record
    assert (record.rows, record.sent, record.doubts) == (8, {"g1/7": 10}, (replace(second, begun="later"),))
    assert record.done(replace(PART, gateway="g2")).doubts == record.doubts
    assert record.done(replace(second, last=15)).doubts == record.doubts
    assert record.done(replace(second, last=25)).doubts == ()
    assert sorted([path.name for path in (tmp_path / "_replays").iterdir()]) == ["r1.json", "r1.lock"]
    behind = replace(PART, first=11, last=20, oldest=3000, newest=4000)
    assert PART.joined(behind) == ReplayPart("g1", 7, 1, 20, 1000, 4000, 16, 1600)
    touching = [PART.touches(each) for each in (replace(PART, first=10, last=12), behind, replace(PART, epoch=8))]
    assert touching == [True, False, False]
    with pytest.raises(UsageFailure, match=r"begun with --to /queue/again, not /queue/b: choose another --id"):
        record.check({"to": "/queue/b"})
    assert '"octets": 800' in (tmp_path / "_replays" / "r1.json").read_text()  # as older versions have it


def test_one_run_at_a_time(tmp_path: Path) -> None:
    records = ReplayRecords(tmp_path)
    with records.held("r1"), records.held("r2"), pytest.raises(JobFailure, match="replay r1 is running already"):
        records.held("r1").__enter__()
    with records.held("r1"):
        pass


# patterns

WORDS = st.sampled_from(["a", "b", "", "a+b", "(", "queue", "c#"])
WILDCARDS = st.sampled_from(["*", "#", ">", "**"])


def names(words: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Names of such words, between dots or slashes, with a slash in front or without."""
    parts = st.lists(st.tuples(st.sampled_from("./"), words), min_size=1, max_size=5)
    return parts.map(lambda pairs: "".join([separator + word for separator, word in pairs]))


@given(names(WORDS | WILDCARDS).filter(has_wildcard), names(WORDS))
def test_patterns_are_the_gateways(pattern: str, name: str) -> None:
    written = "/" + name.removeprefix("/").replace(".", "/")
    found = re.fullmatch(regular_expression(pattern), written) is not None
    assert found == Pattern(pattern).matches(name)
