"""Queues that nobody uses: how long they are kept, and that nothing of them is kept any longer."""

from __future__ import annotations

import pytest

from ..client import Client, Scene, Step
from ..conftest import Stage

QUEUE = "/queue/a"


def browse(client: Client) -> None:
    """Subscribe as a browser without end."""
    client.subscribe(QUEUE, "browser", browser="true", **{"browser-end": "false"})


class TestIdleTimeout:
    @pytest.fixture
    def scene(self, stage: Stage) -> Scene:
        return stage({QUEUE: {"idle_timeout": 2.0}})

    def test_a_queue_that_nobody_subscribes_goes_with_what_waits(self, scene: Scene) -> None:
        client = scene.connect()
        client.publish(QUEUE, b"1")
        scene.wait(1.0)
        client.publish(QUEUE, b"2")
        scene.wait(0.99)
        assert list(scene.broker.destinations) == [QUEUE]
        scene.wait(0.02)
        assert not scene.broker.destinations
        assert (scene.broker.counters.dropped, scene.broker.memory.used) == (2, 0)

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_a_subscriber_keeps_it(self, scene: Scene, ack: str) -> None:
        client = scene.connect()
        client.publish(QUEUE, b"1")
        scene.wait(1.9)
        client.subscribe(QUEUE, ack=ack)
        scene.wait(5.0)
        client.publish(QUEUE, b"2")
        assert client.bodies() == [b"1", b"2"]

    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, Client.unsubscribe])
    def test_from_the_last_subscriber_on(self, scene: Scene, leave: Step) -> None:
        client, other = scene.connect(), scene.connect()
        for each in (client, other):
            each.subscribe(QUEUE, ack="client")
        client.publish(QUEUE, b"m")
        scene.wait(1.5)
        leave(other)
        scene.wait(1.5)
        leave(client)
        scene.wait(1.9)
        assert scene.broker.context.waiting == 1
        scene.wait(0.2)
        assert not scene.broker.destinations

    def test_what_comes_back_behind_that_time_does_not_stay_either(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"idle_timeout": 2.0, "backoff": 5.0}})
        client = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"m")
        client.nack(client.message())
        client.drop()
        scene.wait(10.0)
        assert not scene.broker.destinations
        assert scene.broker.memory.used == 0

    def test_a_browser_is_no_subscriber(self, scene: Scene) -> None:
        client, other = scene.connect(), scene.connect()
        client.publish(QUEUE, b"1")
        browse(other)
        scene.wait(5.0)
        assert scene.broker.context.waiting == 0
        client.publish(QUEUE, b"2")
        assert other.bodies() == [b"1", b"2"]
        other.drop()
        scene.wait(5.0)
        assert not scene.broker.destinations

    def test_who_comes_and_goes_leaves_nothing_on_the_agenda(self, stage: Stage) -> None:
        scene = stage()
        client = scene.connect()
        for _ in range(300):
            client.subscribe(QUEUE, **{"x-expires": "86400000"})
            client.unsubscribe()
        assert not scene.broker.destinations
        assert len(scene.broker.scheduler) <= 200


class TestAutoDelete:
    @pytest.fixture
    def scene(self, stage: Stage) -> Scene:
        return stage({QUEUE: {"auto_delete": True}}, max_unacknowledged=1)

    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, Client.unsubscribe])
    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_it_goes_with_its_last_subscriber_and_all_that_waits(self, scene: Scene, leave: Step, ack: str) -> None:
        client, other, producer = (scene.connect() for _ in range(3))
        for each in (client, other):
            each.subscribe(QUEUE, ack=ack)
        client.stalled = other.stalled = True
        for size in (1, client.session.outbox.window, 1) * 2:
            producer.publish(QUEUE, b"x" * size)
        kept = scene.broker.context.waiting
        leave(client)
        assert scene.broker.context.waiting >= kept
        leave(other)
        assert not scene.broker.destinations
        assert (scene.broker.context.waiting, scene.broker.memory.used) == (0, 0)

    def test_what_comes_back_later_is_gone_too(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"auto_delete": True, "backoff": 1.0}})
        client = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"m")
        client.nack(client.message())
        client.unsubscribe()
        scene.wait(1.1)
        assert not scene.broker.destinations

    def test_a_browser_that_leaves_takes_nothing_with_it(self, scene: Scene) -> None:
        client, other = scene.connect(), scene.connect()
        client.publish(QUEUE, b"m")
        browse(other)
        other.unsubscribe("browser")
        client.subscribe(QUEUE)
        assert client.bodies() == [b"m"]

    def test_by_a_header(self, stage: Stage) -> None:
        scene = stage()
        client, other = scene.connect(), scene.connect()
        client.subscribe("a", "a", ack="client", **{"auto-delete": "true"})
        client.subscribe("b", "b", ack="client")
        for name in "ab":
            client.publish(name, b"m")
        other.subscribe("a", ack="client", **{"auto-delete": "true"})
        for each in (client, other):
            each.drop()
        assert list(scene.broker.destinations) == ["/queue/b"]
