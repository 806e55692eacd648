"""Queues: how consumers share messages, in which order these come back, and when a queue goes."""

from __future__ import annotations

from itertools import chain

import pytest

from ..client import Client, Scene, Step
from ..conftest import Stage
from .helpers import QUEUE, fill, queue_of

MODES = ["auto", "client"]


def consumers(scene: Scene, count: int, ack: str = "client") -> list[Client]:
    """So many connections that subscribe /queue/a."""
    clients = [scene.connect() for _ in range(count)]
    for client in clients:
        client.subscribe("/queue/a", ack=ack)
    return clients


class TestOneConsumerEach:
    @pytest.mark.requirement("XTR-03")
    @pytest.mark.parametrize("ack", MODES)
    @pytest.mark.parametrize("first", [True, False], ids=["sent first", "subscribed first"])
    def test_competing_consumers_take_turns(self, scene: Scene, ack: str, first: bool) -> None:
        producer = scene.connect()
        early = fill(producer, 3) if first else []
        clients = consumers(scene, 3, ack)
        late = fill(producer, 30, start=4)
        shares = [client.bodies() for client in clients]
        assert sorted(chain.from_iterable(shares), key=int) == early + late
        assert [len(share) for share in shares] == [len(early) + 10, 10, 10]
        assert [share[len(early) if share is shares[0] else 0 :] for share in shares] == [late[k::3] for k in range(3)]


class TestGivenBack:
    @pytest.mark.requirement("ACK-06")
    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
    def test_messages_of_interleaved_consumers_that_leave_one_by_one_come_back_in_order(
        self, stage: Stage, order: tuple[int, ...]
    ) -> None:
        scene = stage(max_unacknowledged=3)
        clients = consumers(scene, 3)
        bodies = fill(scene.connect(), 12)
        assert clients[0].bodies() == [b"1", b"4", b"7"]
        for index in order:
            clients[index].drop()
        (last,) = consumers(scene, 1)
        found = []
        while messages := last.messages():
            found += messages
            last.ack(messages[-1])
        assert [each.body for each in found] == bodies
        assert [each.redelivered for each in found] == [True] * 9 + [False] * 3

    @pytest.mark.requirement("ACK-06")
    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, lambda client: client.send("BOGUS")])
    @pytest.mark.parametrize("ack", MODES)
    def test_several_subscriptions_of_one_connection_come_back_as_one(
        self, scene: Scene, leave: Step, ack: str
    ) -> None:
        """A consumer that is there already gets them in order, not subscription by subscription."""
        client, other = scene.connect(), scene.connect()
        for id in ("0", "1"):
            client.subscribe("/queue/a", id, ack="client")
        bodies = fill(other, 6)
        other.subscribe("/queue/a", ack=ack)
        leave(client)
        assert other.bodies() == bodies


class TestPriority:
    def test_from_9_to_0_and_in_order_within_each(self, scene: Scene) -> None:
        producer = scene.connect()
        sent = [(number, number * 7 % 10) for number in range(60)]
        for number, priority in sent:
            producer.publish("/queue/a", b"%d" % number, priority=str(priority))
        (client,) = consumers(scene, 1, "auto")
        expected = sorted(sent, key=lambda each: (-each[1], each[0]))
        assert client.bodies() == [b"%d" % number for number, _ in expected]


class TestPlaces:
    def test_purged_is_everything_that_nobody_has(self, stage: Stage) -> None:
        scene = stage(max_unacknowledged=1)
        (client,) = consumers(scene, 1)
        for number in range(6):
            group = {"JMSXGroupID": "g"} if number % 2 == 0 else {}
            client.publish("/queue/a", b"%d" % number, x=str(number), **group)
        client.subscribe("/queue/a", "red", ack="client", selector="x > 3")
        queue = queue_of(scene)
        held = [message.body for message in client.messages()]
        before = scene.broker.counters.totals()["dropped"]
        queue.purge()
        scene.audit()
        assert (queue.waiting, queue.nbytes, queue.waiting_messages()) == (0, 0, [])
        assert scene.broker.counters.totals()["dropped"] - before == 6 - len(held)
        client.drop()
        (client,) = consumers(scene, 1, "auto")
        assert client.bodies() == sorted(held)


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
        assert (scene.broker.counters.totals()["dropped"], scene.broker.memory.used) == (2, 0)

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
