"""How fast clients may send: what is read, what waits, and what its waiting does to nobody else."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.transports import TransportOptions
from gateway.transports.flow.rate_limits import BYTES, FRAMES, LIMITS, RateLimit, RateLimits
from gateway.transports.wire.forwarded import Trusted

from .harness import MakeHarness
from .peers import PING, TEXT, frame, ws


def limit_of(frames: int, nbytes: int, now: float) -> RateLimit:
    """That of a session whose own limits these are."""
    options = TransportOptions(max_frames_per_second=frames, max_bytes_per_second=nbytes)
    pace = RateLimits(options).of_session("alice", "10.0.0.1", now)
    assert pace is not None
    return pace


def with_limits(**limits: int) -> TransportOptions:
    """With limits of those names, without their beginnings."""
    settings: dict[str, Any] = {f"max_{name}": rate for name, rate in limits.items()}
    return TransportOptions(**settings)


def rates(**limits: int) -> RateLimits:
    return RateLimits(with_limits(**limits))


class TestRateLimit:
    @pytest.mark.parametrize(("frames", "nbytes", "reason"), [(10, 0, FRAMES), (0, 1000, BYTES), (10, 1000, BYTES)])
    def test_a_debt_is_waited_for(self, frames: int, nbytes: int, reason: str) -> None:
        pace = limit_of(frames, nbytes, 5.0)
        assert pace.is_over(30, 4000, 5.0)
        assert pace.until - 5.0 == pytest.approx(3.0 if reason == BYTES else 2.0)
        assert pace.reason == reason

    def test_a_second_at_once_and_more_as_time_goes_by(self) -> None:
        pace = limit_of(100, 0, 0.0)
        assert not pace.is_over(100, 10**9, 0.0)
        assert not pace.is_over(150, 0, 0.5)
        assert not pace.is_over(250, 0, 1000.0), "no more than a second's worth"
        assert pace.is_over(251, 0, 1000.0)
        assert pace.until == 1000.05, "not woken for each frame"

    @pytest.mark.parametrize(
        ("limits", "read"),
        [
            ({"frames_per_second": 1}, 65_536),
            ({"bytes_per_second": 1000}, 4096),
            ({"bytes_per_second": 100_000}, 25_000),
            ({"bytes_per_second": 10_000_000}, 65_536),
            ({"frames_per_second_per_user": 1}, 4096),
            ({"frames_per_second_per_user": 1_000}, 16_000),
            ({"frames_per_second_per_user": 100_000}, 65_536),
        ],
    )
    def test_small_reads_where_little_may_come(self, limits: dict[str, int], read: int) -> None:
        pace = rates(**limits).of_session("alice", "", 0.0)
        assert pace is not None
        assert pace.read == read


class TestShared:
    """By `of_session` alone; below, by sessions."""

    def test_anonymous_clients_and_unix_sockets(self) -> None:
        """Anonymous is no user, a unix socket has no address, and a proxy's is that of many."""
        found = rates(frames_per_second_per_user=1, frames_per_second_per_address=1)
        found.trusted = Trusted(["10.0.0.0/8", "unix"])
        assert found.of_session("anonymous", "", 0.0) is None
        assert found.of_session("anonymous", "10.0.0.7", 0.0) is None
        assert found.of_session("anonymous", "192.0.2.7", 0.0) is not None
        assert found.of_session("alice", "", 0.0) is not None

    def test_the_tables_hold_what_the_sessions_hold_and_some_more(self) -> None:
        """More: of those who came last."""
        found = RateLimits(with_limits(**{limit.removeprefix("max_"): 10 for limit in LIMITS}), most_recent=8)
        paces = [found.of_session(f"user-{number}", f"10.0.0.{number % 10}", 0.0) for number in range(100)]
        assert len(found._shared) == 2 * 100 + 2 * 10
        del paces[10:]
        assert len(found._shared) == 2 * 10 + 2 * 10 + 2 * 2
        paces.clear()
        assert set(found._shared) == {
            (limit, whose)
            for limit in LIMITS[2:]
            for whose in ("user-98", "user-99", "10.0.0.8", "10.0.0.9")
            if whose.startswith("user") == limit.endswith("_per_user")
        }


class TestHeld:
    @pytest.mark.parametrize(
        ("limit", "chunk"),
        [
            ({"max_frames_per_second": 10}, frame("SEND", destination="/topic/a") * 10),
            ({"max_bytes_per_second": 10_000}, frame("SEND", b"x" * 9_970, destination="/topic/a")),
        ],
        ids=["frames", "bytes"],
    )
    async def test_by_frames(
        self, make_harness: MakeHarness, kind: str, autojump_clock: MockClock, limit: dict[str, int], chunk: bytes
    ) -> None:
        harness = make_harness(options=TransportOptions(**limit))  # type: ignore[arg-type]
        peer = await harness.session(kind)
        for _ in range(5):
            await peer.send(chunk)
        began = trio.current_time()
        await peer.settled()
        await peer.settled()
        assert trio.current_time() - began == pytest.approx(4.1, abs=0.3)

    @pytest.mark.parametrize("data", [ws(PING, b"x" * 100) * 50, ws(TEXT) * 1_000])
    async def test_by_what_is_no_stomp(self, make_harness: MakeHarness, autojump_clock: MockClock, data: bytes) -> None:
        """Pings, and messages without anything, are work, too."""
        harness = make_harness(options=TransportOptions(max_bytes_per_second=1_000))
        peer = await harness.session("websocket")
        await peer.websocket.stream.send_all(data)
        began = trio.current_time()
        await peer.settled()
        await peer.settled()
        assert trio.current_time() - began == pytest.approx(len(data) / 1_000 - 1, abs=0.3)


class TestSharedAtWork:
    """Sessions of one user, or address."""

    @pytest.mark.parametrize(
        ("limit", "rate", "seconds"),
        [
            ("frames_per_second_per_user", 25, 16),
            ("frames_per_second_per_address", 50, 8),
            ("bytes_per_second_per_user", 50_000, 8),
            ("bytes_per_second_per_address", 25_000, 16),
        ],
    )
    async def test_they_come_to_the_limit_together(
        self, make_harness: MakeHarness, limit: str, rate: int, seconds: int, autojump_clock: MockClock
    ) -> None:
        harness = make_harness(options=with_limits(**{limit: rate}), address="192.0.2.7")
        peers = [await harness.session("tcp", login="alice") for _ in range(4)]
        data = frame("SEND", b"x" * 962, destination="/topic/a", content_length=962)
        assert len(data) in range(990, 1_010)
        began = trio.current_time()
        for peer in peers:
            for _ in range(100):
                await peer.send(data)
        async with trio.open_nursery() as nursery:
            for peer in peers:
                nursery.start_soon(peer.settled)
        # A second's worth comes at once, and behind the last chunks nobody waits any more.
        assert seconds - 2 < trio.current_time() - began < seconds
        assert harness.counters.frames_in == 4 * (100 + 1)
        assert harness.server.back_pressure.blocked.totals[f"max_{limit}"] > 20

    async def test_and_what_comes_with_connect_waits(
        self, make_harness: MakeHarness, autojump_clock: MockClock
    ) -> None:
        """Else a debt that others share would grow with each new connection."""
        harness = make_harness(options=TransportOptions(max_frames_per_second_per_address=10), address="192.0.2.7")
        await (await harness.session("tcp")).send(frame("SEND", destination="/topic/a") * 110)
        await wait_all_tasks_blocked()
        before, peer = harness.counters.frames_in, harness.connect("tcp")
        began = trio.current_time()
        await peer.send(frame("CONNECT", accept_version="1.2", host="a") + frame("SEND", destination="/topic/a") * 100)
        await peer.frame("CONNECTED")
        assert trio.current_time() == began
        await trio.sleep(9.9)
        assert harness.counters.frames_in == before
        await trio.sleep(0.2)
        assert harness.counters.frames_in == before + 100


@pytest.mark.parametrize(
    "last",
    [frame("DISCONNECT", receipt="bye"), b"NONSENSE\n\n\0", frame("ACK", id="no")],
    ids=["goodbye", "malformed", "error"],
)
async def test_a_session_that_ends_in_the_same_chunk_owes_it(
    make_harness: MakeHarness, last: bytes, autojump_clock: MockClock
) -> None:
    harness = make_harness(options=TransportOptions(max_frames_per_second_per_user=10), address="192.0.2.7")
    began = trio.current_time()
    for _ in range(20):
        peer = await harness.session("tcp", login="alice")
        await peer.send(frame("SEND", destination="/topic/a") * 120 + last)
        while await peer.receive() is not None:
            pass
        await peer.aclose()
    assert harness.counters.published <= 10 * (trio.current_time() - began) + 130
