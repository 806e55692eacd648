"""Browsing: reading what waits in a queue, and what comes, without changing anything."""

from __future__ import annotations

import pytest

from gateway.broker.queue.queue import Queue
from gateway.codec import Version

from ..client import WITH_NACK, Client, Scene, Step, waiting
from ..conftest import Stage

QUEUE = "/queue/a"
TAILING = {"browser-end": "false"}
with_nack = pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)


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
    def test_what_waits_in_order_and_an_end_mark(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        bodies = fill(client, 5)
        browse(client)
        *messages, last = client.messages()
        assert [message.body for message in messages] == bodies
        assert {message.subscription for message in [*messages, last]} == {"b"}
        assert last.headers["browser"] == "end"
        assert last.headers["destination"] == QUEUE
        assert last.body == b""
        assert len({message.message_id for message in [*messages, last]}) == 6

    def test_by_priority(self, scene: Scene) -> None:
        client = scene.connect()
        for number in range(10):
            client.publish(QUEUE, b"%d" % number, priority=str(number))
        browse(client)
        assert shown(client) == [b"%d" % number for number in range(9, -1, -1)]

    def test_with_a_selector_what_it_takes(self, scene: Scene) -> None:
        client = scene.connect()
        for number in range(10):
            client.publish(QUEUE, b"%d" % number, n=str(number))
        browse(client, selector="n BETWEEN 3 AND 5")
        assert shown(client) == [b"3", b"4", b"5"]

    @pytest.mark.parametrize("selector", ["n = 1", ""])
    def test_of_an_empty_queue_only_the_mark(self, scene: Scene, selector: str) -> None:
        client, consumer = scene.connect(), scene.connect()
        consumer.subscribe(QUEUE)
        browse(client, selector=selector)
        assert shown(client) == []

    def test_a_queue_that_is_not_there_does_not_stay(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        browse(client)
        assert shown(client) == []
        assert QUEUE not in scene.broker.destinations

    def test_what_consumers_have_is_not_shown(self, scene: Scene) -> None:
        consumer, client = scene.connect(), scene.connect()
        consumer.subscribe(QUEUE, ack="client", **{"prefetch-count": "2"})
        bodies = fill(client, 5)
        browse(client)
        assert shown(client) == bodies[2:]

    def test_what_came_back_is_shown_at_its_place(self, scene: Scene) -> None:
        consumer, client = scene.connect(), scene.connect()
        consumer.subscribe(QUEUE, ack="client", **{"prefetch-count": "2"})
        bodies = fill(client, 4)
        consumer.drop()
        browse(client)
        assert shown(client) == bodies

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

    def test_redelivery_is_not_what_browsing_is(self, scene: Scene, version: Version) -> None:
        """A browser's MESSAGE is nobody's delivery: no mark, no count, nothing to acknowledge."""
        consumer, client = scene.connect(version), scene.connect(version)
        consumer.subscribe(QUEUE, ack="client")
        fill(client, 1)
        consumer.drop()
        browse(client)
        message = client.messages()[0]
        assert message.headers.keys() == {"subscription", "destination", "message-id", "content-length"}

    def test_several_browsers_of_one_session(self, scene: Scene) -> None:
        client = scene.connect()
        bodies = fill(client, 3)
        for id in ("0", "1"):
            browse(client, id)
        messages = client.messages()
        for id in ("0", "1"):
            assert [each.body for each in messages if each.subscription == id] == [*bodies, b""]

    def test_a_browser_beside_a_consumer_of_the_session(self, scene: Scene) -> None:
        client = scene.connect()
        client.subscribe(QUEUE, "c", ack="client", **{"prefetch-count": "1"})
        bodies = fill(client, 3)
        browse(client)
        found = [(message.subscription, message.body) for message in client.messages()]
        assert found == [("c", bodies[0]), ("b", bodies[1]), ("b", bodies[2]), ("b", b"")]


class TestNothingChanges:
    @pytest.mark.parametrize("headers", [{}, TAILING], ids=["to the end", "tailing"])
    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, lambda client: client.unsubscribe("b")])
    def test_for_consumers(self, scene: Scene, version: Version, headers: dict[str, str], leave: Step) -> None:
        client, consumer = scene.connect(version), scene.connect(version)
        bodies = fill(consumer, 5)
        browse(client, **headers)
        assert [each.body for each in client.messages() if "browser" not in each.headers] == bodies
        leave(client)
        scene.settle()
        consumer.subscribe(QUEUE)
        messages = consumer.messages()
        assert [message.body for message in messages] == bodies
        assert not any(message.redelivered for message in messages)

    def test_also_where_the_queue_goes_with_its_last_consumer(self, stage: Stage) -> None:
        """There was none yet."""
        scene = stage({QUEUE: {"auto_delete": True}})
        client = scene.connect()
        bodies = fill(client, 3)
        browse(client, **TAILING)
        client.unsubscribe("b")
        assert bodies_of(scene) == bodies

    def test_for_the_counts(self, scene: Scene) -> None:
        client = scene.connect()
        fill(client, 3)
        before = (scene.broker.memory.used, scene.broker.context.waiting)
        browse(client)
        browse(client, "1", **TAILING)
        assert (scene.broker.memory.used, scene.broker.context.waiting) == before
        assert scene.broker.counters.redelivered == 0

    def test_a_browser_takes_no_turn(self, scene: Scene) -> None:
        one, two, client = scene.connect(), scene.connect(), scene.connect()
        browse(client, **TAILING)
        for each in (one, two):
            each.subscribe(QUEUE)
        bodies = fill(client, 4)
        assert (one.bodies(), two.bodies()) == (bodies[::2], bodies[1::2])

    @pytest.mark.parametrize("ack", ["client", "client-individual"])
    @with_nack
    def test_there_is_nothing_to_acknowledge(self, scene: Scene, version: Version, ack: str) -> None:
        client = scene.connect(version)
        client.subscribe(QUEUE, ack=ack, browser="true")
        error = client.error()
        assert error.headers["message"] == "a browser consumes nothing"
        assert QUEUE not in scene.broker.destinations

    def test_topics_keep_nothing_to_browse(self, scene: Scene) -> None:
        client = scene.connect()
        client.subscribe("/topic/a", browser="true")
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
    def test_the_subscription_ends_as_any_other(self, scene: Scene, version: Version, count: int, leave: Step) -> None:
        client = scene.connect(version)
        fill(client, count)
        browse(client)
        leave(client)
        assert not client.failures
        assert scene.broker.context.subscriptions == 0
        assert scene.broker.context.waiting == count

    def test_its_id_is_free_again(self, scene: Scene) -> None:
        client = scene.connect()
        bodies = fill(client, 2)
        for _ in range(3):
            browse(client)
            assert shown(client) == bodies
            client.unsubscribe("b")

    def test_until_then_it_is_not(self, scene: Scene) -> None:
        client = scene.connect()
        browse(client)
        browse(client)
        assert client.error().headers["message"] == "subscription id in use"

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

    def test_what_waits_and_then_what_comes(self, scene: Scene, version: Version) -> None:
        client, producer = scene.connect(version), scene.connect(version)
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

    def test_a_redelivery_is_nothing_new(self, scene: Scene) -> None:
        client, consumer = scene.connect(), scene.connect()
        consumer.subscribe(QUEUE, ack="client")
        browse(client, **TAILING)
        bodies = fill(client, 1)
        consumer.nack(consumer.message())
        assert client.bodies() == bodies

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

    def test_unsubscribe_ends_it(self, scene: Scene) -> None:
        client = scene.connect()
        browse(client, **TAILING)
        fill(client, 1)
        client.unsubscribe("b")
        fill(client, 1, start=2)
        assert client.bodies() == [b"1"]

    def test_it_may_browse_its_own_messages_of_one_chunk(self, scene: Scene) -> None:
        client = scene.connect()
        browse(client, **TAILING)
        client.receive(f"SEND\ndestination:{QUEUE}\n\nm\0".encode() * 10)
        assert len(client.messages()) == 10
