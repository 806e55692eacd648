"""A subscription's window: what may be unacknowledged at a time, in messages and in bytes."""

from __future__ import annotations

import pytest

from gateway.broker.model.message import OVERHEAD

from ..client import Client, Scene
from ..conftest import Stage
from .test_subscription import fill

QUEUE = "/queue/a"


def large(producer: Client, count: int, nbytes: int) -> None:
    """Send so many messages that cost a little more than so many bytes each."""
    for _ in range(count):
        producer.publish(QUEUE, b" " * (nbytes - OVERHEAD))


class TestWindow:
    def test_so_many_are_sent_unacknowledged(self, stage: Stage) -> None:
        client = stage(max_unacknowledged=3).connect()
        client.subscribe(QUEUE, ack="client")
        fill(client, 8)
        messages = client.messages()
        assert [each.body for each in messages] == [b"1", b"2", b"3"]
        client.ack(messages[1])
        messages[:2] = []
        messages += client.messages()
        assert [each.body for each in messages] == [b"3", b"4", b"5"]
        client.ack(messages[-1])
        assert client.bodies() == [b"6", b"7", b"8"]

    def test_mode_auto_has_none(self, stage: Stage) -> None:
        client = stage(max_unacknowledged=3).connect()
        client.subscribe(QUEUE)
        assert client.bodies() == []
        assert fill(client, 8) == client.bodies()

    def test_it_is_the_subscriptions_own(self, stage: Stage) -> None:
        client = stage(max_unacknowledged=1).connect()
        client.subscribe(QUEUE, "0", ack="client")
        client.subscribe(QUEUE, "1", ack="client")
        client.subscribe("/topic/a", "2", ack="client")
        fill(client, 3)
        fill(client, 3, "/topic/a")
        assert [(each.subscription, each.body) for each in client.messages()] == [
            ("0", b"1"),
            ("1", b"2"),
            ("2", b"1"),
        ]

    def test_who_is_full_leaves_the_messages_to_others(self, stage: Stage) -> None:
        scene = stage(max_unacknowledged=2)
        full, free = scene.connect(), scene.connect()
        full.subscribe(QUEUE, ack="client")
        fill(free, 2)
        free.subscribe(QUEUE)
        fill(free, 5)
        assert len(free.messages()) == 5
        first, _ = full.messages()
        full.ack(first)
        fill(free, 2)
        assert len(full.messages()) == len(free.messages()) == 1

    def test_a_nack_makes_room_for_the_same_message(self, stage: Stage) -> None:
        client = stage(max_unacknowledged=1).connect()
        client.subscribe(QUEUE, ack="client")
        fill(client, 2)
        client.nack(client.message())
        assert client.message().body == b"1"

    @pytest.mark.requirement("TXN-03", "TXN-04")
    def test_an_ack_in_a_transaction_makes_room_when_it_commits(self, stage: Stage) -> None:
        client = stage(max_unacknowledged=1).connect()
        client.subscribe(QUEUE, ack="client")
        fill(client, 2)
        message = client.message()
        client.begin()
        client.ack(message, transaction="t")
        client.abort()
        client.begin()
        client.ack(message, transaction="t")
        assert not client.received()
        client.commit()
        assert client.bodies() == [b"2"]

    def test_unsubscribed_messages_do_not_count(self, stage: Stage) -> None:
        client = stage(max_unacknowledged=2).connect()
        bodies = fill(client, 5)
        for _ in range(3):
            client.subscribe(QUEUE, ack="client")
            assert client.bodies() == bodies[:2]
            client.unsubscribe()


class TestPrefetch:
    @pytest.mark.parametrize("name", ["prefetch-count", "activemq.prefetchSize", "x-prefetch", "credit"])
    @pytest.mark.parametrize("destination", [QUEUE, "/topic/a"])
    def test_so_many_messages(self, scene: Scene, name: str, destination: str) -> None:
        client = scene.consumer(destination, ack="client", **{name: "3"})
        bodies = fill(client, 8, destination)
        messages = client.messages()
        assert [message.body for message in messages] == bodies[:3]
        client.ack(messages[1])
        assert client.bodies() == bodies[3:5]

    def test_more_than_the_servers_own(self, stage: Stage) -> None:
        client = stage(max_unacknowledged=2).connect()
        client.subscribe(QUEUE, ack="client", **{"prefetch-count": "5"})
        fill(client, 8)
        assert len(client.messages()) == 5

    @pytest.mark.parametrize("destination", [QUEUE, "/topic/a"])
    def test_0_sets_no_limit(self, stage: Stage, destination: str) -> None:
        client = stage(max_unacknowledged=2).connect()
        client.subscribe(destination, ack="client", **{"prefetch-count": "0"})
        fill(client, 500, destination)
        assert len(client.messages()) == 500

    def test_but_the_octets_still_count(self, stage: Stage) -> None:
        client = stage(max_unacknowledged_octets=4_000).connect()
        client.subscribe(QUEUE, ack="client", **{"prefetch-count": "0"})
        large(client, 8, 1_000)
        assert len(client.messages()) == 4

    def test_mode_auto_has_no_window(self, scene: Scene) -> None:
        client = scene.consumer(QUEUE, **{"prefetch-count": "1", "consumer-window-size": "1"})
        assert fill(client, 10) == client.bodies()

    def test_each_subscription_has_its_own(self, scene: Scene) -> None:
        client = scene.connect()
        for id in ("1", "3", "2"):
            client.subscribe(QUEUE, id, ack="client", **{"prefetch-count": id})
        fill(client, 10)
        found = [message.subscription for message in client.messages()]
        assert {id: found.count(id) for id in found} == {"1": 1, "2": 2, "3": 3}
        assert client.scene.broker.context.waiting == 4

    def test_with_several_consumers_the_window_is_what_makes_it_fair(self, scene: Scene) -> None:
        """The backlog does not go to whoever comes first."""
        producer = scene.connect()
        fill(producer, 10)
        clients = [scene.connect() for _ in range(5)]
        for client in clients:
            client.subscribe(QUEUE, ack="client", **{"prefetch-count": "2"})
        assert [client.bodies() for client in clients] == [[b"%d" % n, b"%d" % (n + 1)] for n in range(1, 11, 2)]

    def test_room_comes_back_with_each_way_of_settling(self, stage: Stage) -> None:
        client = stage({QUEUE: {"max_attempts": 2, "dead_letter": ""}}).connect()
        client.subscribe(QUEUE, ack="client-individual", **{"prefetch-count": "1"})
        fill(client, 6)
        client.ack(client.message())
        client.nack(client.message(), requeue="false")
        client.nack(client.message())
        client.nack(client.message())
        client.begin()
        client.ack(client.message(), transaction="t")
        assert not client.received()
        client.commit()
        client.begin()
        client.nack(client.message(), transaction="t", requeue="false")
        client.commit()
        assert client.bodies() == [b"6"]


class TestBytes:
    @pytest.mark.parametrize("destination", [QUEUE, "/topic/a"])
    @pytest.mark.parametrize("headers", [{"consumer-window-size": "3000"}, {"credit": "100,3000"}])
    def test_a_ceiling_in_octets(self, scene: Scene, headers: dict[str, str], destination: str) -> None:
        client = scene.consumer(destination, ack="client", **headers)
        for _ in range(8):
            client.publish(destination, b" " * (1_000 - OVERHEAD))
        messages = client.messages()
        assert len(messages) == 3
        client.ack(messages[0])
        assert len(client.messages()) == 1
        assert client.session.outstanding == 3

    def test_the_servers_own(self, stage: Stage) -> None:
        client = stage(max_unacknowledged_octets=3_000).connect()
        client.subscribe(QUEUE, ack="client")
        large(client, 8, 1_000)
        assert len(client.messages()) == 3

    def test_one_that_is_larger_goes_alone(self, scene: Scene) -> None:
        client = scene.consumer(QUEUE, ack="client", **{"consumer-window-size": "1000"})
        large(client, 3, 50_000)
        for _ in range(3):
            client.ack(client.message())
        assert not client.received()

    def test_by_their_cost_not_by_their_number(self, scene: Scene) -> None:
        client = scene.consumer(QUEUE, ack="client", **{"consumer-window-size": "2000"})
        fill(client, 10)
        (subscription,) = client.session.subscriptions.values()
        assert subscription.ledger is not None
        sizes = [delivery.size for delivery in subscription.ledger.values()]
        assert sum(sizes[:-1]) < 2000 <= sum(sizes)
        assert len(client.messages()) == len(sizes) < 10

    def test_0_is_one_message_at_a_time_as_at_artemis(self, scene: Scene) -> None:
        client = scene.consumer(QUEUE, ack="client", **{"consumer-window-size": "0"})
        fill(client, 3)
        for number in (1, 2, 3):
            message = client.message()
            assert message.body == b"%d" % number
            client.ack(message)

    def test_minus_1_sets_no_limit_as_at_artemis(self, stage: Stage) -> None:
        client = stage(max_unacknowledged=2, max_unacknowledged_octets=1_000).connect()
        client.subscribe(QUEUE, ack="client", **{"consumer-window-size": "-1"})
        large(client, 10, 2_000)
        assert len(client.messages()) == 10

    def test_both_limits_count(self, scene: Scene) -> None:
        client = scene.consumer(QUEUE, "1", ack="client", credit="2,1000000")
        fill(client, 5)
        assert len(client.messages()) == 2
        client.subscribe("/queue/b", "2", ack="client", credit="1000,1")
        fill(client, 5, "/queue/b")
        assert len(client.messages()) == 1

    def test_what_comes_back_makes_room(self, scene: Scene) -> None:
        client = scene.consumer(QUEUE, ack="client", **{"consumer-window-size": "1000"})
        large(client, 3, 5_000)
        first = client.message()
        client.nack(first)
        assert client.message().message_id == first.message_id
