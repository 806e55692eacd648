"""A session that leaves in steps: others have their turns between two, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.broker import session as module
from gateway.broker.errors import NotAllowed

from .client import Client, Scene

MANY = 100


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
    assert scene.broker.subscriptions == 1 + MANY - module._ENDS_PER_STEP, "topics first"
    other.publish(f"/topic/{MANY - 1}", b"still there")
    other.publish("/topic/0", b"gone")
    assert rest_of(steps) == MANY // module._ENDS_PER_STEP - 1
    crowd.flush()
    assert scene.broker.subscriptions == 0
    message, error = crowd.received()
    assert (message.body, error.command) == (b"still there", "ERROR")


def test_what_is_given_back_comes_with_the_last_step(crowd: Client, scene: Scene) -> None:
    other = scene.connect()
    other.publish("/queue/a", b"mine")
    assert crowd.message().body == b"mine"
    other.subscribe("/queue/a", "0")
    steps = crowd.session.departing(lost=True)
    first_step(steps)
    assert other.bodies() == []
    rest_of(steps)
    other.flush()
    assert other.bodies() == [b"mine"]


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
