"""How connections end: by the client, by an error, by an operator; what is still written and what is given back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker.core import freeing as module
from gateway.broker.errors import SessionEnded
from gateway.broker.queue.queue import Queue
from gateway.transports.connection import connection

from .harness import Harness, MakeHarness, Slow
from .peers import CONNECT, TEXT, Peer, frame, ws
from .pipes import ControlledPipe

requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize


class TestEnd:
    @requirement("ACK-08", "DSC-01")
    async def test_an_orderly_end_behind_a_full_socket_gives_nothing_twice(self, harness: Harness, kind: str) -> None:
        """Mode auto: what is still written behind DISCONNECT is the client's, and nobody else gets it."""
        peer, pipe = await harness.stalled(kind, "/queue/a", room=500)
        publisher = await harness.session(kind)
        for number in range(20):
            await publisher.publish("/queue/a", b"%02d" % number + b"x" * 100)
        await publisher.settled()
        await peer.send_frame("DISCONNECT", receipt="bye")
        await wait_all_tasks_blocked()
        pipe.open(100_000)
        bodies = [(await peer.frame("MESSAGE")).body[:2] for _ in range(20)]
        assert bodies == [b"%02d" % number for number in range(20)]
        await peer.frame("RECEIPT")
        await peer.aclose()
        await wait_all_tasks_blocked()
        assert harness.broker.context.waiting == 0

    @requirement("ACK-08")
    async def test_a_lost_connection_gives_back_what_the_system_never_had(self, harness: Harness, kind: str) -> None:
        _, pipe = await harness.stalled(kind, "/queue/a")
        publisher = await harness.session(kind)
        for _ in range(20):
            await publisher.publish("/queue/a", b"x" * 100)
        await publisher.settled()
        pipe.broken = True
        pipe.hang_up()
        await wait_all_tasks_blocked()
        assert harness.broker.context.waiting == 20

    @parametrize("gone", [False, True])
    async def test_what_it_did_not_read_is_freed_in_steps(
        self, harness: Harness, gone: bool, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else others would wait for megabytes to be freed.  It ends by itself, or for it reads nothing."""
        data: list[int] = []

        def freeing(lists: list[list[bytes]]) -> Iterator[None]:
            data.append(sum(len(each) for buffers in lists for each in buffers))
            return module.freeing(lists)

        monkeypatch.setattr(connection, "freeing", freeing)
        _, pipe = await harness.stalled("tcp", "/topic/a", room=1000, heart_beat="1000,0")
        publisher = await harness.session("tcp")
        for _ in range(4):
            await publisher.publish("/topic/a", b"x" * 100_000)
        await publisher.settled()
        if gone:
            pipe.hang_up()
        await trio.sleep(60)
        assert len(harness.broker.sessions) == 1
        assert len(data) == 1
        assert 399_000 < data[0] < 401_000

    @requirement("ACK-06")
    async def test_its_messages_go_back_before_it_is_closed(self, harness: Harness, autojump_clock: MockClock) -> None:
        """A frozen client, whose socket is full, takes no ERROR; what it held is with another consumer meanwhile."""
        pipe = ControlledPipe()
        peer, other = harness.connect_through("tcp", pipe), await harness.session("tcp")
        await peer.connect(heart_beat="1000,0")
        await peer.subscribe("/queue/a", ack="client")
        await other.publish("/queue/a", b"x")
        await peer.frame("MESSAGE")
        await other.subscribe("/queue/a")
        pipe.room = 0
        message = await other.frame("MESSAGE")
        assert message["redelivered"] == "true"
        assert trio.current_time() < 3.0
        await trio.sleep(8.0)  # the pulse of a session that is ending is not felt again
        assert harness.counters.heartbeat_timeouts == 1

    @requirement("LNG-02", "ERR-04")
    async def test_it_lingers(self, harness: Harness, autojump_clock: MockClock) -> None:
        """For a second the rest of what the client sends is read and thrown away, so that no reset overtakes the
        ERROR; a client that does not close is closed then."""
        peer = await harness.session("tcp")
        await peer.send(b"HELLO\n\n\0")
        await peer.send(b"x" * 100_000)
        await peer.frame("ERROR")
        await peer.at_end()
        assert harness.server.open_connections
        began = trio.current_time()
        await harness.server.wait_empty()
        assert trio.current_time() - began == pytest.approx(1.0, abs=0.01)

    async def test_one_that_never_reads_is_not_waited_for(self, harness: Harness, autojump_clock: MockClock) -> None:
        peer, pipe = await harness.stalled("tcp", room=3)
        await peer.send(b"HELLO\n\n\0")
        await harness.server.wait_empty()
        assert trio.current_time() == pytest.approx(10.0, abs=0.01)
        assert pipe.closed

    async def test_ended_when_it_has_ended_itself(self, harness: Harness, kind: str) -> None:
        """DISCONNECT comes in the moment of the shutdown: its RECEIPT is the last frame, and no ERROR."""
        pipe = ControlledPipe()
        peer = harness.connect_through(kind, pipe)
        await peer.connect()
        await wait_all_tasks_blocked()
        data = frame("DISCONNECT", receipt="bye")
        pipe.push(ws(TEXT, data) if kind == "websocket" else data)
        harness.connections[0].end(SessionEnded("server is shutting down"))
        assert (await peer.frame("RECEIPT"))["receipt-id"] == "bye"
        await peer.at_end()

    async def test_ended_while_the_authenticator_is_asked(self, make_harness: MakeHarness, kind: str) -> None:
        harness = make_harness(authenticator=Slow(1000.0))
        peer = harness.connect(kind)
        await peer.send(CONNECT)
        await wait_all_tasks_blocked()
        harness.connections[0].end(SessionEnded("server is shutting down", retry_after=2000))
        error = await peer.frame("ERROR")
        assert (error["message"], error["retry-after"]) == ("server is shutting down", "2000")
        await peer.at_end()
        if kind == "websocket":
            assert peer.websocket.closed == (1012, "server is shutting down")

    async def test_no_new_session_while_draining(self, harness: Harness) -> None:
        harness.server.draining = True
        peer = harness.connect("tcp")
        await peer.send(CONNECT)
        error = await peer.frame("ERROR")
        assert (error["message"], error["retry-after"]) == ("server is shutting down", "2000")
        await peer.at_end()

    async def test_cut_from_above(self) -> None:
        """Where the time of the drain is over, connections are cancelled; they leave nothing behind."""
        async with trio.open_nursery() as nursery:
            harness = Harness(nursery)
            peer = await harness.session("tcp")
            await peer.subscribe("/queue/a", ack="client")
            await peer.publish("/queue/a", b"x")
            await peer.frame("MESSAGE")
            nursery.cancel_scope.cancel()
        assert not harness.server.open_connections
        assert not harness.broker.sessions
        assert harness.broker.context.waiting == 1


End = Callable[[Harness, Peer, ControlledPipe], Awaitable[None]]


def waiting(harness: Harness, name: str) -> list[bytes]:
    queue = harness.broker.destinations.get(name)
    if queue is None:
        return []
    assert isinstance(queue, Queue)
    return [message.body for message in queue.in_memory.ready_lists[0].messages()]


async def closes(harness: Harness, peer: Peer, pipe: ControlledPipe) -> None:
    pipe.hang_up(broken=False)


async def breaks(harness: Harness, peer: Peer, pipe: ControlledPipe) -> None:
    pipe.hang_up()


async def falls_silent(harness: Harness, peer: Peer, pipe: ControlledPipe) -> None:
    await trio.sleep(3)
    await harness.counted()
    assert harness.counters.heartbeat_timeouts == 1


async def sends_nonsense(harness: Harness, peer: Peer, pipe: ControlledPipe) -> None:
    await peer.send(b"HELLO\n\n\0")


async def disconnects(harness: Harness, peer: Peer, pipe: ControlledPipe) -> None:
    await peer.send_frame("DISCONNECT")
    await peer.at_end()
    pipe.hang_up()


async def unsubscribes(harness: Harness, peer: Peer, pipe: ControlledPipe) -> None:
    await peer.send_frame("UNSUBSCRIBE", id=1)


async def is_sent_away(harness: Harness, peer: Peer, pipe: ControlledPipe) -> None:
    harness.connections[0].end(SessionEnded("session ended", "go home"))


async def is_drained(harness: Harness, peer: Peer, pipe: ControlledPipe) -> None:
    harness.server.draining = True
    harness.connections[0].end(SessionEnded("server is shutting down", retry_after=2000))
    await wait_all_tasks_blocked()
    pipe.hang_up()  # before it has read its ERROR


@parametrize("end", [closes, breaks, falls_silent, sends_nonsense, disconnects, unsubscribes, is_sent_away, is_drained])
async def test_a_consumer_ends_at_work(make_harness: MakeHarness, end: End, autojump_clock: MockClock) -> None:
    """It has acknowledged the first of four messages, and one attempt is allowed.

    Of a lost consumer the oldest message that it had is a dead letter, for it was probably at work on it.  Those that
    take their leave, or are sent away, say nothing of their messages.
    """
    harness, pipe = make_harness(policies={"#": {"max_attempts": 1}}), ControlledPipe()
    peer = harness.connect_through("tcp", pipe)
    await peer.connect(heart_beat="1000,0")
    await peer.subscribe("/queue/a", ack="client")
    await peer.send(b"".join(frame("SEND", b"%d" % number, destination="/queue/a") for number in range(4)))
    messages = [await peer.frame("MESSAGE") for _ in range(4)]
    await peer.send_frame("ACK", id=messages[0]["ack"])
    await peer.settled()
    await end(harness, peer, pipe)
    await wait_all_tasks_blocked()
    is_lost = end in (closes, breaks, falls_silent, sends_nonsense)
    assert waiting(harness, "/queue/dlq.a") == ([b"1"] if is_lost else [])
    assert waiting(harness, "/queue/a") == ([b"2", b"3"] if is_lost else [b"1", b"2", b"3"])
