"""Messages over HTTP: operations on those of queues, and publishing; the broker's tests have the work itself."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.admin import messages as messages_api
from gateway.broker.model.changes import Batch
from gateway.stores import SQLiteStore
from gateway.stores.errors import StoreError
from tests.transports.peers import until

from .running import Running, running


async def fill(site: Running, name: str, *bodies: str, **headers: str) -> list[str]:
    for body in bodies:
        await site.post("publish", {"destination": name, "body": body, "headers": headers})
    return [row["id"] for row in (await site.get("messages", destination=name))["messages"]]


class TestMessages:
    async def test_a_page_and_what_is_deleted(self, site: Running) -> None:
        ids = await fill(site, "/queue/a", "one", "two", "three", color="red")
        assert len(set(ids)) == 3
        answer = await site.get("messages", destination="/queue/a", limit=1, offset=1)
        assert (answer["total"], answer["limit"], answer["offset"]) == (3, 1, 1)
        (row,) = answer["messages"]
        assert (row["id"], row["position"], row["body"], row["body_encoding"]) == (ids[1], 1, "two", "utf-8")
        assert (row["headers"]["color"], row["dead_letter"], row["redelivered"]) == ("red", None, False)
        assert (answer["next"], (await site.get("messages", destination="/queue/a"))["next"]) == (2, None)
        answer = await site.post("messages/delete", {"destination": "/queue/a", "ids": [ids[1], "nothing"]})
        assert answer == {"deleted": 1, "missing": ["nothing"]}
        await fill(site, "/queue/a", "four", color="blue")
        answer = await site.get("messages", destination="a", selector="color = 'blue'")
        assert [row["body"] for row in answer["messages"]] == ["four"]
        assert await site.post("queues/purge", {"destination": "a", "selector": "color = 'red'"}) == {"purged": 2}
        assert await site.post("queues/purge", {"destination": "a"}) == {"purged": 1}

    async def test_one_whole(self, site: Running) -> None:
        body = {"destination": "/queue/a", "body": base64.b64encode(b"\xff\0").decode(), "body_encoding": "base64"}
        assert await site.post("publish", body) == {"published": True}
        (row,) = (await site.get("messages", destination="/queue/a"))["messages"]
        assert (row["body_encoding"], base64.b64decode(row["body"]), row["size"]) == ("base64", b"\xff\0", 2)
        (id,) = await fill(site, "/queue/b", "x" * 10_000)
        (row,) = (await site.get("messages", destination="/queue/b"))["messages"]
        assert (len(row["body"]), row["truncated"]) == (4096, True)
        found = await site.get("message", destination="/queue/b", id=id)
        assert (len(found["body"]), found["truncated"]) == (10_000, False)
        assert (await site.ask("GET", "message", destination="/queue/b", id="nothing")).status == 404
        for path, more in (("messages", {}), ("message", {"id": "1"})):
            answer = await site.ask("GET", path, destination="/queue/none", **more)  # type: ignore[arg-type]
            assert (answer.status, "/queue/none" in answer.error) == (404, True)


class TestChanges:
    async def test_move(self, site: Running) -> None:
        ids = await fill(site, "/queue/a", "one", "two", "three")
        body: dict[str, Any] = {"source": "/queue/a", "target": "/queue/b", "limit": 1}
        assert await site.post("queues/move", body) == {"moved": 1, "refused": [], "stopped": None}
        answer = await site.post("queues/move", {"source": "/queue/a", "target": "/queue/b", "ids": [ids[2], ids[0]]})
        assert answer["moved"] == 1
        assert [each["id"] for each in answer["refused"]] == [ids[0]]
        rows = (await site.get("messages", destination="/queue/b"))["messages"]
        assert [row["body"] for row in rows] == ["one", "three"]

    async def test_requests_that_make_no_sense(self, site: Running) -> None:
        await fill(site, "/queue/a", "one")
        wrong: list[tuple[dict[str, Any], int]] = [
            ({"source": "/queue/none"}, 404),
            ({"target": "/queue/a"}, 400),
            ({"target": "/nowhere"}, 400),
            ({"selector": "("}, 400),
            ({"ids": ["1"], "selector": "a = 1"}, 400),
            ({"ids": []}, 400),
            ({"limit": 0}, 400),
        ]
        for change, status in wrong:
            answer = await site.ask("POST", "queues/move", {"source": "/queue/a", "target": "/queue/b", **change})
            assert (answer.status, bool(answer.error)) == (status, True), change
        assert len(await fill(site, "/queue/a")) == 1

    async def test_it_ends_where_there_is_no_room(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "gateway.toml").write_text('[[policy]]\nmatch = "/queue/b"\nmax_messages = 1\n')
        async with running() as site:
            await fill(site, "/queue/a", "one", "two")
            with capture_logs() as logs:
                answer = await site.post("queues/move", {"source": "/queue/a", "target": "/queue/b"})
            assert (answer["moved"], "/queue/b" in answer["stopped"]) == (1, True)
            (line,) = [each for each in logs if each["event"] == "admin"]
            assert (line["action"], line["target"], line["outcome"]) == ("move", "/queue/a -> /queue/b", "done")
            assert (line["done"], line["missing"], line["refused"]) == (1, 0, 0)
            assert line["stopped"] == answer["stopped"]


class Never:
    """Work that does not come to an end."""

    def __init__(self) -> None:
        self.cancelled = False

    def __call__(self, *arguments: object) -> Never:
        return self

    def cancel(self) -> None:
        self.cancelled = True


async def test_work_without_an_end_is_cancelled(
    site: Running, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Never()
    monkeypatch.setattr(type(site.gateway.message_admin), "purge", work)
    started = trio.current_time()
    answer = await site.ask("POST", "queues/purge", {"destination": "/queue/a"})
    assert (answer.status, answer.error) == (503, "cancelled after 30 s")
    assert trio.current_time() - started == pytest.approx(messages_api.PATIENCE)
    assert work.cancelled


APP = """
from gateway.handlers import Handlers

handlers = Handlers()
seen = []


@handlers.send("/app/greet")
async def greet(request):
    seen.append((request.user, request.text))
    request.reply("hello")
"""


class TestPublish:
    async def test_headers_mean_what_they_mean_in_a_send(self, site: Running) -> None:
        headers = {"x-delay": "0", "expires": "0", "retain": "set", "color": "red"}
        await site.post("publish", {"destination": "/topic/a", "body": "k\u00e9pt", "headers": headers})
        peer = await site.peer()
        await peer.send_frame("SUBSCRIBE", destination="/topic/a", id=1)
        message = await peer.frame("MESSAGE")
        assert (message.body, message["color"], "x-delay" in message.headers) == ("k\u00e9pt".encode(), "red", False)
        for priority in ("1", "9"):
            body = {"destination": "/queue/a", "body": priority, "headers": {"priority": priority}}
            await site.post("publish", body)
        rows = (await site.get("messages", destination="/queue/a"))["messages"]
        assert [row["body"] for row in rows] == ["9", "1"]
        await peer.aclose()

    async def test_an_answer_to_a_client(self, site: Running) -> None:
        """At its temporary destination, as long as it is connected."""
        peer = await site.peer()
        await peer.subscribe("/temp-queue/answers")
        await peer.subscribe("/topic/questions", id=2)
        await peer.publish("/topic/questions", b"?", reply_to="/temp-queue/answers")
        reply_to = (await peer.frame("MESSAGE"))["reply-to"]
        assert await site.post("publish", {"destination": reply_to, "body": "!"}) == {"published": True}
        assert (await peer.frame("MESSAGE")).body == b"!"
        await peer.aclose()
        await until(lambda: not site.gateway.broker.sessions)
        answer = await site.ask("POST", "publish", {"destination": reply_to, "body": "!"})
        assert (answer.status, answer.error.partition(":")[0]) == (400, "no such temporary destination")

    async def test_requests_that_are_refused(self, site: Running) -> None:
        wrong: list[tuple[dict[str, object], str]] = [
            ({"destination": "/nowhere/a"}, "/nowhere/a"),
            ({"destination": ""}, "destination"),
            ({"destination": "/temp-queue/a"}, "temporary"),
            ({"destination": "a\0"}, "no frame"),
            ({"destination": "/queue/a,/reply-queue/gone"}, "no such temporary destination: '/reply-queue/gone'"),
            ({"headers": {"reply-to": "/temp-queue/a"}}, "temporary"),
            ({"headers": {"user-id": "root"}}, "user-id"),
            ({"headers": {"receipt": "r"}}, "receipt"),
            ({"headers": {"priority": "planted"}}, "priority"),
            ({"headers": {"": "planted"}}, "no frame"),
            ({"headers": {"a": "x" * 70_000}}, "max_header_line"),
            ({"headers": {str(number): "x" for number in range(1_000)}}, "max_headers"),
            ({"headers": {"a": 1}}, "headers.a"),
            ({"body": "no base64!", "body_encoding": "base64"}, "base64"),
            ({"body_encoding": "latin-1"}, "body_encoding"),
            ({"retain": True}, "there is no field 'retain'"),
        ]
        with capture_logs() as logs:
            for change, said in wrong:
                answer = await site.ask("POST", "publish", {"destination": "/queue/a", "body": "planted", **change})
                assert (answer.status, said in answer.error) == (400, True), change
            assert (await site.get("destinations"))["total"] == 0
        assert "planted" not in repr(logs), "nothing of a message is logged"
        broker = site.gateway.broker
        broker.judge_memory(scarce=True, flooded=False, nearly_exhausted=False, exhausted="")
        answer = await site.ask("POST", "publish", {"destination": "/queue/a", "body": "x"})
        assert (answer.status, "memory is short" in answer.error) == (503, True)

    async def test_a_body_above_max_body(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        async with running(max_body=2048) as site:
            answer = await site.ask("POST", "publish", {"destination": "/queue/a", "body": "x" * 2049})
            assert (answer.status, answer.error) == (400, "body: the message has 2049 bytes, max_body is 2048")
            await site.post("publish", {"destination": "/queue/a", "body": "x" * 2048})

    async def test_functions_see_the_operator(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "publish_app.py").write_text(APP)
        async with running(handlers="publish_app:handlers") as site:
            peer = await site.peer()
            await peer.subscribe("/topic/answers")
            headers = {"reply-to": "/topic/answers"}
            await site.post("publish", {"destination": "/app/greet", "body": "x", "headers": headers})
            assert (await peer.frame("MESSAGE")).body == b"hello"
            await peer.aclose()
            import publish_app  # type: ignore[import-not-found]

            assert publish_app.seen == [("local", "x")]


STORED = {"destination": "/queue/a", "body": "x", "headers": {"persistent": "true"}}


async def test_a_stored_message_is_answered_when_it_is_in_the_store(tmp_path: Path) -> None:
    async with running(store=f"sqlite:{tmp_path / 'store.db'}") as site:
        committer, storage = site.gateway.committer, site.gateway.broker.storage
        assert committer is not None
        assert storage is not None
        rows = committer.rows
        await site.post("publish", STORED)
        assert committer.rows == rows + 1
        storage.run_short("the disk is full", "the disk is full")
        answer = await site.ask("POST", "publish", STORED)
        assert (answer.status, "store" in answer.error) == (503, True)
        await site.post("publish", {**STORED, "headers": {}})


async def test_a_store_that_does_not_answer(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: SQLiteStore, batch: Batch) -> None:
        raise StoreError("it is gone")

    async with running(store=f"sqlite:{tmp_path / 'store.db'}") as site:
        with monkeypatch.context() as patch:
            patch.setattr(SQLiteStore, "write", fail)
            started = trio.current_time()
            answer = await site.ask("POST", "publish", STORED)
            assert (answer.status, trio.current_time() - started >= 30) == (503, True)
            assert "has not confirmed it within 30 s" in answer.error


async def test_a_draining_gateway_takes_no_messages(tmp_path: Path) -> None:
    """So late a message would be lost, or would wait for the restart unnoticed."""
    async with running(store=f"sqlite:{tmp_path}/store.db", drain_retry=1500) as site:
        await site.post("drain", status=202)
        for persistent in ("false", "true"):
            body = {"destination": "/queue/a", "body": "x", "headers": {"persistent": persistent}}
            answer = await site.ask("POST", "publish", body)
            assert (answer.status, answer.headers["retry-after"]) == (503, "2")
            assert answer.error.startswith("the gateway is shutting down and takes no messages: publish again when")
            await until(lambda: site.gateway.drained)
        assert site.gateway.broker.context.waiting == 0
