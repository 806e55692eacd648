"""Queues: who gets which message, in which order, and what happens to those that come back."""

from __future__ import annotations

from itertools import chain

import pytest

from ..client import Client, Scene, Step
from ..conftest import Stage

MODES = ["auto", "client"]


def fill(producer: Client, count: int, start: int = 1) -> list[bytes]:
    """Send so many numbered messages to /queue/a; returns their bodies."""
    bodies = [b"%d" % number for number in range(start, start + count)]
    for body in bodies:
        producer.publish("/queue/a", body)
    return bodies


def consumers(scene: Scene, count: int, ack: str = "client") -> list[Client]:
    """So many connections that subscribe /queue/a."""
    clients = [scene.connect() for _ in range(count)]
    for client in clients:
        client.subscribe("/queue/a", ack=ack)
    return clients


class TestOneConsumerEach:
    @pytest.mark.requirement("XTR-03", "XTR-05", "SND-01")
    def test_kept_while_there_is_no_consumer(self, scene: Scene) -> None:
        producer = scene.connect()
        bodies = fill(producer, 100)
        producer.drop()
        (client,) = consumers(scene, 1)
        assert client.bodies() == bodies

    @pytest.mark.requirement("XTR-05")
    @pytest.mark.parametrize("ack", MODES)
    def test_one_consumer_gets_all_in_order(self, scene: Scene, ack: str) -> None:
        (client,) = consumers(scene, 1, ack)
        assert fill(scene.connect(), 100) == client.bodies()

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
        assert all(share == sorted(share, key=int) for share in shares)

    def test_who_was_full_takes_turns_again(self, stage: Stage) -> None:
        scene = stage(max_unacknowledged=2)
        producer = scene.connect()
        one, two = consumers(scene, 2)
        fill(producer, 4)
        one.ack(one.messages()[-1])
        two.ack(two.messages()[-1])
        fill(producer, 4, start=5)
        assert one.bodies() == [b"5", b"7"]
        assert two.bodies() == [b"6", b"8"]

    def test_a_busy_consumer_holds_nobody_up(self, stage: Stage) -> None:
        scene = stage(max_unacknowledged=1)
        slow, fast = consumers(scene, 2)
        fill(scene.connect(), 10)
        for number in (2, *range(3, 11)):
            message = fast.message()
            assert message.body == b"%d" % number
            fast.ack(message)
        assert slow.bodies() == [b"1"]

    @pytest.mark.requirement("UNS-01")
    def test_who_unsubscribed_gets_no_turn(self, scene: Scene) -> None:
        one, two = consumers(scene, 2)
        one.unsubscribe()
        assert fill(two, 4) == two.bodies()
        assert not one.received()


class TestGivenBack:
    @pytest.mark.requirement("ACK-06", "XTR-03")
    def test_a_lost_connections_messages_go_to_the_front_in_order(self, stage: Stage) -> None:
        scene = stage(max_unacknowledged=4)
        (client,) = consumers(scene, 1)
        bodies = fill(scene.connect(), 8)
        assert client.bodies() == bodies[:4]
        client.drop()
        (other,) = consumers(scene, 1)
        messages = other.messages()
        other.ack(messages[-1])
        messages += other.messages()
        assert [each.body for each in messages] == bodies
        assert [each.redelivered for each in messages] == [True] * 4 + [False] * 4

    @pytest.mark.requirement("ACK-06")
    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
    def test_also_those_of_interleaved_consumers_that_leave_one_by_one(
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

    def test_messages_never_written_come_back_among_those_never_acknowledged(self, scene: Scene) -> None:
        client, other = scene.connect(), scene.connect()
        client.subscribe("/queue/a", "0", ack="client")
        client.subscribe("/queue/a", "1")
        client.stalled = True
        bodies = fill(other, 6)
        other.subscribe("/queue/a")
        client.drop()
        messages = other.messages()
        assert [each.body for each in messages] == bodies
        assert [each.redelivered for each in messages] == [True, False] * 3

    @pytest.mark.requirement("TXN-07", "TXN-08", "TXN-04")
    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect])
    def test_acknowledged_in_an_open_transaction_is_not_acknowledged(self, scene: Scene, leave: Step) -> None:
        client, other = scene.connect(), scene.connect()
        client.subscribe("/queue/a", ack="client")
        bodies = fill(other, 4)
        messages = client.messages()
        client.begin()
        client.ack(messages[1], transaction="t")
        other.subscribe("/queue/a", ack="client")
        leave(client)
        assert other.bodies() == bodies

    @pytest.mark.requirement("TXN-04", "UNS-07")
    @pytest.mark.parametrize("end", [Client.abort, Client.drop, Client.disconnect])
    def test_a_transaction_keeps_its_messages_beyond_unsubscribe(self, scene: Scene, end: Step) -> None:
        """Those it holds wait for its end; the others come back at once."""
        client, other = scene.connect(), scene.connect()
        client.subscribe("/queue/a", ack="client")
        fill(client, 4)
        messages = client.messages()
        client.begin()
        client.ack(messages[1], transaction="t")
        client.unsubscribe()
        other.subscribe("/queue/a")
        assert other.bodies() == [b"3", b"4"]
        end(client)
        assert [(each.body, each.redelivered) for each in other.messages()] == [(b"1", True), (b"2", True)]

    @pytest.mark.requirement("TXN-04")
    def test_an_abort_gives_back_in_order_whatever_the_order_of_the_acks(self, scene: Scene) -> None:
        client, other = scene.connect(), scene.connect()
        client.subscribe("/queue/a", ack="client-individual")
        fill(client, 3)
        client.begin()
        for message in reversed(client.messages()):
            client.ack(message, transaction="t")
        client.unsubscribe()
        other.subscribe("/queue/a")
        client.abort()
        assert other.bodies() == [b"1", b"2", b"3"]


class TestNack:
    @pytest.mark.requirement("NAK-03", "NAK-01")
    @pytest.mark.parametrize("ack", ["client", "client-individual"])
    @pytest.mark.parametrize("turn", [0, 1, 2, 3])
    def test_another_consumer_gets_it_first_and_sees_that_it_is_a_redelivery(
        self, scene: Scene, ack: str, turn: int
    ) -> None:
        """Whose turn ever it is."""
        has, has_not, third = clients = consumers(scene, 3, ack)
        fill(has, turn)
        for client in clients:
            for message in client.messages():
                client.ack(message)
        has.publish("/queue/a", b"m")
        while not (messages := has.messages()):
            clients.append(clients.pop(0))
            has, has_not, third = clients
        has.nack(messages[0])
        (again,) = has_not.messages() + third.messages()
        assert (again.body, again.message_id) == (b"m", messages[0].message_id)
        assert again.headers["redelivered"] == "true"
        assert again.headers["delivery-count"] == "2"
        assert not has.received()

    def test_another_subscription_of_the_connection_is_another_consumer(self, scene: Scene) -> None:
        client = scene.connect()
        for id in ("0", "1"):
            client.subscribe("/queue/a", id, ack="client")
        client.publish("/queue/a")
        message = client.message()
        client.nack(message)
        assert client.message().subscription != message.subscription

    def test_it_stays_in_front_of_what_waits(self, stage: Stage) -> None:
        (client,) = consumers(stage(max_unacknowledged=2), 1)
        fill(client, 5)
        client.nack(client.messages()[1])
        assert client.bodies() == [b"1", b"2"]

    def test_it_is_counted(self, scene: Scene) -> None:
        (client,) = consumers(scene, 1)
        fill(client, 3)
        client.nack(client.messages()[1])
        client.ack(client.messages()[-1])
        counters = scene.broker.counters
        assert (counters.published, counters.delivered, counters.redelivered) == (3, 5, 2)
        assert (counters.rejected, counters.acknowledged) == (2, 3)
