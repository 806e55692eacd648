"""A client that comes back under its client-id, over real connections: what its ghost had comes to it, and in time."""

from __future__ import annotations

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from .harness import Harness
from .peers import Peer, frame
from .pipes import ControlledPipe

ADA = {"login": "ada", "client_id": "one"}
QUEUE = "/queue/a"
LARGE = b"x" * 100_000


async def fill(harness: Harness, *bodies: bytes) -> None:
    """SENDs of another session to the queue."""
    peer = await harness.session("tcp")
    for body in bodies:
        await peer.publish(QUEUE, body)
    await peer.settled()


async def taken_over(ghost: Peer) -> None:
    """The ghost reads that it was replaced."""
    error = await ghost.frame("ERROR")
    assert error["message"] == "client-id taken over"
    await ghost.at_end()


async def bodies(peer: Peer, count: int) -> list[tuple[bytes, bool]]:
    """So many messages, and whether they were delivered before."""
    messages = [await peer.frame("MESSAGE") for _ in range(count)]
    return [(each.body[:1], "redelivered" in each.headers) for each in messages]


@pytest.mark.parametrize("sockets", [False, True])
@pytest.mark.parametrize("ack", ["client", "client-individual"])
async def test_what_it_had_of_a_queue_comes_first(harness: Harness, kind: str, sockets: bool, ack: str) -> None:
    """Though the new connection subscribes in the very chunk of its CONNECT."""
    ghost = await harness.session(kind, sockets=sockets, **ADA)
    await ghost.subscribe(QUEUE, ack=ack, prefetch_count=2)
    await fill(harness, b"1", b"2", b"3")
    assert await bodies(ghost, 2) == [(b"1", False), (b"2", False)]
    peer = harness.connect(kind, sockets=sockets)
    opening = frame("CONNECT", accept_version="1.2", host="h", **ADA)
    await peer.send(opening + frame("SUBSCRIBE", id=0, destination=QUEUE, ack=ack))
    await peer.frame("CONNECTED")
    assert await bodies(peer, 3) == [(b"1", True), (b"2", True), (b"3", False)]
    await taken_over(ghost)
    if kind == "websocket":
        assert ghost.websocket.closed == (1008, "client-id taken over")


async def test_one_that_does_not_read(harness: Harness, autojump_clock: MockClock) -> None:
    """What lies in its outbox comes again, within a second, and in order."""
    _, pipe = await harness.stalled("tcp", QUEUE, **ADA)
    await fill(harness, b"1" + LARGE, b"2" + LARGE, b"3" + LARGE)
    began = trio.current_time()
    peer = await harness.session("tcp", **ADA)
    assert trio.current_time() - began < 0.1, "it is told at once that it is in"
    messages = await peer.subscribe_and_read(QUEUE, 3, ack="client")
    assert [each.body[:1] for each in messages] == [b"1", b"2", b"3"]
    assert pipe.closed
    assert trio.current_time() - began == pytest.approx(1.0, abs=0.01)


async def test_three_in_a_row(harness: Harness, autojump_clock: MockClock) -> None:
    """The last one has it, though all come while the first one, which does not read, is still being waited for."""
    pipe = ControlledPipe()
    first = harness.connect_through("tcp", pipe)
    await first.connect(**ADA)
    await first.subscribe(QUEUE, ack="client")
    await fill(harness, b"1", b"2")
    await bodies(first, 2)
    pipe.room = 0
    second, third = harness.connect("tcp"), harness.connect("tcp")
    opening = frame("CONNECT", accept_version="1.2", host="h", **ADA)
    for peer in (second, third):
        await peer.send(opening + frame("SUBSCRIBE", id=0, destination=QUEUE, ack="client"))
        await wait_all_tasks_blocked()
    await third.frame("CONNECTED")
    assert await bodies(third, 2) == [(b"1", True), (b"2", True)]
    await second.frame("CONNECTED")
    await taken_over(second)
    assert trio.current_time() < 1.5
    assert len(harness.broker.known) == 1


async def test_the_log_tells_of_both(harness: Harness) -> None:
    """So that two programs are found that fight over one client-id."""
    with structlog.testing.capture_logs() as lines:
        ghost = await harness.session("tcp", **ADA)
        (session,) = harness.broker.sessions
        await harness.session("tcp", **ADA)
        await taken_over(ghost)
    (line,) = [line for line in lines if line["event"] == "client-id taken over"]
    assert (line["session"], line["login"], line["client_id"]) == (session, "ada", "one")
    assert (line["log_level"], line["peer"], line["by"]) == ("info", "test", "test")
    assert not [line for line in lines if line["event"] == "session failed"]
