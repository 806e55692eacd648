"""Frame trace as its reader gets it: events, silence, refusals, and a reader that takes nothing."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.admin.access import ConsoleSession, ConsoleSessions
from gateway.admin.endpoint import ApiError
from gateway.admin.streams import events, trace_stream
from gateway.admin.streams.trace_stream import TraceStream
from tests.app.asgi import StreamReader, scope_of
from tests.transports.harness import Harness
from tests.transports.peers import Peer

from ..running import Running

if TYPE_CHECKING:
    from starlette.types import Scope


class Reader(StreamReader):
    @property
    def events(self) -> list[tuple[str, Any]]:
        blocks = [each for each in self.text.split("\n\n") if each not in ("", ":")]
        pairs = [each.split("\n") for each in blocks]
        return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in pairs]


SCOPE: Scope = scope_of("GET", "/", {})


@pytest.fixture
async def harness(nursery: trio.Nursery) -> Harness:
    return Harness(nursery)


def stream_of(harness: Harness, login: ConsoleSession | None = None) -> TraceStream:
    session = harness.connections[0].session
    assert session is not None
    return TraceStream(partial(harness.server.traces.view, session.id), login)


async def traced(harness: Harness, nursery: trio.Nursery, login: ConsoleSession | None = None) -> tuple[Peer, Reader]:
    peer, reader = await harness.session("tcp"), Reader()
    nursery.start_soon(stream_of(harness, login), SCOPE, reader.receive, reader.send)
    await wait_all_tasks_blocked()
    return peer, reader


class TestEvents:
    async def test_frames_of_a_pause_are_written_together_and_lost_ones_stand_where_they_were(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        peer, reader = await traced(harness, nursery)
        await peer.settled()
        await wait_all_tasks_blocked()
        for _ in range(40):  # two frames each, and 32 are written at once
            await peer.settled()
        await wait_all_tasks_blocked()
        assert len(reader.events) == 2
        await trio.sleep(trace_stream.PAUSE)
        await wait_all_tasks_blocked()
        assert [data["command"] for _, data in reader.events] == ["SEND", "RECEIPT"] * 41
        reader.text = ""
        monkeypatch.setattr("gateway.transports.flow.frame_trace.MOST_FRAMES", 3)
        for _ in range(3):
            await peer.settled()
        await trio.sleep(2 * trace_stream.PAUSE)
        names = [name for name, _ in reader.events]
        assert names == ["frame"] * names.index("dropped") + ["dropped"]
        assert reader.events[-1][1] == {"frames": 7 - len(names)}

    async def test_a_comment_in_the_silence(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        _, reader = await traced(harness, nursery)
        await trio.sleep(3.5 * events.SILENCE)
        assert (reader.text, reader.events) == (":\n\n" * 4, [])

    async def test_the_end(self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock) -> None:
        peer, reader = await traced(harness, nursery)
        await peer.send_frame("DISCONNECT", receipt="bye")
        await peer.frame("RECEIPT")
        await peer.aclose()
        await trio.sleep(1)
        *frames, last = reader.events
        assert [data["command"] for _, data in frames] == ["DISCONNECT", "RECEIPT"]
        assert last == ("end", {"reason": "the session has ended"})
        assert reader.is_complete


class TestReaders:
    async def test_a_reader_that_leaves_and_one_that_takes_nothing(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        peer, reader = await traced(harness, nursery)
        reader.leave()
        await wait_all_tasks_blocked()
        assert harness.connections[0]._observer is None
        reader = Reader()
        nursery.start_soon(stream_of(harness), SCOPE, reader.receive, reader.send)
        await wait_all_tasks_blocked()
        reader.is_stuck = True
        await peer.settled()
        await trio.sleep(events.LONGEST_WRITE - 1)
        assert harness.connections[0]._observer is not None
        await trio.sleep(2)
        assert harness.connections[0]._observer is None
        assert not reader.is_complete

    async def test_a_head_has_no_events_nor_has_a_session_that_has_gone(
        self, harness: Harness, site: Running, autojump_clock: MockClock
    ) -> None:
        peer, reader = await harness.session("tcp"), Reader()
        await stream_of(harness)({**SCOPE, "method": "HEAD"}, reader.receive, reader.send)
        assert (reader.status, reader.text, reader.is_complete) == (200, "", True)
        assert harness.connections[0]._observer is None
        stream, reader = stream_of(harness), Reader()
        await peer.send_frame("DISCONNECT")
        await peer.at_end()
        await wait_all_tasks_blocked()
        with pytest.raises(ApiError, match="there is no such session"):
            await stream(SCOPE, reader.receive, reader.send)
        assert reader.status == 0
        answer = await site.ask("GET", "sessions/nobody/tap")
        assert (answer.status, answer.error) == (404, "there is no such session")


async def test_a_stream_ends_with_its_login(harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """By a logout, and by its time."""
    logins = ConsoleSessions()
    login, other, short = logins.begin("alice"), logins.begin("alice"), logins.begin("alice", 100.0)
    peer, reader = await traced(harness, nursery, login)
    logins.end(other)
    await trio.sleep(1)
    assert not reader.is_complete
    logins.end(login)
    await peer.settled()
    await trio.sleep(1)
    assert reader.events[-1] == ("end", {"reason": "this login has ended, log in again"})
    assert reader.is_complete
    assert harness.connections[0]._observer is None
    reader = Reader()
    nursery.start_soon(stream_of(harness, short), SCOPE, reader.receive, reader.send)
    await trio.sleep(97)
    assert not reader.is_complete
    await trio.sleep(2)
    assert reader.events == [("end", {"reason": "this login has expired, log in again"})]
    assert reader.is_complete
