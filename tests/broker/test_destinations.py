"""Which names are one destination, of which kind, and which are refused."""

from __future__ import annotations

import pytest

from gateway.broker.destinations import canonical, is_topic
from gateway.broker.errors import NotAllowed
from gateway.codec import Version

from .client import Scene


@pytest.mark.parametrize(
    ("destination", "name"),
    [
        ("/queue/a", "/queue/a"),
        ("/topic/a", "/topic/a"),
        ("/queue//", "/queue//"),
        ("/topic/a/b", "/topic/a/b"),
        ("a", "/queue/a"),
        ("queue/a", "/queue/queue/a"),
        (" /topic/a", "/queue/ /topic/a"),
        ("temp-queue", "/queue/temp-queue"),
    ],
)
def test_every_name_has_one_canonical_name(destination: str, name: str) -> None:
    assert canonical(destination) == name
    assert canonical(name) == name
    assert is_topic(name) is destination.startswith("/topic/")


@pytest.mark.parametrize("destination", ["", "/queue/", "/topic/"])
def test_a_name_must_not_be_empty(destination: str) -> None:
    with pytest.raises(NotAllowed, match="destination without a name"):
        canonical(destination)


@pytest.mark.parametrize(
    "destination",
    [
        *("/temp-queue/a", "/temp-topic/a", "/reply-queue/a", "/user/a", "/exchange/a/b", "/amq/queue/a", "/dsub/a"),
        *("/a", "/", "/queue", "/topic", "/Topic/a", "/queues/a", "//queue/a"),
    ],
)
def test_other_kinds_and_slips_of_the_pen_are_refused(destination: str) -> None:
    with pytest.raises(NotAllowed, match="unsupported kind") as caught:
        canonical(destination)
    assert "/queue/NAME and /topic/NAME" in caught.value.detail


@pytest.mark.requirement("SND-03", "SND-04", "ERR-01")
@pytest.mark.parametrize("destination", ["", "/queue/", "/temp-queue/a", "/a"])
@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_a_name_that_cannot_be_ends_the_session(scene: Scene, version: Version, command: str, destination: str) -> None:
    client = scene.connect(version)
    client.send(command, {"destination": destination, "id": "0"})
    assert "destination" in client.error().headers["message"]
    assert not scene.broker.destinations


@pytest.mark.requirement("SND-04", "MSG-01")
@pytest.mark.parametrize("name", ["a.b-c_d", "100%", "a/b/c", "*", "#", "ünï/日本/😀", "{}", "a,b;c"])
def test_a_name_is_opaque(scene: Scene, version: Version, name: str) -> None:
    consumer, producer, other = (scene.connect(version) for _ in range(3))
    consumer.subscribe(f"/queue/{name}")
    other.subscribe(f"/queue/{name}x")
    producer.publish(f"/queue/{name}", b"m")
    assert consumer.message().headers["destination"] == f"/queue/{name}"
    assert not other.received()


@pytest.mark.requirement("SND-01", "MSG-01")
def test_a_bare_name_is_a_queue(scene: Scene, version: Version) -> None:
    producer, consumer = scene.connect(version), scene.connect(version)
    producer.publish("a", b"1")
    producer.publish("/queue/a", b"2")
    consumer.subscribe("a")
    producer.publish("a", b"3")
    assert [(each.headers["destination"], each.body) for each in consumer.messages()] == [
        ("a", b"1"),
        ("/queue/a", b"2"),
        ("a", b"3"),
    ]
    assert list(scene.broker.destinations) == ["/queue/a"]
