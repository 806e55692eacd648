"""How many groups are remembered, which of them go first, and what all of them cost."""

from __future__ import annotations

import pytest

from gateway.broker.model.policy import WhenFull
from gateway.broker.queue import groups

from ..client import Client, Scene, Step
from ..conftest import Stage
from .test_groups import QUEUE, consumer, go_on, known, names, numbered, queue_of, send


@pytest.fixture
def three_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue remembers three groups."""
    monkeypatch.setattr(groups, "MOST_GROUPS", 3)


@pytest.mark.usefixtures("three_groups")
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

    def test_one_that_goes_while_its_last_message_becomes_a_dead_letter(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The dead letter pushes another one out of a full queue, and that comes back here, of a group that is new."""
        monkeypatch.setattr(groups, "MOST_GROUPS", 1)
        full = {"max_messages": 1, "when_full": WhenFull.DEAD_LETTER, "dead_letter": QUEUE}
        scene = stage({QUEUE: {"dead_letter_expired": True, "dead_letter": "/queue/b"}, "/queue/b": full})
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

    def test_one_whose_messages_wait_is_not_forgotten(self, scene: Scene) -> None:
        owner, other = consumer(scene, 1), consumer(scene)
        send(owner, "g1", "g2")
        send(owner, *(f"{name}1" for name in "abcdef"), "g3")
        assert len(names(other)) == 6
        assert go_on(owner) == ["g1", "g2", "g3"]

    @pytest.mark.parametrize("settled", range(4))
    def test_a_forgotten_one_comes_back_with_its_messages(self, scene: Scene, settled: int) -> None:
        owner = consumer(scene)
        send(owner, "a1", "b1", "c1", "d1")
        owner.ack(owner.messages()[settled])
        owner.drop()
        client = consumer(scene)
        send(client, "a2", "b2")
        expected = ["a1", "b1", "c1", "d1", "a2", "b2"]
        del expected[settled]
        assert names(client) == expected
        assert len(known(scene)) <= 4

    def test_more_than_that_may_wait(self, scene: Scene) -> None:
        """Where all of them have messages, the messages are the bound."""
        producer = scene.connect()
        send(producer, *(f"{name}{number}" for number in range(3) for name in "abcdef"))
        assert len(known(scene)) == 6
        clients = [consumer(scene, 1) for _ in range(4)]
        shares: list[list[str]] = [[] for _ in clients]
        while any(found := [go_on(client) for client in clients]):
            for share, more in zip(shares, found, strict=True):
                share += more
        for name in "abcdef":
            assert [[each for each in share if name in each] for share in shares].count(numbered(name, 0, 1, 2)) == 1


class TestAccount:
    """What the groups of all queues cost."""

    def test_they_are_counted_until_nobody_has_them(self, scene: Scene) -> None:
        broker = scene.broker
        owner, other = consumer(scene), consumer(scene)
        send(owner, "a1", "b1", "c1")
        owner.publish("/queue/b", JMSXGroupID="x" * 1_000)
        assert broker.context.group_bytes == 4 * groups._COST + 3 + 1_000
        send(owner, "a2", "b2")
        assert broker.context.group_bytes == 4 * groups._COST + 3 + 1_000
        for client in (owner, other):
            for message in client.messages():
                client.ack(message)
            client.drop()
        assert broker.context.group_bytes == groups._COST + 1_000
        reader = scene.consumer("/queue/b")
        reader.drop()
        assert broker.context.group_bytes == 0

    def test_a_queue_that_goes_leaves_nothing(self, scene: Scene) -> None:
        owner = consumer(scene)
        send(owner, "a1", "b1")
        assert go_on(owner) == ["a1", "b1"]
        queue_of(scene).end()
        assert (len(known(scene)), scene.broker.context.group_bytes) == (0, 0)
        send(owner, "a2")
        owner.drop()
        assert scene.broker.context.group_bytes == groups._COST + 1
        assert names(consumer(scene)) == ["a2"]

    def test_they_are_bounded_together(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        """A queue that needs another one forgets one of its own."""
        monkeypatch.setattr(groups, "MOST_BYTES", 10 * (groups._COST + 1))
        client = scene.connect()
        for number in range(3):
            client.subscribe(f"/queue/{number}", str(number))
        for name in "abcdefghijklmnop":
            for number in range(3):
                client.publish(f"/queue/{number}", JMSXGroupID=name)
        assert 10 <= scene.broker.context.group_bytes // (groups._COST + 1) <= 10 + 3
        assert len(client.messages()) == 48
