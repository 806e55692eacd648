"""What stands in no queue, as the admin API lists it."""

from __future__ import annotations

import pytest

from gateway.broker.admin import stored_rows
from gateway.broker.admin.message_rows import HIDDEN
from gateway.broker.model.destinations import DURABLE
from gateway.broker.model.message import Message
from gateway.broker.topic.offsets import Offsets

from ..client import EPOCH, Scene
from ..conftest import Stage
from ..durable import P
from ..topic.logged import LOG, ME, T, fill, got

both = pytest.mark.parametrize("stored", [False, True], ids=["memory", "stored"])
TOPIC = "/topic/a"


def write(scene: Scene) -> None:
    if scene.is_stored:
        scene.commit()


class TestScheduled:
    @both
    def test_a_row(self, stage: Stage, stored: bool) -> None:
        scene = stage(stored=stored)
        client = scene.connect()
        client.publish("a", b"body", priority="7", ttl="90000", **P, **{"x-delay": "60000"})
        write(scene)
        scene.wait(10.0)
        (waiting,) = scene.broker.router.delayed.every()
        assert stored_rows.of_scheduled(scene.broker, waiting) == {
            "id": f"{Message.run.decode()}-{waiting.number}",
            "destination": "/queue/a",
            "due": pytest.approx(EPOCH + scene.now + 50.0),
            "size": 4,
            "priority": 7,
            "session": client.session.id,
            "stored": stored,
            "expires": pytest.approx(EPOCH + scene.now + 80.0),
        }

    def test_whole(self, scene: Scene) -> None:
        scene.connect().publish("a", b"x" * 100, color="red", token="secret", **{"x-delay": "60000"})
        (waiting,) = scene.broker.router.delayed.every()
        row = stored_rows.whole_scheduled(scene.broker, waiting, 1_000)
        headers = row["headers"]
        assert isinstance(headers, dict)
        assert (headers["destination"], headers["color"], headers["token"]) == ("a", "red", HIDDEN)
        assert (row["body"], row["body_encoding"], row["truncated"]) == ("x" * 100, "utf-8", False)
        row = stored_rows.whole_scheduled(scene.broker, waiting, 50)
        assert (row["body"], row["truncated"]) == ("x" * 50, True)


@pytest.mark.parametrize(
    ("text", "meant"), [("a", {"a", "/queue/a"}), ("/topic/a", {"/topic/a"}), ("/nowhere/a", {"/nowhere/a"})]
)
def test_names(text: str, meant: set[str]) -> None:
    assert stored_rows.names_of(text) == meant


class TestRetained:
    @both
    def test_a_row(self, stage: Stage, stored: bool) -> None:
        scene = stage(stored=stored)
        scene.broker.dates.note(scene.broker.router.number)
        scene.connect().publish(TOPIC, b"value", retain="set", **P)
        write(scene)
        scene.broker.dates.note(scene.broker.router.number)
        scene.wait(10.0)
        (kept,) = scene.broker.router.retained.every()
        assert scene.broker.router.retained.find(TOPIC) is kept
        assert stored_rows.of_retained(scene.broker, kept) == {
            "topic": TOPIC,
            "id": kept.message.id.decode(),
            "size": 5,
            "age": 10.0,
            "age_is_least": False,
            "stored": stored,
            "expires": None,
        }

    def test_of_an_earlier_process(self, stage: Stage) -> None:
        scene = stage(stored=True)
        scene.connect().publish(TOPIC, b"value", retain="set", ttl="60000", **P)
        scene.commit()
        scene = scene.crash()
        scene.broker.dates.note(scene.broker.router.number)
        (kept,) = scene.broker.router.retained.every()
        row = stored_rows.of_retained(scene.broker, kept)
        assert (row["age_is_least"], row["stored"]) == (True, True)
        assert row["expires"] == pytest.approx(EPOCH + 1_060.0)

    def test_whole(self, scene: Scene) -> None:
        scene.connect().publish(TOPIC, b"\xff", retain="set", color="red")
        row = stored_rows.whole_retained(scene.broker, scene.broker.router.retained.every()[0], 1_000)
        headers = row["headers"]
        assert isinstance(headers, dict)
        assert (headers["color"], headers["retained"]) == ("red", "true")
        assert (row["body"], row["body_encoding"]) == ("/w==", "base64")


def offsets(scene: Scene) -> Offsets:
    return scene.broker.router.replay.offsets


class TestCursors:
    @both
    def test_who_is_away(self, stage: Stage, stored: bool) -> None:
        scene = stage(LOG, stored=stored)
        client = scene.connect_by(b"CONNECT\naccept-version:1.2\nhost:x\nlogin:a/b\nclient-id:desk\n\n\0")
        client.subscribe(T, **ME)
        fill(scene, 5)
        found = got(client)
        (offset,) = offsets(scene).every()
        row = stored_rows.of_cursor(scene.broker, offset)
        assert (row["session"], row["behind"]) == (client.session.id, 5)
        client.ack(found[2])
        client.drop()
        assert stored_rows.of_cursor(scene.broker, offset) == {
            "name": DURABLE + "a%2Fb/desk/me",
            "login": "a/b",
            "client_id": "desk",
            "resume": "me",
            "topic": T,
            "position": offset.position,
            "behind": 2,
            "session": "",
        }
        assert offsets(scene).get(DURABLE + "a%2Fb/desk/me") is offset
        scene.connect().subscribe("/topic/*", **ME)
        row = stored_rows.of_cursor(scene.broker, offsets(scene).every()[-1])
        assert (row["topic"], row["behind"]) == ("/topic/*", None)

    @both
    @pytest.mark.parametrize("is_held", [False, True])
    def test_forgotten(self, stage: Stage, stored: bool, is_held: bool) -> None:
        scene = stage(LOG, stored=stored)
        client = scene.connect()
        client.subscribe(T, **ME)
        if not is_held:
            client.drop()
        write(scene)
        offsets(scene).forget(offsets(scene).every()[0])
        write(scene)
        assert not len(offsets(scene))
        fill(scene, 1)
        if is_held:
            assert len(got(client)) == 1  # a client that reads goes on
            client.drop()
        if stored:
            assert not len(offsets(scene.crash()))
