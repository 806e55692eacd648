"""Who of a queue's consumers gets a message: priorities, the exclusive one, and who gave it back."""

from __future__ import annotations

import pytest

from ..client import Client, Scene, Step
from ..conftest import small
from .helpers import QUEUE, consumer, fill, waits

leaving = pytest.mark.parametrize(
    "leave", [Client.drop, Client.disconnect, Client.unsubscribe], ids=["drop", "disconnect", "unsubscribe"]
)


class TestPriority:
    @pytest.mark.parametrize("name", ["x-priority", "activemq.priority"])
    def test_the_higher_one_gets_all_while_it_has_room(self, scene: Scene, name: str) -> None:
        low, high = scene.connect(), scene.connect()
        for client, priority in ((low, "1"), (high, "5")):
            client.subscribe(QUEUE, ack="client", **{name: priority, "prefetch-count": "3"})
        bodies = fill(low, 8)
        assert (high.bodies(), low.bodies(), waits(scene)) == (bodies[:3], bodies[3:6], ["7", "8"])

    def test_equal_ones_take_turns(self, scene: Scene) -> None:
        clients = [consumer(scene, 3, 5), consumer(scene, priority=0), consumer(scene, 3, 5)]
        fill(scene.connect(), 8)
        assert [client.bodies() for client in clients] == [[b"1", b"3", b"5"], [b"7", b"8"], [b"2", b"4", b"6"]]


class TestAvoid:
    """A rejected message goes to another consumer first, whatever sort of consumer that is."""

    @pytest.mark.parametrize("priority", [-1, 0, 1])
    @pytest.mark.parametrize("selectors", [("", "n = 1"), ("n = 1", ""), ("n = 1", "n > 0"), ("n = 1", "n = 1")])
    def test_across_selectors(self, scene: Scene, selectors: tuple[str, str], priority: int) -> None:
        one = consumer(scene, selector=selectors[0])
        one.publish(QUEUE, b"m", n="1")
        two = consumer(scene, priority=priority, selector=selectors[1])
        one.nack(one.message())
        assert (one.bodies(), two.bodies()) == ([], [b"m"])

    def test_back_to_the_same_one_where_the_others_have_no_room(self, scene: Scene) -> None:
        one, two, three = consumer(scene, 1), consumer(scene, 1, 5), consumer(scene, 1, selector="n = 1")
        for _ in range(3):
            one.publish(QUEUE, b"m", n="1")
        assert [len(client.messages()) for client in (two, three)] == [1, 1]
        message = one.message()
        one.nack(message)
        assert one.message().message_id == message.message_id

    @pytest.mark.parametrize("priority", [-1, 0, 5])
    def test_to_another_one_though_messages_of_groups_come_back_with_it(self, scene: Scene, priority: int) -> None:
        one = scene.consumer(QUEUE, ack="client")
        fill(one, 1)
        fill(one, 1, start=2, JMSXGroupID="g")
        two = consumer(scene, priority=priority)
        one.nack(one.messages()[1])
        assert (one.bodies(), two.bodies()) == ([b"2"], [b"1"])


class TestExclusive:
    @pytest.mark.parametrize("name", ["exclusive", "activemq.exclusive"])
    def test_only_one_gets_messages(self, scene: Scene, name: str) -> None:
        one, two = scene.connect(), scene.connect()
        for client in (one, two):
            client.subscribe(QUEUE, ack="client", **{name: "true"})
        bodies = fill(two, 10)
        assert (one.bodies(), two.bodies()) == (bodies, [])

    @leaving
    def test_the_next_one_takes_over_in_order(self, scene: Scene, leave: Step) -> None:
        """What it had and did not acknowledge comes first, then what waited, then what comes."""
        clients = [consumer(scene, 3, exclusive=True) for _ in range(4)]
        bodies = fill(clients[0], 10)
        found = []
        for client in clients:
            message, *others = client.messages()
            assert [each.body for each in others] == bodies[1:3]
            client.ack(message)
            found.append(message.body)
            bodies = bodies[1:]
            if client is not clients[-1]:
                leave(client)
        last = clients[-1]
        bodies += fill(last, 2, start=11)
        assert found == [b"1", b"2", b"3", b"4"]
        assert [body.encode() for body in waits(scene)] == bodies[3:]

    @leaving
    @pytest.mark.parametrize("first", [0, 1])
    def test_those_that_asked_for_it_come_before_those_that_did_not(
        self, scene: Scene, leave: Step, first: int
    ) -> None:
        one = consumer(scene, 1, exclusive=True)
        others = [consumer(scene, exclusive=number == first, priority=number) for number in range(2)]
        bodies = fill(one, 3)
        leave(one)
        assert [client.bodies() for client in others] == ([bodies, []] if first == 0 else [[], bodies])

    @leaving
    @pytest.mark.parametrize("count", [1, 2])
    @pytest.mark.parametrize("headers", [{}, {"JMSXGroupID": "g"}], ids=["no group", "group"])
    def test_the_higher_one_is_next_though_it_stood_by_for_long_and_the_lower_one_just_came(
        self, scene: Scene, leave: Step, count: int, headers: dict[str, str]
    ) -> None:
        high, one = consumer(scene, priority=5), consumer(scene, exclusive=True)
        fill(one, 1)
        one.ack(one.message())
        low = consumer(scene)
        bodies = fill(one, count, 1, **headers)
        leave(one)
        assert (low.bodies(), high.bodies()) == ([], bodies)


@small(consumer_sets=3)
class TestBound:
    """Each message is offered to one sort of consumers after the other, so there may be only so many sorts."""

    @pytest.mark.parametrize(
        "sorts",
        [
            [("", 0), ("", 1), ("", 2), ("", 3)],
            [("n = 0", 0), ("n = 1", 0), ("n = 2", 0), ("n = 3", 0)],
            [("", 0), ("n = 1", 0), ("n = 1", 1), ("", 1)],
        ],
        ids=["priorities", "selectors", "both"],
    )
    def test_so_many_sorts(self, scene: Scene, sorts: list[tuple[str, int]]) -> None:
        clients = [consumer(scene, 1, priority, selector=selector) for selector, priority in sorts[:3] * 2]
        late = scene.connect()
        selector, priority = sorts[3]
        late.subscribe(QUEUE, selector=selector, **{"x-priority": str(priority)})
        assert late.error().headers["message"] == "too many different consumers"
        for number in range(6):
            clients[0].publish(QUEUE, n=str(number % 3))
        assert sum(len(client.messages()) for client in clients) > 0
