"""Connections that end without a word: what their clients were at work on has failed, as after a NACK.

The message a client was probably at work on is the oldest that it did not acknowledge, in each of its subscriptions.
With one attempt allowed, a failure shows at once: the message is in the dead-letter queue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker.errors import SessionEnded
from gateway.broker.queue.queue import Queue

from .harness import Harness, MakeHarness
from .peers import Peer, frame
from .pipes import ControlledPipe

parametrize = pytest.mark.parametrize
End = Callable[[Harness, Peer, ControlledPipe], Awaitable[None]]

ONE_ATTEMPT = {"#": {"max_attempts": 1}}


@pytest.fixture
async def harness(make_harness: MakeHarness) -> Harness:
    """Where the first failure is the last."""
    return make_harness(policies=ONE_ATTEMPT)


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


LOST = [closes, breaks, falls_silent, sends_nonsense]
KEPT = [disconnects, unsubscribes, is_sent_away, is_drained]


class TestConsumer:
    """It has acknowledged the first of four messages when it ends."""

    async def at_work(self, harness: Harness, kind: str, pipe: ControlledPipe, ack: str = "client") -> Peer:
        peer = harness.connect_through(kind, pipe)
        await peer.connect(heart_beat="1000,0")
        await peer.subscribe("/queue/a", ack=ack)
        await peer.send(b"".join(frame("SEND", b"%d" % number, destination="/queue/a") for number in range(4)))
        messages = [await peer.frame("MESSAGE") for _ in range(4)]
        await peer.send_frame("ACK", id=messages[0]["ack"])
        await peer.settled()
        return peer

    @parametrize("end", LOST)
    @parametrize("ack", ["client", "client-individual"])
    async def test_lost(self, harness: Harness, ack: str, end: End, autojump_clock: MockClock) -> None:
        """The oldest has failed, the others come back as they are."""
        pipe = ControlledPipe()
        await end(harness, await self.at_work(harness, "tcp", pipe, ack), pipe)
        await wait_all_tasks_blocked()
        assert waiting(harness, "/queue/dlq.a") == [b"1"]
        assert waiting(harness, "/queue/a") == [b"2", b"3"]
        other = await harness.session("tcp")
        (letter,) = await other.subscribe_and_read("/queue/dlq.a", 1)
        assert (letter["dlq-reason"], letter["dlq-source"], letter["dlq-attempts"]) == ("max-attempts", "/queue/a", "1")

    @parametrize("end", KEPT)
    async def test_it_took_its_leave(self, harness: Harness, end: End, autojump_clock: MockClock) -> None:
        """DISCONNECT, UNSUBSCRIBE, an operator and a drain say nothing of the messages."""
        pipe = ControlledPipe()
        peer = await self.at_work(harness, "tcp", pipe)
        await end(harness, peer, pipe)
        await wait_all_tasks_blocked()
        assert waiting(harness, "/queue/dlq.a") == []
        assert waiting(harness, "/queue/a") == [b"1", b"2", b"3"]
