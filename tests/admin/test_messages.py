"""What waits in queues, and what operators do to it, over HTTP; the work itself is tested with the broker."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.admin import messages as messages_api
from gateway.broker.admin import messages

from .running import Running, running


async def fill(site: Running, name: str, *bodies: str, **headers: str) -> list[str]:
    """Publish these; the ids of all that waits there."""
    for body in bodies:
        await site.post("publish", {"destination": name, "body": body, "headers": headers})
    return [row["id"] for row in (await site.get("messages", destination=name))["messages"]]


class TestMessages:
    async def test_a_page(self, site: Running) -> None:
        ids = await fill(site, "/queue/a", "one", "two", "three", color="red")
        assert len(set(ids)) == 3
        answer = await site.get("messages", destination="/queue/a", limit=1, offset=1)
        assert (answer["total"], answer["limit"], answer["offset"]) == (3, 1, 1)
        (row,) = answer["messages"]
        assert (row["id"], row["position"], row["body"], row["body_encoding"]) == (ids[1], 1, "two", "utf-8")
        assert (row["headers"]["color"], row["dead_letter"], row["redelivered"]) == ("red", None, False)
        assert (answer["next"], (await site.get("messages", destination="/queue/a"))["next"]) == (2, None)

    async def test_a_page_that_is_too_large_ends_early(self, site: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(messages, "MOST_OF_A_PAGE", 5_000)
        ids = await fill(site, "/queue/a", *["x" * 3_000] * 5)
        assert len(ids) == 2
        found, place = [], 0
        while place is not None:
            answer = await site.get("messages", destination="/queue/a", limit=4, offset=place)
            found += [row["position"] for row in answer["messages"]]
            place = answer["next"]
        assert found == [0, 1, 2, 3, 4]

    async def test_selector(self, site: Running) -> None:
        await fill(site, "/queue/a", "one", color="red")
        await fill(site, "/queue/a", "two", color="blue")
        answer = await site.get("messages", destination="a", selector="color = 'blue'")
        assert [row["body"] for row in answer["messages"]] == ["two"]
        answer = await site.ask("GET", "messages", destination="a", selector="color = ")
        assert answer.status == 400
        assert "selector" in answer.error

    async def test_what_is_no_text(self, site: Running) -> None:
        body = {"destination": "/queue/a", "body": base64.b64encode(b"\xff\0").decode(), "body_encoding": "base64"}
        assert await site.post("publish", body) == {"published": True}
        (row,) = (await site.get("messages", destination="/queue/a"))["messages"]
        assert (row["body_encoding"], base64.b64decode(row["body"]), row["size"]) == ("base64", b"\xff\0", 2)

    async def test_one_whole(self, site: Running) -> None:
        (id,) = await fill(site, "/queue/a", "x" * 10_000)
        (row,) = (await site.get("messages", destination="/queue/a"))["messages"]
        assert (len(row["body"]), row["truncated"]) == (4096, True)
        found = await site.get("message", destination="/queue/a", id=id)
        assert (len(found["body"]), found["truncated"]) == (10_000, False)
        answer = await site.ask("GET", "message", destination="/queue/a", id="nothing")
        assert answer.status == 404

    async def test_no_queue(self, site: Running) -> None:
        for path, more in (("messages", {}), ("message", {"id": "1"})):
            answer = await site.ask("GET", path, destination="/queue/none", **more)  # type: ignore[arg-type]
            assert answer.status == 404
            assert "/queue/none" in answer.error


class TestChanges:
    async def test_delete(self, site: Running) -> None:
        ids = await fill(site, "/queue/a", "one", "two", "three")
        answer = await site.post("messages/delete", {"destination": "/queue/a", "ids": [ids[1], "nothing"]})
        assert answer == {"deleted": 1, "missing": ["nothing"]}
        assert await fill(site, "/queue/a") == [ids[0], ids[2]]

    async def test_purge(self, site: Running) -> None:
        await fill(site, "/queue/a", "one", color="red")
        await fill(site, "/queue/a", "two", "three", color="blue")
        assert await site.post("queues/purge", {"destination": "a", "selector": "color = 'red'"}) == {"purged": 1}
        assert await site.post("queues/purge", {"destination": "a"}) == {"purged": 2}

    async def test_move(self, site: Running) -> None:
        ids = await fill(site, "/queue/a", "one", "two", "three")
        body: dict[str, Any] = {"source": "/queue/a", "target": "/queue/b", "limit": 1}
        assert await site.post("queues/move", body) == {"moved": 1, "refused": [], "stopped": None}
        answer = await site.post("queues/move", {"source": "/queue/a", "target": "/queue/b", "ids": [ids[2], ids[0]]})
        assert answer["moved"] == 1
        assert [each["id"] for each in answer["refused"]] == [ids[0]]
        rows = (await site.get("messages", destination="/queue/b"))["messages"]
        assert [row["body"] for row in rows] == ["one", "three"]

    @pytest.mark.parametrize(
        ("change", "status"),
        [
            ({"source": "/queue/none"}, 404),
            ({"target": "/queue/a"}, 400),
            ({"target": "/nowhere"}, 400),
            ({"selector": "("}, 400),
            ({"ids": ["1"], "selector": "a = 1"}, 400),
            ({"ids": []}, 400),
            ({"limit": 0}, 400),
        ],
    )
    async def test_nonsense(self, site: Running, change: dict[str, Any], status: int) -> None:
        await fill(site, "/queue/a", "one")
        answer = await site.ask("POST", "queues/move", {"source": "/queue/a", "target": "/queue/b", **change})
        assert answer.status == status
        assert answer.error
        assert len(await fill(site, "/queue/a")) == 1

    async def test_redrive(self, site: Running) -> None:
        peer = await site.peer()
        await fill(site, "/queue/a", "bad")
        await peer.send_frame("SUBSCRIBE", destination="/queue/a", id=1, ack="client")
        message = await peer.frame("MESSAGE")
        await peer.send_frame("NACK", id=message["ack"], requeue="false", receipt="r")
        await peer.frame("RECEIPT")
        await peer.send_frame("UNSUBSCRIBE", id=1, receipt="r")
        await peer.frame("RECEIPT")
        (row,) = (await site.get("messages", destination="/queue/dlq.a"))["messages"]
        assert (row["dead_letter"]["destination"], row["dead_letter"]["failures"]) == ("/queue/a", 1)
        answer = await site.post("queues/redrive", {"destination": "/queue/dlq.a"})
        assert answer == {"redriven": 1, "refused": [], "stopped": None}
        (row,) = (await site.get("messages", destination="/queue/a"))["messages"]
        assert (row["body"], row["dead_letter"]) == ("bad", None)
        await peer.aclose()

    async def test_the_log_tells_how_many(self, site: Running) -> None:
        await fill(site, "/queue/a", "one", "two")
        with capture_logs() as logs:
            await site.post("queues/move", {"source": "/queue/a", "target": "/queue/b"})
        (line,) = [each for each in logs if each["event"] == "admin"]
        assert (line["action"], line["target"], line["outcome"]) == ("move", "/queue/a -> /queue/b", "done")
        assert (line["done"], line["missing"], line["refused"]) == (2, 0, 0)

    async def test_it_ends_where_there_is_no_room(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "gateway.toml").write_text('[[policy]]\nmatch = "/queue/b"\nmax_messages = 1\n')
        async with running() as site:
            await fill(site, "/queue/a", "one", "two")
            with capture_logs() as logs:
                answer = await site.post("queues/move", {"source": "/queue/a", "target": "/queue/b"})
            assert (answer["moved"], "/queue/b" in answer["stopped"]) == (1, True)
            (line,) = [each for each in logs if each["event"] == "admin"]
            assert (line["outcome"], line["stopped"]) == ("done", answer["stopped"])


class Never:
    """Work that does not come to an end."""

    def __init__(self) -> None:
        self.cancelled = False

    def __call__(self, *arguments: object) -> Never:
        return self

    def cancel(self) -> None:
        self.cancelled = True


class TestPatience:
    @pytest.mark.parametrize(
        ("name", "call"),
        [
            ("browse", lambda site: site.ask("GET", "messages", destination="/queue/a")),
            ("purge", lambda site: site.ask("POST", "queues/purge", {"destination": "/queue/a"})),
        ],
    )
    async def test_it_ends(
        self,
        site: Running,
        autojump_clock: MockClock,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        call: Callable[[Running], Any],
    ) -> None:
        work = Never()
        monkeypatch.setattr(type(site.gateway.broker.administration), name, work)
        started = trio.current_time()
        answer = await call(site)
        assert (answer.status, answer.error) == (503, "cancelled after 30 s")
        assert trio.current_time() - started == pytest.approx(messages_api.PATIENCE)
        assert work.cancelled
