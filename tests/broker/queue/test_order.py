"""The order of a queue's messages by their priorities, the places they take, and sessions that end anywhere."""

from __future__ import annotations

import pytest

from gateway.broker.model.policy import WhenFull
from gateway.broker.queue.queue import Queue

from ..client import Client, Scene, Step
from ..conftest import Stage
from ..wire import Received, parse
from .test_queue import MODES, consumers, fill


def queue_of(scene: Scene) -> Queue:
    queue = scene.broker.destinations["/queue/a"]
    assert isinstance(queue, Queue)
    return queue


class TestPriority:
    def test_from_9_to_0_and_in_order_within_each(self, scene: Scene) -> None:
        producer = scene.connect()
        sent = [(number, number * 7 % 10) for number in range(60)]
        for number, priority in sent:
            producer.publish("/queue/a", b"%d" % number, priority=str(priority))
        (client,) = consumers(scene, 1, "auto")
        expected = sorted(sent, key=lambda each: (-each[1], each[0]))
        assert client.bodies() == [b"%d" % number for number, _ in expected]

    def test_4_is_what_the_others_have(self, scene: Scene) -> None:
        producer = scene.connect()
        for body, headers in (
            (b"3", {"priority": "3"}),
            (b"none", {}),
            (b"4", {"priority": "4"}),
            (b"5", {"priority": "5"}),
        ):
            producer.publish("/queue/a", body, **headers)
        (client,) = consumers(scene, 1)
        messages = client.messages()
        assert [message.body for message in messages] == [b"5", b"none", b"4", b"3"]
        assert "priority" not in messages[1].headers
        assert messages[0].headers["priority"] == "5"

    @pytest.mark.parametrize(("said", "place"), [("10", 0), ("255", 0), ("0", 2)])
    def test_above_9_is_9(self, scene: Scene, said: str, place: int) -> None:
        producer = scene.connect()
        producer.publish("/queue/a", b"9", priority="9")
        producer.publish("/queue/a", b"1", priority="1")
        producer.publish("/queue/a", b"m", priority=said)
        (client,) = consumers(scene, 1)
        assert client.bodies().index(b"m") == (1 if place == 0 else 2)

    def test_urgent_ones_pass_those_that_wait(self, stage: Stage) -> None:
        (client,) = consumers(stage(max_unacknowledged=1), 1)
        fill(client, 3)
        client.publish("/queue/a", b"urgent", priority="9")
        found = []
        for _ in range(4):
            message = client.message()
            found.append(message.body)
            client.ack(message)
        assert found == [b"1", b"urgent", b"2", b"3"]

    def test_what_comes_back_has_its_place_among_its_equals(self, stage: Stage) -> None:
        (client,) = consumers(stage(max_unacknowledged=2), 1, "client-individual")
        for number, priority in enumerate([4, 4, 9, 4, 0, 9]):
            client.publish("/queue/a", b"%d" % number, priority=str(priority))
        client.drop()
        (client,) = consumers(client.scene, 1, "auto")
        assert client.bodies() == [b"2", b"5", b"0", b"1", b"3", b"4"]

    def test_at_a_topic_it_changes_nothing(self, scene: Scene) -> None:
        clients = [scene.connect(), scene.connect()]
        for client, ack in zip(clients, MODES, strict=True):
            client.subscribe("/topic/a", ack=ack)
        for priority in "059":
            clients[0].publish("/topic/a", priority.encode(), priority=priority)
        assert [client.bodies() for client in clients] == [[b"0", b"5", b"9"]] * 2


class TestPlaces:
    """What has gone leaves no traces."""

    def test_a_long_life_with_few_messages(self, stage: Stage) -> None:
        scene = stage(max_unacknowledged=1)
        one, two = consumers(scene, 2, "client-individual")
        queue = queue_of(scene)
        fill(one, 10)
        for number in range(500):
            one.publish("/queue/a", b"x", priority=str(number % 10))
            for client in (one, two):
                for message in client.messages():
                    (client.nack if number % 7 == 0 else client.ack)(message)
            assert sum(map(len, queue.in_memory.ready_lists)) <= 2 * queue.waiting + 100

    def test_purged_is_everything_that_nobody_has(self, stage: Stage) -> None:
        scene = stage(max_unacknowledged=1)
        (client,) = consumers(scene, 1)
        for number in range(6):
            group = {"JMSXGroupID": "g"} if number % 2 == 0 else {}
            client.publish("/queue/a", b"%d" % number, x=str(number), **group)
        client.subscribe("/queue/a", "red", ack="client", selector="x > 3")
        queue = queue_of(scene)
        held = [message.body for message in client.messages()]
        before = scene.broker.counters.dropped
        queue.purge()
        scene.audit()
        assert (queue.waiting, queue.nbytes, queue.waiting_messages()) == (0, 0, [])
        assert scene.broker.counters.dropped - before == 6 - len(held)
        client.drop()
        (client,) = consumers(scene, 1, "auto")
        assert client.bodies() == sorted(held)

    def test_what_waits_is_listed_in_order(self, stage: Stage) -> None:
        scene = stage(max_unacknowledged=1)
        one, _ = consumers(scene, 2)
        for number, priority in enumerate([4, 4, 9, 4, 0, 9, 4]):
            group = {"JMSXGroupID": "g"} if number % 2 == 0 else {}
            one.publish("/queue/a", b"%d" % number, priority=str(priority), **group)
        assert [message.body for message in queue_of(scene).waiting_messages()] == [b"2", b"5", b"3", b"6", b"4"]


class TestMeanwhile:
    """What becomes of messages in a queue before anybody had room for them."""

    @pytest.mark.parametrize("group", [{}, {"JMSXGroupID": "g"}], ids=["no group", "group"])
    def test_what_has_expired_does_not_come_back(self, scene: Scene, group: dict[str, str]) -> None:
        client, other = scene.connect(), scene.connect()
        client.subscribe("/queue/a", ack="client")
        for number in range(1, 5):
            lifetime = {"ttl": "1000"} if number != 3 else {}
            client.publish("/queue/a", b"%d" % number, **lifetime, **(group if number < 4 else {}))
        scene.now += 1.0
        client.drop()
        other.subscribe("/queue/a")
        assert other.bodies() == [b"3"]
        assert scene.broker.counters.expired == 3

    @pytest.mark.parametrize("group", [{}, {"JMSXGroupID": "g"}], ids=["no group", "group"])
    def test_a_newer_one_takes_the_place_of_an_older_one(self, stage: Stage, group: dict[str, str]) -> None:
        scene = stage({"/queue/a": {"conflate_by": "symbol"}})
        client, other = scene.connect(), scene.connect()
        for number, symbol in enumerate("ABACB"):
            client.publish("/queue/a", b"%d" % number, symbol=symbol, **group)
        client.subscribe("/queue/a", ack="client", **{"prefetch-count": "2"})
        assert client.bodies() == [b"2", b"4"]
        client.publish("/queue/a", b"5", symbol="A", **group)
        client.drop()
        other.subscribe("/queue/a")
        # 2 came back behind a newer one of its symbol.
        assert sorted(other.bodies()) == [b"3", b"4", b"5"]
        assert scene.broker.counters.conflated == 3

    def test_a_limit_that_a_client_set_drops_the_oldest_whatever_their_priority(self, scene: Scene) -> None:
        client = scene.connect()
        for number, priority in enumerate("494944"):
            client.publish("/queue/a", b"%d" % number, priority=priority, **{"x-max-length": "3"})
        client.subscribe("/queue/a")
        assert client.bodies() == [b"3", b"4", b"5"]

    def test_those_dropped_are_the_oldest_whatever_their_group(self, stage: Stage) -> None:
        scene = stage({"/queue/a": {"max_messages": 3, "when_full": WhenFull.DROP_OLDEST}}, max_unacknowledged=1)
        (client,) = consumers(scene, 1)
        for number in range(20):
            group = {"JMSXGroupID": "gh"[number % 2]} if number % 3 else {}
            client.publish("/queue/a", b"%d" % number, **group)
        found = []
        while messages := client.messages():
            found += [message.body for message in messages]
            client.ack(messages[-1])
        assert found == [b"0", b"17", b"18", b"19"]


STEPS: list[Step] = [
    lambda client: client.subscribe("/queue/a", "0", ack="client-individual", **{"prefetch-count": "3"}),
    lambda client: client.subscribe("/queue/a", "1", ack="client", selector="n > 4"),
    lambda client: client.subscribe("/queue/a", "2", browser="true", **{"browser-end": "false"}),
    lambda client: client.begin(),
    lambda client: client.ack(first(client, "0"), transaction="t"),
    lambda client: client.subscribe("/queue/a", "3", ack="client", exclusive="true"),
    lambda client: client.nack(first(client, "1")),
    lambda client: client.unsubscribe("2"),
    lambda client: client.publish("/queue/a", b"never", transaction="t"),
    lambda client: client.unsubscribe("0"),
    lambda client: client.subscribe("/queue/a", "4", browser="true"),
    lambda client: client.unsubscribe("1"),
    lambda client: client.nack(first(client, "3"), transaction="t"),
    lambda client: client.unsubscribe("3"),
    lambda client: client.subscribe("/queue/a", "5", ack="client-individual", **{"prefetch-count": "1"}),
]


def first(client: Client, subscription: str) -> Received:
    """The first message of that subscription, however long ago it came."""
    frames = parse(client.written, client.version)
    return next(frame for frame in frames if frame.headers.get("subscription") == subscription)


@pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, lambda client: client.send("BOGUS")])
@pytest.mark.parametrize("steps", range(len(STEPS) + 1))
def test_a_session_may_end_at_every_point(scene: Scene, steps: int, leave: Step) -> None:
    """Nothing is lost, whoever else is there."""
    client, producer = scene.connect(), scene.connect()
    for number in range(10):
        group = {"JMSXGroupID": "gh"[number // 4 % 2]} if number % 2 else {}
        producer.publish("/queue/a", b"%d" % number, n=str(number), **group)
    for step in STEPS[:steps]:
        step(client)
        assert not client.closed
    leave(client)
    assert scene.broker.context.subscriptions == 0
    producer.subscribe("/queue/a")
    assert producer.bodies() == [b"%d" % number for number in range(10)]
