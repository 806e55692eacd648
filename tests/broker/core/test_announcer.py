"""Events for applications: what is told, what is not, and what happens where there is no room."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.broker.core import announcer as module
from gateway.broker.core.announcer import EventAnnouncer
from gateway.broker.core.ports import INTERNAL

from ..client import EPOCH, Client, Scene
from ..conftest import Stage

EVENTS = "/queue/events"
ALL = ("/queue/>", "/topic/>")


def told(scene: Scene, reader: Client) -> list[tuple[str, dict[str, Any]]]:
    """Type and data of the events that have come since."""
    scene.wait(0.02)
    found = []
    for message in reader.messages():
        body = json.loads(message.body)
        assert message.headers["event"] == body["type"]
        assert message.headers["content-type"] == "application/json"
        found.append((body["type"], body["data"]))
    return found


def announced(scene: Scene, patterns: tuple[str, ...] = ALL, *, sessions: bool = False) -> Client:
    """A reader of the events, which nothing tells of."""
    announcer = EventAnnouncer(scene.broker.context, EVENTS, patterns, sessions=sessions)
    reader = scene.connect()
    scene.broker.context.announcer = announcer
    reader.subscribe(EVENTS, "events")
    return reader


def named(scene: Scene, client_id: str) -> Client:
    return scene.connect_by(f"CONNECT\naccept-version:1.2\nhost:a\nclient-id:{client_id}\n\n\0".encode())


class TestOccupancy:
    @pytest.mark.parametrize("destination", ["/topic/room.1", "/queue/work", "/topic/room.>"])
    def test_the_first_and_the_last(self, scene: Scene, destination: str) -> None:
        reader, one, two = announced(scene), scene.connect(), scene.connect()
        one.subscribe(destination, "a")
        one.subscribe(destination, "b")
        two.subscribe(destination, "a", ack="client")
        assert told(scene, reader) == [("destination.occupied", {"destination": destination})]
        one.disconnect()
        assert told(scene, reader) == []
        two.unsubscribe("a")
        assert told(scene, reader) == [("destination.vacated", {"destination": destination})]

    def test_what_is_not_counted(self, scene: Scene) -> None:
        reader, one = announced(scene, ("/topic/room.>", "/queue/work")), scene.connect()
        one.subscribe("/queue/work", "browser", browser="true", **{"browser-end": "false"})
        one.subscribe("/topic/other", "other")
        one.subscribe("/temp-queue/a", "temporary")
        one.subscribe("/user/queue/a", "user")
        one.disconnect()
        assert told(scene, reader) == []

    def test_the_time(self, scene: Scene) -> None:
        reader = announced(scene)
        reader.subscribe("/topic/a", "a")
        scene.wait(0.02)
        assert json.loads(reader.message().body)["timestamp"] == "2023-11-14T22:30:00.000Z"
        assert EPOCH + 1_000.0 == 1_700_001_000.0


class TestSessions:
    def test_as_they_come_and_go(self, scene: Scene) -> None:
        reader = announced(scene, (), sessions=True)
        one = scene.connect()
        session = one.session
        ((kind, data),) = told(scene, reader)
        assert kind == "session.begun"
        assert data == {
            "session": session.id,
            "login": session.login,
            "transport": session.transport,
            "address": session.peer,
        }
        one.disconnect()
        assert told(scene, reader) == [("session.ended", {**data, "reason": "disconnected"})]
        lost = named(scene, "page")
        lost.close()
        (_, begun), (_, ended) = told(scene, reader)
        assert begun["client_id"] == "page"
        assert ended["reason"] == "connection lost"

    def test_none_if_they_are_not_wanted(self, scene: Scene) -> None:
        reader = announced(scene)
        scene.connect().disconnect()
        assert told(scene, reader) == []

    def test_those_of_the_server_itself(self, scene: Scene) -> None:
        reader = announced(scene, (), sessions=True)
        announcer = scene.broker.context.announcer
        assert announcer is not None
        reader.session.transport = INTERNAL
        announcer.session_begun(reader.session)
        announcer.session_ended(reader.session, None)
        assert told(scene, reader) == []


class TestDeadLetters:
    def test_one(self, scene: Scene) -> None:
        reader, worker = announced(scene, ("/queue/work",)), scene.connect()
        worker.subscribe("/queue/work", "w", ack="client-individual")
        worker.publish("/queue/work", b"m")
        message = worker.message()
        worker.nack(message, requeue="false", reason="no such order")
        worker.publish("/queue/other", b"m")
        (_, (kind, data)) = told(scene, reader)
        assert kind == "message.dead_letter"
        assert data == {
            "destination": "/queue/work",
            "reason": "rejected",
            "attempts": 1,
            "said": "no such order",
            "dead_letter": "/queue/dlq.work",
            "message_id": message.headers["message-id"],
        }

    def test_of_an_event(self, stage: Stage) -> None:
        """It tells of no event, or each would cause the next one."""
        scene = stage({"/queue/work": {"dead_letter": EVENTS}})
        reader = announced(scene)
        scene.broker.context.announcer.started()  # type: ignore[union-attr]
        reader.unsubscribe("events")
        reader.subscribe(EVENTS, "events", ack="client-individual")
        scene.wait(0.02)
        reader.nack(reader.message(), requeue="false")
        reader.subscribe("/queue/work", "w", ack="client-individual")
        reader.publish("/queue/work", b"{}", event="")
        scene.wait(0.02)
        found = {each.subscription: each for each in reader.messages()}
        assert json.loads(found["events"].body)["type"] == "destination.occupied"
        reader.nack(found["w"], requeue="false")
        scene.wait(0.02)
        assert [each.body for each in reader.messages()] == [b"{}"]

    def test_of_a_durable_subscription(self, stage: Stage) -> None:
        scene = stage({"/topic/prices": {"dead_letter": "/queue/dead"}})
        reader, worker = announced(scene, ("/topic/prices",)), named(scene, "w")
        worker.subscribe("/topic/prices", "d", ack="client-individual", durable="true")
        worker.publish("/topic/prices", b"m")
        worker.nack(worker.message(), requeue="false")
        ((kind, data),) = told(scene, reader)
        assert (kind, data["destination"]) == ("message.dead_letter", "/topic/prices")
        worker.send("UNSUBSCRIBE", {"id": "d", "durable": "true"})


    def test_without_a_reason(self, stage: Stage) -> None:
        scene = stage({"/queue/work": {"dead_letter_expired": True}})
        reader, worker = announced(scene, ("/queue/work",)), scene.connect()
        worker.publish("/queue/work", b"m", expiration="10")
        scene.wait(0.1)
        ((_, data),) = told(scene, reader)
        assert data["reason"] == "expired"
        assert "said" not in data


class TestNoRoom:
    def test_a_full_queue(self, stage: Stage) -> None:
        scene = stage({EVENTS: {"max_messages": 1}})
        announcer = EventAnnouncer(scene.broker.context, EVENTS, (), sessions=False)
        announcer.started()
        announcer.started()
        scene.wait(0.02)
        assert scene.broker.counters.events_lost == 1
        reader = scene.connect()
        reader.subscribe(EVENTS)
        assert json.loads(reader.message().body)["data"] == {}

    def test_a_queue_that_nothing_reads(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MOST_WAITING", 1)
        announcer = EventAnnouncer(scene.broker.context, EVENTS, (), sessions=False)
        announcer.started()
        announcer.started()
        scene.wait(0.02)
        assert scene.broker.counters.events_lost == 1

    def test_to_a_topic(self, scene: Scene) -> None:
        reader = scene.consumer("/topic/events")
        EventAnnouncer(scene.broker.context, "/topic/events", (), sessions=False).started()
        scene.wait(0.02)
        assert reader.message().headers["event"] == "gateway.started"

    def test_short_memory(self, scene: Scene) -> None:
        scene.broker.context.checks_sends = True
        EventAnnouncer(scene.broker.context, EVENTS, (), sessions=False).started()
        scene.wait(0.02)
        assert scene.broker.counters.events_lost == 1

    def test_too_many_at_once(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MOST_COLLECTED", 1)
        reader = announced(scene)
        reader.subscribe("/topic/a", "a")
        reader.subscribe("/topic/b", "b")
        assert told(scene, reader) == [("destination.occupied", {"destination": "/topic/a"})]
        assert scene.broker.counters.events_lost == 1
