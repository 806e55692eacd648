"""A session whose socket is elsewhere: order, accounts and ends, whatever is on its way over the link."""

from __future__ import annotations

import itertools
import math

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker.errors import SessionEnded
from gateway.transports import TransportOptions
from tests.transports.harness import Harness, MakeHarness
from tests.transports.peers import frame
from tests.transports.pipes import ControlledPipe

from .linked import LinkedEdge


@pytest.fixture
async def harness(make_harness: MakeHarness, monkeypatch: pytest.MonkeyPatch) -> Harness:
    """Where ten messages fill a queue, and all clients are at one edge."""
    made = make_harness(policies={"/queue/small": {"max_messages": 10}})
    edge = LinkedEdge(made, "1")
    monkeypatch.setattr(Harness, "door", lambda of: edge.server)
    made.edge = edge  # type: ignore[attr-defined]
    return made


def edge_of(harness: Harness) -> LinkedEdge:
    edge: LinkedEdge = harness.edge  # type: ignore[attr-defined]
    return edge


def sends(destination: str, count: int, **headers: object) -> bytes:
    return b"".join([frame("SEND", b"%03d" % each, destination=destination, **headers) for each in range(count)])


class TestLine:
    """Frames that come while their client is blocked."""

    async def test_they_wait_in_order(self, harness: Harness, autojump_clock: MockClock) -> None:
        publisher, consumer = await harness.session("tcp"), await harness.session("tcp")
        for part in range(3):  # each is a batch of its own, and all are on their way before the edge knows of the block
            await publisher.send(frame("SEND", b"part", destination="/queue/small", n=part) * 50)
            await trio.lowlevel.checkpoint()
        await trio.sleep(1)
        assert len(harness.server.back_pressure.blocked) == 1
        messages = await consumer.subscribe_and_read("/queue/small", 150)
        assert [each["n"] for each in messages] == [str(part) for part in range(3) for _ in range(50)]
        await publisher.settled()

    async def test_what_is_malformed_comes_behind_them(self, harness: Harness, autojump_clock: MockClock) -> None:
        publisher, consumer = await harness.session("tcp"), await harness.session("tcp")
        await publisher.send(sends("/queue/small", 30) + b"SEND\nno colon\n\n\0")
        await trio.sleep(1)
        await consumer.subscribe_and_read("/queue/small", 30)
        await publisher.at_end_after_error()

    async def test_an_end_from_outside_does_not_wait(self, harness: Harness, autojump_clock: MockClock) -> None:
        publisher = await harness.session("tcp")
        await publisher.send(sends("/queue/small", 30))
        await trio.sleep(1)
        session = next(iter(harness.broker.sessions.values()))
        session.end(SessionEnded("sent away", "for a test", retry_after=10))
        error = await publisher.at_end_after_error()
        assert (error["message"], error["retry-after"]) == ("sent away", "10")
        await harness.server.wait_empty()

    async def test_a_goodbye_comes_behind_them(self, harness: Harness, autojump_clock: MockClock) -> None:
        publisher, consumer = await harness.session("tcp"), await harness.session("tcp")
        await publisher.send(sends("/queue/small", 30) + frame("DISCONNECT", receipt="bye"))
        await trio.sleep(1)
        await consumer.subscribe_and_read("/queue/small", 30)
        assert (await publisher.frame("RECEIPT"))["receipt-id"] == "bye"


class TestAccounts:
    async def test_what_was_written_comes_to_no_other(self, harness: Harness) -> None:
        """The edge tells of it and of the end in one batch."""
        peer, other = await harness.session("tcp"), await harness.session("tcp")
        await peer.subscribe("/queue/a")
        await other.publish("/queue/a", b"x")
        await peer.frame("MESSAGE")
        await peer.aclose()
        await wait_all_tasks_blocked()
        assert len(harness.broker.sessions) == 1
        assert harness.broker.context.waiting == 0

    async def test_what_no_connection_took_was_never_on_its_way(
        self, harness: Harness, autojump_clock: MockClock
    ) -> None:
        """Heart-beats, which only the edge counts, change nothing."""
        peer, pipe = await harness.stalled("tcp", "/queue/a", room=math.inf, heart_beat="0,1000")
        other = await harness.session("tcp")
        await peer.listen(5)
        pipe.room = 0
        for number in range(3):
            await other.publish("/queue/a", b"%d" % number * 10)
            await other.settled()
        pipe.hang_up()
        await trio.sleep(1)
        messages = await other.subscribe_and_read("/queue/a", 3)
        assert [each.body[:1] for each in messages] == [b"0", b"1", b"2"]
        # The first was in the hands of the connection.
        assert ["redelivered" in each.headers for each in messages] == [True, False, False]

    async def test_no_attempt_counts_if_the_edge_dies(self, harness: Harness, autojump_clock: MockClock) -> None:
        peer = await harness.session("tcp")
        await peer.subscribe("/queue/a", ack="client")
        await peer.publish("/queue/a", b"x")
        await peer.frame("MESSAGE")
        edge_of(harness).cut()
        await peer.at_end_after_error()
        await trio.sleep(1)
        assert harness.broker.context.waiting == 1
        assert not harness.broker.sessions
        assert edge_of(harness).links_ended == 1
        assert not edge_of(harness).primary.sessions


class TestEnds:
    """Each order of the ends of both sides leaves nothing behind."""

    @pytest.mark.parametrize(
        ("first", "second"), [*itertools.permutations(["leaves", "fails", "is_sent_away", "says_goodbye"], 2)]
    )
    async def test_in_every_order(self, harness: Harness, first: str, second: str, autojump_clock: MockClock) -> None:
        pipe = ControlledPipe()
        peer = harness.connect_through("tcp", pipe)
        await peer.connect()
        await peer.subscribe("/queue/a", ack="client")
        await peer.publish("/queue/a", b"x")
        await peer.frame("MESSAGE")
        session = harness.session_at(0)
        edge_of(harness).pipe.room = 0  # both are on their way before the other end hears of one
        for what in (first, second):
            if what == "leaves":
                pipe.hang_up()
            elif what == "fails":
                pipe.push(b"NONSENSE\n\n\0")
            elif what == "says_goodbye":
                pipe.push(frame("DISCONNECT", receipt="bye"))
            else:
                session.end(SessionEnded("sent away"))
            await trio.sleep(0.01)
        edge_of(harness).pipe.open()
        with trio.fail_after(30):
            await harness.server.wait_empty()
        await wait_all_tasks_blocked()
        assert not harness.broker.sessions
        assert harness.broker.context.waiting == 1
        assert not edge_of(harness).primary.sessions
        assert bytes(pipe.written).count(b"ERROR\n") <= 1
        assert not harness.broker.dirty

    async def test_a_goodbye_behind_what_fails(self, harness: Harness, autojump_clock: MockClock) -> None:
        """The edge has read the DISCONNECT when the primary tells it of the error."""
        peer = await harness.session("websocket")
        with structlog.testing.capture_logs() as lines:
            await peer.send(frame("ACK", id="unknown") + frame("DISCONNECT", receipt="bye"))
            error = await peer.at_end_after_error()
        assert "unknown" in error.body.decode()
        assert peer.websocket.closed is not None
        assert peer.websocket.closed[0] == 1002
        assert "session failed" in [line["event"] for line in lines]

    async def test_gone_before_it_was_opened(self, harness: Harness, autojump_clock: MockClock) -> None:
        await harness.session("tcp")
        edge_of(harness).primary_pipe.room = 0
        peer = harness.connect("tcp")
        await peer.send(frame("CONNECT", accept_version="1.2", host="h"))
        await trio.sleep(0.1)
        assert len(harness.broker.sessions) == 2
        harness.connections[1].end(SessionEnded("sent away"))
        await trio.sleep(0.1)
        assert len(harness.broker.sessions) == 1
        edge_of(harness).primary_pipe.open()
        await peer.at_end_after_error()

    async def test_a_blocked_one_leaves(self, harness: Harness, autojump_clock: MockClock) -> None:
        pipe = ControlledPipe()
        publisher = harness.connect_through("tcp", pipe)
        await publisher.connect()
        await publisher.send(sends("/queue/small", 30))
        await trio.sleep(1)
        pipe.hang_up()
        with trio.fail_after(3):
            await harness.server.wait_empty()
        assert harness.broker.context.waiting == 30, "what it had sent before counts"

    async def test_a_session_that_cannot_be_closed_ends_no_link(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
    ) -> None:
        peer, other = await harness.session("tcp"), await harness.session("tcp")
        session = harness.session_at(0)

        def broken(*args: object) -> None:
            raise RuntimeError("for a test")

        monkeypatch.setattr(type(session.outbox), "not_written", broken)
        await peer.aclose()
        await trio.sleep(1)
        await other.settled()
        assert len(harness.server.connections) == 1


async def test_a_debt_is_paid_first(
    make_harness: MakeHarness, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """A client that comes again waits for what it owes, or others of its address."""
    harness = make_harness(options=TransportOptions(max_frames_per_second_per_address=10), address="192.0.2.7")
    edge = LinkedEdge(harness, "1")
    monkeypatch.setattr(Harness, "door", lambda of: edge.server)
    first = await harness.session("tcp")
    await first.send(frame("SEND", destination="/topic/a") * 60 + frame("DISCONNECT", receipt="bye"))
    await first.frame("RECEIPT")
    began, second = trio.current_time(), await harness.session("tcp")
    await second.settled()
    assert trio.current_time() - began == pytest.approx(5.1, abs=0.3)
