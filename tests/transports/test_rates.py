"""How fast a session may send: what is read, what waits, and what its waiting does to nobody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.transports import Options
from gateway.transports.rates import FRAMES, OCTETS, Pace, pace_of

from .house import House
from .peers import PING, TEXT, frame, ws

MakeHouse = Callable[..., House]


class TestPace:
    def test_no_limits(self) -> None:
        assert pace_of(0, 0, 0.0) is None

    def test_a_second_at_once(self) -> None:
        pace = Pace(100, 0, 0.0)
        assert not pace.is_over(100, 10**9, 0.0)
        assert pace.is_over(101, 0, 0.0)

    def test_it_fills_as_time_goes_by_and_not_beyond(self) -> None:
        pace = Pace(100, 0, 0.0)
        assert not pace.is_over(100, 0, 0.0)
        assert not pace.is_over(150, 0, 0.5)
        assert not pace.is_over(250, 0, 1000.0)
        assert pace.is_over(251, 0, 1000.0)

    @pytest.mark.parametrize(("frames", "octets", "reason"), [(10, 0, FRAMES), (0, 1000, OCTETS), (10, 1000, OCTETS)])
    def test_a_debt_is_waited_for(self, frames: int, octets: int, reason: str) -> None:
        pace = Pace(frames, octets, 5.0)
        assert pace.is_over(30, 4000, 5.0)
        assert pace.until - 5.0 == pytest.approx(3.0 if reason == OCTETS else 2.0)
        assert pace.reason == reason

    def test_the_longer_one_is_the_reason(self) -> None:
        pace = Pace(10, 1000, 0.0)
        assert pace.is_over(40, 2000, 0.0)
        assert (pace.reason, pace.until) == (FRAMES, 3.0)

    def test_not_woken_for_each_frame(self) -> None:
        pace = Pace(1000, 0, 0.0)
        assert pace.is_over(1001, 0, 0.0)
        assert pace.until == 0.05

    def test_on_average(self) -> None:
        """Whoever sends as much as it can comes to the limit, and no further."""
        pace, now, sent = Pace(0, 10_000, 0.0), 0.0, 0
        while now < 100.0:
            sent += 3_000
            if pace.is_over(0, 3_000, now):
                now = pace.until
        assert sent == pytest.approx(1_010_000, rel=0.01)

    @pytest.mark.parametrize(("octets", "read"), [(0, 65_536), (1000, 4096), (100_000, 25_000), (10_000_000, 65_536)])
    def test_small_reads_where_little_may_come(self, octets: int, read: int) -> None:
        assert Pace(1, octets, 0.0).read == read


class TestHeld:
    async def test_by_frames(self, make_house: MakeHouse, kind: str, autojump_clock: MockClock) -> None:
        house = make_house(options=Options(max_frames_per_second=10))
        peer = await house.session(kind)
        for _ in range(5):
            await peer.send(frame("SEND", destination="/topic/a") * 10)
        began = trio.current_time()
        await peer.settled()
        await peer.settled()
        assert trio.current_time() - began == pytest.approx(4.1, abs=0.1)
        assert house.counters.frames_in == 52

    async def test_by_octets(self, make_house: MakeHouse, kind: str, autojump_clock: MockClock) -> None:
        house = make_house(options=Options(max_octets_per_second=10_000))
        peer = await house.session(kind)
        for _ in range(5):
            await peer.publish("/topic/a", b"x" * 9_950)
        began = trio.current_time()
        await peer.settled()
        await peer.settled()
        assert trio.current_time() - began == pytest.approx(4.1, abs=0.3)

    @pytest.mark.parametrize("octets", [ws(PING, b"x" * 100) * 50, ws(TEXT) * 1_000])
    async def test_by_what_is_no_stomp(self, make_house: MakeHouse, autojump_clock: MockClock, octets: bytes) -> None:
        """Pings, and messages without anything, are work, too."""
        house = make_house(options=Options(max_octets_per_second=1_000))
        peer = await house.session("websocket")
        await peer.websocket.stream.send_all(octets)
        began = trio.current_time()
        await peer.settled()
        await peer.settled()
        assert trio.current_time() - began == pytest.approx(len(octets) / 1_000 - 1, abs=0.3)

    async def test_it_is_seen(self, make_house: MakeHouse, kind: str, autojump_clock: MockClock) -> None:
        house = make_house(options=Options(max_frames_per_second=10))
        peer = await house.session(kind)
        with structlog.testing.capture_logs() as logs:
            await peer.send(frame("SEND", destination="/topic/a") * 100)
            await wait_all_tasks_blocked()
            (hold,) = house.hub.holds.by_session().values()
            assert hold.reason == "max_frames_per_second"
            assert house.hub.holds.by_reason()["max_frames_per_second"] == 1
            await trio.sleep(5)
        (line,) = logs
        assert (line["event"], line["reason"]) == ("a publisher is held back", "max_frames_per_second")
        await trio.sleep(5)
        assert not len(house.hub.holds)
        assert house.hub.holds.totals["max_frames_per_second"] == 1

    async def test_its_heart_beat_clock_stands_still(
        self, make_house: MakeHouse, kind: str, autojump_clock: MockClock
    ) -> None:
        house = make_house(options=Options(max_frames_per_second=10, websocket_ping=0.0))
        peer = await house.session(kind, heart_beat="1000,0")
        await peer.send(frame("SEND", destination="/topic/a") * 100)
        await trio.sleep(8)
        assert house.counters.heartbeat_timeouts == 0
        await trio.sleep(65)  # it is looked at once a minute
        assert house.counters.heartbeat_timeouts == 1

    async def test_nobody_else_waits(self, make_house: MakeHouse, kind: str, autojump_clock: MockClock) -> None:
        house = make_house(options=Options(max_frames_per_second=10))
        greedy, other = await house.session(kind), await house.session(kind)
        await greedy.send(frame("SEND", destination="/topic/a") * 100)
        await wait_all_tasks_blocked()
        began = trio.current_time()
        await other.settled()
        assert trio.current_time() == began

    async def test_who_hangs_up_is_seen_within_a_moment(
        self, make_house: MakeHouse, kind: str, autojump_clock: MockClock
    ) -> None:
        house = make_house(options=Options(max_frames_per_second=1))
        peer = await house.session(kind, sockets=True)
        await peer.send(frame("SEND", destination="/topic/a") * 100)
        await peer.aclose()
        await trio.sleep(5)
        assert not house.broker.sessions
