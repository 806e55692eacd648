"""Gauges: sessions with unacknowledged messages, and queues where messages wait, from time to time."""

from __future__ import annotations

import pytest

from gateway.broker.gauges import Gauges

from .client import Scene
from .conftest import Stage, small
from .durable import P, fill
from .recorder import Notebook, Row, recorded

Q, T = "/queue/a", "/topic/a"
PAUSE = 10.0
ONE = {"prefetch-count": "1"}


def begin(scene: Scene) -> None:
    Gauges(scene.broker, scene.broker.records, PAUSE).begin()


def watched(scene: Scene) -> Notebook:
    """A scene whose gauges are told, for the first time when nothing is there."""
    notes = recorded(scene)
    begin(scene)
    scene.settle()
    assert not notes.rows
    return notes


def next_look(scene: Scene, notes: Notebook) -> list[Row]:
    """What the next look tells."""
    before = len(notes.rows)
    scene.wait(PAUSE)
    return [row for row in notes.rows[before:] if row.event.startswith("gauge_")]


@pytest.fixture(autouse=True)
def no_gauges_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scene's own end waits until nothing is left to be done; gauges are never done."""
    finish = Scene.finish

    def on_finish(scene: Scene) -> None:
        scheduler = scene.broker.scheduler
        for _, _, entry in list(scheduler._heap):
            if getattr(entry.action, "__func__", None) is Gauges.begin:
                scheduler.cancel(entry)
        finish(scene)

    monkeypatch.setattr(Scene, "finish", on_finish)


def test_unacknowledged_messages_since_when(scene: Scene) -> None:
    notes = watched(scene)
    client = scene.connect()
    client.subscribe(Q, "q", ack="client")
    client.subscribe("/topic/*", "t", ack="client-individual")
    client.subscribe("/queue/b", "b", ack="client")
    client.subscribe("/queue/c", "auto")
    for name in [Q, Q, T, "/queue/c"]:
        client.publish(name)
    of_q, of_t, of_destination = next_look(scene, notes)
    first = notes.one("delivered", number=notes.of("accepted")[0].number)
    assert of_q.has(event="gauge_subscription", subscription="q", destination=Q, ack_mode="client", pending=2)
    assert of_q.has(session=client.session.id, transport="tcp", oldest_us=of_q.now - first.now)
    assert of_t.has(event="gauge_subscription", subscription="t", destination="/topic/*", pending=1)
    assert of_destination.has(event="gauge_destination", destination=Q, pending=2, depth=0, oldest_us=None)
    for message in client.messages():
        if "ack" in message.headers:
            client.ack(message)
            break
    assert [row.pending for row in next_look(scene, notes)] == [1, 1, 1]


def test_where_messages_wait_since_when(scene: Scene) -> None:
    notes = watched(scene)
    client = scene.connect()
    client.subscribe("/topic/a", "d", ack="client", durable="true", **ONE)
    client.subscribe(Q, "q", ack="client", **ONE)
    for name in [Q, Q, Q, T, T]:
        client.publish(name)
    rows = [row for row in next_look(scene, notes) if row.event == "gauge_destination"]
    accepted = notes.of("accepted")
    assert [(row.destination, row.pending, row.depth) for row in rows] == [
        (Q, 1, 2),
        ("/dsub/anonymous//d/%2Ftopic%2Fa", 1, 1),
    ]
    assert [row.oldest_us for row in rows] == [rows[0].now - accepted[1].now, rows[1].now - accepted[4].now]
    client.send("UNSUBSCRIBE", {"id": "d", "durable": "true"})
    assert [row.destination for row in next_look(scene, notes)] == [Q, Q]
    client.disconnect()
    (row,) = next_look(scene, notes)
    assert row.has(event="gauge_destination", destination=Q, pending=0, depth=3)


def test_of_an_earlier_process_the_time_is_not_known(stage: Stage) -> None:
    first = stage(stored=True)
    fill(first, 3)
    scene = first.crash()
    notes = recorded(scene)
    begin(scene)
    (row,) = [row for row in notes.rows if row.event == "gauge_destination"]
    assert row.has(destination=Q, depth=3, pending=0, oldest_us=None)
    client = scene.connect()
    client.publish("/queue/b", b"", **P)
    scene.commit()
    assert [each.destination for each in next_look(scene, notes)] == [Q, "/queue/b"]


@small(gauge_looks=2)
def test_very_many_are_looked_at_in_turns(scene: Scene) -> None:
    notes = recorded(scene)
    clients = [scene.connect() for _ in range(3)]
    for number, client in enumerate(clients):
        client.subscribe(f"/queue/{number}", ack="client")
        client.publish(f"/queue/{number}")
    before = len(notes.rows)
    begin(scene)
    turns = [[row.event for row in notes.rows[before:]]]
    while scene.broker.scheduler._unfinished:
        done = len(notes.rows)
        scene.broker.scheduler.proceed()
        turns.append([row.event for row in notes.rows[done:]])
    of_subscription, of_destination = "gauge_subscription", "gauge_destination"
    assert [each for each in turns if each] == [
        [of_subscription] * 2,
        [of_subscription, of_destination],
        [of_destination] * 2,
    ]
    assert len(next_look(scene, notes)) == 6


def test_that_it_is_over_is_told_once(scene: Scene) -> None:
    notes = watched(scene)
    client = scene.connect()
    client.subscribe(Q, "q", ack="client", **ONE)
    for _ in range(2):
        client.publish(Q)
    assert [row.pending for row in next_look(scene, notes)] == [1, 1]
    for _ in range(2):
        client.ack(client.message())
    of_subscription, of_queue = next_look(scene, notes)
    assert of_subscription.has(event="gauge_subscription", subscription="q", pending=0, oldest_us=None)
    assert of_queue.has(event="gauge_destination", destination=Q, pending=0, depth=0, oldest_us=None)
    assert not next_look(scene, notes)
    client.publish(Q)
    assert len(next_look(scene, notes)) == 2
    client.unsubscribe("q")
    assert not [row for row in next_look(scene, notes) if row.event == "gauge_subscription"], "it has gone"
