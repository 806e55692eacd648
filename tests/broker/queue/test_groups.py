"""Message groups: one consumer each, in order, for as long as it is there."""

from __future__ import annotations

import pytest

from gateway.broker.queue import ready
from gateway.broker.queue.groups import Groups
from gateway.broker.queue.queue import Queue
from gateway.codec import V12

from ..client import Client, Scene, waiting

QUEUE = "/queue/a"
CLOSE = {"JMSXGroupSeq": "-1"}


def send(producer: Client, *names: str, **headers: str) -> None:
    """Send messages whose bodies are these; `g1` is of the group g, `1` is of none."""
    for name in names:
        group = name.rstrip("0123456789")
        producer.publish(QUEUE, name.encode(), **({"JMSXGroupID": group} if group else {}), name=name, **headers)


def numbered(group: str, *numbers: int) -> list[str]:
    return [f"{group}{number}" for number in numbers]


def consumer(scene: Scene, prefetch: int = 1_000, priority: int = 0, selector: str = "") -> Client:
    """A connection that subscribes /queue/a in mode client-individual."""
    client = scene.connect()
    headers = {"prefetch-count": str(prefetch), "x-priority": str(priority), "selector": selector}
    client.subscribe(QUEUE, ack="client-individual", **headers)
    return client


def names(client: Client) -> list[str]:
    return [message.body.decode() for message in client.messages()]


def go_on(client: Client) -> list[str]:
    """Acknowledge one by one until nothing comes; returns what came."""
    found = []
    while messages := client.messages():
        for message in messages:
            found.append(message.body.decode())
            client.ack(message)
    return found


def queue_of(scene: Scene) -> Queue:
    queue = scene.broker.destinations[QUEUE]
    assert isinstance(queue, Queue)
    return queue


def waits(scene: Scene) -> list[str]:
    queue = scene.broker.destinations.get(QUEUE)
    return [message.body.decode() for message in waiting(queue)] if isinstance(queue, Queue) else []


def known(scene: Scene) -> Groups:
    found = queue_of(scene)._dispatcher.groups
    assert found is not None
    return found


class TestSticky:
    @pytest.mark.parametrize("name", ["JMSXGroupID", "message_group", "_AMQ_GROUP_ID"])
    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_a_group_has_one_consumer(self, scene: Scene, name: str, ack: str) -> None:
        clients = [scene.connect() for _ in range(3)]
        for client in clients:
            client.subscribe(QUEUE, ack=ack)
        for number in range(12):
            clients[0].publish(QUEUE, b"%d" % number, **{name: "ghi"[number % 3]})
        assert [client.bodies() for client in clients] == [[b"%d" % (n + k) for n in range(0, 12, 3)] for k in range(3)]

    def test_new_groups_take_turns_and_so_do_others(self, scene: Scene) -> None:
        clients = [consumer(scene) for _ in range(3)]
        send(clients[0], "a1", "b1", "1", "c1", "2", "a2", "a3", "3")
        shares = [names(client) for client in clients]
        assert [share[0] for share in shares] == ["a1", "b1", "1"]
        assert shares[0][-2:] == ["a2", "a3"]
        assert sorted(name for share in shares for name in share) == ["1", "2", "3", "a1", "a2", "a3", "b1", "c1"]

    def test_what_waited_goes_to_one(self, scene: Scene) -> None:
        producer = scene.connect()
        send(producer, "a1", "b1", "a2", "b2", "a3")
        clients = [consumer(scene, 1), consumer(scene, 1)]
        assert [go_on(client) for client in clients] == [["a1", "a2", "a3"], ["b1", "b2"]]

    def test_the_owner_gets_it_whatever_its_priority(self, scene: Scene) -> None:
        low = consumer(scene)
        send(low, "g1")
        high = consumer(scene, priority=5)
        send(low, "g2", "h1")
        assert (names(low), names(high)) == (["g1", "g2"], ["h1"])

    def test_a_topic_has_no_use_for_them(self, scene: Scene) -> None:
        clients = [scene.connect(), scene.connect()]
        for client in clients:
            client.subscribe("/topic/a", ack="client")
        for number in range(3):
            clients[0].publish("/topic/a", b"%d" % number, JMSXGroupID="g", **CLOSE)
        assert [client.bodies() for client in clients] == [[b"0", b"1", b"2"]] * 2


class TestBusyOwner:
    """Its messages wait for it, and stand in nobody's way."""

    @pytest.mark.parametrize("order", ["before", "after"])
    def test_others_go_on_with_what_is_behind(self, scene: Scene, order: str) -> None:
        owner = consumer(scene, 1)
        send(owner, "g1")
        other = consumer(scene) if order == "before" else None
        send(owner, "g2", "1", "g3", "2", "g4")
        other = other or consumer(scene)
        assert names(other) == ["1", "2"]
        assert waits(scene) == ["g2", "g3", "g4"]
        assert go_on(owner) == ["g1", "g2", "g3", "g4"]

    @pytest.mark.parametrize("selector", ["name LIKE '%'", "name NOT LIKE 'g%'"])
    def test_also_selective_ones(self, scene: Scene, selector: str) -> None:
        owner = consumer(scene, 1)
        send(owner, "g1", "g2")
        other = consumer(scene, selector=selector)
        send(owner, "g3", "1", "h1", "2")
        assert names(other) == ["1", "h1", "2"]
        assert go_on(owner) == ["g1", "g2", "g3"]

    def test_many_of_them_cost_a_selective_one_nothing(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ready, "READS_PER_TURN", 3)
        owner = consumer(scene, 1)
        send(owner, "g1")
        other = consumer(scene, selector="name = '1'")
        send(owner, *numbered("g", *range(2, 20)), "1")
        assert names(other) == ["1"]

    def test_what_its_owner_has_room_for_it_gets_in_order_with_the_rest(self, scene: Scene) -> None:
        owner = consumer(scene, 2)
        send(owner, "g1", "1", "g2", "2", "g3", "3")
        assert go_on(owner) == ["g1", "1", "g2", "2", "g3", "3"]

    def test_what_stands_before_it_goes_first(self, scene: Scene) -> None:
        """Also where somebody else came upon the group's message meanwhile."""
        owner, other = consumer(scene, 1), consumer(scene, 1)
        send(owner, "g1", "0", "1", "g2", "2")
        other.ack(other.message())
        assert names(other) == ["1"]
        assert go_on(owner) == ["g1", "g2", "2"]

    def test_in_order_although_a_long_run_stands_before_it(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ready, "READS_PER_TURN", 3)
        owner = consumer(scene, 1, selector="name LIKE 'g%' OR name > 90")
        send(owner, "g1", "98")
        assert names(consumer(scene, 1)) == ["98"]
        send(owner, *(str(number) for number in range(10)), "99", "g2")
        assert go_on(owner) == ["g1", "99", "g2"]

    def test_what_expires_meanwhile_does_not_come(self, scene: Scene) -> None:
        owner, other = consumer(scene, 1), consumer(scene)
        send(owner, "g1")
        send(owner, "g2", ttl="1000")
        send(owner, "g3")
        scene.now += 2.0  # nobody has looked at the agenda yet
        assert go_on(owner) == ["g1", "g3"]
        assert names(other) == []

    def test_nor_does_it_pile_up(self, scene: Scene) -> None:
        owner, other = consumer(scene, 1), consumer(scene, 1)
        send(owner, "g1", "1")
        for number in range(300):
            send(owner, str(number))
            send(owner, f"g{number}", ttl="100")
            other.ack(other.message())
            scene.wait(0.2)
        (subscription,) = owner.session.subscriptions.values()
        assert len(waits(scene)) <= 1
        groups = queue_of(scene)._dispatcher.groups
        parked = groups.owner_of(subscription) if groups is not None else None
        assert parked is None or len(parked.tokens) <= 100
        assert sum(map(len, queue_of(scene).in_memory.ready_lists)) <= 100

    def test_also_behind_one_that_stays(self, scene: Scene) -> None:
        owner = consumer(scene, 1)
        send(owner, "g1", "g2")
        (group,) = known(scene)
        for number in range(300):
            send(owner, f"g{number}", ttl="100")
            scene.wait(0.2)
            assert group._waiting is not None
            assert len(group._waiting) <= 100
        send(owner, "g3")
        assert go_on(owner) == ["g1", "g2", "g3"]


class TestSelectors:
    def test_the_owner_of_a_group_may_be_selective(self, scene: Scene) -> None:
        one, two = consumer(scene, selector="name LIKE 'g%'"), consumer(scene)
        send(one, "g1", "1", "g2", "g3")
        shares = [names(one), names(two)]
        assert shares == [["g1", "g2", "g3"], ["1"]]

    def test_what_the_owner_does_not_want_is_anybodys(self, scene: Scene) -> None:
        one = consumer(scene, selector="name <> 'g2'")
        send(one, "g1")
        two = consumer(scene)
        send(one, "g2", "1", "2")
        found = names(two)
        assert found[0] == "g2"
        assert sorted(names(one) + found) == ["1", "2", "g1", "g2"]

    def test_what_nobody_wants_holds_the_rest_of_its_group_and_nothing_else(self, scene: Scene) -> None:
        """The order of a group goes before speed; whoever wants the message sets it going again."""
        one = consumer(scene, selector="name <> 'g2'")
        send(one, "g1", "g2", "g3", "1")
        assert names(one) == ["g1", "1"]
        assert waits(scene) == ["g2", "g3"]
        two = consumer(scene)
        assert names(two) == ["g2", "g3"]


def test_who_leaves_is_forgotten(scene: Scene) -> None:
    client = scene.connect(V12)
    for _ in range(3):
        client.subscribe(QUEUE, ack="client")
        send(client, *(f"{name}1" for name in "abc"))
        assert len(known(scene)) == 3
        for message in client.messages():
            client.ack(message)
        client.subscribe(QUEUE, "other")
        client.unsubscribe()
        assert len(known(scene)) == 0
        client.unsubscribe("other")
