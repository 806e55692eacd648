"""Browsing: reading what waits in a queue, and what comes, without changing anything."""

from __future__ import annotations

import pytest

from gateway.broker.queue.queue import Queue

from ..client import Client, Scene, Step, waiting

QUEUE = "/queue/a"
TAILING = {"browser-end": "false"}


def fill(producer: Client, count: int, start: int = 1, size: int = 0, **headers: str) -> list[bytes]:
    """Send so many numbered messages to /queue/a; returns their bodies."""
    bodies = [b"%d" % number + b" " * size for number in range(start, start + count)]
    for body in bodies:
        producer.publish(QUEUE, body, **headers)
    return bodies


def browse(client: Client, id: str = "b", **headers: str) -> None:
    client.subscribe(QUEUE, id, browser="true", **headers)


def shown(client: Client) -> list[bytes]:
    """What a browser showed to its end."""
    *messages, last = client.messages()
    assert last.headers.get("browser") == "end"
    assert not any("browser" in message.headers for message in messages)
    return [message.body for message in messages]


def queue_of(scene: Scene) -> Queue:
    queue = scene.broker.destinations[QUEUE]
    assert isinstance(queue, Queue)
    return queue


def bodies_of(scene: Scene) -> list[bytes]:
    """What waits."""
    return [message.body for message in waiting(queue_of(scene))]


class TestToTheEnd:
    def test_what_waits_in_order_and_an_end_mark(self, scene: Scene) -> None:
        client = scene.connect()
        bodies = fill(client, 5)
        browse(client)
        *messages, last = client.messages()
        assert [message.body for message in messages] == bodies
        assert {message.subscription for message in [*messages, last]} == {"b"}
        assert last.headers["browser"] == "end"
        assert last.headers["destination"] == QUEUE
        assert last.body == b""
        assert len({message.message_id for message in [*messages, last]}) == 6

    @pytest.mark.parametrize("selector", ["n = 1", ""])
    def test_of_an_empty_queue_only_the_mark(self, scene: Scene, selector: str) -> None:
        client, consumer = scene.connect(), scene.connect()
        consumer.subscribe(QUEUE)
        browse(client, selector=selector)
        assert shown(client) == []

    def test_a_queue_that_is_not_there_does_not_stay(self, scene: Scene) -> None:
        client = scene.connect()
        browse(client)
        assert shown(client) == []
        assert QUEUE not in scene.broker.destinations

    def test_what_consumers_have_is_not_shown(self, scene: Scene) -> None:
        consumer, client = scene.connect(), scene.connect()
        consumer.subscribe(QUEUE, ack="client", **{"prefetch-count": "2"})
        bodies = fill(client, 5)
        browse(client)
        assert shown(client) == bodies[2:]

    def test_a_message_that_waits_for_a_busy_group_is_shown(self, scene: Scene) -> None:
        """Whether another consumer came upon it or not."""
        owner, other, client = scene.connect(), scene.connect(), scene.connect()
        owner.subscribe(QUEUE, ack="client", **{"prefetch-count": "1"})
        bodies = fill(client, 3, JMSXGroupID="g")
        browse(client, "0")
        assert shown(client) == bodies[1:]
        other.subscribe(QUEUE, ack="client")
        browse(client, "1")
        assert shown(client) == bodies[1:]

    def test_redelivery_is_not_what_browsing_is(self, scene: Scene) -> None:
        """A browser's MESSAGE is nobody's delivery: no mark, no count, nothing to acknowledge."""
        consumer, client = scene.connect(), scene.connect()
        consumer.subscribe(QUEUE, ack="client")
        fill(client, 1)
        consumer.drop()
        browse(client)
        message = client.messages()[0]
        assert message.headers.keys() == {"subscription", "destination", "message-id", "content-length"}


class TestNothingChanges:
    @pytest.mark.parametrize("headers", [{}, TAILING], ids=["to the end", "tailing"])
    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, lambda client: client.unsubscribe("b")])
    def test_for_consumers(self, scene: Scene, headers: dict[str, str], leave: Step) -> None:
        client, consumer = scene.connect(), scene.connect()
        bodies = fill(consumer, 5)
        browse(client, **headers)
        assert [each.body for each in client.messages() if "browser" not in each.headers] == bodies
        leave(client)
        scene.settle()
        consumer.subscribe(QUEUE)
        messages = consumer.messages()
        assert [message.body for message in messages] == bodies
        assert not any(message.redelivered for message in messages)

    @pytest.mark.parametrize("ack", ["client", "client-individual"])
    def test_there_is_nothing_to_acknowledge(self, scene: Scene, ack: str) -> None:
        client = scene.consumer(QUEUE, ack=ack, browser="true")
        error = client.error()
        assert error.headers["message"] == "a browser consumes nothing"
        assert QUEUE not in scene.broker.destinations

    def test_topics_keep_nothing_to_browse(self, scene: Scene) -> None:
        client = scene.consumer("/topic/a", browser="true")
        assert client.error().headers["message"] == "browsers are for queues"


class TestTheEndOfABrowser:
    def test_after_the_mark_nothing_comes(self, scene: Scene) -> None:
        client = scene.connect()
        fill(client, 2)
        browse(client)
        assert len(shown(client)) == 2
        fill(client, 3, start=3)
        assert not client.received()

    @pytest.mark.parametrize("count", [0, 3])
    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, lambda client: client.unsubscribe("b")])
    def test_the_subscription_ends_as_any_other(self, scene: Scene, count: int, leave: Step) -> None:
        client = scene.connect()
        fill(client, count)
        browse(client)
        leave(client)
        assert not client.failures
        assert scene.broker.context.subscriptions == 0
        assert scene.broker.context.waiting == count

    def test_it_does_not_keep_the_queue(self, scene: Scene) -> None:
        client, consumer = scene.connect(), scene.connect()
        fill(client, 1)
        browse(client)
        consumer.subscribe(QUEUE)
        consumer.drop()
        assert QUEUE not in scene.broker.destinations
        fill(client, 1)
        client.unsubscribe("b")
        assert scene.broker.context.waiting == 1


class TestTailing:
    """`browser-end:false`."""

    def test_what_waits_and_then_what_comes(self, scene: Scene) -> None:
        client, producer = scene.connect(), scene.connect()
        bodies = fill(producer, 2)
        browse(client, **TAILING)
        assert client.bodies() == bodies
        for number in (3, 4):
            assert fill(producer, 1, start=number) == client.bodies()

    def test_also_what_is_consumed_at_once(self, scene: Scene) -> None:
        client, consumer = scene.connect(), scene.connect()
        consumer.subscribe(QUEUE)
        browse(client, **TAILING)
        bodies = fill(consumer, 3)
        assert client.bodies() == consumer.bodies() == bodies

    def test_with_a_selector(self, scene: Scene) -> None:
        client = scene.connect()
        browse(client, **TAILING, selector="n > 2")
        for number in range(5):
            client.publish(QUEUE, b"%d" % number, n=str(number))
        assert client.bodies() == [b"3", b"4"]

    def test_a_queue_that_is_not_there_comes_into_being(self, scene: Scene) -> None:
        client = scene.connect()
        browse(client, **TAILING)
        assert not client.received()
        assert QUEUE in scene.broker.destinations
        client.unsubscribe("b")
        assert QUEUE not in scene.broker.destinations
