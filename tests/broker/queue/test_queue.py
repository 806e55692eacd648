"""Queues: which consumer gets which message in which order, what comes back, and when a queue goes."""

from __future__ import annotations

from itertools import chain

import pytest

from gateway.broker.model.policy import WhenFull

from ..client import Client, Scene, Step
from ..conftest import Stage
from ..wire import Received, parse
from .helpers import QUEUE, fill, queue_of

MODES = ["auto", "client"]


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
        assert [share[len(early) if share is shares[0] else 0 :] for share in shares] == [late[k::3] for k in range(3)]


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
        client, other = scene.consumer("/queue/a", "0", ack="client"), scene.connect()
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
        client, other = scene.consumer("/queue/a", ack="client"), scene.connect()
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
        client, other = scene.consumer("/queue/a", ack="client"), scene.connect()
        fill(client, 4)
        messages = client.messages()
        client.begin()
        client.ack(messages[1], transaction="t")
        client.unsubscribe()
        other.subscribe("/queue/a")
        assert other.bodies() == [b"3", b"4"]
        end(client)
        assert [(each.body, each.redelivered) for each in other.messages()] == [(b"1", True), (b"2", True)]


class TestNack:
    @pytest.mark.requirement("NAK-03", "NAK-01")
    @pytest.mark.parametrize("ack", ["client", "client-individual"])
    @pytest.mark.parametrize("turn", [0, 1, 2, 3])
    def test_another_consumer_gets_it_first_and_sees_that_it_is_a_redelivery(
        self, scene: Scene, ack: str, turn: int
    ) -> None:
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

    def test_it_is_counted(self, scene: Scene) -> None:
        (client,) = consumers(scene, 1)
        fill(client, 3)
        client.nack(client.messages()[1])
        client.ack(client.messages()[-1])
        counters = scene.broker.counters
        assert (counters.published, counters.delivered, counters.redelivered) == (3, 5, 2)
        assert (counters.rejected, counters.acknowledged) == (2, 3)


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
        for said in ("3", "", "4", "5"):
            producer.publish("/queue/a", said.encode(), **({"priority": said} if said else {}))
        messages = scene.consumer("/queue/a").messages()
        assert [message.headers.get("priority", "") for message in messages] == ["5", "", "4", "3"]

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


class TestPlaces:
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
        before = scene.broker.counters.totals()["dropped"]
        queue.purge()
        scene.audit()
        assert (queue.waiting, queue.nbytes, queue.waiting_messages()) == (0, 0, [])
        assert scene.broker.counters.totals()["dropped"] - before == 6 - len(held)
        client.drop()
        (client,) = consumers(scene, 1, "auto")
        assert client.bodies() == sorted(held)


class TestMeanwhile:
    """What becomes of messages in a queue before anybody had room for them."""

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

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_a_subscriber_keeps_it(self, scene: Scene, ack: str) -> None:
        client = scene.connect()
        client.publish(QUEUE, b"1")
        scene.wait(1.9)
        client.subscribe(QUEUE, ack=ack)
        scene.wait(5.0)
        client.publish(QUEUE, b"2")
        assert client.bodies() == [b"1", b"2"]

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

    def test_what_comes_back_behind_that_time_does_not_stay_either(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"idle_timeout": 2.0, "backoff": 5.0}})
        client = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"m")
        client.nack(client.message())
        client.drop()
        scene.wait(10.0)
        assert not scene.broker.destinations
        assert scene.broker.memory.used == 0

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

    def test_what_comes_back_later_is_gone_too(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"auto_delete": True, "backoff": 1.0}})
        client = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"m")
        client.nack(client.message())
        client.unsubscribe()
        scene.wait(1.1)
        assert not scene.broker.destinations

    def test_a_browser_that_leaves_takes_nothing_with_it(self, scene: Scene) -> None:
        client, other = scene.connect(), scene.connect()
        client.publish(QUEUE, b"m")
        browse(other)
        other.unsubscribe("browser")
        client.subscribe(QUEUE)
        assert client.bodies() == [b"m"]

    def test_by_a_header(self, stage: Stage) -> None:
        scene = stage()
        client, other = scene.consumer("a", "a", ack="client", **{"auto-delete": "true"}), scene.connect()
        client.subscribe("b", "b", ack="client")
        for name in "ab":
            client.publish(name, b"m")
        other.subscribe("a", ack="client", **{"auto-delete": "true"})
        for each in (client, other):
            each.drop()
        assert list(scene.broker.destinations) == ["/queue/b"]
