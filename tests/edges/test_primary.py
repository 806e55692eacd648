"""The link at the primary: edges that are silent, broken or gone, and what stays of them."""

from __future__ import annotations

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.edges.forms import ToPrimary
from tests.transports.harness import Harness
from tests.transports.peers import Peer

from .linked import LinkedEdge
from .pipes import LinkPipe


@pytest.fixture
def edge(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> LinkedEdge:
    """All clients are there."""
    made = LinkedEdge(harness, "1")
    monkeypatch.setattr(Harness, "door", lambda of: made.server)
    return made


async def consumer_at_work(harness: Harness) -> Peer:
    peer = await harness.session("tcp")
    await peer.subscribe("/queue/a", ack="client")
    await peer.publish("/queue/a", b"x")
    await peer.frame("MESSAGE")
    return peer


def is_given_back(harness: Harness) -> bool:
    """True if no session is left, and the message of `consumer_at_work` waits."""
    books = harness.broker.sessions, harness.server.connections, harness.server.open_connections
    return not any(books) and harness.broker.context.waiting == 1


@pytest.mark.parametrize("data", [b"\xc1", b"\x92\x63\x00", b"\x91\x00", b"\x05"], ids=["no", "kind", "short", "flat"])
async def test_a_message_that_is_none(
    harness: Harness, edge: LinkedEdge, data: bytes, autojump_clock: MockClock
) -> None:
    """It ends the link, and not the gateway."""
    await consumer_at_work(harness)
    with structlog.testing.capture_logs() as lines:
        edge.pipe.send_nowait([data])
        await trio.sleep(1)
    assert "the link to an edge is broken" in [line["event"] for line in lines]
    assert is_given_back(harness)
    assert edge.links_ended == 1


async def test_a_link_that_breaks_in_a_message(harness: Harness, edge: LinkedEdge, autojump_clock: MockClock) -> None:
    """What came of it does not count."""
    peer = await consumer_at_work(harness)
    edge.pipe.room = 30
    await peer.publish("/queue/a", b"y" * 1000)
    await trio.sleep(0.1)
    edge.cut()
    await trio.sleep(1)
    assert is_given_back(harness)


async def test_a_silent_edge(harness: Harness, edge: LinkedEdge, autojump_clock: MockClock) -> None:
    await consumer_at_work(harness)
    await trio.sleep(100)
    assert edge.primary.sessions == 1, "it tells its counts"
    edge.pipe.room = 0
    with structlog.testing.capture_logs() as lines:
        await trio.sleep(31)
    assert [line["edge"] for line in lines if line["event"] == "an edge is silent"] == ["1"]
    assert is_given_back(harness)


async def test_a_process_that_was_stopped_reads_first(
    harness: Harness, edge: LinkedEdge, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the edge said meanwhile is unread, when the time is over."""
    await consumer_at_work(harness)
    edge.pipe.room = 0
    monkeypatch.setattr(LinkPipe, "has_bytes", lambda pipe: True)
    await trio.sleep(60)
    assert edge.primary.sessions == 1


async def test_the_end_of_all(autojump_clock: MockClock) -> None:
    """Where the time of the drain is over, links are cancelled, and leave nothing behind."""
    async with trio.open_nursery() as nursery:
        harness = Harness(nursery)
        edge = LinkedEdge(harness, "1")
        harness.door = lambda: edge.server  # type: ignore[method-assign]
        await consumer_at_work(harness)
        nursery.cancel_scope.cancel()
    assert is_given_back(harness)
    assert not harness.server.links
    assert edge.primary_pipe.is_closed


async def test_messages_for_sessions_that_are_gone(
    harness: Harness, edge: LinkedEdge, autojump_clock: MockClock
) -> None:
    """They may be on their way, and do no harm."""
    other = await harness.session("tcp")
    messages: list[tuple[ToPrimary, list[object]]] = [
        (ToPrimary.HEAD, [9, 0, "SEND", {}, 0, 5]),
        (ToPrimary.RUN, [9, 0, [b""]]),
        (ToPrimary.CONFIRMED, [9, 0, [b""], ["r"]]),
        (ToPrimary.FRAME, [9, "ACK", {}, 5, b"", None]),
        (ToPrimary.WROTE, [[9, 100]]),
        (ToPrimary.FAIL, [9, ["ProtocolError", "a", {}], None]),
        (ToPrimary.LEFT, [9, 0]),
        (ToPrimary.RENEWED, [9]),
        (ToPrimary.REGROUPED, [9, ["a", [], None, ""]]),
        (ToPrimary.RECHECK, [9]),
        (ToPrimary.TELL, [9, "event", {}, ""]),
    ]
    for kind, fields in messages:
        edge.link.put(kind, *fields)
    edge.link.ask()
    await other.settled()
    assert len(harness.broker.sessions) == 1


async def test_counts_are_added_up(harness: Harness, edge: LinkedEdge, autojump_clock: MockClock) -> None:
    peer = await harness.session("tcp")
    refused = harness.connect("tcp")
    await refused.send(b"NONSENSE\n\n\0")
    await refused.at_end_after_error()
    await peer.settled()
    await trio.sleep(1.1)
    counters = harness.counters
    assert (counters.connections, counters.totals()["refused"], counters.refusals["malformed"]) == (2, 1, 1)
    assert counters.bytes_in > 40
    assert counters.bytes_out > 60


async def test_turns_are_measured(harness: Harness, edge: LinkedEdge) -> None:
    peer = await harness.session("tcp")
    before = sum(harness.server.back_pressure.turns.counts)
    await peer.settled()
    await wait_all_tasks_blocked()
    assert sum(harness.server.back_pressure.turns.counts) == before + 1
