"""Scheduled messages, retained messages and offsets over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.admin.listing import SLICE
from gateway.broker.admin import stored_rows
from gateway.broker.admin.messages import MessageAdmin
from gateway.broker.core.storage import Storage
from gateway.broker.model.options import SendOptions
from gateway.codec import Head

from .running import Running, running
from .test_listing import Watch


@pytest.fixture(params=["memory", "sqlite:store.db"], ids=["memory", "stored"])
async def either(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Running]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gateway.toml").write_text('[[policy]]\nmatch = "/topic/log.#"\nlog_messages = 100\n')
    async with running(store=request.param) as site:
        yield site


async def publish(site: Running, name: str, body: str = "", **headers: str) -> None:
    await site.post("publish", {"destination": name, "body": body, "headers": {"persistent": "true", **headers}})


async def later(site: Running, name: str, body: str = "", delay: int = 3_600_000, **headers: str) -> None:
    await publish(site, name, body, **headers, **{"x-delay": str(delay)})


async def scheduled(site: Running, **query: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await site.get("scheduled", **query))["scheduled"]
    return found


class TestScheduled:
    async def test_rows_and_one_whole(self, either: Running) -> None:
        await later(either, "/queue/a", "x" * 10_000, color="red", token="secret")
        (row,) = await scheduled(either)
        assert (row["destination"], row["size"], row["expires"]) == ("/queue/a", 10_000, None)
        assert row["stored"] is (either.settings.store != "memory")
        assert row["due"] - either.gateway.broker.scheduler.epoch() == pytest.approx(3_600, abs=60)
        found = await either.get(f"scheduled/{row['id']}")
        assert (len(found["body"]), found["truncated"]) == (10_000, False)
        assert (found["headers"]["color"], found["headers"]["token"]) == ("red", "(hidden)")
        for method in ("GET", "DELETE"):
            answer = await either.ask(method, "scheduled/nothing")
            assert (answer.status, "no scheduled message has that id" in answer.error) == (404, True)
        assert (await either.ask("DELETE", "scheduled")).status == 400, "a destination must be named"
        assert len(await scheduled(either)) == 1

    async def test_one_is_cancelled_and_all_of_a_destination(self, either: Running) -> None:
        for name in ("/queue/a", "/queue/b", "/queue/a,/queue/c", "/queue/a", "/queue/b"):
            await later(either, name)
        first = (await scheduled(either))[0]
        with capture_logs() as logs:
            answer = await either.ask("DELETE", f"scheduled/{first['id']}")
            assert (answer.status, answer.body) == (204, b"")
            assert (await either.ask("DELETE", "scheduled", destination="a")).json == {"cancelled": 2}
        assert {row["destination"] for row in await scheduled(either)} == {"/queue/b"}
        one, many = [each for each in logs if each["event"] == "admin"]
        assert (one["action"], one["target"]) == ("cancel scheduled message", first["id"])
        assert (one["destination"], one["outcome"]) == ("/queue/a", "done")
        assert (many["action"], many["target"], many["done"]) == ("cancel scheduled messages", "a", 2)
        assert (await either.ask("DELETE", f"scheduled/{first['id']}")).status == 404
        assert (await either.ask("DELETE", "scheduled", destination="/nowhere")).json == {"cancelled": 0}

    async def test_not_while_the_store_is_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        waits: list[Callable[[], None]] = []
        real = MessageAdmin.when_stored

        def note(self: MessageAdmin, then: Callable[[], None]) -> None:
            waits.append(then)
            real(self, then)

        async with running(store="sqlite:store.db") as site:
            for _ in range(3):
                await later(site, "/queue/a")
            monkeypatch.setattr(Storage, "is_behind", property(lambda self: not waits))
            monkeypatch.setattr(MessageAdmin, "when_stored", note)
            assert (await site.ask("DELETE", "scheduled", destination="/queue/a")).json == {"cancelled": 3}
        assert len(waits) == 2  # once it was behind, and at the end all must be written


async def test_a_retained_message_is_shown_and_deleted(either: Running) -> None:
    await publish(either, "/topic/a", "one", retain="set")
    await publish(either, "/topic/b", "four", retain="set")
    answer = await either.get("retained", sort="-size")
    assert [(row["topic"], row["size"]) for row in answer["retained"]] == [("/topic/b", 4), ("/topic/a", 3)]
    assert answer["retained"][0]["stored"] is (either.settings.store != "memory")
    found = await either.get("retained/message", topic="/topic/a")
    assert (found["body"], found["headers"]["retained"]) == ("one", "true")
    with capture_logs() as logs:
        answer = await either.ask("DELETE", "retained/message", topic="/topic/a")
    assert answer.status == 204
    assert (await either.get("retained", q="A"))["total"] == 0
    (line,) = [each for each in logs if each["event"] == "admin"]
    assert (line["action"], line["target"]) == ("delete retained message", "/topic/a")
    for method in ("GET", "DELETE"):
        answer = await either.ask(method, "retained/message", topic="/topic/a")
        assert (answer.status, answer.error) == (404, "that topic retains no message")


async def test_an_offset_is_shown_and_deleted(either: Running) -> None:
    alice = await either.peer(login="alice", client_id="desk")
    await alice.subscribe("/topic/log.a", ack="client", resume="me")
    await alice.subscribe("/topic/log.*", id=2, ack="client", resume="all")
    row, pattern = (await either.get("cursors", sort="-topic"))["cursors"]
    assert (row["login"], row["client_id"], row["resume"]) == ("alice", "desk", "me")
    assert (row["topic"], row["behind"], bool(row["session"]), pattern["behind"]) == ("/topic/log.a", 0, True, None)
    await alice.send_frame("DISCONNECT", receipt="end")
    await alice.frame("RECEIPT")
    await alice.aclose()
    await publish(either, "/topic/log.a", "one")
    (row,) = (await either.get("cursors", q="log.a"))["cursors"]
    assert (row["behind"], row["session"]) == (1, "")
    with capture_logs() as logs:
        answer = await either.ask("DELETE", "cursor", name=row["name"])
    assert answer.status == 204
    (line,) = [each for each in logs if each["event"] == "admin"]
    assert (line["action"], line["target"]) == ("delete cursor", row["name"])
    assert (await either.get("cursors"))["total"] == 1
    answer = await either.ask("DELETE", "cursor", name=row["name"])
    assert (answer.status, answer.error) == (404, "there is no such offset")


async def test_a_store_that_does_not_confirm(
    site: Running, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MessageAdmin, "when_stored", lambda self, then: None)
    for _ in range(2):
        await later(site, "/queue/a")
    row, _ = await scheduled(site)
    started = trio.current_time()
    answer = await site.ask("DELETE", f"scheduled/{row['id']}")
    assert (answer.status, answer.error) == (503, "it is cancelled, and the store has not confirmed it within 30 s")
    assert trio.current_time() - started == pytest.approx(30)
    with capture_logs() as logs:
        answer = await site.ask("DELETE", "scheduled", destination="/queue/a")
    assert (answer.status, answer.error) == (503, "stopped after 30 s; cancelled so far: 1")
    (line,) = [each for each in logs if each["event"] == "admin"]
    assert (line["outcome"], line["done"]) == ("refused", 1)


@pytest.mark.slow
async def test_many_are_listed_and_cancelled_in_slices(site: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    many, watch, router = 10_000, Watch(), site.gateway.broker.router
    for number in range(many):
        head = Head.of("SEND", {"destination": "/queue/a"})
        router.send(router.prepare(head, b"", "/queue/a", SendOptions(delay=3_600.0 + number), None))

    def counted(key: Any) -> Any:
        return lambda entry: (watch.look(), key(entry))[1]

    monkeypatch.setitem(stored_rows.SCHEDULED_KEYS, "due", counted(stored_rows.SCHEDULED_KEYS["due"]))
    monkeypatch.setattr(stored_rows, "targets_of", counted(stored_rows.targets_of))
    monkeypatch.setattr(trio.lowlevel, "checkpoint", watch.checkpoint)
    answer = await site.get("scheduled", sort="-due", limit=10, destination="/queue/a")
    assert (answer["total"], watch.total >= many, watch.most <= 3 * SLICE) == (many, True, True)
    watch.most = 0
    assert (await site.ask("DELETE", "scheduled", destination="/queue/a")).json == {"cancelled": many}
    assert 0 < watch.most <= SLICE
    assert len(site.gateway.broker.scheduler) < 100
