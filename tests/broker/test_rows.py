"""Sessions and destinations as the admin API lists them."""

from __future__ import annotations

from gateway.broker import rows
from gateway.codec import Version

from .client import EPOCH, WITH_NACK, Scene
from .conftest import Stage


def test_a_session(scene: Scene, version: Version) -> None:
    client = scene.connect(version, transport="websocket")
    client.stalled = True
    client.subscribe("/queue/a", "0", ack="client")
    client.subscribe("/topic/a", "1")
    client.publish("/queue/a")
    client.begin()
    assert rows.of_session(client.session) == {
        "id": client.session.id,
        "login": "anonymous",
        "version": version.name,
        "transport": "websocket",
        "peer": "127.0.0.1:50000",
        "connected_at": EPOCH,
        "subscriptions": 2,
        "unacknowledged": 1,
        "transactions": 1,
        "pending_octets": len(b"".join(client.session.outbound.parts)),
        "frames_in": 4,
    }


def test_destinations(stage: Stage) -> None:
    scene = stage({"/queue/b": {"backoff": 1.0}})
    client, other = scene.connect(), scene.connect()
    client.subscribe("/topic/a", "0")
    other.subscribe("/topic/a", "0")
    for _ in range(3):
        client.publish("b", b"x")
    other.subscribe("b", "1", ack="client-individual")
    other.nack(other.messages()[0])
    for _ in range(2):
        client.publish("c", b"x")
    octets = scene.broker.stored_octets // 5 * 2
    names = ["name", "kind", "subscriptions", "waiting", "delayed", "unacknowledged", "octets", "log"]
    expected = [
        ("/topic/a", "topic", 2, 0, 0, 0, 0, None),
        ("/queue/b", "queue", 1, 0, 1, 2, 0, None),
        ("/queue/c", "queue", 0, 2, 0, 0, octets, None),
    ]
    assert scene.broker.destination_rows() == [dict(zip(names, row, strict=True)) for row in expected]


def test_what_a_topics_subscriber_has_not_acknowledged(stage: Stage, version: Version) -> None:
    scene = stage(max_unacknowledged=2)
    client = scene.connect(version)
    client.subscribe("/topic/a.*", ack="client")
    for _ in range(5):
        client.publish("/topic/a.b", b"m")
    (row,) = scene.broker.destination_rows()
    assert (row["name"], row["unacknowledged"]) == ("/topic/a.*", 2)


def test_users_destinations_are_listed_too(scene: Scene) -> None:
    client = scene.connect(WITH_NACK[0])
    client.subscribe("/user/queue/x")
    (row,) = scene.broker.destination_rows()
    assert (row["name"], row["kind"]) == (f"/user/{client.session.id}/queue/x", "topic")


def test_the_log_of_a_topic() -> None:
    scene = Scene({"/topic/a": {"log_messages": 2}})
    client = scene.connect()
    client.subscribe("/topic/a")
    for _ in range(3):
        client.publish("/topic/a", b"x")
    *_, last = client.messages()
    seq = int(last.headers["seq"])
    (row,) = scene.broker.destination_rows()
    log = scene.broker.directory.logs.matching("/topic/a")[0]
    assert row["log"] == {"first": seq - 1, "next": seq + 1, "messages": 2, "octets": log.octets}
