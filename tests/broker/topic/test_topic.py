"""Topics: a copy to every current subscriber; a private queue for each that must acknowledge."""

from __future__ import annotations

import pytest

from gateway.broker.admin.rows import of_destination
from gateway.broker.model.policy import SlowConsumerAction
from gateway.broker.topic import stream
from gateway.codec import Version

from ..client import ALL, Client, Scene, Step
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


@both
def test_nothing_is_kept_for_later(scene: Scene, client: Client, other: Client, ack: str) -> None:
    fill(other, 3)
    client.subscribe(A, ack=ack)
    assert not client.received()
    assert scene.broker.counters.unroutable == 3
    assert scene.broker.memory.used == 0


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
