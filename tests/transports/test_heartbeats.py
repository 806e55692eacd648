"""Time on an idle connection: heart-beats both ways to the hundredth of a second, and WebSocket's Pings.

`heart-beat:cx,cy` from the client meets 250,250 from us: the larger of each two is agreed.
"""

from __future__ import annotations

import pytest
import structlog.testing
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.transports import TransportOptions

from .harness import Harness, MakeHarness
from .peers import CLOSE, PING, ws
from .pipes import ControlledPipe

requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize


class TestHeartbeats:
    """`heart-beat:cx,cy` from the client, 250,250 from us: the larger of each two is agreed."""

    @requirement("HBT-03", "HBT-06", "WST-05")
    @parametrize(
        ("wanted", "earliest", "latest"),
        [(1000, 0.74, 0.78), (100, 0.18, 0.22), (10_000, 8.99, 9.03), (60_000, 58.99, 59.03)],
    )
    async def test_ours_come_in_time(
        self,
        make_harness: MakeHarness,
        kind: str,
        wanted: int,
        earliest: float,
        latest: float,
        autojump_clock: MockClock,
    ) -> None:
        harness = make_harness(options=TransportOptions(websocket_ping=0.0))
        peer = await harness.session(kind, heart_beat=f"0,{wanted}")
        began = trio.current_time()
        beats = await peer.listen(latest * 10)
        gaps = [late - early for early, late in zip([began, *beats], beats, strict=False)]
        assert len(gaps) >= 9
        assert all(earliest <= gap <= latest for gap in gaps), gaps

    @requirement("HBT-04", "HBT-07")
    @parametrize(("offered", "limit"), [(1000, 2.0), (100, 0.5), (10_000, 20.0)])
    async def test_a_silent_client_is_dead(
        self, make_harness: MakeHarness, offered: int, limit: float, autojump_clock: MockClock
    ) -> None:
        """After twice its interval: MAX(cx, 250 ms) times the margin."""
        harness = make_harness(options=TransportOptions(websocket_ping=0.0))
        peer = harness.connect("tcp")
        await peer.connect(heart_beat=f"{offered},0")
        began = trio.current_time()
        await trio.sleep(limit * 0.9)
        assert harness.broker.sessions
        error = await peer.frame("ERROR")
        assert trio.current_time() - began == pytest.approx(limit + 0.02, abs=0.03)
        assert error["message"] == "heart-beat missing"
        assert error.body == f"no byte for {limit:.1f} s, allowed are {limit:.1f} s".encode()
        await peer.at_end()
        await harness.counted()
        assert harness.counters.heartbeat_timeouts == 1

    async def test_unread_bytes_count(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
    ) -> None:
        """Its turn to be read does not come, for others take long."""
        pipe, line = ControlledPipe(), trio.lowlevel.ParkingLot()
        receive = pipe.receive

        async def receive_later(size: int) -> bytes:
            await line.park()
            return await receive(size)

        peer = harness.connect_through("tcp", pipe)
        await peer.connect(heart_beat="1000,0")
        monkeypatch.setattr(pipe, "receive", receive_later)
        await peer.send(b"\n")  # is read as before
        await wait_all_tasks_blocked()
        await peer.send(b"\n")
        await trio.sleep(60)
        assert len(harness.broker.sessions) == 1
        line.unpark_all()
        await trio.sleep(1.9)
        assert len(harness.broker.sessions) == 1
        await trio.sleep(0.2)
        assert not harness.broker.sessions, "now it is silent"

    async def test_idle_beats_leave_nothing_behind(self, harness: Harness, autojump_clock: MockClock) -> None:
        """A gateway on which nobody sends for a week must not gather an entry per beat."""
        peers = [await harness.session("tcp", heart_beat="0,250") for _ in range(3)]
        for peer in peers:
            harness.nursery.start_soon(peer.listen, 100)
        await trio.sleep(100)
        assert len(harness.broker.dirty) <= 3

    async def test_no_beats_pile_up_for_one_that_does_not_read(
        self, harness: Harness, autojump_clock: MockClock
    ) -> None:
        await harness.stalled("tcp", heart_beat="0,250")
        await trio.sleep(1000)
        (session,) = harness.broker.sessions.values()
        assert len(session.outbox.parts) <= 4


class TestPings:
    @requirement("WST-08")
    async def test_a_close_behind_messages_under_way(self, harness: Harness) -> None:
        peer, pipe = await harness.stalled("websocket", "/topic/a", room=100)
        await peer.publish("/topic/a", b"x" * 1000)
        await wait_all_tasks_blocked()
        await peer.websocket.stream.send_all(ws(CLOSE, b"\x03\xe8"))
        await wait_all_tasks_blocked()
        pipe.open()
        assert (await peer.frame("MESSAGE")).body == b"x" * 1000
        await peer.at_end()
        assert peer.websocket.closed == (1000, "")

    @parametrize(
        ("ping", "heart_beat", "every"),
        [(25.0, "0,0", 25.0), (25.0, "10000,0", 10.0), (25.0, "1000,0", 5.0), (3.0, "10000,0", 3.0)],
    )
    async def test_how_often(
        self, make_harness: MakeHarness, ping: float, heart_beat: str, every: float, autojump_clock: MockClock
    ) -> None:
        """As often as the setting says, more often where the client has promised beats that its timers may not keep,
        but never below five seconds."""
        harness = make_harness(options=TransportOptions(websocket_ping=ping, heartbeat_margin=20.0))
        peer = await harness.session("websocket", heart_beat=heart_beat)
        began = trio.current_time()
        await peer.listen(every * 5.5)
        pings = [time - began for time in peer.websocket.pings]
        assert pings == [pytest.approx(every * number, abs=0.03 * number + 0.03) for number in range(1, 6)]

    async def test_no_pings_to_one_that_talks(self, harness: Harness, autojump_clock: MockClock) -> None:
        peer = await harness.session("websocket")
        for _ in range(20):
            await trio.sleep(10)
            await peer.settled()
        assert peer.websocket.pings == []

    async def test_pongs_keep_a_hidden_tab_alive(self, harness: Harness, autojump_clock: MockClock) -> None:
        """Its timers are throttled to one a minute, but the browser answers by itself."""
        peer = await harness.session("websocket", heart_beat="10000,10000")
        await peer.listen(300)
        await peer.settled()
        assert harness.counters.heartbeat_timeouts == 0
        peer.websocket.answers = False
        await peer.listen(19)
        await peer.frame("ERROR")
        await harness.counted()
        assert harness.counters.heartbeat_timeouts == 1

    async def test_one_that_pings_and_vanishes(self, harness: Harness) -> None:
        """Before CONNECT: no fault of ours, and nothing for the log of errors."""
        pipe = ControlledPipe()
        peer = harness.connect_through("websocket", pipe)
        pipe.broken = True
        with structlog.testing.capture_logs() as logs:
            await peer.websocket.stream.send_all(ws(PING, b"?"))
            await wait_all_tasks_blocked()
            pipe.hang_up()
            await harness.server.wait_empty()
        assert not [entry for entry in logs if entry["log_level"] == "error"]
