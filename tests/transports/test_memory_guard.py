"""Memory: who waits when it is short, who goes when there is none, and what is believed of what the system says."""

from __future__ import annotations

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker import Quotas
from gateway.transports import TransportOptions

from .harness import Harness, MakeHarness
from .peers import Peer, frame
from .pipes import ControlledPipe

LIMIT = 1_000_000
MARK = 4_000_000
HIGH = MARK * 3 // 4
QUOTAS = Quotas(memory_limit=LIMIT, max_outbound=20_000_000, max_transaction_bytes=900_000)
KEPT = 600_000  # more than an eighth of the mark, less than 3/4 of the limit
PATIENT = TransportOptions(slow_consumer_timeout=600.0, close_linger=1.0, websocket_ping=0.0)
CLOSED = "a client is closed to make room in memory"


class Process:
    """What a process takes, as the test says."""

    def __init__(self, nbytes: int = 0) -> None:
        self.resident = nbytes
        self.garbage = 0  # bytes of them that `trim` gives back
        self.trims = 0

    def read(self) -> int:
        return self.resident

    def trim(self) -> None:
        self.trims += 1
        self.resident -= self.garbage
        self.garbage = 0


def watched(harness: Harness, nbytes: int = 0) -> Process:
    """Have a harness look at a process."""
    process = Process(nbytes)
    harness.server.memory_guard.watch(MARK, "memory_mark", process.read, process.trim)
    return process


@pytest.fixture
def home(make_harness: MakeHarness) -> Harness:
    return make_harness(quotas=QUOTAS, options=PATIENT)


async def filled(harness: Harness, nbytes: int = KEPT) -> None:
    """Messages wait in a queue, of somebody who has gone."""
    peer = await harness.session("tcp")
    while harness.broker.memory.used < nbytes:
        await peer.publish("/queue/full", b"x" * 10_000)
        await peer.settled()
    await peer.aclose()
    await wait_all_tasks_blocked()


async def consumes(peer: Peer, **headers: object) -> None:
    """Consume what waits."""
    await peer.send_frame("SUBSCRIBE", id="full", destination="/queue/full", **headers)
    await wait_all_tasks_blocked()


async def is_held(harness: Harness, peer: Peer) -> bool:
    """Whether a client that sends something to be kept has to wait behind it."""
    await peer.publish("/queue/other", b"x")
    await wait_all_tasks_blocked()
    return bool(len(harness.server.back_pressure.blocked))


async def begins(peer: Peer, size: int, sent: int, **headers: object) -> bytes:
    """Send the beginning of a large message; returns the rest of it."""
    data = frame("SEND", b"x" * size, destination="/topic/large", content_length=size, **headers)
    for start in range(0, sent, 50_000):
        await peer.send(data[start : min(start + 50_000, sent)])
    await wait_all_tasks_blocked()
    return data[sent:]


class TestShort:
    async def test_publishers_wait(self, home: Harness, kind: str, autojump_clock: MockClock) -> None:
        process = watched(home, HIGH)
        await filled(home)
        peer = await home.session(kind)
        await trio.sleep(1)
        assert home.broker.memory.pressed
        assert await is_held(home, peer)
        assert home.server.back_pressure.blocked.by_reason()["memory short"] == 1
        assert not home.server.memory_guard.reason, "whoever makes room may come"
        process.resident = HIGH - MARK // 16
        await trio.sleep(1)
        assert await is_held(home, peer), "a little less is no relief"
        process.resident -= 1
        await trio.sleep(1)
        await peer.settled()
        assert not len(home.server.back_pressure.blocked)

    async def test_the_largest_unread_outbox_goes(self, make_harness: MakeHarness, autojump_clock: MockClock) -> None:
        """Else publishers would wait for what will never be read."""
        home = make_harness(quotas=QUOTAS, options=TransportOptions(slow_consumer_timeout=1.0))
        process = watched(home)
        publisher = await home.session("tcp")
        pipes = [ControlledPipe() for _ in range(3)]
        for number, pipe in enumerate(pipes):
            reader = home.connect_through("tcp", pipe)
            await reader.connect()
            await reader.subscribe(f"/topic/{number}")
            pipe.room = 0
            for _ in range(30 + number):
                await publisher.publish(f"/topic/{number}", b"x" * 10_000)
        await publisher.settled()
        process.resident = HIGH
        await trio.sleep(3)
        assert home.broker.memory.pressed
        assert home.server.memory_guard.closed == 0
        await trio.sleep(3)
        assert home.server.memory_guard.closed == 1
        await trio.sleep(1)
        assert [pipe.closed for pipe in pipes] == [False, False, True]

    async def test_but_slowed_down_at_the_end(self, home: Harness, autojump_clock: MockClock) -> None:
        """Else all of them would be refused before those who cost most have gone."""
        process = watched(home, MARK - MARK // 16)
        await filled(home)
        worker = await home.session("tcp")
        await consumes(worker, ack="client")
        await trio.sleep(1)
        assert await is_held(home, worker)
        await trio.sleep(1.1)
        assert not len(home.server.back_pressure.blocked)
        process.resident -= 1
        await trio.sleep(0.5)
        assert not await is_held(home, worker)

    async def test_memory_that_no_client_has_blocks_no_publisher(
        self, home: Harness, autojump_clock: MockClock
    ) -> None:
        watched(home, HIGH)
        await trio.sleep(1)
        assert not await is_held(home, await home.session("tcp"))


class TestGivenBack:
    async def test_what_was_freed(self, home: Harness, autojump_clock: MockClock) -> None:
        process = watched(home, HIGH)
        await filled(home)
        await trio.sleep(1)
        process.garbage = MARK // 2
        before = process.trims
        consumer = await home.session("tcp")
        await consumes(consumer)
        await trio.sleep(1)
        assert process.trims == before + 1
        assert home.server.memory_guard.resident == HIGH - MARK // 2


class TestMark:
    async def large(self, harness: Harness, kind: str, nbytes: int, name: str = "t") -> Peer:
        """A client with an open transaction."""
        peer = await harness.session(kind)
        await peer.send_frame("BEGIN", transaction=name)
        for _ in range(nbytes // 10_000):
            await peer.send_frame("SEND", b"x" * 10_000, destination="/queue/a", transaction=name)
        await peer.settled()
        return peer

    async def test_the_session_that_costs_most_goes(self, home: Harness, autojump_clock: MockClock) -> None:
        process = watched(home)
        small, large = await self.large(home, "tcp", 200_000), await self.large(home, "tcp", 400_000)
        process.resident = MARK + 1000
        with structlog.testing.capture_logs() as logs:
            await trio.sleep(0.6)
        assert (
            home.server.memory_guard.reason
            == f"the process takes {MARK + 1000:,} bytes of memory, {MARK:,} may (memory_mark)"
        )
        error = await large.at_end_after_error()
        assert error["message"] == "memory is full"
        assert b"(memory_mark)" in error.body
        assert b"bytes in open transactions" in error.body
        (line,) = [line for line in logs if line["event"] == CLOSED]
        assert (line["log_level"], line["peer"]) == ("warning", "test")
        process.resident = HIGH - MARK // 8
        await trio.sleep(0.6)
        assert not home.server.memory_guard.reason
        await small.settled()
        assert home.server.memory_guard.closed == 1

    async def test_not_where_it_would_not_help(self, home: Harness, autojump_clock: MockClock) -> None:
        process = watched(home)
        peer = await self.large(home, "tcp", 200_000)
        process.resident = 2 * MARK
        with structlog.testing.capture_logs() as logs:
            await trio.sleep(9)
        assert home.server.memory_guard.closed == 0
        assert [line["event"] for line in logs] == ["memory is full, and closing clients would not help"]
        assert home.server.memory_guard.reason, "nobody new should come, all the same"
        await peer.publish("/queue/b", b"x")
        await peer.settled()

    async def test_the_next_only_if_that_does_not_help(self, home: Harness, autojump_clock: MockClock) -> None:
        process = watched(home)
        for _ in range(3):
            await self.large(home, "tcp", 200_000)
        process.resident = MARK
        await trio.sleep(1.2)
        assert home.server.memory_guard.closed == 1, "it takes a moment to have an effect"
        await trio.sleep(5)
        assert home.server.memory_guard.closed == 1, "what is left is not enough to be worth it"


class TestLimit:
    """The same at `memory_limit`, which nobody has to measure."""

    @pytest.mark.parametrize(("consumers", "prefetch", "closed"), [(8, 8, 0), (1, 1000, 1)])
    async def test_consumers_are_spared_but_for_one_of_a_quarter_of_all_memory(
        self, home: Harness, consumers: int, prefetch: int, closed: int, autojump_clock: MockClock
    ) -> None:
        """They alone make room, and what they have would only go back."""
        await filled(home, 700_000)
        workers = [await home.session("tcp") for _ in range(consumers)]
        for worker in workers:
            await consumes(worker, ack="client", prefetch_count=prefetch)
        peer = await home.session("tcp")  # must be read, and sends until it is refused
        await peer.send_frame("BEGIN", transaction="t")
        errors = home.counters.totals()["errors"]
        while home.counters.totals()["errors"] == errors:
            await peer.publish("/queue/c", b"x" * 10_000)
            await trio.sleep(1.1)  # at the end it is slowed down
        await trio.sleep(5)
        assert home.server.memory_guard.closed == closed


class TestIncomplete:
    async def test_a_large_one_waits_in_the_middle(self, home: Harness, autojump_clock: MockClock) -> None:
        await filled(home, 700_000)
        peer, other = await home.session("tcp"), await home.session("tcp")
        rest = await begins(peer, 400_000, 150_000, receipt="r")
        assert home.broker.memory.pressed
        assert home.server.back_pressure.blocked.by_reason()["memory short"] == 1
        await other.settled()
        consumer = await home.session("tcp")
        await consumes(consumer)
        await peer.send(rest)
        await peer.frame("RECEIPT")

    async def test_when_nothing_moves_the_largest_goes(self, home: Harness, autojump_clock: MockClock) -> None:
        """All wait in the middle of their message: no memory will ever come back by itself."""
        peers = [await home.session("tcp") for _ in range(4)]
        rests = [await begins(peer, 240_000, 195_000, receipt="r") for peer in peers]
        assert home.broker.memory.pressed
        await trio.sleep(4)
        assert home.server.memory_guard.closed == 0
        await trio.sleep(2)
        assert home.server.memory_guard.closed == 1
        answers = []
        for peer, rest in zip(peers, rests, strict=True):
            home.nursery.start_soon(self.send_on, peer, rest)
            received = await peer.receive()
            assert received is not None
            answers.append(received.command)
        assert sorted(answers) == ["ERROR", "RECEIPT", "RECEIPT", "RECEIPT"]

    async def send_on(self, peer: Peer, data: bytes) -> None:
        with trio.move_on_after(20):
            try:
                await peer.send(data)
            except trio.BrokenResourceError:
                return
