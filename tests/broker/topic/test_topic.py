"""Topics: a copy to every current subscriber; a private queue for each that must acknowledge."""

from __future__ import annotations

import pytest

from gateway.broker.admin.rows import of_destination
from gateway.broker.model.policy import SlowConsumerAction
from gateway.broker.topic import stream
from gateway.codec import Version

from ..client import ALL, WITH_NACK, Client, Scene, Step
from ..conftest import Stage

A = "/topic/a"
both = pytest.mark.parametrize("ack", ["auto", "client"])


def fill(producer: Client, count: int) -> list[bytes]:
    """Send so many numbered messages to /topic/a; returns their bodies."""
    bodies = [b"%d" % number for number in range(1, count + 1)]
    for body in bodies:
        producer.publish(A, body)
    return bodies


def test_every_subscriber_gets_every_message_in_order(scene: Scene) -> None:
    clients = [scene.connect(version) for version in ALL * 2]
    for number, client in enumerate(clients):
        client.subscribe(A, ack="auto" if number < 3 else "client")
    bodies = fill(clients[0], 20)
    assert [client.bodies() for client in clients] == [bodies] * 6


@pytest.mark.parametrize("options", [{}, {"ack": "client"}, {"selector": "TRUE"}], ids=["auto", "client", "choosy"])
def test_frames_end_as_the_transport_has_it(scene: Scene, version: Version, options: dict[str, str]) -> None:
    """With an LF behind the NUL on TCP and without one in WebSocket messages, also those of one message."""
    clients = [scene.connect(version, transport=transport) for transport in ("tcp", "websocket") * 2]
    for client in clients:
        client.subscribe(A, **options)
    bodies = fill(clients[0], 3)
    assert [client.bodies() for client in clients] == [bodies] * 4
    assert [client.written.count(b"\0\n") == client.written.count(b"\0") for client in clients] == [True, False] * 2
    assert b"\0\n" not in clients[1].written


@pytest.mark.parametrize("modes", [("auto", "auto"), ("auto", "client"), ("client", "client")])
def test_two_subscriptions_get_two_copies(client: Client, modes: tuple[str, str]) -> None:
    for id, mode in enumerate(modes):
        client.subscribe(A, str(id), ack=mode)
    client.publish(A, b"m")
    assert {each.subscription: each.body for each in client.messages()} == {"0": b"m", "1": b"m"}


@both
def test_nothing_is_kept_for_later(scene: Scene, client: Client, other: Client, ack: str) -> None:
    fill(other, 3)
    client.subscribe(A, ack=ack)
    assert not client.received()
    assert scene.broker.counters.unroutable == 3
    assert scene.broker.memory.used == 0


@both
def test_nothing_comes_after_unsubscribe(client: Client, other: Client, ack: str) -> None:
    for each in (client, other):
        each.subscribe(A, ack=ack)
    client.unsubscribe()
    fill(other, 2)
    assert not client.received()
    assert len(other.messages()) == 2


def test_a_topic_without_subscribers_is_forgotten(scene: Scene) -> None:
    clients = [scene.connect() for _ in range(4)]
    for client, ack in zip(clients, ("auto", "client", "auto", "client"), strict=True):
        client.subscribe(A, ack=ack)
    for client in clients:
        assert list(scene.broker.destinations) == [A]
        client.unsubscribe()
    assert not scene.broker.destinations


def test_one_message_is_encoded_once_per_version(scene: Scene) -> None:
    clients = [scene.connect(version) for version in ALL for _ in range(3)]
    for client in clients:
        client.subscribe(A)
        client.stalled = True
    clients[0].publish(A, b"m")
    assert len({id(client.session.outbox.parts[1]) for client in clients}) == 3
    for client in clients:
        client.resume()
        assert client.bodies() == [b"m"]


@both
@pytest.mark.parametrize("destination", [A, "/topic/*"])
class TestSomeOfTheMessages:
    def test_by_selector(self, scene: Scene, client: Client, other: Client, ack: str, destination: str) -> None:
        client.subscribe(destination, "0", ack=ack, selector="color = 'red'")
        client.subscribe(destination, "1", ack=ack, selector="color = 'blue'")
        for number, color in enumerate(("red", "blue", "green", "red")):
            other.publish(A, b"%d" % number, color=color)
        found = [(each.subscription, each.body) for each in client.messages()]
        assert found == [("0", b"0"), ("1", b"1"), ("0", b"3")]
        assert scene.broker.counters.delivered == 3
        client.unsubscribe("0")
        client.unsubscribe("1")
        other.publish(A, b"m", color="red")
        assert not client.received()
        assert not scene.broker.registry.count()

    def test_not_ones_own(self, client: Client, other: Client, ack: str, destination: str) -> None:
        """Another session of the same user is another sender."""
        client.subscribe(destination, "0", ack=ack, **{"no-local": "true"})
        client.subscribe(destination, "1", ack=ack, **{"activemq.noLocal": "true", "selector": "color = 'red'"})
        client.subscribe(destination, "2", ack=ack)
        for sender in (client, other):
            sender.publish(A, sender.session.id.encode(), color="red")
        client.begin()
        client.publish(A, b"m", transaction="t")
        client.commit()
        found = sorted((each.subscription, each.body) for each in client.messages())
        mine, others = client.session.id.encode(), other.session.id.encode()
        assert found == sorted([("0", others), ("1", others), ("2", mine), ("2", others), ("2", b"m")])


class TestAcknowledging:
    """A subscription that must acknowledge has its own copies, its own window and its own ledger."""

    def test_window(self, stage: Stage) -> None:
        scene = stage(max_unacknowledged=2)
        client, other = scene.connect(), scene.connect()
        for each in (client, other):
            each.subscribe(A, ack="client")
        bodies = fill(other, 5)
        messages = client.messages()
        assert [each.body for each in messages] == bodies[:2]
        client.ack(messages[-1])
        assert client.bodies() == bodies[2:4]
        assert other.bodies() == bodies[:2]
        row = of_destination(scene.broker.destinations[A])
        assert [row[key] for key in ("name", "kind", "subscriptions", "unacknowledged")] == [A, "topic", 2, 4]

    def test_cumulative_ack(self, scene: Scene, client: Client) -> None:
        client.subscribe(A, ack="client")
        fill(client, 5)
        client.ack(client.messages()[2])
        assert client.session.outstanding == 2
        assert scene.broker.counters.acknowledged == 3

    @pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)
    @pytest.mark.parametrize("transaction", [{}, {"transaction": "t"}])
    def test_a_rejected_message_comes_back_to_the_same_subscriber(
        self, scene: Scene, version: Version, transaction: dict[str, str]
    ) -> None:
        client, other = scene.connect(version), scene.connect(version)
        for each in (client, other):
            each.subscribe(A, ack="client")
        fill(other, 2)
        other.received()
        client.begin()
        client.nack(client.messages()[-1], **transaction)
        client.commit()
        again = client.messages()
        assert [(each.body, each.headers["delivery-count"]) for each in again] == [(b"1", "2"), (b"2", "2")]
        assert not other.received()

    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, Client.unsubscribe])
    def test_its_messages_go_with_it(self, stage: Stage, leave: Step) -> None:
        """Sent or still waiting."""
        scene = stage(max_unacknowledged=2)
        client, other = scene.connect(), scene.connect()
        for each in (client, other):
            each.subscribe(A, ack="client")
        fill(other, 5)
        assert scene.broker.context.waiting == 6
        leave(client)
        assert scene.broker.context.waiting == 3
        assert len(other.messages()) == 2

    @pytest.mark.parametrize("end", [Client.commit, Client.abort, Client.drop])
    @pytest.mark.parametrize("unsubscribed", [False, True])
    def test_a_transaction_holds_its_deliveries(self, stage: Stage, end: Step, unsubscribed: bool) -> None:
        scene = stage(max_unacknowledged=2)
        client = scene.connect()
        client.subscribe(A, ack="client")
        fill(client, 5)
        client.begin()
        client.ack(client.messages()[0], transaction="t")
        nbytes = scene.broker.memory.used
        if unsubscribed:
            client.unsubscribe()
            assert scene.broker.context.waiting == 0
            assert scene.broker.memory.used == nbytes // 5
        end(client)
        left = {Client.commit: 4, Client.abort: 5, Client.drop: 0}[end]
        assert scene.broker.memory.used == (0 if unsubscribed else left * nbytes // 5)

    @pytest.mark.parametrize("end", [Client.commit, Client.abort, Client.drop])
    def test_also_beside_one_that_waits_because_it_was_rejected(self, stage: Stage, end: Step) -> None:
        scene = stage(max_outbound=8 * 1024)
        client, other = scene.connect(), scene.connect()
        client.subscribe(A, "0", ack="client-individual")
        client.subscribe("/topic/b", "1")
        fill(other, 3)
        first, second, _ = client.messages()
        client.stalled = True
        other.publish("/topic/b", b"x" * client.session.outbox.window)
        client.begin()
        client.ack(first, transaction="t")
        client.nack(second)
        assert scene.broker.context.waiting == 1
        client.unsubscribe("0")
        assert scene.broker.context.waiting == 0
        end(client)
        assert scene.broker.context.waiting == 0
        assert scene.broker.memory.used == 0

    def test_a_subscriber_that_never_acknowledges_is_closed_and_holds_up_no_other(self, stage: Stage) -> None:
        scene = stage(max_unacknowledged=2, max_outbound=64 * 1024)
        client, other = scene.connect(), scene.connect()
        client.subscribe(A, ack="client")
        other.subscribe(A)
        for _ in range(20):
            other.publish(A, b"x" * 4096)
        (failure,) = client.failures
        assert str(failure) == "slow consumer"
        assert "(max_outbound) of '/topic/a'" in failure.detail
        assert client.closed
        assert scene.broker.counters.slow_consumers == 1
        assert len(other.messages()) == 20

    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, Client.unsubscribe])
    @pytest.mark.parametrize("ack", ["client", "auto"], ids=["unacknowledged", "slow"])
    @pytest.mark.parametrize("headers", [{"ttl": str(365 * 86_400_000)}, {}], ids=["by header", "by policy"])
    def test_its_queue_leaves_nothing_on_the_agenda(
        self, stage: Stage, leave: Step, ack: str, headers: dict[str, str]
    ) -> None:
        """Messages of a year would keep the queue, and themselves, for a year."""
        slow = SlowConsumerAction.DROP_OLDEST if ack == "auto" else SlowConsumerAction.BLOCK
        scene = stage({A: {"slow_consumer": slow, "time_to_live": 0 if headers else 365 * 86_400}})
        producer = scene.connect()
        for _ in range(45):
            client = scene.connect()
            client.subscribe(A, ack=ack, **{"prefetch-count": "1"})
            client.stalled = True
            for _ in range(4):
                producer.publish(A, b"x" * 10_000, **headers)
            assert scene.broker.context.waiting > 0
            assert in_force(scene) == 1
            leave(client)
            assert in_force(scene) == 0
            assert scene.broker.memory.used == 0
        assert len(scene.broker.scheduler) < 40

    def test_the_messages_of_others_still_expire(self, scene: Scene) -> None:
        one, two = scene.connect(), scene.connect()
        for client in (one, two):
            client.subscribe(A, ack="client", **{"prefetch-count": "1"})
        for _ in range(3):
            one.publish(A, ttl="1000")
        one.unsubscribe()
        assert scene.broker.context.waiting == 2
        scene.wait(1.1)
        assert scene.broker.context.waiting == 0
        assert scene.broker.counters.expired == 2


def test_a_topic_with_a_late_reader_stays(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_TAIL", 0)  # it is read from the store
    scene = stage({A: {"log_messages": 9}}, stored=True)
    producer, client = scene.connect(), scene.connect()
    fill(producer, 3)
    client.subscribe(A, **{"from-seq": "0"})
    topic = scene.broker.destinations[A]
    assert len(topic.subscriptions) == 1
    assert not topic.is_idle
    producer.publish(A, b"4")
    assert client.messages() == []
    scene.commit()
    assert client.bodies() == [b"1", b"2", b"3", b"4"]
    assert len(topic.subscriptions) == 1


def in_force(scene: Scene) -> int:
    """Actions on the agenda that were not cancelled."""
    return sum(entry.action is not None for _, _, entry in scene.broker.scheduler._heap)
