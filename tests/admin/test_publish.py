"""A SEND on an operator's word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.broker.model.changes import Batch
from gateway.stores import SQLiteStore
from gateway.stores.errors import StoreError
from tests.transports.peers import until

from .running import Running, running

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
    async def test_a_subscriber_gets_it(self, site: Running) -> None:
        peer = await site.peer()
        await peer.subscribe("/topic/a")
        body = {"destination": "/topic/a", "body": "h\u00e9llo", "headers": {"color": "red"}}
        assert await site.post("publish", body) == {"published": True}
        message = await peer.frame("MESSAGE")
        assert (message.body, message["color"]) == ("h\u00e9llo".encode(), "red")
        await peer.aclose()

    async def test_headers_mean_what_they_mean_in_a_send(self, site: Running) -> None:
        for priority in ("1", "9"):
            body = {"destination": "/queue/a", "body": priority, "headers": {"priority": priority}}
            await site.post("publish", body)
        rows = (await site.get("messages", destination="/queue/a"))["messages"]
        assert [row["body"] for row in rows] == ["9", "1"]

    async def test_headers_that_only_steer_the_broker_are_not_passed_on(self, site: Running) -> None:
        headers = {"x-delay": "0", "expires": "0", "retain": "set", "color": "red"}
        await site.post("publish", {"destination": "/topic/a", "body": "kept", "headers": headers})
        peer = await site.peer()
        await peer.send_frame("SUBSCRIBE", destination="/topic/a", id=1)
        message = await peer.frame("MESSAGE")
        assert (message.body, message["color"], "x-delay" in message.headers) == (b"kept", "red", False)
        await peer.aclose()

    @pytest.mark.parametrize("kind", ["queue", "topic"])
    async def test_an_answer_to_somebody(self, site: Running, kind: str) -> None:
        """At a temporary destination of his, as long as he is there."""
        peer = await site.peer()
        await peer.subscribe(f"/temp-{kind}/answers")
        await peer.subscribe("/topic/questions", id=2)
        await peer.publish("/topic/questions", b"?", reply_to=f"/temp-{kind}/answers")
        reply_to = (await peer.frame("MESSAGE"))["reply-to"]
        assert await site.post("publish", {"destination": reply_to, "body": "!"}) == {"published": True}
        assert (await peer.frame("MESSAGE")).body == b"!"
        await peer.aclose()
        await until(lambda: not site.gateway.broker.sessions)
        answer = await site.ask("POST", "publish", {"destination": reply_to, "body": "!"})
        assert (answer.status, answer.error.partition(":")[0]) == (400, "no such temporary destination")

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"destination": "/nowhere/a"}, "/nowhere/a"),
            ({"destination": ""}, "destination"),
            ({"destination": "/temp-queue/a"}, "temporary"),
            ({"destination": "a\0"}, "no frame"),
            ({"destination": "/reply-queue/gone"}, "no such temporary destination: '/reply-queue/gone'"),
            ({"destination": "/reply-topic/gone"}, "no such temporary destination: '/reply-topic/gone'"),
            ({"destination": "/queue/a,/reply-queue/gone"}, "no such temporary destination: '/reply-queue/gone'"),
            ({"headers": {"reply-to": "/temp-queue/a"}}, "temporary"),
            ({"headers": {"user-id": "root"}}, "user-id"),
            ({"headers": {"transaction": "t"}}, "transaction"),
            ({"headers": {"receipt": "r"}}, "receipt"),
            ({"headers": {"priority": "high"}}, "priority"),
            ({"headers": {"": "x"}}, "no frame"),
            ({"headers": {"a": "\0"}}, "no frame"),
            ({"headers": {"a": "x" * 70_000}}, "max_header_line"),
            ({"headers": {str(number): "x" for number in range(1_000)}}, "max_headers"),
            ({"headers": {"a": 1}}, "headers.a"),
            ({"body": "no base64!", "body_encoding": "base64"}, "base64"),
            ({"body_encoding": "latin-1"}, "body_encoding"),
            ({"retain": True}, "there is no field 'retain'"),
        ],
    )
    async def test_what_cannot_be(self, site: Running, change: dict[str, object], said: str) -> None:
        answer = await site.ask("POST", "publish", {"destination": "/queue/a", "body": "x", **change})
        assert answer.status == 400
        assert said in answer.error
        assert (await site.get("destinations"))["total"] == 0

    async def test_a_body_above_max_body(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        async with running(max_body=2048) as site:
            answer = await site.ask("POST", "publish", {"destination": "/queue/a", "body": "x" * 2049})
            assert (answer.status, answer.error) == (
                400,
                "body: the message has 2049 bytes, max_body is 2048",
            )
            await site.post("publish", {"destination": "/queue/a", "body": "x" * 2048})

    async def test_nothing_of_the_message_is_logged(self, site: Running) -> None:
        with capture_logs() as logs:
            await site.post("publish", {"destination": "/queue/a", "body": "planted", "headers": {"key": "planted"}})
        (line,) = [each for each in logs if each["event"] == "admin"]
        assert (line["action"], line["target"], line["octets"]) == ("publish", "/queue/a", 7)
        assert "planted" not in repr(logs)

    @pytest.mark.parametrize("headers", [{"priority": "planted"}, {"": "planted"}, {"planted": "\0"}, {"planted": 1}])
    async def test_nor_of_one_that_is_refused(self, site: Running, headers: dict[str, object]) -> None:
        with capture_logs() as logs:
            body = {"destination": "/queue/a", "body": "planted", "headers": headers}
            answer = await site.ask("POST", "publish", body)
        assert answer.status == 400
        assert [each["outcome"] for each in logs if each["event"] == "admin"] == ["refused"]
        assert "planted" not in repr(logs)

    async def test_functions_are_told_who_asks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

    async def test_memory_is_short(self, site: Running) -> None:
        broker = site.gateway.broker
        broker.judge_memory(scarce=True, flooded=False, nearly_exhausted=False, exhausted="")
        answer = await site.ask("POST", "publish", {"destination": "/queue/a", "body": "x"})
        assert answer.status == 503
        assert "memory is short" in answer.error


class TestStored:
    """With a store the answer is a RECEIPT's."""

    @pytest.fixture
    async def site(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
        monkeypatch.chdir(tmp_path)
        async with running(store=f"sqlite:{tmp_path / 'store.db'}") as site:
            yield site

    async def test_answered_when_it_is_in_the_store(self, site: Running) -> None:
        assert site.gateway.committer is not None
        rows = site.gateway.committer.rows
        await site.post("publish", {"destination": "/queue/a", "body": "x", "headers": {"persistent": "true"}})
        assert site.gateway.committer.rows == rows + 1

    async def test_the_store_refuses(self, site: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        storage = site.gateway.broker.storage
        assert storage is not None
        storage.run_short("the disk is full", "the disk is full")
        body = {"destination": "/queue/a", "body": "x", "headers": {"persistent": "true"}}
        answer = await site.ask("POST", "publish", body)
        assert answer.status == 503
        assert "store" in answer.error
        await site.post("publish", {**body, "headers": {}})

    async def test_the_store_does_not_answer(
        self, site: Running, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(self: SQLiteStore, batch: Batch) -> None:
            raise StoreError("it is gone")

        with monkeypatch.context() as patch:
            patch.setattr(SQLiteStore, "write", fail)
            started = trio.current_time()
            body = {"destination": "/queue/a", "body": "x", "headers": {"persistent": "true"}}
            answer = await site.ask("POST", "publish", body)
            assert (answer.status, trio.current_time() - started >= 30) == (503, True)
            assert "has not confirmed it within 30 s" in answer.error


class TestDrain:
    @pytest.mark.parametrize("persistent", ["false", "true"])
    async def test_nothing_is_taken(self, tmp_path: Path, persistent: str) -> None:
        """What came so late would be lost, or wait for the restart without anybody's knowing."""
        async with running(store=f"sqlite:{tmp_path}/store.db", drain_retry=1500) as site:
            await site.post("drain", status=202)
            body = {"destination": "/queue/a", "body": "x", "headers": {"persistent": persistent}}
            for _ in range(2):
                answer = await site.ask("POST", "publish", body)
                assert (answer.status, answer.headers["retry-after"]) == (503, "2")
                assert answer.error.startswith("the gateway is shutting down and takes no messages: publish again when")
                await until(lambda: site.gateway.drained)
            assert site.gateway.broker.waiting == 0
