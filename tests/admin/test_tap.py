"""The tap as its reader gets it: events, the silence between them, what is refused, and a reader that takes nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.admin import tap
from gateway.admin.errors import Refused
from gateway.admin.tap import EventStream, row_of
from gateway.admin.visits import Visit, Visits
from gateway.transports.flow.frame_trace import MOST_OF_A_BODY, MOST_VIEWS, TracedFrame
from tests.app.asgi import scope_of
from tests.transports.harness import Harness
from tests.transports.peers import Peer, until

from .running import Running, running

if TYPE_CHECKING:
    from starlette.types import Message, Scope


class Reader:
    """A server's side of one answer.

    Attributes:
        started: the first message.
        text: what the reader got so far.
        complete: the answer has ended as it should.
        stuck: it takes nothing.
    """

    def __init__(self) -> None:
        self.started: Message = {}
        self.text = ""
        self.complete = False
        self.stuck = False
        self._gone = trio.Event()

    def leave(self) -> None:
        self._gone.set()

    async def receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await trio.lowlevel.checkpoint()
        if self.stuck:
            await trio.sleep_forever()
        if message["type"] == "http.response.start":
            self.started = message
        else:
            self.text += message["body"].decode()
            self.complete = not message["more_body"]

    @property
    def events(self) -> list[tuple[str, Any]]:
        """Name and data of each."""
        blocks = [each for each in self.text.split("\n\n") if each not in ("", ":")]
        pairs = [each.split("\n") for each in blocks]
        return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in pairs]

    @property
    def comments(self) -> int:
        return self.text.split("\n\n").count(":")


SCOPE: Scope = scope_of("GET", "/", {})


@pytest.fixture
async def harness(nursery: trio.Nursery) -> Harness:
    return Harness(nursery)


def stream_of(harness: Harness, visit: Visit | None = None) -> EventStream:
    session = harness.connections[0].session
    assert session is not None
    return EventStream(partial(harness.server.traces.view, session.id), visit)


async def looked_at(harness: Harness, nursery: trio.Nursery, visit: Visit | None = None) -> tuple[Peer, Reader]:
    """A session, and who looks at it."""
    peer, reader = await harness.session("tcp"), Reader()
    nursery.start_soon(stream_of(harness, visit), SCOPE, reader.receive, reader.send)
    await wait_all_tasks_blocked()
    return peer, reader


class TestEvents:
    async def test_frames(self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock) -> None:
        peer, reader = await looked_at(harness, nursery)
        assert reader.started["status"] == 200
        headers = dict(reader.started["headers"])
        assert headers[b"content-type"].startswith(b"text/event-stream")
        assert headers[b"cache-control"] == b"no-store"
        assert b"content-length" not in headers
        assert reader.text == ":\n\n"
        await peer.settled()
        await wait_all_tasks_blocked()
        (_, sent), (_, receipt) = reader.events
        assert {key: sent[key] for key in ("direction", "command", "body", "size", "truncated")} == {
            "direction": "in",
            "command": "SEND",
            "body": "",
            "size": 0,
            "truncated": False,
        }
        assert receipt["headers"] == [["receipt-id", "settled"]]

    async def test_what_comes_in_a_pause_comes_together(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        peer, reader = await looked_at(harness, nursery)
        await peer.settled()
        await wait_all_tasks_blocked()
        await peer.settled()
        await peer.settled()
        await wait_all_tasks_blocked()
        assert len(reader.events) == 2
        await trio.sleep(tap.PAUSE)
        await wait_all_tasks_blocked()
        assert len(reader.events) == 6

    async def test_what_was_lost_stands_where_it_was(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gateway.transports.flow.frame_trace.MOST_FRAMES", 3)
        peer, reader = await looked_at(harness, nursery)
        for _ in range(3):
            await peer.settled()
        await trio.sleep(2 * tap.PAUSE)
        await peer.settled()
        await wait_all_tasks_blocked()
        names = [name for name, _ in reader.events]
        lost = names.index("dropped")
        assert reader.events[lost][1] == {"frames": 6 - lost}
        assert names == ["frame"] * lost + ["dropped", "frame", "frame"]

    async def test_many_frames_are_written_in_pieces(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tap, "_PER_TURN", 2)
        peer, reader = await looked_at(harness, nursery)
        for _ in range(5):
            await peer.settled()
        await trio.sleep(1)
        assert [data["command"] for _, data in reader.events] == ["SEND", "RECEIPT"] * 5

    async def test_a_comment_in_the_silence(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        _, reader = await looked_at(harness, nursery)
        await trio.sleep(3.5 * tap.SILENCE)
        assert (reader.comments, reader.events) == (4, [])

    @pytest.mark.parametrize("draining", [False, True])
    async def test_the_end(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock, draining: bool
    ) -> None:
        peer, reader = await looked_at(harness, nursery)
        harness.server.draining = draining
        await peer.send_frame("DISCONNECT", receipt="bye")
        await peer.frame("RECEIPT")
        await peer.aclose()
        await trio.sleep(1)
        *frames, last = reader.events
        assert [data["command"] for _, data in frames] == ["DISCONNECT", "RECEIPT"]
        assert last == ("end", {"reason": "the gateway is shutting down" if draining else "the session has ended"})
        assert reader.complete


class TestReaders:
    async def test_whoever_leaves_looks_no_longer(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        peer, reader = await looked_at(harness, nursery)
        reader.leave()
        await wait_all_tasks_blocked()
        assert harness.connections[0]._observer is None
        await peer.settled()
        assert reader.events == []

    async def test_whoever_takes_nothing_is_given_up(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        peer, reader = await looked_at(harness, nursery)
        reader.stuck = True
        await peer.settled()
        await trio.sleep(tap.LONGEST_WRITE - 1)
        assert harness.connections[0]._observer is not None
        await trio.sleep(2)
        assert harness.connections[0]._observer is None
        assert not reader.complete

    async def test_a_head_has_no_events(self, harness: Harness, autojump_clock: MockClock) -> None:
        await harness.session("tcp")
        reader = Reader()
        await stream_of(harness)({**SCOPE, "method": "HEAD"}, reader.receive, reader.send)
        assert (reader.started["status"], reader.text, reader.complete) == (200, "", True)
        assert harness.connections[0]._observer is None

    async def test_a_session_that_has_just_gone(self, harness: Harness, autojump_clock: MockClock) -> None:
        peer, reader = await harness.session("tcp"), Reader()
        stream = stream_of(harness)
        await peer.send_frame("DISCONNECT")
        await peer.at_end()
        await wait_all_tasks_blocked()
        with pytest.raises(Refused, match="there is no such session"):
            await stream(SCOPE, reader.receive, reader.send)
        assert reader.started == {}


class TestVisits:
    """Whoever has logged in looks as long as that is good."""

    async def test_it_ends_with_a_logout(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        visits = Visits()
        visit, other = visits.begin("alice"), visits.begin("alice")
        peer, reader = await looked_at(harness, nursery, visit)
        await peer.settled()
        visits.end(other)
        await trio.sleep(1)
        assert not reader.complete
        visits.end(visit)
        await peer.settled()
        await trio.sleep(1)
        assert [name for name, _ in reader.events] == ["frame", "frame", "end"]
        assert reader.events[-1] == ("end", {"reason": "this login has ended, log in again"})
        assert reader.complete
        assert harness.connections[0]._observer is None

    async def test_what_comes_after_it_is_not_even_kept(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        visits = Visits()
        visit = visits.begin("alice")
        peer, reader = await looked_at(harness, nursery, visit)
        reader.stuck = True
        await peer.settled()
        await wait_all_tasks_blocked()
        visits.end(visit)
        await wait_all_tasks_blocked()
        (view,) = harness.server.traces._views
        await peer.settled()
        assert view.take() == ([], 0)

    async def test_it_ends_with_its_time(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        visit = Visits().begin("alice", 100.0)
        _, reader = await looked_at(harness, nursery, visit)
        await trio.sleep(99)
        assert not reader.complete
        await trio.sleep(2)
        assert reader.events == [("end", {"reason": "this login has expired, log in again"})]
        assert reader.complete

    async def test_the_oldest_of_too_many(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gateway.admin.visits.MOST", 1)
        visits = Visits()
        _, reader = await looked_at(harness, nursery, visits.begin("alice"))
        visits.begin("bob")
        await trio.sleep(1)
        assert reader.complete

    async def test_of_the_session_it_says_so(
        self, harness: Harness, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        peer, reader = await looked_at(harness, nursery, Visits().begin("alice"))
        await peer.aclose()
        await trio.sleep(1)
        assert reader.events == [("end", {"reason": "the session has ended"})]


class TestRows:
    def row(self, body: bytes, size: int | None = None) -> dict[str, object]:
        return row_of(TracedFrame(1.5, "in", "SEND", [("a", "b")], body, len(body) if size is None else size))

    def test_text(self) -> None:
        assert self.row("grün".encode()) == {
            "at": 1.5,
            "direction": "in",
            "command": "SEND",
            "headers": [("a", "b")],
            "body": "grün",
            "body_encoding": "utf-8",
            "size": 5,
            "truncated": False,
        }

    def test_octets(self) -> None:
        row = self.row(b"\xff\x00")
        assert (row["body"], row["body_encoding"]) == (base64.b64encode(b"\xff\x00").decode(), "base64")

    @pytest.mark.parametrize("cut", [1, 2, 3])
    def test_a_character_that_is_cut_is_left_out(self, cut: int) -> None:
        row = self.row(b"x" * (MOST_OF_A_BODY - cut) + "😀".encode()[:cut], size=10_000)
        assert (row["body"], row["body_encoding"], row["truncated"]) == ("x" * (MOST_OF_A_BODY - cut), "utf-8", True)

    def test_half_a_character_at_the_very_end_is_no_text(self) -> None:
        assert self.row("😀".encode()[:2])["body_encoding"] == "base64"


class TestEndpoint:
    @pytest.fixture
    async def here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
        monkeypatch.chdir(tmp_path)
        async with running() as found:
            yield found

    async def test_nobody(self, here: Running) -> None:
        answer = await here.ask("GET", "sessions/nobody/tap")
        assert (answer.status, answer.error) == (404, "there is no such session")

    async def test_one_too_many(self, here: Running) -> None:
        peer = await here.peer()
        (name,) = here.gateway.broker.sessions
        with ExitStack() as stack:
            for _ in range(MOST_VIEWS):
                stack.enter_context(here.gateway.traces.view(name))
            answer = await here.ask("GET", f"sessions/{name}/tap")
        assert answer.status == 409
        assert answer.error.startswith("4 sessions are looked at already")
        await peer.aclose()

    async def test_of_whoever_logs_out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        async with running(admin_token="sesame") as here:
            peer = await here.peer()
            (name,) = here.gateway.broker.sessions
            answer = await here.ask("POST", "login", {"token": "sesame"})
            cookie = answer.headers["set-cookie"].partition(";")[0]
            headers = {"cookie": cookie, "x-csrf-token": answer.json["csrf"]}
            async with trio.open_nursery() as nursery:

                async def look() -> None:
                    answer = await here.ask("GET", f"sessions/{name}/tap", headers=headers)
                    assert answer.body.endswith(
                        b'event: end\ndata: {"reason": "this login has ended, log in again"}\n\n'
                    )

                nursery.start_soon(look)
                await until(lambda: bool(here.gateway.traces._views))
                assert (await here.ask("POST", "logout", headers=headers)).status == 204
            await peer.settled()
            await peer.aclose()

    async def test_through_the_whole_application(self, here: Running) -> None:
        peer = await here.peer()
        (name,) = here.gateway.broker.sessions
        async with trio.open_nursery() as nursery:

            async def look() -> None:
                answer = await here.ask("GET", f"sessions/{name}/tap")
                assert answer.body.endswith(b'event: end\ndata: {"reason": "the session has ended"}\n\n')
                assert b'"command": "RECEIPT"' in answer.body

            nursery.start_soon(look)
            while not here.gateway.traces._views:
                await trio.lowlevel.checkpoint()
            await peer.settled()
            await peer.aclose()
