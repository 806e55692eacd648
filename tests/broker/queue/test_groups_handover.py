"""Message groups whose messages come back, whose consumer leaves, or that end."""

from __future__ import annotations

import pytest

from gateway.broker.queue import ready

from ..client import Client, Scene, Step
from ..wire import build
from .test_groups import CLOSE, QUEUE, consumer, go_on, names, numbered, queue_of, send, waits

leaving = pytest.mark.parametrize(
    "leave", [Client.drop, Client.disconnect, Client.unsubscribe], ids=["drop", "disconnect", "unsubscribe"]
)


def carry_out(client: Client, command: str, headers: dict[str, str]) -> None:
    """One frame, and nothing else: what is to be done in later turns waits."""
    client._decoder.feed(build(command, headers, version=client.version))
    for frame in client._decoder.frames():
        client.session.handle(frame)


class TestGivenBack:
    @pytest.mark.parametrize("prefetch", [1, 2, 3])
    def test_and_comes_before_those_behind_it(self, scene: Scene, prefetch: int) -> None:
        owner, other = consumer(scene, prefetch), consumer(scene)
        send(owner, *numbered("g", 1, 2, 3, 4, 5))
        first, *rest = owner.messages()
        owner.nack(first)
        again, *others = owner.messages()
        assert again.body == b"g1"
        for message in (again, *rest, *others):
            owner.ack(message)
        assert go_on(owner) == numbered("g", *range(prefetch + 1, 6))
        assert names(other) == []

    def test_in_order_although_its_lane_is_long(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        """Others came upon the group's next message; then much came that the owner does not want."""
        monkeypatch.setattr(ready, "READS_PER_TURN", 3)
        owner = consumer(scene, 1, selector="name LIKE 'g%' OR name > 90")
        send(owner, "g1", "g2")
        other = consumer(scene, 1, selector="name LIKE 'g%' OR name > 90")
        send(owner, "91", "92")
        other.ack(other.message())
        send(owner, "93", *(str(number) for number in range(10)))
        third = consumer(scene, 1)
        assert names(third) == ["93"]
        message = owner.message()
        owner.nack(message)
        assert go_on(owner) == ["g1", "g2"]

    def test_while_the_lane_of_another_consumer_is_read(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        """That one has higher priority, would take what comes back, and has messages of a group parked with it."""
        monkeypatch.setattr(ready, "READS_PER_TURN", 3)
        one, owner = scene.connect(), consumer(scene, 6, 5, "kind = 1")
        one.subscribe(QUEUE, ack="client", selector="name IN ('h1', '9')")
        send(one, "g1", "1", "2", "3", "4", "5", "6", kind="1")
        send(one, *["0"] * 20, kind="0")
        send(one, "g2", "g3", kind="1")
        send(one, "h1", kind="0")
        send(one, "9", kind="1")
        first, *rest = owner.messages()
        *_, last = one.messages()
        for message in rest:
            carry_out(owner, "ACK", owner.named(message))
        assert [consumer_set.behind for consumer_set in queue_of(scene).consumers.sets] == [True, False]
        carry_out(one, "NACK", one.named(last))
        scene.settle()
        found = names(owner)
        assert [name for name in found if name != "9"] == ["6", "g2", "g3"]
        assert sorted(found + names(one)) == ["6", "9", "g2", "g3", "h1"]
        assert waits(scene) == ["0"] * 20
        owner.ack(first)


class TestHandOver:
    @leaving
    def test_unacknowledged_ones_come_first(self, scene: Scene, leave: Step) -> None:
        owner, other = consumer(scene, 3), consumer(scene, 2)
        send(owner, *numbered("g", *range(1, 7)))
        owner.ack(owner.messages()[0])
        leave(owner)
        assert go_on(other) == numbered("g", *range(2, 7))

    @leaving
    def test_to_one_of_the_others(self, scene: Scene, leave: Step) -> None:
        owner, *others = (consumer(scene, 1) for _ in range(4))
        send(owner, *numbered("g", *range(6)))
        leave(owner)
        shares = [go_on(client) for client in others]
        assert sorted(shares) == [[], [], numbered("g", *range(6))]

    def test_in_the_order_of_arrival_with_the_rest(self, scene: Scene) -> None:
        owner, other = consumer(scene, 2), consumer(scene, 1)
        send(owner, "g1", "1", "g2", "2", "g3", "3")
        owner.drop()
        assert go_on(other) == ["1", "g1", "g2", "2", "g3", "3"]

    def test_what_a_transaction_held_comes_to_the_new_owner(self, scene: Scene) -> None:
        owner, other = consumer(scene, 2), consumer(scene)
        send(owner, *numbered("g", 1, 2, 3))
        owner.begin()
        owner.ack(owner.messages()[0], transaction="t")
        owner.unsubscribe()
        assert names(other) == ["g2", "g3"]
        owner.abort()
        assert names(other) == ["g1"]


class TestClosing:
    def test_behind_the_last_one_the_group_chooses_again(self, scene: Scene) -> None:
        one, two = scene.connect(), scene.connect()
        for client in (one, two):
            client.subscribe(QUEUE, ack="client")
        send(one, "g1")
        send(one, "g2", **CLOSE)
        send(one, "g3", "g4")
        assert (names(one), names(two)) == (["g1", "g2"], ["g3", "g4"])

    @pytest.mark.parametrize("sequence", ["1", "0", "-2"])
    def test_other_numbers_say_nothing(self, scene: Scene, sequence: str) -> None:
        one, two = consumer(scene), consumer(scene)
        for number in range(3):
            send(one, f"g{number}", JMSXGroupSeq=sequence)
        assert (len(names(one)), names(two)) == (3, [])

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
