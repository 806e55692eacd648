"""Durable subscriptions and the store: they and their durable messages survive a kill; what was ended does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..client import Client, Scene
from ..conftest import Stage
from .durable_scenes import (
    ACTIVEMQ,
    HOLDING,
    PASSING,
    RABBITMQ,
    SHARED,
    TOPIC,
    Headers,
    consumer,
    end,
    ending,
    hold,
    kinds,
    known,
    let_go,
    names,
    publish,
    spelled,
)


@pytest.fixture
def stage(stage: Stage) -> Iterator[Stage]:
    yield from ending(stage)


@pytest.fixture
def scene(stage: Stage) -> Scene:
    return stage(stored=True)


def store(scene: Scene, *bodies: bytes, to: str = TOPIC, **headers: str) -> None:
    """Durable messages; they are written."""
    publish(scene, *bodies, to=to, persistent="true", **headers)
    scene.commit()


def three(scene: Scene) -> list[Client]:
    """One for each of three subscriptions."""
    clients = [known(scene, client_id=client_id) for client_id in "abc"]
    for client, headers in zip(clients, (RABBITMQ, ACTIVEMQ, SHARED), strict=True):
        client.subscribe(TOPIC, ack="client", **headers)
    scene.commit()
    return clients


class TestKill:
    @spelled
    @pytest.mark.parametrize("topic", [TOPIC, "/topic/*"])
    def test_what_was_missed_is_there(self, scene: Scene, headers: Headers, topic: str) -> None:
        consumer(scene, headers, topic).drop()
        store(scene, b"1", b"2", b"3")
        scene = scene.crash()
        assert len(names(scene)) == 1
        store(scene, b"4")
        messages = consumer(scene, headers, topic).messages()
        assert [(each.body, each.redelivered) for each in messages] == [
            (b"1", True),
            (b"2", True),
            (b"3", True),
            (b"4", False),
        ]

    @kinds
    def test_nothing_waits_yet(self, scene: Scene, headers: Headers) -> None:
        """The subscription itself is stored, and the RECEIPT of the SUBSCRIBE says so."""
        client = known(scene)
        client.subscribe(TOPIC, receipt="r", **headers)
        assert client.receipts() == []
        scene.commit()
        assert client.receipts() == ["r"]
        scene = scene.crash()
        store(scene, b"m")
        assert consumer(scene, headers).bodies() == [b"m"]

    def test_all_that_it_is_comes_back(self, scene: Scene) -> None:
        """Topic, selector, no-local and queue arguments: it is the same one, and not a new one."""
        headers = RABBITMQ | {"selector": "k = 'v'", "no-local": "true", "x-max-length": "2", "x-expires": "9000"}
        consumer(scene, headers).drop()
        for _ in range(2):
            scene = scene.crash()
            store(scene, b"1", b"2", b"3", k="v")
            store(scene, b"none of it")
            assert scene.broker.context.waiting == 2
        client = consumer(scene, headers)
        assert client.bodies() == [b"2", b"3"]
        client.publish(TOPIC, b"own", k="v")
        assert client.received() == []
        client.drop()
        scene = scene.crash()
        scene.wait(9.1)
        assert not names(scene)

    @pytest.mark.parametrize("headers", [PASSING, RABBITMQ | {"auto-delete": "true"}])
    def test_one_that_does_not_last_is_not_stored(self, scene: Scene, headers: Headers) -> None:
        client = consumer(scene, headers, ack="client")
        store(scene, b"m")
        assert client.bodies() == [b"m"]
        assert not scene.store.places
        assert not names(scene.crash())


class TestContents:
    def test_they_are_shared_and_go_with_the_last_row(self, scene: Scene) -> None:
        clients = three(scene)
        store(scene, b"m")
        assert (len(scene.store.rows), len(scene.store.contents)) == (3, 1)
        for client in clients:
            assert len(scene.store.contents) == 1
            client.ack(client.message())
            scene.commit()
        assert (scene.store.rows, scene.store.contents) == ({}, {})
        assert len(scene.store.places) == 3

    @pytest.mark.parametrize("durable", [True, False, None])
    @pytest.mark.parametrize("persistent", [True, False])
    def test_the_policy_of_the_topic_decides(self, stage: Stage, durable: bool | None, persistent: bool) -> None:
        scene = stage({"/topic/#": {"durable": durable}}, stored=True)
        consumer(scene, RABBITMQ).drop()
        publish(scene, b"m", persistent=str(persistent).lower())
        scene.commit()
        assert len(scene.store.rows) == (persistent if durable is None else durable)

    def test_stored_messages_stay_where_the_policy_stores_none_any_more(self, scene: Scene) -> None:
        consumer(scene, RABBITMQ).drop()
        store(scene, b"1")
        scene = scene.crash(policies={"/topic/#": {"durable": False}})
        store(scene, b"2")
        assert len(scene.store.rows) == 1
        assert consumer(scene, RABBITMQ).bodies() == [b"1", b"2"]


class TestEnd:
    @kinds
    @pytest.mark.parametrize("waits", [False, True])
    def test_what_was_ended_does_not_come_back(self, scene: Scene, headers: Headers, waits: bool) -> None:
        client = consumer(scene, {**headers, "prefetch-count": "1"}, ack="client")
        if waits:
            store(scene, b"1", b"2")
        end(client, headers | {"receipt": "r"})
        scene.commit()
        assert client.receipts() == ["r"]
        assert (scene.store.places, scene.store.rows, scene.store.contents) == ({}, {}, {})
        assert not names(scene.crash())

    @kinds
    @pytest.mark.parametrize("holding", HOLDING)
    @pytest.mark.parametrize("written", [False, True])
    @pytest.mark.parametrize("settled", [False, True])
    def test_nor_what_somebody_still_held(
        self, stage: Stage, headers: Headers, holding: str, written: bool, settled: bool
    ) -> None:
        scene = stage({"#": {"backoff": 1.0}}, stored=True)
        client = known(scene)
        hold(scene, client, headers, holding)
        if written:
            scene.commit()
        end(client, headers | {"durable": "true"})
        if settled:
            let_go(scene, client, holding)
        scene.commit()
        scene = scene.crash()
        assert not names(scene)
        assert scene.broker.context.waiting == 0
        scene.commit()
        assert not scene.store.places

    @pytest.mark.parametrize("limit", ["max_durable_subscriptions", "max_destinations"])
    def test_more_are_there_than_may_come(self, stage: Stage, limit: str) -> None:
        """A limit that was lowered ends nothing."""
        scene = stage(stored=True)
        consumer(scene, RABBITMQ).drop()
        consumer(scene, RABBITMQ, "/topic/*").drop()
        scene._made_of = (None, {limit: 1})
        scene = scene.crash()
        assert len(names(scene)) == 2
        store(scene, b"m")
        assert consumer(scene, RABBITMQ).bodies() == [b"m"]
        client = known(scene)
        client.subscribe("/topic/b", id="another", **RABBITMQ)
        assert f"({limit})".encode() in client.error().body
