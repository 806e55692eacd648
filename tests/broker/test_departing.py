"""A session that leaves in steps: others have their turns between two, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.broker import session as module
from gateway.broker.errors import NotAllowed
from gateway.codec import Frame, Head

from .client import Client, Scene

MANY = 100
GOODBYE = Frame(Head.of("DISCONNECT", {"receipt": "bye"}), b"")


@pytest.fixture
def crowd(scene: Scene) -> Client:
    """A client with many subscriptions: one to a queue that must be acknowledged, the rest to topics."""
    client = scene.connect()
    client.subscribe("/queue/a", "queue", ack="client")
    for number in range(MANY):
        client.subscribe(f"/topic/{number}", str(number))
    return client


def first_step(steps: Iterator[None]) -> None:
    next(steps)


def rest_of(steps: Iterator[None]) -> int:
    return sum(1 for _ in steps)


def test_a_failure_is_told_behind_the_last_step(crowd: Client, scene: Scene) -> None:
    other = scene.connect()
    steps = crowd.session.failing(NotAllowed("no"))
    first_step(steps)
    assert scene.broker.subscriptions == MANY - module._ENDS_PER_STEP, "and no queue"
    other.publish(f"/topic/{MANY - 1}", b"still there")
    other.publish("/topic/0", b"gone")
    assert rest_of(steps) == MANY // module._ENDS_PER_STEP - 1
    crowd.flush()
    assert scene.broker.subscriptions == 0
    message, error = crowd.received()
    assert (message.body, error.command) == (b"still there", "ERROR")


def test_what_is_given_back_comes_with_the_first_step(crowd: Client, scene: Scene) -> None:
    other = scene.connect()
    other.publish("/queue/a", b"mine")
    assert crowd.message().body == b"mine"
    other.subscribe("/queue/a", "0")
    steps = crowd.session.departing(lost=True)
    first_step(steps)
    other.flush()
    assert other.bodies() == [b"mine"]
    other.publish("/queue/a", b"another")
    other.publish("/queue/a", b"and another")
    rest_of(steps)
    assert other.bodies() == [b"another", b"and another"], "nothing is given to who is leaving"
    assert crowd.bodies() == []


def test_the_receipt_of_a_disconnect_comes_with_the_last_step(crowd: Client, scene: Scene) -> None:
    other = scene.connect()
    crowd.session.handle(GOODBYE)
    assert scene.broker.subscriptions == MANY, "no queue gives it anything any more"
    steps = crowd.session.departing()
    first_step(steps)
    other.session.handle(Frame(Head.of("SEND", {"destination": f"/topic/{MANY - 1}"}), b"still there"))
    crowd.flush()
    assert crowd.bodies() == [b"still there"]
    rest_of(steps)
    crowd.flush()
    assert crowd.receipts() == ["bye"]
    assert rest_of(crowd.session.departing()) == 0
    crowd.flush()
    assert crowd.received() == []


def test_a_disconnect_of_one_with_many_subscriptions(crowd: Client, scene: Scene) -> None:
    crowd.send("DISCONNECT", {"receipt": "bye"})
    assert scene.broker.subscriptions == 0
    assert crowd.receipts() == ["bye"]


def test_a_disconnect_of_one_with_few_is_carried_out_at_once(scene: Scene) -> None:
    client = scene.connect()
    for number in range(module._ENDS_PER_STEP):
        client.subscribe(f"/topic/{number}", str(number))
    client.session.handle(GOODBYE)
    assert scene.broker.subscriptions == 0
    client.flush()
    assert client.receipts() == ["bye"]


def test_one_that_is_lost_before_its_last_step_gets_no_receipt(crowd: Client, scene: Scene) -> None:
    crowd.session.handle(GOODBYE)
    crowd.session.close()
    assert scene.broker.subscriptions == 0
    crowd.flush()
    assert crowd.received() == []


def test_one_that_is_closed_in_the_middle(crowd: Client, scene: Scene) -> None:
    steps = crowd.session.departing(lost=True)
    first_step(steps)
    crowd.drop()
    assert scene.broker.subscriptions == 0
    rest_of(steps)
    assert scene.broker.subscriptions == 0


def test_few_subscriptions_are_one_step(scene: Scene) -> None:
    client = scene.connect()
    client.subscribe("/topic/a")
    assert rest_of(client.session.departing()) == 0


def test_what_a_transaction_kept_is_freed_in_steps(scene: Scene) -> None:
    client = scene.connect()
    client.send("BEGIN", {"transaction": "t"})
    for _ in range(8):
        client.send("SEND", {"destination": "/queue/a", "transaction": "t"}, b"x" * 1024 * 1024)
    steps = client.session.failing(NotAllowed("no"))
    first_step(steps)
    assert scene.broker.stored_octets == 0, "it counts no longer"
    assert not client.session.transactions
    assert rest_of(steps) == 1, "a step for each 3 MiB, and the rest"
    client.flush()
    assert client.received()[-1].command == "ERROR"


def test_of_who_says_goodbye_amid_a_transaction_too(scene: Scene) -> None:
    client = scene.connect()
    client.send("BEGIN", {"transaction": "t"})
    for _ in range(8):
        client.send("SEND", {"destination": "/queue/a", "transaction": "t"}, b"x" * 1024 * 1024)
    client.session.handle(GOODBYE)
    client.flush()
    assert client.received()[-1].command == "RECEIPT", "at once"
    assert scene.broker.stored_octets == 0
    assert rest_of(client.session.departing()) == 2
