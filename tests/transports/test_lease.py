"""A primary whose lease was not renewed delivers nothing that is stored: all that could deliver looks first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import pytest
import structlog
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.auth.authenticator import Anonymous
from gateway.broker.core.storage import Storage
from gateway.cluster.lease import Lease
from gateway.transports import Server

from ..stores.disk import Disk, until
from .harness import Harness

P = {"persistent": "true"}
HELD_BACK = "stored messages are held back: the lease of the cluster could not be renewed"


class SwitchedLease:
    """A lease that holds as the test says."""

    def __init__(self) -> None:
        self.holds = True
        self.is_overdue = False


class LeasedHarness(Harness):
    """A harness of a primary, with a store and a lease."""

    def __post_init__(self) -> None:
        self.disk, self.lease = Disk(), SwitchedLease()
        self.server = Server(self.authenticator, self.quotas, self.options, store=self.disk)
        self.server.lease = cast(Lease, self.lease)
        self.nursery.start_soon(self.server.run)

    @property
    def storage(self) -> Storage:
        assert self.broker.storage is not None
        return self.broker.storage


@pytest.fixture
async def harness(nursery: trio.Nursery) -> AsyncIterator[LeasedHarness]:
    made = LeasedHarness(nursery, authenticator=Anonymous())
    yield made
    made.disk.let_go()
    made.close()


async def test_a_consumer_gets_what_is_stored_when_the_lease_is_renewed(harness: LeasedHarness, kind: str) -> None:
    publisher, consumer = await harness.session(kind), await harness.session(kind)
    await publisher.send_frame("SEND", b"m", destination="/queue/a", receipt="1", **P)
    assert (await publisher.frame("RECEIPT"))["receipt-id"] == "1"
    harness.lease.holds = False
    # The turn of this very frame looks at the lease: no timer has to come first.
    await consumer.subscribe("/queue/a")
    await consumer.publish("/topic/a")
    await consumer.settled()  # no MESSAGE comes before the RECEIPT
    assert harness.storage.is_suspended
    harness.lease.holds = True
    assert (await consumer.frame("MESSAGE")).body == b"m"
    assert not harness.storage.is_suspended


async def test_durable_messages_wait_for_an_election_and_others_do_not(harness: LeasedHarness) -> None:
    harness.lease.holds = False
    publisher, consumer = await harness.session("tcp"), await harness.session("tcp")
    await consumer.subscribe("/queue/a")
    await consumer.subscribe("/topic/plain", id="2")
    await publisher.send_frame("SEND", b"1", destination="/queue/a", receipt="1", **P)
    assert (await publisher.frame("RECEIPT"))["receipt-id"] == "1"  # the store has it: only the lease is in doubt
    await publisher.send_frame("SEND", b"2", destination="/queue/a", receipt="2", **P)
    other = await harness.session("tcp")
    await other.publish("/topic/plain", b"plain")
    assert (await consumer.frame("MESSAGE")).body == b"plain"
    assert len(harness.disk.calls) == 1  # the second one is not even read
    harness.lease.holds = True
    assert (await publisher.frame("RECEIPT"))["receipt-id"] == "2"
    assert [(await consumer.frame("MESSAGE")).body for _ in range(2)] == [b"1", b"2"]


async def test_publishers_are_told_where_it_takes_long(harness: LeasedHarness) -> None:
    harness.lease.holds = False
    publisher = await harness.session("tcp")
    for receipt in ("1", "2"):
        await publisher.send_frame("SEND", b"m", destination="/queue/a", receipt=receipt, **P)
    assert (await publisher.frame("RECEIPT"))["receipt-id"] == "1"
    harness.lease.is_overdue = True
    assert (await publisher.frame("ERROR"))["retry-after"] == "5000"


async def test_durable_messages_are_refused_and_others_are_not(harness: LeasedHarness, kind: str) -> None:
    harness.lease.holds, harness.lease.is_overdue = False, True
    publisher, consumer = await harness.session(kind), await harness.session(kind)
    await consumer.subscribe("/queue/plain")
    await consumer.settled()
    await publisher.send_frame("SEND", b"plain", destination="/queue/plain")
    assert (await consumer.frame("MESSAGE")).body == b"plain"
    await publisher.send_frame("SEND", b"m", destination="/queue/a", **P)
    error = await publisher.frame("ERROR")
    assert b"another node may become primary" in error.body


async def test_says_once_that_messages_are_held_back(harness: LeasedHarness) -> None:
    with structlog.testing.capture_logs() as logs:
        for _ in range(2):
            harness.lease.holds = False
            for _ in range(3):
                harness.server.look_at_lease()
            harness.lease.holds = True
            harness.server.look_at_lease()
    assert [each["event"] for each in logs] == [HELD_BACK] * 2


async def test_a_lease_is_looked_at_where_nothing_happens(harness: LeasedHarness) -> None:
    harness.lease.holds = False
    await until(lambda: harness.storage.is_suspended)
    harness.lease.holds = True
    await until(lambda: not harness.storage.is_suspended)


async def test_a_commit_that_is_stored_while_the_lease_ends_is_not_delivered(harness: LeasedHarness) -> None:
    consumer, publisher = harness.connect("tcp"), harness.connect("tcp")
    for peer in (consumer, publisher):
        await peer.connect()
    await consumer.send_frame("SUBSCRIBE", id="s", destination="/queue/a", receipt="subscribed")
    await consumer.frame("RECEIPT")
    await publisher.send_frame("BEGIN", transaction="t")
    await publisher.send_frame("SEND", b"m", destination="/queue/a", persistent="true", transaction="t")
    harness.disk.hold()
    await publisher.send_frame("COMMIT", transaction="t", receipt="committed")
    await until(lambda: harness.disk.busy)
    harness.lease.holds = False
    harness.disk.let_go()
    assert (await publisher.frame("RECEIPT"))["receipt-id"] == "committed"
    await wait_all_tasks_blocked()
    assert harness.storage.is_suspended
    assert not harness.counters.delivered
    harness.lease.holds = True
    assert (await consumer.frame("MESSAGE")).body == b"m"


class Bell:
    """A timer that notes if stored messages were held back when it rang."""

    def __init__(self, harness: LeasedHarness) -> None:
        self.rung: list[bool] = []
        self._harness = harness

    def tick(self, now: float) -> float:
        self.rung.append(self._harness.storage.is_suspended)
        self._harness.lease.holds = False
        return now if len(self.rung) < 2 else float("inf")


async def test_a_timer_that_is_due_after_a_stop(harness: LeasedHarness) -> None:
    bell = Bell(harness)
    harness.server.timers.add(bell, trio.current_time())
    await until(lambda: len(bell.rung) == 2)
    assert bell.rung == [False, True]


async def test_clients_of_a_handover_come_back_soon(harness: LeasedHarness) -> None:
    error = harness.server.shutting_down()
    assert (error.retry_after, error.detail) == (500, "connect again in 500 ms")
