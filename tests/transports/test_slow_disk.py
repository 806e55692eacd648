"""Sessions with a store: when a RECEIPT comes, and which publishers a slow or full disk blocks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest
import trio
import trio.testing

from gateway.auth.authenticator import Anonymous
from gateway.broker.core.storage import Storage
from gateway.broker.core.work_limits import WorkLimits
from gateway.stores import writer
from gateway.transports import Server

from ..stores.disk import Disk, until
from .harness import Harness
from .peers import Peer

P = {"persistent": "true"}
DURABLE, PLAIN = P, dict[str, str]()
MANY = 100


class StoredHarness(Harness):
    """A harness with a store."""

    def __post_init__(self) -> None:
        self.disk = Disk()
        self.server = Server(
            self.authenticator, self.quotas, self.options, store=self.disk, work_limits=self.work_limits
        )
        self.nursery.start_soon(self.server.run)


UNWRITTEN = 20 * 1_500


@pytest.fixture
def work_limits() -> WorkLimits:
    """Twenty messages may wait to be written."""
    return WorkLimits(unwritten_bytes=UNWRITTEN)


# Hardly anything fits into memory: what comes goes into the backlog, durable or not.
spilling = pytest.mark.parametrize(
    "work_limits", [WorkLimits(unwritten_bytes=UNWRITTEN, in_memory_bytes=2_000)], ids=["spilling"]
)


@pytest.fixture
async def harness(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, work_limits: WorkLimits
) -> AsyncIterator[StoredHarness]:
    monkeypatch.setattr(writer, "LOOK_EVERY", 0.001)
    monkeypatch.setattr(writer, "RETRY_AFTER", 0.001)
    made = StoredHarness(nursery, authenticator=Anonymous(), work_limits=work_limits)
    yield made
    made.disk.let_go()
    made.close()


def storage_of(harness: StoredHarness) -> Storage:
    storage = harness.broker.storage
    assert storage is not None
    return storage


def reasons(harness: StoredHarness) -> list[str]:
    """Why publishers are held."""
    return [hold.reason for hold in harness.server.back_pressure.blocked.by_session().values()]


async def publish(harness: StoredHarness, peer: Peer, destination: str, headers: Mapping[str, str]) -> None:
    """More than may wait; the last one has a receipt."""
    for number in range(MANY):
        asks = {"receipt": "last"} if number == MANY - 1 else {}
        await peer.send_frame("SEND", b"x" * 1_000, destination=destination, **headers, **asks)


def frames(harness: StoredHarness, number: int = 0) -> int:
    """How many frames of a connection were carried out."""
    return harness.session_at(number).frames_in


async def receipt(peer: Peer) -> str:
    return (await peer.frame("RECEIPT"))["receipt-id"]


class TestSlow:
    @spilling
    @pytest.mark.parametrize("headers", [DURABLE, PLAIN], ids=["durable", "plain"])
    async def test_a_publisher_that_fills_the_backlog_is_blocked(
        self, harness: StoredHarness, headers: dict[str, str], nursery: trio.Nursery
    ) -> None:
        publisher = await harness.session("tcp")
        harness.disk.hold()
        nursery.start_soon(publish, harness, publisher, "/queue/a", headers)
        await until(lambda: reasons(harness) == ["disk slow"])
        assert 10 < frames(harness) < 50
        assert storage_of(harness).nbytes < 2 * UNWRITTEN
        harness.disk.let_go()
        assert await receipt(publisher) == "last"
        await until(lambda: not reasons(harness))
        assert harness.broker.context.waiting == MANY

    @pytest.mark.parametrize("destination", ["/queue/b", "/topic/b"])
    async def test_a_publisher_that_stores_nothing_is_not_blocked(
        self, harness: StoredHarness, destination: str, nursery: trio.Nursery
    ) -> None:
        """Whether what it sends waits in memory or is gone."""
        publisher, other = await harness.session("tcp"), await harness.session("tcp")
        harness.disk.hold()
        nursery.start_soon(publish, harness, publisher, "/queue/a", DURABLE)
        await until(lambda: reasons(harness) == ["disk slow"])
        await publish(harness, other, destination, PLAIN)
        assert await receipt(other) == "last"
        assert len(reasons(harness)) == 1
        assert harness.counters.held_publishers == 1


async def fill(harness: StoredHarness) -> None:
    """Leave little room on the disk."""
    harness.disk.little = "100 octets are free on the disk of /var/lib/store.db"
    await until(lambda: storage_of(harness).is_short)


class TestNearlyFull:
    @spilling
    async def test_a_publisher_that_fills_the_backlog_is_blocked(
        self, harness: StoredHarness, nursery: trio.Nursery
    ) -> None:
        """Durable messages are refused; but these would fill the disk as well."""
        publisher = await harness.session("tcp")
        await fill(harness)
        nursery.start_soon(publish, harness, publisher, "/queue/a", PLAIN)
        await until(lambda: reasons(harness) == ["disk full"])
        assert frames(harness) < 10
        harness.disk.little = ""
        assert await receipt(publisher) == "last"
