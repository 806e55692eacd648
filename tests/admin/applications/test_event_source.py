"""Server-sent events: what a reader gets, from where on, how a stream ends, and what is refused before it begins."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from gateway.admin.applications import event_source
from gateway.admin.endpoint import ApiError
from gateway.admin.streams import events
from gateway.auth import passwords
from gateway.runtime.local_client import LocalClient
from tests.app.asgi import Answer, StreamReader, scope_of
from tests.transports.peers import Peer, until

from ..running import Running, running

STREAM = [{"match": "/topic/log.#", "log_messages": 100}]


class Reader(StreamReader):
    async def until(self, text: str) -> str:
        """Wait for a text; returns all before it, and forgets it."""
        await until(lambda: text in self.text)
        before, _, self.text = self.text.partition(text)
        return before


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.chdir(tmp_path)
    async with running(policy=STREAM) as found:
        yield found


@asynccontextmanager
async def reading(site: Running, query: str, **headers: str) -> AsyncIterator[Reader]:
    """A reader whose stream has begun, for the block."""
    reader = Reader()
    fields = {"host": "localhost", **{name.replace("_", "-"): text for name, text in headers.items()}}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(site.app, scope_of("GET", f"/sse?{query}", fields), reader.receive, reader.send)
        await until(lambda: reader.status)
        yield reader
        reader.leave()
        nursery.cancel_scope.deadline = trio.current_time() + 10


@asynccontextmanager
async def publisher(site: Running) -> AsyncIterator[Peer]:
    peer = await site.peer()
    yield peer
    await peer.aclose()


async def test_bodies_are_lines_of_data(site: Running) -> None:
    async with reading(site, "destination=/topic/a") as reader, publisher(site) as peer:
        assert (reader.status, reader.headers["content-type"]) == (200, "text/event-stream")
        assert await reader.until(":\n\n") == "retry: 2000\n"
        await peer.publish("/topic/a", "grün\nund\r\nrot".encode())
        await peer.publish("/topic/a", b"\xff")
        assert await reader.until("data: /w==\n\n") == "data: grün\ndata: und\ndata: rot\n\n"


async def test_json_has_destination_and_headers(site: Running) -> None:
    async with reading(site, "destination=/topic/a.*,/topic/b&format=json") as reader, publisher(site) as peer:
        await reader.until(":\n\n")
        await peer.publish("/topic/a.x", b"one", kind="k")
        await peer.publish("/topic/b", b"\xff")
        one = json.loads((await reader.until("}\n\n")).removeprefix("data: ") + "}")
        assert (one["destination"], one["body"], one["headers"]["kind"]) == ("/topic/a.x", "one", "k")
        two = json.loads((await reader.until("}\n\n")).removeprefix("data: ") + "}")
        assert (two["destination"], two["body"], two["body_encoding"]) == ("/topic/b", "/w==", "base64")


async def test_last_event_id_goes_on_behind_it(site: Running) -> None:
    async with publisher(site) as peer:
        async with reading(site, "destination=/topic/log.a") as reader:
            await reader.until(":\n\n")
            await peer.publish("/topic/log.a", b"1")
            seen = (await reader.until("\ndata: 1\n\n")).removeprefix("id: ")
        await until(lambda: len(site.gateway.broker.sessions) == 1)
        await peer.publish("/topic/log.a", b"2")
        await peer.settled()
        async with reading(site, "destination=/topic/log.a", last_event_id=seen) as reader:
            await reader.until(":\n\n")
            assert await reader.until("\ndata: 2\n\n") == f"id: {int(seen) + 1}"
        async with reading(site, f"destination=/topic/log.a&last_event_id={seen}") as reader:
            await reader.until("data: 2\n\n")


async def test_of_several_destinations_each_goes_on_where_it_was(site: Running) -> None:
    names = "destination=/topic/log.a,/topic/plain,/topic/log.b"
    async with publisher(site) as peer:
        async with reading(site, names) as reader:
            for name in ("log.a", "plain", "log.b"):
                await peer.publish(f"/topic/{name}", name.encode())
            await reader.until("data: log.a\n\n")
            assert await reader.until("data: plain\n\n") == ""
            seen = (await reader.until("\ndata: log.b\n\n")).removeprefix("id: ")
        assert seen.split(",")[1] == "-"
        await until(lambda: len(site.gateway.broker.sessions) == 1)
        await peer.publish("/topic/log.b", b"later")
        await peer.settled()
        async with reading(site, names, last_event_id=seen) as reader:
            await reader.until(":\n\n")
            assert "log.a" not in await reader.until("data: later\n\n")


async def test_a_gap_is_an_event(site: Running) -> None:
    async with publisher(site) as peer:
        await peer.publish("/topic/log.a", b"1")
        await peer.settled()
        async with reading(site, "destination=/topic/log.a", last_event_id="1000000000000001") as reader:
            await reader.until("event: gap\n")
            facts, _, rest = (await reader.until("data: 1\n\n")).partition("\n\n")
            assert json.loads(facts.removeprefix("data: "))["destination"] == "/topic/log.a"
            assert rest.startswith("id: ")


async def test_a_comment_in_the_silence(site: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SILENCE", 0.01)
    async with reading(site, "destination=/topic/a") as reader:
        await reader.until(":\n\n")
        assert await reader.until(":\n\n") == ""


async def test_a_reader_that_leaves_is_no_session_any_more(site: Running) -> None:
    async with reading(site, "destination=/topic/a"):
        assert len(site.gateway.broker.sessions) == 1
    await until(lambda: not site.gateway.broker.sessions)


async def test_one_that_takes_nothing_is_closed(site: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LONGEST_WRITE", 0.01)
    async with reading(site, "destination=/topic/a") as reader, publisher(site) as peer:
        await reader.until(":\n\n")
        reader.is_stuck = True
        await peer.publish("/topic/a", b"x")
        await until(lambda: len(site.gateway.broker.sessions) == 1)
        reader.is_stuck = False


async def test_the_drain_ends_it_and_says_when_to_come_again(site: Running) -> None:
    async with reading(site, "destination=/topic/a") as reader:
        await reader.until(":\n\n")
        site.gateway.begin_drain()
        assert await reader.until("event: end\n") == "retry: 2000\n"
        await until(lambda: reader.is_complete)
        assert "server is shutting down" in reader.text


async def test_an_operator_ends_it(site: Running) -> None:
    async with reading(site, "destination=/topic/a") as reader:
        (session,) = site.gateway.broker.sessions
        await site.ask("DELETE", f"sessions/{session}", reason="enough")
        await reader.until("event: end\n")
        await until(lambda: reader.is_complete)


REFUSED = {
    "destination=/queue/a": (400, "destination: '/queue/a' is no topic: messages of a queue want an ACK"),
    "destination=/nowhere": (400, "destination: unsupported kind of destination"),
    "": (400, "destination is missing"),
    "destination=/topic/a&format=xml": (400, "format must be one of text, json"),
    "destination=/topic/a&last_event_id=x": (400, "Last-Event-ID is none of these destinations in this order"),
    "destination=/topic/a&last_event_id=1,2": (400, "Last-Event-ID is none of these destinations in this order"),
    f"destination={','.join(['/topic/a'] * 21)}": (400, "destination: it names 21 topics, and may name 20"),
    "destination=/topic/log.*&last_event_id=1000000000000001": (400, ""),
}


@pytest.mark.parametrize("query", REFUSED)
async def test_what_is_refused(site: Running, query: str) -> None:
    status, sentence = REFUSED[query]
    answer: Answer = await site.ask("GET", f"/sse?{query}")
    assert (answer.status, answer.error[: len(sentence)]) == (status, sentence)


class TestLogin:
    @pytest.fixture
    async def guarded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "users").write_text(f"ada:{passwords.hash_passcode('right')}\n")
        rule = [{"destination": "/topic/a", "users": ["ada"], "allow": ["subscribe"]}]
        async with running(users_file=tmp_path / "users", rule=rule) as found:
            yield found

    async def test_logins_and_rules(self, guarded: Running) -> None:
        basic = "Basic " + base64.b64encode(b"ada:right").decode()
        async with reading(guarded, "destination=/topic/a", authorization=basic) as reader:
            assert reader.status == 200
        refused = await guarded.ask("GET", "/sse?destination=/topic/b", headers={"authorization": basic})
        assert (refused.status, refused.error.partition(":")[0]) == (403, "access refused")
        assert (await guarded.ask("GET", "/sse?destination=/topic/a")).status == 401

    async def test_a_ticket(self, guarded: Running) -> None:
        basic = "Basic " + base64.b64encode(b"ada:right").decode()
        ticket = (await guarded.ask("POST", "tickets", headers={"authorization": basic})).json["ticket"]
        async with reading(guarded, f"destination=/topic/a&ticket={ticket}") as reader:
            assert reader.status == 200

    async def test_pages_of_elsewhere(self, guarded: Running) -> None:
        answer = await guarded.ask("GET", "/sse?destination=/topic/a", headers={"origin": "https://evil.example"})
        assert answer.status == 403


async def test_a_subscription_that_is_never_confirmed_is_refused(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.abc.Clock
) -> None:
    async def never(_: LocalClient, receipt: str) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(LocalClient, "confirmed", never)
    monkeypatch.setattr(LocalClient, "send", lambda *_: None)
    began = trio.current_time()
    with pytest.raises(ApiError, match="not confirmed within 30 s; try again") as refused:
        await event_source._subscribe(object.__new__(LocalClient), ["/topic/a"], [""])
    assert refused.value.status == 503
    assert trio.current_time() - began == event_source.LONGEST_SUBSCRIBE
