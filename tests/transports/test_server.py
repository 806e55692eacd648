"""What connections share: turns, back-pressure, the deadline of handshakes, the wait for the end."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker import Quotas
from gateway.broker.core.arguments_check import ArgumentsNotice
from gateway.transports import TransportOptions
from gateway.transports.server import HeaderLogs

from .harness import Harness, MakeHarness
from .peers import Peer, Received, frame

QUOTAS = Quotas(max_outbound=64_000)  # high mark 48,000, window 8,000


class Outbox:
    """What stands in the broker's list of outboxes to flush."""

    def __init__(self, flushed: list[int], number: int) -> None:
        self._flushed = flushed
        self._number = number

    @property
    def carrier(self) -> Outbox:
        return self

    def flush(self) -> None:
        self._flushed.append(self._number)


class TestFlush:
    async def test_cancelled_in_between(self, harness: Harness) -> None:
        """What lies there belongs to others, who still wait for it."""
        flushed: list[int] = []
        harness.broker.dirty.extend(Outbox(flushed, number) for number in range(1000))  # type: ignore[misc]
        with trio.CancelScope() as scope:
            scope.cancel()
            await harness.server.flush()
        assert flushed == list(range(1000))


class TestSlowReceivers:
    """A publisher is held back while somebody it writes to is over the high mark, but not for ever."""

    async def fill(self, publisher: Peer, nbytes: int) -> None:
        for _ in range(nbytes // 8000 + 1):
            await publisher.publish("/topic/a", b"x" * 8000)

    async def test_not_longer_than_the_timeout(self, make_harness: MakeHarness, autojump_clock: MockClock) -> None:
        harness = make_harness(quotas=QUOTAS, options=TransportOptions(slow_consumer_timeout=2.0))
        publisher = await harness.session("tcp")
        receiver, _ = await harness.stalled("tcp", "/topic/a")
        began = trio.current_time()
        await self.fill(publisher, 50_000)
        await publisher.settled()
        assert trio.current_time() - began == pytest.approx(2.0, abs=0.1)
        # Waited for in vain once, it holds nobody back any more ...
        await self.fill(publisher, 1)
        await publisher.settled()
        assert trio.current_time() - began == pytest.approx(2.0, abs=0.1)
        assert harness.server.open_connections
        # ... and is closed when its outbox is full.
        await self.fill(publisher, 20_000)
        await publisher.settled()
        await wait_all_tasks_blocked()
        assert harness.counters.held_publishers == 1
        assert harness.counters.slow_consumers == 1
        assert len(harness.server.open_connections) == 1
        del receiver

    async def test_forgiven_when_it_has_read(self, make_harness: MakeHarness, autojump_clock: MockClock) -> None:
        harness = make_harness(quotas=QUOTAS, options=TransportOptions(slow_consumer_timeout=2.0))
        publisher = await harness.session("tcp")
        receiver, pipe = await harness.stalled("tcp", "/topic/a")
        await self.fill(publisher, 50_000)
        await publisher.settled()
        pipe.open()
        for _ in range(7):
            assert len((await receiver.frame("MESSAGE")).body) == 8000
        pipe.room = 0
        began = trio.current_time()
        await self.fill(publisher, 50_000)
        await publisher.settled()
        assert trio.current_time() - began == pytest.approx(2.0, abs=0.1)
        assert harness.counters.held_publishers == 2
        assert harness.counters.slow_consumers == 0

    async def test_a_subscriber_that_leaves_blocks_no_publisher(
        self, make_harness: MakeHarness, autojump_clock: MockClock
    ) -> None:
        harness = make_harness(quotas=QUOTAS)
        publisher = await harness.session("tcp")
        receiver, _ = await harness.stalled("tcp", "/topic/a")
        await self.fill(publisher, 50_000)
        await trio.sleep(1.0)
        await receiver.aclose()
        await publisher.settled()
        assert trio.current_time() == pytest.approx(1.0, abs=0.1)

    async def test_a_client_that_does_not_read_its_receipts_waits_for_itself(
        self, make_harness: MakeHarness, autojump_clock: MockClock
    ) -> None:
        """Receipts that nobody reads fill an outbox, too."""
        harness = make_harness(quotas=QUOTAS)
        peer, pipe = await harness.stalled("tcp")
        for number in range(60):
            await peer.send_frame("SEND", destination="/topic/nobody", receipt=f"{number:01000}")
        await wait_all_tasks_blocked()
        assert harness.counters.held_publishers == 1
        await trio.sleep(1.0)
        pipe.open()
        for number in range(60):
            assert int((await peer.frame("RECEIPT"))["receipt-id"]) == number
        assert trio.current_time() == pytest.approx(1.0, abs=0.1)

    async def test_a_subscriber_that_reads_blocks_no_publisher(self, make_harness: MakeHarness) -> None:
        """However much a chunk has for it: what filled its outbox has left it when the chunk ends."""
        harness = make_harness(quotas=QUOTAS)
        publisher = await harness.session("tcp")
        receiver, pipe = await harness.stalled("tcp", "/topic/a")
        pipe.open()
        await publisher.send(frame("SEND", b"x" * 1000, destination="/topic/a") * 60)
        for _ in range(60):
            await receiver.frame("MESSAGE")
        assert harness.counters.held_publishers == 0


class TestMemory:
    """Kept messages over 3/4 of the memory limit hold publishers back; nothing is dropped."""

    QUOTAS = Quotas(memory_limit=1_000_000, max_outbound=10_000_000)

    async def test_a_client_with_unacknowledged_messages_is_read(
        self, make_harness: MakeHarness, autojump_clock: MockClock
    ) -> None:
        """Its ACKs are what makes room."""
        harness = make_harness(quotas=self.QUOTAS)
        consumer = await harness.session("tcp")
        await consumer.subscribe("/queue/a", ack="client")
        publisher = await harness.session("tcp")
        for _ in range(80):
            await publisher.publish("/queue/a", b"x" * 10_000)
        await wait_all_tasks_blocked()
        assert harness.broker.memory.pressed
        messages = await self.read_until_settled(consumer)
        await consumer.send_frame("ACK", id=messages[-1]["ack"])
        await self.read_until_settled(consumer)
        assert not harness.broker.memory.pressed
        await publisher.settled()

    @staticmethod
    async def read_until_settled(consumer: Peer) -> list[Received]:
        """All messages that come before what was sent so far has been handled: on a busy machine some come late."""
        await consumer.send_frame("SEND", destination="/topic/nobody", receipt="settled")
        messages: list[Received] = []
        while (received := await consumer.receive()) is not None and received.command == "MESSAGE":
            messages.append(received)
        assert received is not None
        assert received.command == "RECEIPT"
        return messages

    async def test_a_blocked_client_that_gets_messages_is_read_again(
        self, make_harness: MakeHarness, autojump_clock: MockClock
    ) -> None:
        """It stood by, and published; then the consumer in front of it went, and nobody else is there to make room."""
        harness = make_harness(quotas=self.QUOTAS)
        active, standby = await harness.session("tcp"), await harness.session("tcp")
        await active.subscribe("/queue/a", ack="client-individual", exclusive="true")
        await standby.subscribe("/queue/a", ack="client-individual", exclusive="true")
        publisher = await harness.session("tcp")
        for _ in range(80):
            await publisher.publish("/queue/a", b"x" * 10_000)
        await wait_all_tasks_blocked()
        await standby.publish("/queue/b", b"x" * 10_000)
        await wait_all_tasks_blocked()
        assert harness.counters.held_publishers == 2
        await active.aclose()
        for _ in range(80):
            await standby.send_frame("ACK", id=(await standby.frame("MESSAGE"))["ack"])
        await standby.settled()
        await publisher.settled()


def notice(queue: str = "/queue/a", *, login: str = "ada", in_force: bool = True) -> ArgumentsNotice:
    return ArgumentsNotice(queue, {"time_to_live": 0.5}, "s1", login, in_force)


def lines_of(log: HeaderLogs, *notices: ArgumentsNotice) -> list[Any]:
    with structlog.testing.capture_logs() as logs:
        for each in notices:
            log.tell_arguments(each)
    return logs


async def test_arguments_in_force_and_too_late() -> None:
    log = HeaderLogs()
    in_force, too_late = lines_of(log, notice(), notice(in_force=False))
    event = "queue arguments of a client are in force, for everybody"
    assert (in_force["event"], in_force["log_level"]) == (event, "info")
    assert (in_force["queue"], in_force["values"]) == ("/queue/a", {"time_to_live": 0.5})
    assert (in_force["session"], in_force["login"]) == ("s1", "ada")
    assert (too_late["event"], too_late["log_level"]) == ("queue arguments of a client are not heard", "warning")
    assert "[[policy]]" in too_late["hint"]
    assert len(lines_of(log, notice(), notice(login="bob"), notice("/queue/b"), notice("/queue/b"))) == 2


async def test_a_flood_of_arguments(autojump_clock: MockClock) -> None:
    log = HeaderLogs()
    assert len(lines_of(log, *(notice(f"/queue/{number}") for number in range(100)))) == 20
    await trio.sleep(60)
    assert [line["untold"] for line in lines_of(log, notice("/queue/b"), notice("/queue/c"))] == [80, 0]


async def test_misspelt_headers_once_for_each_header_and_user(harness: Harness) -> None:
    with structlog.testing.capture_logs() as logs:
        peer = await harness.session("tcp")
        for id, header in enumerate(["prefetch", "Selector", "prefetch"]):
            await peer.subscribe("/queue/a", id=str(id), **{header: "a"})
    lines = [line for line in logs if line["event"] == "a header of SUBSCRIBE has no effect"]
    assert [line["header"] for line in lines] == ["prefetch", "Selector"]
    assert (lines[0]["log_level"], lines[0]["login"], lines[0]["untold"]) == ("warning", "anonymous", 0)
    assert lines[0]["hint"] == "it is not known; did you mean prefetch-count?"
