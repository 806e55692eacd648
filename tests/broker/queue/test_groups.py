"""Message groups: one consumer each, in order, for as long as it is there."""

from __future__ import annotations

import pytest

from gateway.broker.core.work_limits import WorkLimits
from gateway.broker.model.policy import WhenFull
from gateway.broker.queue.groups import Groups
from gateway.codec import V12

from ..client import Client, Scene, Step
from ..conftest import Stage, small
from .helpers import QUEUE, consumer, go_on, names, queue_of, waits

CLOSE = {"JMSXGroupSeq": "-1"}


def send(producer: Client, *names: str, **headers: str) -> None:
    """Send messages whose bodies are these; `g1` is of the group g, `1` is of none."""
    for name in names:
        group = name.rstrip("0123456789")
        producer.publish(QUEUE, name.encode(), **({"JMSXGroupID": group} if group else {}), name=name, **headers)


def numbered(group: str, *numbers: int) -> list[str]:
    return [f"{group}{number}" for number in numbers]


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

    def test_one_message_of_a_group_stands_in_the_lists(self, scene: Scene) -> None:
        producer = scene.connect()
        send(producer, *numbered("g", *range(50)))
        assert len(queue_of(scene).in_memory.ready_lists[0]) == 1
        owner = consumer(scene, 1)
        send(producer, *numbered("g", *range(50, 99)))
        (group,) = known(scene)
        assert group.owner is not None
        assert len(group.owner.tokens) == 1
        assert go_on(owner) == numbered("g", *range(99))


class TestBusyOwner:
    """Its messages wait for it, and stand in nobody's way."""

    @small(selector_reads=3)
    def test_many_of_them_cost_a_selective_one_nothing(self, scene: Scene) -> None:
        owner = consumer(scene, 1)
        send(owner, "g1")
        other = consumer(scene, selector="name = '1'")
        send(owner, *numbered("g", *range(2, 20)), "1")
        assert names(other) == ["1"]

    def test_what_expires_does_not_pile_up(self, scene: Scene) -> None:
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

    def test_nor_behind_one_that_stays(self, scene: Scene) -> None:
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


@small(groups=3)
class TestBound:
    def test_only_so_many_are_remembered(self, scene: Scene) -> None:
        one = consumer(scene)
        for name in "abcdefgh":
            send(one, f"{name}1")
            one.ack(one.message())
        assert len(known(scene)) == 3
        two = consumer(scene)
        send(one, "f2", "g2", "h2")
        assert names(one) == ["f2", "g2", "h2"]
        send(one, "1", "a2", "2")
        assert "a2" in names(one) + names(two)

    def test_one_with_unacknowledged_messages_is_not_forgotten(self, scene: Scene) -> None:
        """Else another consumer would get the second message while the first one is at work on the first."""
        owner = consumer(scene)
        send(owner, *(f"{name}1" for name in "abcdefgh"))
        assert len(known(scene)) == 8
        consumer(scene)
        send(owner, *(f"{name}2" for name in "abcdefgh"))
        assert len(names(owner)) == 16

    @pytest.mark.parametrize("end", [Client.commit, Client.abort])
    def test_nor_is_one_whose_acknowledgements_an_open_transaction_holds(self, scene: Scene, end: Step) -> None:
        owner = consumer(scene)
        send(owner, *(f"{name}1" for name in "abcdefgh"))
        owner.begin()
        for message in owner.messages():
            owner.ack(message, transaction="t")
        send(owner, "i1")
        assert len(known(scene)) == 9
        end(owner)
        owner.ack(owner.message())
        send(owner, "j1")
        assert len(known(scene)) == 9

    def test_one_that_goes_while_its_last_message_becomes_a_dead_letter(self, stage: Stage) -> None:
        """The dead letter pushes another one out of a full queue, and that comes back here, of a group that is new."""
        full = {"max_messages": 1, "when_full": WhenFull.DEAD_LETTER, "dead_letter": QUEUE}
        policies = {QUEUE: {"dead_letter_expired": True, "dead_letter": "/queue/b"}, "/queue/b": full}
        scene = stage(policies, work_limits=WorkLimits(groups=1))
        owner, reader = consumer(scene, 2), scene.connect()
        owner.publish("/queue/b", b"h1", JMSXGroupID="h")
        send(owner, "g1", "1")
        send(owner, "g2", ttl="1000")
        scene.now += 2.0  # nobody has looked at the agenda yet
        for message in owner.messages():
            owner.ack(message)
        assert names(owner) == ["h1"]
        assert [group.name for group in known(scene)] == ["h"]
        reader.subscribe("/queue/b")
        assert reader.bodies() == [b"g2"]

    def test_the_one_that_was_silent_longest_chooses_again(self, scene: Scene) -> None:
        one = consumer(scene)
        send(one, "a1", "b1", "c1", "a2")
        two = consumer(scene)
        one.received()
        two.publish(QUEUE, b"d1", JMSXGroupID="d")
        send(one, "a3", "c2")
        assert b"a3" in (bodies := one.bodies())
        assert b"c2" in bodies
        send(one, "b2", "b3")
        shares = [names(one), names(two)]
        assert any(share[-2:] == ["b2", "b3"] for share in shares)


COST = 500  # bytes of a group beside its name


class TestAccount:
    def test_they_are_counted_until_nobody_has_them(self, scene: Scene) -> None:
        broker = scene.broker
        owner, other = consumer(scene), consumer(scene)
        send(owner, "a1", "b1", "c1")
        owner.publish("/queue/b", JMSXGroupID="x" * 1_000)
        assert broker.context.group_bytes == 4 * COST + 3 + 1_000
        send(owner, "a2", "b2")
        assert broker.context.group_bytes == 4 * COST + 3 + 1_000
        for client in (owner, other):
            for message in client.messages():
                client.ack(message)
            client.drop()
        assert broker.context.group_bytes == COST + 1_000
        reader = scene.consumer("/queue/b")
        reader.drop()
        assert broker.context.group_bytes == 0

    @small(group_bytes=10 * (COST + 1))
    def test_they_are_bounded_together(self, scene: Scene) -> None:
        """A queue that needs another one forgets one of its own."""
        client = scene.connect()
        for number in range(3):
            client.subscribe(f"/queue/{number}", str(number))
        for name in "abcdefghijklmnop":
            for number in range(3):
                client.publish(f"/queue/{number}", JMSXGroupID=name)
        assert 10 <= scene.broker.context.group_bytes // (COST + 1) <= 10 + 3
        assert len(client.messages()) == 48


leaving = pytest.mark.parametrize(
    "leave", [Client.drop, Client.disconnect, Client.unsubscribe], ids=["drop", "disconnect", "unsubscribe"]
)


class TestHandOver:
    @leaving
    def test_unacknowledged_ones_come_first(self, scene: Scene, leave: Step) -> None:
        owner, other = consumer(scene, 3), consumer(scene, 2)
        send(owner, *numbered("g", *range(1, 7)))
        owner.ack(owner.messages()[0])
        leave(owner)
        assert go_on(other) == numbered("g", *range(2, 7))


class TestClosing:
    def test_behind_the_last_one_the_group_chooses_again(self, scene: Scene) -> None:
        one, two = scene.connect(), scene.connect()
        for client in (one, two):
            client.subscribe(QUEUE, ack="client")
        send(one, "g1")
        send(one, "g2", **CLOSE)
        send(one, "g3", "g4")
        assert (names(one), names(two)) == (["g1", "g2"], ["g3", "g4"])

    def test_what_waits_behind_it_is_free(self, scene: Scene) -> None:
        """Whether others came upon it before or not; and what comes then is behind it."""
        owner, other = consumer(scene, 1), consumer(scene)
        send(owner, "g1")
        send(owner, "g2", **CLOSE)
        send(owner, "g3")
        owner.ack(owner.message())
        send(owner, "g4")
        assert (names(owner), names(other)) == (["g2"], ["g3", "g4"])

    def test_the_end_of_one_group_does_not_hold_up_another(self, scene: Scene) -> None:
        client = scene.consumer(QUEUE, ack="client", **{"prefetch-count": "3"})
        send(client, "h1", "1", "g1", "g2")
        send(client, "g3", priority="9", **CLOSE)
        send(client, "h2")
        client.ack(client.messages()[2])
        assert names(client) == ["g3", "g2", "h2"]
