"""The end of a durable subscription for which much waits: it goes at once, and what waits in slices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.broker.topic import durable_subscriptions

from ..client import Client, Scene
from ..conftest import Stage
from .durable_scenes import RABBITMQ, TOPIC, ending, known, names, publish

ONE = {**RABBITMQ, "prefetch-count": "1"}


@pytest.fixture
def stage(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(durable_subscriptions, "_PER_TURN", 2)
    yield from ending(stage)


def deep(scene: Scene, count: int = 7, **headers: str) -> tuple[Client, str]:
    """Somebody holds the first message in a transaction, and consumes no more; all others wait."""
    client = known(scene)
    client.subscribe(TOPIC, ack="client", **ONE)
    publish(scene, *[b"%d" % number for number in range(count)], **headers)
    client.begin()
    client.ack(client.message(), transaction="t")
    (name,) = names(scene)
    client.unsubscribe()
    return client, name


def test_others_have_their_turn(stage: Stage) -> None:
    scene = stage()
    _, name = deep(scene)
    scene.message_admin.delete_durable(name, lambda: None)
    assert not names(scene)
    left = [scene.broker.context.waiting]
    while scene.broker.scheduler.proceed():
        left.append(scene.broker.context.waiting)
    assert left == [4, 2, 2]
    assert (scene.broker.context.waiting, scene.broker.counters.dropped) == (0, 6)


def test_the_next_one_of_its_name_has_nothing_of_it(stage: Stage) -> None:
    scene = stage()
    client, name = deep(scene, JMSXGroupID="g")
    scene.message_admin.delete_durable(name, lambda: None)
    client.subscribe(TOPIC, ack="client", **ONE)
    publish(scene, b"new")
    assert client.bodies() == [b"new"]
    assert scene.broker.context.group_bytes == 0


def test_what_comes_back_meanwhile_takes_the_rest_with_it(stage: Stage) -> None:
    scene = stage()
    client, name = deep(scene)
    scene.message_admin.delete_durable(name, lambda: None)
    client.abort()
    assert (scene.broker.context.waiting, scene.broker.memory.used, scene.broker.counters.dropped) == (0, 0, 7)


def test_a_kill_between_two_slices_brings_nothing_back(stage: Stage) -> None:
    scene = stage(stored=True)
    _, name = deep(scene, persistent="true")
    scene.commit()
    scene.message_admin.delete_durable(name, lambda: None)
    batch = scene.vault.take()
    assert batch is not None
    scene.store.write(batch)
    assert len(scene.store.rows) == 5
    scene = scene.crash()
    assert not names(scene)
    scene.commit()
    assert (scene.store.places, scene.store.rows) == ({}, {})
