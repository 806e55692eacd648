"""A replay: options, plans, records and patterns, and the way from an archive into a real gateway."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.model.patterns import Pattern, has_wildcard
from gateway.client import Client, StompServer
from gateway.codec import Frame
from gateway.pipeline.errors import JobFailure, UsageFailure
from gateway.pipeline.options import BrokerUrl
from gateway.pipeline.replay import run
from gateway.pipeline.replay.messages import is_of, is_partial, is_sendable, messages, regular_expression
from gateway.pipeline.replay.plan import ReplayOptions, ReplayPart, ReplayPlan, ReplayRecord, ReplayRecords
from tests.gateway_process import HOST, GatewayProcess, free_ports, start_gateway
from tests.pipeline import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = rows.START + timedelta(hours=3)
OPTIONS = run.ReplayOptions(
    since="2026-03-01T12:00", until="2026-03-01T14:00", destination="/queue/orders.#", to="", broker="", id="again"
)


pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    with start_gateway() as process:
        yield process


def waiting(gateway: GatewayProcess, queue: str) -> list[Frame]:
    client = Client(StompServer(HOST, gateway.tcp_port))
    client.request("SUBSCRIBE", {"id": "0", "destination": queue, "browser": "true", "ack": "auto"})
    found: list[Frame] = []
    while not found or "browser" not in found[-1].headers:
        found += client.receive(5)
    client.disconnect()
    return found[:-1]


def sent(gateway: GatewayProcess, queue: str) -> list[str]:
    """Which rows the messages of a queue came from."""
    return [frame.headers["x-replayed-from"] for frame in waiting(gateway, queue)]


def order(seq: int, at: float = 0.0, **columns: object) -> rows.Row:
    return rows.accepted(at, **{"seq": seq, "destination": "/queue/orders.eu", "size": 3, "body": b"abc", **columns})


def origin(seq: int, epoch: int = rows.EPOCH) -> str:
    return f"{rows.GATEWAY}/{epoch}/{seq}"


# columns


def test_the_message_of_a_row(spark: SparkSession) -> None:
    """All in one query: selection, target and headers of a message."""
    left_out = "destination content-length receipt transaction x-delay retain dedup-id user-id x-message-ttl ack"
    headers = dict.fromkeys(left_out.split(), "1") | {"reply-to": "/reply-queue/x", "x-replayed-from": "old"}
    headers |= {"content-type": "text/plain", "expires": "1", "priority": "7", "persistent": "true", "kind": "a:b"}
    made = [
        order(1, headers=headers, message_id="r-1"),
        order(2, headers={"reply-to": "/queue/answers", "expires": "soon"}, body=None),
        order(3, headers={"expires": "1"}, body=None, size=0, destination="/queue/orders"),
        order(4, headers={}, destination="/reply-queue/x"),
        order(5, headers={}, destination="/user/a%2Eb/queue/x"),
    ]
    frame = rows.frame(spark, made)
    found = [is_of("/queue/orders.#"), is_of("/queue/orders"), is_partial()]
    found += [is_sendable("{destination}"), is_sendable("/queue/b")]
    which = frame.orderBy("seq").select(*found).collect()
    told = ["".join(["-+"[value] for value in row]) for row in which]
    assert told == ["+--++", "+-+++", "++-++", "----+", "----+"]
    before = time.time() * 1000
    ordered = frame.repartition(1).sortWithinPartitions("seq")
    first, second, third, *_ = messages(ordered, "r", "/queue/again{destination}", rate=10).collect()
    own = {"x-replayed-from": origin(1), "x-original-message-id": "r-1"}
    expires = int(first.headers.pop("expires"))
    assert before - 1 <= expires + rows.START.timestamp() * 1000 - 1 <= time.time() * 1000 + 1
    assert int(third.headers["expires"]) == expires + 200
    assert first.headers == {"priority": "7", "persistent": "true", "kind": "a:b", **own}
    assert (first.destination, first.content_type) == ("/queue/again/queue/orders.eu", "text/plain")
    assert first.dedup_id == f"r:{rows.GATEWAY}:{rows.EPOCH}:1"
    assert second.headers.keys() == {"reply-to", *own}
    assert (second.content_type, bytes(third.body)) == (None, b"")


# the way into a gateway


@pytest.mark.long
def test_a_replay_and_the_same_again(spark: SparkSession, gateway: GatewayProcess, tmp_path: Path) -> None:
    """Order, headers and bodies; then the record, and without it the gateway, sees that nothing comes twice."""
    archive, tables = tmp_path / "archive", tmp_path / "tables"
    plain = {"content-type": "text/plain"}
    made = [
        *[order(seq, seq * 30.0, headers={"kind": f"k:{seq}", **plain}) for seq in range(40, 0, -1)],
        order(1, 3600.0, epoch=rows.EPOCH + 5, body=bytes(range(256)), size=256, headers={"odd": "a\\b\nc"}),
        order(41, 7200.0),  # behind the span
        order(42, 10.0, destination="/queue/other"),
        rows.delivered(11.0, seq=43, destination="/queue/orders.eu"),
    ]
    rows.write(archive, made)
    options = replace(OPTIONS, to="/queue/whole", broker=f"stomp://{HOST}:{gateway.tcp_port}", where="size < 1000")
    plan = run.plan(spark, str(archive), tables, options, NOW)
    assert (plan.rows, plan.body_bytes, plan.partial, plan.destinations) == (41, 376, 0, (("/queue/orders.eu", 41),))
    said: list[str] = []
    assert run.run(spark, plan, said.append) == 41
    assert said[-1].startswith("replay again: 41 of 41 sent, ")
    frames = waiting(gateway, "/queue/whole")
    wanted = [*map(origin, range(1, 41)), origin(1, rows.EPOCH + 5)]
    assert [frame.headers["x-replayed-from"] for frame in frames] == wanted
    assert [frame.headers.get("kind") for frame in frames] == [*[f"k:{seq}" for seq in range(1, 41)], None]
    assert (frames[0].headers["content-type"], frames[0].body) == ("text/plain", b"abc")
    assert (frames[-1].headers["odd"], frames[-1].body) == ("a\\b\nc", bytes(range(256)))
    # The same command again.
    again = run.plan(spark, str(archive), tables, options, NOW)
    assert (again.rows, again.record.rows) == (0, 41)
    assert run.run(spark, again) == 0
    # What comes later with lower numbers is told of: it would be out of order.
    assert again.late == 0
    rows.write(archive, [order(39, 5.0, message_id="late", headers={})], number=2)
    assert run.plan(spark, str(archive), tables, options, NOW).late == 1
    # What was planned before is not run again either.
    with pytest.raises(JobFailure, match="another process continued replay again meanwhile"):
        run.run(spark, plan)
    # The record is lost, but the gateway remembers.
    fresh = run.plan(spark, str(archive), tmp_path / "lost", replace(options, limit=40), NOW)
    assert fresh.late == 0
    assert run.run(spark, fresh) == 40
    assert len(waiting(gateway, "/queue/whole")) == 41


@pytest.mark.long
def test_limit_rate_and_stopping(spark: SparkSession, gateway: GatewayProcess, tmp_path: Path) -> None:
    """The first rows, then some more of them: never faster than the rate, and never one twice."""
    archive, tables = tmp_path / "archive", tmp_path / "tables"
    rows.write(archive, [order(seq, epoch=rows.EPOCH + seq // 20, headers={}) for seq in range(40)])
    broker = f"stomp://{HOST}:{gateway.tcp_port}"
    options = replace(OPTIONS, to="/queue/limited", broker=broker, limit=15, rate=10)
    plan = run.plan(spark, str(archive), tables, options, NOW)
    assert [part.rows for part in plan.parts] == [15]
    began = time.monotonic()
    assert run.run(spark, plan) == 15
    assert time.monotonic() - began >= 1.4
    more = run.plan(spark, str(archive), tables, replace(options, limit=30, rate=0), NOW)
    assert [part.rows for part in more.parts] == [5, 10]
    stopping = threading.Event()
    assert run.run(spark, more, lambda _: stopping.set(), stopping) == 5
    wanted = [origin(seq, rows.EPOCH + seq // 20) for seq in range(20)]
    assert sent(gateway, "/queue/limited") == wanted
    assert run.plan(spark, str(archive), tables, replace(options, limit=30, rate=0), NOW).rows == 10


@pytest.mark.long
def test_a_run_that_was_killed(spark: SparkSession, gateway: GatewayProcess, tmp_path: Path) -> None:
    """Of what is in doubt, what the archive shows as sent is left out, even where the broker has forgotten it."""
    archive, tables = tmp_path / "archive", tmp_path / "tables"
    rows.write(archive, [order(seq, headers={}) for seq in range(1, 7)])
    options = replace(OPTIONS, to="/queue/doubtful", broker=f"stomp://{HOST}:{gateway.tcp_port}")
    plan = run.plan(spark, str(archive), tables, options, NOW)
    begun = datetime.now(UTC)
    with plan.records.held("again"):
        plan.records.write(plan.record.begun(plan.parts[0], begun.isoformat()))
    came = {"x-dedup-id": f"again:{rows.GATEWAY}:{rows.EPOCH}:2"}
    later = (begun - rows.START).total_seconds() + 1
    rows.write(archive, [order(100, later, headers=came, destination="/queue/doubtful")], number=2)
    second = run.plan(spark, str(archive), tables, options, NOW)
    assert "doubt    a run ended after" in second.text()
    assert run.run(spark, second) == 6
    assert sent(gateway, "/queue/doubtful") == [origin(seq) for seq in (1, 3, 4, 5, 6)]
    assert run.plan(spark, str(archive), tables, options, NOW).record.doubts == ()


def test_truncated_bodies(spark: SparkSession, gateway: GatewayProcess, tmp_path: Path) -> None:
    rows.write(tmp_path, [order(1, headers={}), order(2, headers={}, size=9), order(3, headers={}, body=None)])
    options = replace(OPTIONS, to="/queue/partial", broker=f"stomp://{HOST}:{gateway.tcp_port}", id="")
    refused = run.plan(spark, str(tmp_path), tmp_path, options, NOW, dry_run=True)
    assert "example  " in refused.text()
    with pytest.raises(UsageFailure, match="2 of the selected messages cannot be sent whole"):
        run.run(spark, refused)
    skipping = run.plan(spark, str(tmp_path), tmp_path, replace(options, partial="skip"), NOW)
    assert skipping.record.id != refused.record.id
    assert run.run(spark, skipping) == 1
    assert sent(gateway, "/queue/partial") == [origin(1)]


def test_errors_of_the_broker(spark: SparkSession, gateway: GatewayProcess, tmp_path: Path) -> None:
    rows.write(tmp_path, [order(1, headers={})])
    (port,) = free_ports(1)
    absent = replace(OPTIONS, to="/queue/x", broker=f"stomp://{HOST}:{port}")
    with pytest.raises(JobFailure, match=rf"^cannot connect to {HOST}:{port}: [^\n]*$"):
        run.plan(spark, str(tmp_path), tmp_path, absent, NOW)
    assert run.plan(spark, str(tmp_path), tmp_path, absent, NOW, dry_run=True).rows == 1
    wrong = replace(OPTIONS, to="/nowhere/x", broker=f"stomp://{HOST}:{gateway.tcp_port}", id="")
    plan = run.plan(spark, str(tmp_path), tmp_path, wrong, NOW)
    with pytest.raises(JobFailure, match=rf"^{HOST}:{gateway.tcp_port} says: [^\n]*/nowhere/x[^\n]*$"):
        run.run(spark, plan)
    with pytest.raises(UsageFailure, match=r"--where 'sizes > 1' is no valid expression: .*sizes"):
        run.plan(spark, str(tmp_path), tmp_path, replace(wrong, where="sizes > 1"), NOW)
    with pytest.raises(UsageFailure, match="--broker has /queue/x behind the port"):
        run.plan(spark, str(tmp_path), tmp_path, replace(wrong, broker="stomp://there/queue/x"), NOW)


CHOSEN = ReplayOptions("2h", "now", "/queue/#", "/queue/again", "stomp://there")
PART = ReplayPart("g1", 7, 1, 10, 1000, 2000, 8, 800)
RECORD = ReplayRecord("r1", {"to": "/queue/again"}, "2026-03-01T12:00:00+00:00", "2026-03-01T13:00:00+00:00")
PLAN = ReplayPlan(CHOSEN, BrokerUrl(StompServer("there", 61_613)), "/archive", ReplayRecords(Path("/nowhere")), RECORD)


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
        replace(CHOSEN, **changes).check()  # type: ignore[arg-type]
    assert str(caught.value).startswith(sentence)
    for to in ("/queue/again", "{destination}", "/queue/again{destination}"):
        replace(CHOSEN, to=to, id="orders-2026.11_21").check()


# plans


def test_a_plan_in_words() -> None:
    name = "/queue/\x1b]0;owned\x07\u202e" + "x" * 5000  # text of clients is escaped on a terminal
    plan = replace(
        PLAN,
        options=replace(CHOSEN, rate=4),
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
