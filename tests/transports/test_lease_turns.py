"""The lease of a primary: whatever could deliver a stored message looks at it first."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.auth.authenticator import Anonymous
from gateway.transports import Server

from ..stores.disk import Disk, until
from .harness import Harness

QUEUE = "/queue/a"


class ALease:
    """A lease that the test takes away, as a stop of the process does."""

    def __init__(self) -> None:
        self.holds = True


class LeasedHarness(Harness):
    """The harness of a primary."""

    def __post_init__(self) -> None:
        self.disk, self.lease = Disk(), ALease()
        self.server = Server(self.authenticator, self.quotas, self.options, store=self.disk)
        self.server.lease = self.lease
        self.nursery.start_soon(self.server.run)

    @property
    def is_suspended(self) -> bool:
        assert self.broker.storage is not None
        return self.broker.storage.is_suspended


@pytest.fixture
async def harness(nursery: trio.Nursery) -> AsyncIterator[LeasedHarness]:
    made = LeasedHarness(nursery, authenticator=Anonymous())
    yield made
    made.disk.let_go()
    made.close()


async def test_a_commit_that_is_stored_while_the_lease_ends_is_not_delivered(harness: LeasedHarness) -> None:
    consumer, publisher = harness.connect("tcp"), harness.connect("tcp")
    for peer in (consumer, publisher):
        await peer.connect()
    await consumer.send_frame("SUBSCRIBE", id="s", destination=QUEUE, receipt="subscribed")
    await consumer.frame("RECEIPT")
    await publisher.send_frame("BEGIN", transaction="t")
    await publisher.send_frame("SEND", b"m", destination=QUEUE, persistent="true", transaction="t")
    harness.disk.hold()
    await publisher.send_frame("COMMIT", transaction="t", receipt="committed")
    await until(lambda: harness.disk.busy)
    harness.lease.holds = False
    harness.disk.let_go()
    assert (await publisher.frame("RECEIPT"))["receipt-id"] == "committed"
    await wait_all_tasks_blocked()
    assert harness.is_suspended
    assert not harness.counters.delivered
    harness.lease.holds = True
    assert (await consumer.frame("MESSAGE")).body == b"m"


class Bell:
    """A timer that notes if stored messages were held back when it rang."""

    def __init__(self, harness: LeasedHarness) -> None:
        self.rung: list[bool] = []
        self._harness = harness

    def tick(self, now: float) -> float:
        self.rung.append(self._harness.is_suspended)
        self._harness.lease.holds = False
        return now if len(self.rung) < 2 else float("inf")


async def test_a_timer_that_is_due_after_a_stop(harness: LeasedHarness) -> None:
    bell = Bell(harness)
    harness.server.timers.add(bell, trio.current_time())
    await until(lambda: len(bell.rung) == 2)
    assert bell.rung == [False, True]
