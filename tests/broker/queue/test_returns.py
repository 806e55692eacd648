"""What comes back to a queue: by NACK, with a consumer that leaves, from a socket that broke."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.broker.queue.queue import Queue

from ..client import Client, Scene, Step
from ..conftest import Stage
from ..durable import ONE, TWO, P, marks

QUEUE = "/queue/a"
STORED = pytest.mark.parametrize("stored", [False, True], ids=["memory", "stored"])


def publish(client: Client, *bodies: str, **headers: str) -> None:
    for body in bodies:
        client.publish(QUEUE, body.encode(), **P, **headers)


def consumer_of(scene: Scene, ack: str = "client", **headers: str) -> Client:
    consumer = scene.consumer(QUEUE, ack=ack, **headers)
    if scene.broker.storage is not None:
        scene.commit()
    return consumer


def got(*consumers: Client) -> list[str]:
    """What has come to each of them, in a word."""
    return [b"".join(consumer.bodies()).decode() for consumer in consumers]


class TestNack:
    @STORED
    def test_several_at_once_in_order(self, stage: Stage, stored: bool) -> None:
        scene = stage(stored=stored)
        consumer = consumer_of(scene, **{"prefetch-count": "4"})
        publish(consumer, "1", "2", "3", "4", "5")
        messages = consumer.messages()
        consumer.nack(messages[2])
        assert got(consumer) == ["123"]
        assert marks_of(scene) == [5]


class TestLeaving:
    @STORED
    @pytest.mark.parametrize(
        "leave",
        [Client.unsubscribe, Client.disconnect, Client.drop, lambda client: client.send("BOGUS")],
        ids=["unsubscribe", "disconnect", "drop", "error"],
    )
    def test_the_rest_gets_all_in_order(self, stage: Stage, stored: bool, leave: Step) -> None:
        scene = stage(stored=stored)
        first, second = consumer_of(scene, **TWO), consumer_of(scene, **ONE)
        publish(first, "1", "2", "3", "4", "5")
        assert got(first, second) == ["13", "2"]
        leave(first)
        second.unsubscribe()
        third = consumer_of(scene)
        assert got(third) == ["12345"]


class TestNobodyCanReadThem:
    @STORED
    @pytest.mark.parametrize("attempts", [1, 10])
    def test_of_a_temporary_queue(self, stage: Stage, stored: bool, attempts: int) -> None:
        scene = stage({"/reply-queue/#": {"max_attempts": attempts}}, stored=stored)
        client = scene.consumer("/temp-queue/a", ack="client", **ONE)
        client.publish("/temp-queue/a", b"1", **P)
        client.publish("/temp-queue/a", b"2", **P)
        assert scene.broker.memory.used > 0
        client.drop()
        assert scene.broker.memory.used == 0
        assert not scene.broker.destinations

    @STORED
    def test_of_a_subscription_to_a_topic(self, stage: Stage, stored: bool) -> None:
        scene = stage(stored=stored)
        client = scene.consumer("/topic/a", ack="client")
        client.publish("/topic/a", b"1", **P)
        client.drop()
        assert scene.broker.memory.used == 0


class TestForgottenMeanwhile:
    """Somebody held a message of a queue that nobody else used any more."""

    def held(self, scene: Scene) -> Client:
        """A client in whose transaction lies the ACK of `1`, and the queue is gone."""
        client = consumer_of(scene)
        publish(client, "1")
        client.begin()
        client.ack(client.message(), transaction="t")
        client.unsubscribe()
        assert not scene.broker.destinations
        return client

    @STORED
    @pytest.mark.parametrize("end", [Client.abort, Client.drop])
    def test_the_queue_comes_back_with_it(self, stage: Stage, stored: bool, end: Step) -> None:
        scene = stage(stored=stored)
        end(self.held(scene))
        assert set(scene.broker.destinations) == {QUEUE}
        assert marks_of(scene) == [1]

    @STORED
    def test_it_goes_to_the_queue_of_that_name(self, stage: Stage, stored: bool) -> None:
        scene = stage(stored=stored)
        client = self.held(scene)
        publish(client, "2", "3")
        client.abort()
        queue = scene.broker.destinations[QUEUE]
        assert isinstance(queue, Queue)
        assert queue.stored == (3 if stored else 0)
        assert marks_of(scene) == [1, 2, 3]
        assert not scene.broker.destinations

    @pytest.mark.parametrize("settle", [Client.commit, Client.abort])
    def test_and_each_keeps_its_rows(self, stage: Stage, settle: Callable[[Client], None]) -> None:
        scene = stage(stored=True)
        client = self.held(scene)
        publish(client, "2")
        settle(client)
        scene.commit()
        scene = scene.crash()
        assert list(marks(scene)) == ([2] if settle is Client.commit else [1, 2])


def marks_of(scene: Scene) -> list[int]:
    """The numbers of what waits, which is consumed."""
    last = consumer_of(scene, "auto")
    found = [int(body) for body in last.bodies()]
    last.unsubscribe()
    if scene.broker.storage is not None:
        scene.commit()
    return found
