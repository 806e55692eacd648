"""The tap: what an operator sees of a session, what is hidden, what is lost, and what ends it."""

from __future__ import annotations

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker.admin.message_rows import HIDDEN
from gateway.transports import TransportOptions
from gateway.transports.flow import frame_trace
from gateway.transports.flow.frame_trace import NoSession, TooManyViews, TracedFrame, TraceView

from .harness import Harness, MakeHarness
from .peers import frame

Q, T = "/queue/a", "/topic/a"
SECRET = "eyJhbGciOi.secret.token"


def id_of(harness: Harness, place: int = 0) -> str:
    """The id of the session of that connection."""
    return harness.session_at(place).id


def told(seen: list[TracedFrame]) -> list[tuple[str, str]]:
    return [(each.direction, each.command) for each in seen]


async def taken(view: TraceView) -> list[TracedFrame]:
    """What is there, when all that was sent has been handled; nothing of it was lost."""
    await wait_all_tasks_blocked()
    frames, lost = view.take()
    assert lost == 0
    return frames


class TestWhatIsSeen:
    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
    async def test_frames_of_both_directions_in_order(self, harness: Harness, kind: str, version: str) -> None:
        peer = await harness.session(kind, version)
        with harness.server.traces.view(id_of(harness)) as view:
            await peer.subscribe(Q, ack="client")
            await peer.publish(Q, b"hello", kind="x")
            message = await peer.frame("MESSAGE")
            seen = await taken(view)
        assert told(seen) == [("in", "SUBSCRIBE"), ("out", "RECEIPT"), ("in", "SEND"), ("out", "MESSAGE")]
        subscribed, receipt, sent, received = seen
        assert dict(subscribed.headers) == {"destination": Q, "id": "1", "ack": "client", "receipt": "sub-1"}
        assert receipt.headers == [("receipt-id", "sub-1")]
        assert dict(sent.headers) == {"destination": Q, "content-length": "5", "kind": "x"}
        assert dict(received.headers) == message.headers
        assert (sent.body, sent.size, received.body, received.size) == (b"hello", 5, b"hello", 5)
        assert sorted(each.at for each in seen) == [each.at for each in seen]

    async def test_a_frame_in_pieces_is_seen_when_complete(self, harness: Harness) -> None:
        """Also one that had begun when nobody looked."""
        peer = await harness.session("tcp")
        data = frame("SEND", b"x" * 20_000, destination=Q, content_length=20_000, receipt="r")
        await peer.send(data[:9_000])
        await wait_all_tasks_blocked()
        with harness.server.traces.view(id_of(harness)) as view:
            await peer.send(data[9_000:15_000])
            assert await taken(view) == []
            await peer.send(data[15_000:] + data[:100])
            await peer.frame("RECEIPT")
            seen = await taken(view)
        assert told(seen) == [("in", "SEND"), ("out", "RECEIPT")]
        assert (seen[0].size, seen[0].body) == (20_000, b"x" * frame_trace.MOST_OF_A_BODY)

    async def test_a_fault_of_ours_is_not_the_clients(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(text: str, version: object) -> None:
            raise ValueError("a fault")

        monkeypatch.setattr(frame_trace, "parse_lines", broken)
        peer = await harness.session("tcp")
        with harness.server.traces.view(id_of(harness)) as view, structlog.testing.capture_logs() as lines:
            await peer.settled()
            assert told(await taken(view)) == [("in", "SEND")]
        assert [line["event"] for line in lines] == ["what is sent cannot be shown"]


class TestSecrets:
    async def test_headers_with_secrets_are_hidden(self, harness: Harness) -> None:
        names = ("passcode", "Authorization", "authorization", "token", "Token")
        peer = await harness.session("tcp")
        await peer.subscribe(Q)
        with harness.server.traces.view(id_of(harness)) as view:
            await peer.publish(Q, b"", **dict.fromkeys(names, SECRET))
            await peer.frame("MESSAGE")
            sent, received = await taken(view)
        assert [dict(each.headers)[name] for each in (sent, received) for name in names] == [HIDDEN] * 10
        assert SECRET not in repr((sent, received))

    async def test_renewals_and_second_logins_are_shown_without_credentials(self, harness: Harness) -> None:
        shown = {"login": SECRET, "passcode": SECRET, "X-Api-Key": SECRET}
        for place, data in enumerate(
            [
                frame("CONNECT", accept_version="1.2", host="h", **shown),
                frame("STOMP", accept_version="1.2", host="h", **shown),
                *(
                    frame("SEND", SECRET.encode(), destination=destination)
                    for destination in ("/session/renew", "/Session/Renew", "/topic/session/renew")
                ),
            ]
        ):
            peer = await harness.session("tcp")
            with harness.server.traces.view(id_of(harness, place)) as view:
                await peer.send(data)
                (first, *rest) = await taken(view)
            assert SECRET not in repr((first, rest))
            if first.command == "SEND":
                assert (first.body, first.size) == (HIDDEN.encode(), len(SECRET))
            else:
                assert dict(first.headers) == {"accept-version": "1.2", "host": "h", **dict.fromkeys(shown, HIDDEN)}


class TestLosses:
    async def test_what_the_ring_has_no_room_for_is_counted(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(frame_trace, "MOST_FRAMES", 3)
        peer = await harness.session("tcp")
        await peer.subscribe(Q)
        with harness.server.traces.view(id_of(harness)) as view:
            await peer.send(frame("SEND", destination=Q) * 5)
            for _ in range(5):
                await peer.frame("MESSAGE")
            await wait_all_tasks_blocked()
            frames, lost = view.take()
            assert (told(frames), lost) == ([("in", "SEND")] * 3, 7)
            await peer.settled()
            assert told(await taken(view)) == [("in", "SEND"), ("out", "RECEIPT")]


class TestViews:
    async def test_a_view_that_is_not_read_makes_room(self, harness: Harness, autojump_clock: MockClock) -> None:
        peer = await harness.session("tcp")
        traces, name = harness.server.traces, id_of(harness)
        with (
            traces.view(name) as stuck,
            traces.view(name) as one,
            traces.view(name) as other,
            traces.view(name) as third,
        ):
            await trio.sleep(frame_trace.LONGEST_ABSENCE + 1)
            for view in (one, other, third):
                view.take()
            with traces.view(name) as late:
                assert stuck.reason == "no frame of this view was read for too long"
                await peer.settled()
                assert {len(each.take()[0]) for each in (one, other, third, late)} == {2}
                assert stuck.take() == ([], 0)
                with pytest.raises(TooManyViews):
                    traces.find(name)
        with traces.view(name) as view:
            await peer.settled()
            assert len(await taken(view)) == 2

    async def test_an_unknown_session(self, harness: Harness) -> None:
        """A view ends with its session, and the session is unknown then."""
        peer = await harness.session("tcp")
        name = id_of(harness)
        with pytest.raises(NoSession):
            harness.server.traces.find("nobody")
        with harness.server.traces.view(name) as view:
            harness.server.draining = True
            await peer.aclose()
            await wait_all_tasks_blocked()
            assert view.reason == "the gateway is shutting down"
        with pytest.raises(NoSession):
            harness.server.traces.find(name)


class TestEnds:
    async def ended(self, harness: Harness, view: TraceView) -> list[tuple[str, str]]:
        """What comes before a view ends because its session does."""
        while not view.reason:
            await view.wait()
            await trio.lowlevel.checkpoint()
        assert view.reason == "the session has ended"
        await view.wait()  # at once
        return told(view.take()[0])

    @pytest.mark.parametrize(
        ("data", "frames"),
        [
            (frame("DISCONNECT", receipt="bye"), [("in", "DISCONNECT"), ("out", "RECEIPT")]),
            (frame("ACK", id="unknown"), [("in", "ACK"), ("out", "ERROR")]),
            (frame("SEND", destination=T) + b"SEND\nno colon\n\n\0", [("in", "SEND"), ("out", "ERROR")]),
        ],
        ids=["disconnect", "error", "malformed"],
    )
    async def test_with_the_session(
        self, make_harness: MakeHarness, data: bytes, frames: list[tuple[str, str]]
    ) -> None:
        harness = make_harness(options=TransportOptions(close_linger=0.0))
        peer = await harness.session("tcp")
        with harness.server.traces.view(id_of(harness)) as view:
            await peer.send(data)
            await peer.frame(frames[-1][1])
            await peer.aclose()
            assert await self.ended(harness, view) == frames
