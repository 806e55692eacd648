"""What a slow client's own connection does; for those who publish to it see `test_server`."""

from __future__ import annotations

import pytest
import structlog.testing
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker import Quotas

from .harness import Harness, MakeHarness
from .peers import frame

requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize


class TestBackPressure:
    """See also `test_server`: here, what a slow client's own connection does."""

    @requirement("XTR-05", "FRM-09")
    async def test_all_comes_in_order(self, harness: Harness, kind: str) -> None:
        """Through a socket that takes a few bytes at a time."""
        peer, pipe = await harness.stalled(kind, "/topic/a")
        publisher = await harness.session(kind)
        sizes = [0, 1, 100, 40_000, 5, 33_000, 70_000, 2]
        for size in sizes:
            await publisher.publish("/topic/a", b"x" * size)

        async def trickle() -> None:
            while True:
                pipe.open(777)
                await wait_all_tasks_blocked()

        harness.nursery.start_soon(trickle)
        assert [len((await peer.frame("MESSAGE")).body) for _ in sizes] == sizes

    async def test_slow_consumer_is_cut_at_once(self, make_harness: MakeHarness, autojump_clock: MockClock) -> None:
        """Its buffer is full; an ERROR behind megabytes that it does not read would not arrive either."""
        harness = make_harness(quotas=Quotas(max_outbound=64_000))
        _, pipe = await harness.stalled("tcp", "/topic/a")
        publisher = await harness.session("tcp")
        with structlog.testing.capture_logs() as logs:
            for _ in range(20):
                await publisher.publish("/topic/a", b"x" * 8000)
                await publisher.settled()
        await wait_all_tasks_blocked()
        assert pipe.closed
        assert len(harness.broker.sessions) == 1
        assert any(entry.get("reason") == "slow consumer" for entry in logs)
        assert trio.current_time() == pytest.approx(2.0, abs=0.1)

    async def test_a_long_turn_lets_others_have_theirs(self, harness: Harness) -> None:
        """A chunk of very many deliveries is settled in between, not at its end alone."""
        receivers = [await harness.session("tcp") for _ in range(50)]
        for receiver in receivers:
            await receiver.subscribe("/topic/a")
        peer = await harness.session("tcp")
        await peer.send(frame("SEND", b"x", destination="/topic/a") * 500)
        seen: set[int] = set()
        while harness.counters.delivered < 25_000:
            seen.add(harness.counters.delivered)
            await trio.lowlevel.checkpoint()
        assert len(seen - {0}) >= 2
