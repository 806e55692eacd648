"""Sessions at an edge: what goes over the link, what is held back, and what moves to another primary."""

from __future__ import annotations

import itertools

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker.model.destinations import EVENTS, RENEW
from gateway.broker.model.identity import Credentials, Identity
from gateway.edges.session import WINDOW, EdgeSession
from tests.transports.harness import Harness, MakeHarness
from tests.transports.peers import frame

from .linked import LinkedEdge


@pytest.fixture
def edge(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> LinkedEdge:
    """All clients are there."""
    made = LinkedEdge(harness, "1")
    monkeypatch.setattr(Harness, "door", lambda of: made.server)
    return made


def at_edge(harness: Harness, place: int = 0) -> EdgeSession:
    """The session of the connection that came at that place, as the edge has it."""
    session = harness.connections[place].session
    assert isinstance(session, EdgeSession)
    return session


async def test_header_blocks_go_over_once(harness: Harness, edge: LinkedEdge) -> None:
    """Their places are overwritten in turn, also in the middle of a chunk."""
    publisher, consumer = await harness.session("tcp"), await harness.session("tcp")
    await consumer.subscribe("/topic/a")
    numbers = [*range(100), *range(100), 7, 7, 7]
    await publisher.send(b"".join([frame("SEND", destination="/topic/a", n=each) for each in numbers]))
    assert [int((await consumer.frame("MESSAGE"))["n"]) for _ in numbers] == numbers


async def test_runs_with_receipts_and_without(harness: Harness, edge: LinkedEdge) -> None:
    publisher, consumer = await harness.session("tcp"), await harness.session("tcp")
    await consumer.subscribe("/topic/a")
    asks = [False, True, True, False, False, True]
    frames = [
        frame("SEND", b"%d" % number, destination="/topic/a", **({"receipt": number} if asked else {}))
        for number, asked in enumerate(asks)
    ]
    await publisher.send(b"".join(frames) + frame("SEND", b"6", destination="/topic/a") * 1000)
    assert [(await publisher.frame("RECEIPT"))["receipt-id"] for _ in range(3)] == ["1", "2", "5"]
    bodies = [(await consumer.frame("MESSAGE")).body for _ in range(1006)]
    assert bodies == [b"0", b"1", b"2", b"3", b"4", b"5"] + [b"6"] * 1000


async def test_what_is_on_its_way_is_bounded(harness: Harness, edge: LinkedEdge, autojump_clock: MockClock) -> None:
    """A client is read again when the primary has handled enough."""
    publisher, other = await harness.session("tcp"), await harness.session("tcp")
    edge.pipe.room = 0
    data = frame("SEND", b"x" * 10_000, destination="/topic/a", content_length=10_000)
    for _ in range(200):
        await publisher.send(data)
    await trio.sleep(1)
    assert WINDOW < at_edge(harness).on_way < WINDOW + 100_000
    edge.pipe.open()
    await publisher.settled()
    await other.settled()
    await wait_all_tasks_blocked()
    assert at_edge(harness).on_way == 0
    assert harness.counters.published >= 200


async def test_a_slow_subscriber_is_seen_by_the_primary(
    harness: Harness, edge: LinkedEdge, autojump_clock: MockClock
) -> None:
    peer, pipe = await harness.stalled("tcp", "/topic/a")
    publisher = await harness.session("tcp")
    await publisher.publish("/topic/a", b"x" * 1000)
    await publisher.settled()
    outbox = harness.session_at(0).outbox
    assert outbox.size > 1000
    pipe.open()
    await peer.frame("MESSAGE")
    await trio.sleep(0.1)
    assert outbox.size == 0


async def test_heart_beats_are_the_edges_own(harness: Harness, edge: LinkedEdge, autojump_clock: MockClock) -> None:
    peer, pipe = await harness.stalled("tcp", heart_beat="0,1000")
    pipe.open()
    assert len(await peer.listen(10)) >= 9
    outbox = harness.session_at(0).outbox
    assert (outbox.size, outbox.gone) == (0, at_edge(harness).received.taken_of_primary)


class Issuer:
    """Tokens that last so many seconds."""

    async def authenticate(self, credentials: Credentials) -> Identity:
        return Identity("alice", expires=trio.current_time() + float(credentials.passcode or 0), method="token")


async def test_each_end_of_a_token_is_told_once(
    make_harness: MakeHarness, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    harness = make_harness(authenticator=Issuer())
    harness.broker.scheduler.epoch = trio.current_time
    edge = LinkedEdge(harness, "1")
    monkeypatch.setattr(Harness, "door", lambda of: edge.server)
    peer = await harness.session("tcp", passcode="100")
    await peer.subscribe(EVENTS)
    for _ in range(3):
        with trio.fail_after(100):
            message = await peer._receive()
        assert message is not None
        assert message["event"] == "token-expiring"
        # At once, before the edge has looked a second time.
        await peer.send_frame("SEND", destination=RENEW, receipt="renewed", passcode="100")
        await peer.frame("RECEIPT")


async def test_a_session_of_topics_moves(harness: Harness, edge: LinkedEdge, autojump_clock: MockClock) -> None:
    """What the last primary gave it is in no account of the next one."""
    peer, pipe = await harness.stalled("tcp", "/topic/a")
    publisher = await harness.session("tcp")
    await publisher.publish("/topic/a", b"before")
    await publisher.settled()
    edge.cut()
    await trio.sleep(1)
    assert not harness.broker.sessions
    edge.connect_again()
    await trio.sleep(1)
    await publisher.publish("/topic/a", b"after")
    await publisher.settled()
    (outbox,) = [each.outbox for each in harness.broker.sessions.values() if each.subscriptions]
    size = outbox.size
    assert size > 0
    pipe.open(10)
    await trio.sleep(0.1)
    assert outbox.size == size, "these bytes were the last primary's"
    pipe.open()
    assert (await peer.frame("MESSAGE")).body == b"before"
    message = await peer.frame("MESSAGE")
    assert (message.body, message["gap"]) == (b"after", "true")
    await trio.sleep(0.1)
    assert outbox.size == 0


async def test_presence_outlives_the_primary(
    make_harness: MakeHarness, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Users who move are neither told to leave nor to join, and watchers get a list that no gap is before."""
    harness = make_harness(policies={"/topic/room": {"presence": True, "presence_grace": 10.0}})
    edge = LinkedEdge(harness, "1")
    monkeypatch.setattr(Harness, "door", lambda of: edge.server)
    user = await harness.session("tcp", client_id="u")
    await user.subscribe("/topic/room", presence_info="here")
    await trio.sleep(11)  # it has settled
    watcher = await harness.session("tcp")
    await watcher.subscribe("/presence/topic/room", id="w")
    first = await watcher.frame("MESSAGE")
    edge.cut()
    await trio.sleep(1)
    assert not harness.broker.sessions
    edge.connect_again()
    await trio.sleep(20)
    again = await watcher.frame("MESSAGE")
    assert (first["event"], again["event"], "gap" in again.headers) == ("list", "list", False)
    assert b'"id":"guest:u","user":null,"info":"here","sessions":1' in again.body
    other = await harness.session("tcp", client_id="o")
    await other.subscribe("/topic/room")
    joined = await watcher.frame("MESSAGE")
    assert (joined["event"], b"guest:o" in joined.body) == ("join", True)


@pytest.mark.parametrize(
    ("frames", "moves"),
    [
        ([("SEND", "/queue/a", "")], False),
        ([("SEND", "/queue/a", ""), ("SEND", "/queue/a", "1")], True),
        ([("SEND", "/queue/a", "1"), ("SEND", "/queue/a", "")], False),
        ([("SUBSCRIBE", "/queue/a", "1"), ("UNSUBSCRIBE", "", "")], False),
        ([("SUBSCRIBE", "/queue/a", ""), ("UNSUBSCRIBE", "", "1")], True),
        ([("SEND", "/queue/a", "1"), ("SUBSCRIBE", "/topic/a", ""), ("UNSUBSCRIBE", "", "")], True),
    ],
)
async def test_what_no_receipt_confirms_may_be_lost_with_the_primary(
    frames: list[tuple[str, str, str]], moves: bool, harness: Harness, edge: LinkedEdge, autojump_clock: MockClock
) -> None:
    """A later receipt says that all frames before it were carried out: so the next primary may not send it."""
    peer = await harness.session("tcp")
    for command, destination, receipt in frames:
        headers = {"destination": destination, "id": "1", "receipt": receipt}
        await peer.send_frame(command, **{name: value for name, value in headers.items() if value})
    await trio.sleep(1)
    edge.cut()
    await trio.sleep(1)
    edge.connect_again()
    await trio.sleep(1)
    assert len(harness.broker.sessions) == int(moves)


def _frame(kind: str, number: int) -> bytes:
    match kind:
        case "send":
            return frame("SEND", b"%d" % number, destination=f"/queue/{number % 3}", n=number)
        case "confirmed":
            return frame("SEND", b"%d" % number, destination=f"/topic/{number % 3}", receipt=number)
        case "subscribe":
            ack = ("auto", "client")[number % 2]
            return frame("SUBSCRIBE", destination=f"/queue/{number % 3}", id=number, ack=ack, receipt=f"s{number}")
        case "begin":
            return frame("BEGIN", transaction=number)
        case "commit":
            return frame("COMMIT", transaction=number, receipt=f"c{number}")
        case _:
            return frame("UNSUBSCRIBE", id=number)


async def _played(data: bytes, cuts: list[int], *, linked: bool) -> tuple[list[object], object]:
    """What a client gets for that data, cut there, until it says goodbye; and what is left in the broker."""
    async with trio.open_nursery() as nursery:
        harness = Harness(nursery)
        if linked:
            edge = LinkedEdge(harness, "1")
            harness.door = lambda: edge.server  # type: ignore[method-assign]
        peer = await harness.session("tcp")
        places = [0, *sorted(each % (len(data) + 1) for each in cuts), len(data)]
        for start, end in itertools.pairwise(places):
            if start < end:
                await peer.send(data[start:end])
                await wait_all_tasks_blocked()
        await peer.send(frame("DISCONNECT", receipt="bye"))
        found: list[object] = []
        while (received := await peer.receive()) is not None:
            headers = {name: text for name, text in received.headers.items() if name not in ("message-id", "ack")}
            found.append((received.command, headers, received.body))
        await peer.aclose()
        await wait_all_tasks_blocked()
        left = harness.broker.context.waiting, harness.counters.published, harness.counters.delivered
        nursery.cancel_scope.cancel()
    return found, left


KINDS = st.sampled_from(["send", "confirmed", "subscribe", "begin", "commit", "unsubscribe"])


@settings(max_examples=40)
@given(st.lists(st.tuples(KINDS, st.integers(0, 5)), max_size=30), st.lists(st.integers(0, 10_000), max_size=5))
def test_a_client_sees_no_link(frames: list[tuple[str, int]], cuts: list[int]) -> None:
    """Whatever it sends, and however that comes, it gets the same, and the same is left."""
    data = b"".join([_frame(kind, number) for kind, number in frames])

    async def compare() -> None:
        with trio.fail_after(20):
            assert await _played(data, cuts, linked=True) == await _played(data, cuts, linked=False)

    trio.run(compare)
