"""Runs of a session: SEND frames that share a header block, as an edge hands them over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest

from gateway.broker.errors import NotAllowed
from gateway.codec import V10, Frame, Head

from ..client import Client, Scene
from ..conftest import Stage
from ..granted import Granted, client_of
from ..recorder import recorded


class Anything:
    """A schema that all bodies fit."""

    def refusal(self, body: bytes) -> str:
        return ""


SENDING = (("0", "1"), ("2", "3"))


def send(client: Client, head: Head, *texts: str, most: int = sys.maxsize) -> list[bytes]:
    """Hand them over; those that are left."""
    bodies = iter([text.encode() for text in texts])
    client.session.handle_run(head, bodies, most)
    return list(bodies)


@pytest.mark.parametrize("is_stored", [False, True])
def test_they_are_sent_in_order(stage: Stage, *, is_stored: bool) -> None:
    scene = stage(stored=is_stored)
    consumer, sender = scene.consumer("/queue/a"), scene.connect()
    head = Head.of("SEND", {"destination": "/queue/a", "persistent": "true"})
    for texts in SENDING:
        assert send(sender, head, *texts) == []
        scene.settle()
    assert [each.body for each in consumer.messages()] == [b"0", b"1", b"2", b"3"]
    assert sender.session.frames_in == 4
    if is_stored:
        assert sender.session.batch == scene.vault.storage.number


def test_each_has_the_receipt_that_the_block_asks_for(scene: Scene, client: Client) -> None:
    head = Head.of("SEND", {"destination": "/topic/a", "receipt": "r"})
    for texts in SENDING:
        send(client, head, *texts)
    scene.settle()
    assert client.receipts() == ["r"] * 4


def test_rules_are_asked(scene: Scene) -> None:
    client = client_of(scene, Granted(send="/queue/a"))
    send(client, Head.of("SEND", {"destination": "/queue/a"}), "0")
    with pytest.raises(NotAllowed):
        send(client, Head.of("SEND", {"destination": "/queue/b"}), "1")


def test_they_stop_where_others_must_have_their_turn(scene: Scene, client: Client, other: Client) -> None:
    head = Head.of("SEND", {"destination": "/topic/a"})
    client.subscribe("/topic/a")
    most = scene.broker.counters.delivered + 1
    assert send(other, head, "0", "1", "2", most=most) == [b"2"]
    scene.settle()


def to_all_kinds(scene: Scene) -> None:
    """Subscribers of several names and versions, one of which does not read."""
    for name in ("0", "0", "other"):
        scene.consumer("/topic/a", name)
    scene.connect(V10).send("SUBSCRIBE", {"destination": "/topic/a"})
    scene.consumer("/topic/a").stalled = True


def to_two_consumers(scene: Scene) -> None:
    """In turn, one of which acknowledges, and has room for one."""
    scene.consumer("/queue/a")
    scene.consumer("/queue/a", ack="client-individual", **{"prefetch-count": "1"})


def to_a_worker(scene: Scene) -> None:
    """Most wait, and fill the queue."""
    scene.consumer("/queue/a", ack="client", **{"prefetch-count": "2"})


AUDIENCES: dict[str, tuple[str, Callable[[Scene], object]]] = {
    "all kinds": ("/topic/a", to_all_kinds),
    "two consumers": ("/queue/a", to_two_consumers),
    "a worker": ("/queue/a", to_a_worker),
    "a selector": ("/topic/a", lambda scene: scene.consumer("/topic/a", selector="a IS NULL")),
    "a selector of a queue": ("/queue/a", lambda scene: scene.consumer("/queue/a", selector="a IS NULL")),
    "acknowledged": ("/topic/a", lambda scene: scene.consumer("/topic/a", ack="client")),
    "a pattern": ("/topic/a", lambda scene: (scene.consumer("/topic/a"), scene.consumer("/topic/*"))),
    "a browser": ("/queue/a", lambda scene: (scene.consumer("/queue/a"), scene.consumer("/queue/a", browser="true"))),
    "no consumer": ("/queue/a", lambda scene: None),
}
POLICIES = {
    "nothing": {},
    "user-id": {"add_user_id": True},
    "expiry": {"time_to_live": 9.0},
    "limit": {"max_messages": 3},
    "schema": {"schema": Anything()},
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", AUDIENCES)
def test_they_have_the_effects_that_each_has_by_itself(stage: Stage, name: str, policy: str) -> None:
    destination, prepare = AUDIENCES[name]

    def effects(send_some: Callable[[Client, Head, Iterator[bytes]], None]) -> list[Any]:
        scene = stage({"#": {"backoff": 0.0} | POLICIES[policy]}, max_outbound=700)
        notes = recorded(scene)
        prepare(scene)
        sender = scene.connect()
        head = Head.of("SEND", {"destination": destination})
        sender.session.handle(Frame(head, b"first"))  # which finds out what the block asks for
        scene.broker.context.slow_consumers.take_strained()
        full: set[str] = set()
        left = iter([b"%d" % number for number in range(8)])
        while (body := next(left, None)) is not None:  # a queue that is full ends a run
            send_some(sender, head, chain([body], left))
            full.update([each.name for each in scene.broker.context.take_full()])
        context = scene.broker.context
        strained = sorted(
            [scene.clients.index(client_at(scene, each.peer)) for each in context.slow_consumers.strained]
        )
        scene.settle()
        rows = [(row.event, row.number, row.body, row.destination, row.delivery_count) for row in notes.rows]
        received = [client.received() for client in scene.clients]
        counted = context.counters.published, context.counters.delivered, context.counters.frames_in
        tally = [(each.tally.published, each.tally.delivered) for each in scene.broker.destinations.values()]
        return [strained, full, received, counted, tally, sender.session.frames_in, sorted(rows, key=repr)]

    def one_by_one(client: Client, head: Head, bodies: Iterator[bytes]) -> None:
        for body in bodies:
            client.session.handle(Frame(head, body))

    def together(client: Client, head: Head, bodies: Iterator[bytes]) -> None:
        client.session.handle_run(head, bodies, sys.maxsize)

    assert effects(together) == effects(one_by_one)


def client_at(scene: Scene, session: object) -> Client:
    return next(client for client in scene.clients if client.session is session)


@pytest.mark.parametrize("destination", ["/topic/a", "/queue/a"])
def test_they_stop_behind_the_last_that_may_be_delivered(scene: Scene, other: Client, destination: str) -> None:
    consumer, head = scene.consumer(destination), Head.of("SEND", {"destination": destination})
    send(other, head, "0")
    scene.settle()
    assert send(other, head, "1", "2", "3", "4", "5", most=scene.broker.counters.delivered + 2) == [b"4", b"5"]
    scene.settle()
    assert consumer.bodies() == [b"0", b"1", b"2", b"3"]
