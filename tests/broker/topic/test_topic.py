"""Topics: a copy to everybody who is there; a private queue for each who must acknowledge."""

from __future__ import annotations

import pytest

from gateway.broker.admin.rows import of_destination
from gateway.broker.model.policy import SlowConsumerAction
from gateway.broker.topic import stream
from gateway.codec import Version

from ..client import ALL, WITH_NACK, Client, Scene, Step
from ..conftest import Stage

with_nack = pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)


def fill(producer: Client, count: int) -> list[bytes]:
    """Send so many numbered messages to /topic/a; returns their bodies."""
    bodies = [b"%d" % number for number in range(1, count + 1)]
    for body in bodies:
        producer.publish("/topic/a", body)
    return bodies


@pytest.mark.requirement("XTR-04", "XTR-05")
def test_every_subscriber_gets_every_message_in_order(scene: Scene) -> None:
    clients = [scene.connect(version) for version in ALL * 2]
    for number, client in enumerate(clients):
        client.subscribe("/topic/a", ack="auto" if number < 3 else "client")
    bodies = fill(clients[0], 20)
    assert [client.bodies() for client in clients] == [bodies] * 6


@pytest.mark.requirement("WST-12", "XTR-01")
@pytest.mark.parametrize("options", [{}, {"ack": "client"}, {"selector": "TRUE"}], ids=["auto", "client", "choosy"])
def test_frames_end_as_the_transport_has_it(scene: Scene, version: Version, options: dict[str, str]) -> None:
    """With an LF behind the NUL on TCP and without one in WebSocket messages, also those of one message."""
    clients = [scene.connect(version, transport=transport) for transport in ("tcp", "websocket") * 2]
    for client in clients:
        client.subscribe("/topic/a", **options)
    bodies = fill(clients[0], 3)
    assert [client.bodies() for client in clients] == [bodies] * 4
    assert [client.written.count(b"\0\n") == client.written.count(b"\0") for client in clients] == [True, False] * 2
    assert b"\0\n" not in clients[1].written


@pytest.mark.requirement("SUB-12")
@pytest.mark.parametrize("modes", [("auto", "auto"), ("auto", "client"), ("client", "client")])
def test_two_subscriptions_get_two_copies(scene: Scene, version: Version, modes: tuple[str, str]) -> None:
    client = scene.connect(version)
    for id, mode in enumerate(modes):
        client.subscribe("/topic/a", str(id), ack=mode)
    client.publish("/topic/a", b"m")
    assert {each.subscription: each.body for each in client.messages()} == {"0": b"m", "1": b"m"}


@pytest.mark.requirement("XTR-04")
@pytest.mark.parametrize("ack", ["auto", "client"])
def test_nothing_is_kept_for_later(scene: Scene, version: Version, ack: str) -> None:
    producer, client = scene.connect(version), scene.connect(version)
    fill(producer, 3)
    client.subscribe("/topic/a", ack=ack)
    assert not client.received()
    assert scene.broker.counters.unroutable == 3
    assert scene.broker.memory.used == 0


@pytest.mark.requirement("UNS-01")
@pytest.mark.parametrize("ack", ["auto", "client"])
def test_nothing_comes_after_unsubscribe(scene: Scene, version: Version, ack: str) -> None:
    client, other = scene.connect(version), scene.connect(version)
    for each in (client, other):
        each.subscribe("/topic/a", ack=ack)
    client.unsubscribe()
    fill(other, 2)
    assert not client.received()
    assert len(other.messages()) == 2


def test_a_topic_that_nobody_subscribes_is_forgotten(scene: Scene, version: Version) -> None:
    clients = [scene.connect(version) for _ in range(4)]
    for client, ack in zip(clients, ("auto", "client", "auto", "client"), strict=True):
        client.subscribe("/topic/a", ack=ack)
    for client in clients:
        assert list(scene.broker.destinations) == ["/topic/a"]
        client.unsubscribe()
    assert not scene.broker.destinations


def test_one_message_is_encoded_once_per_version(scene: Scene) -> None:
    clients = [scene.connect(version) for version in ALL for _ in range(3)]
    for client in clients:
        client.subscribe("/topic/a")
        client.stalled = True
    clients[0].publish("/topic/a", b"m")
    shared = [client.session.outbox.parts[1] for client in clients]
    assert len({id(part) for part in shared}) == 3
    for client in clients:
        client.resume()
        assert client.bodies() == [b"m"]


@pytest.mark.parametrize("ack", ["auto", "client"])
@pytest.mark.parametrize("destination", ["/topic/a", "/topic/*"])
class TestSomeOfThem:
    """Who wants only some of the messages, with and without having to acknowledge them."""

    def test_by_selector(self, scene: Scene, version: Version, ack: str, destination: str) -> None:
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe(destination, "0", ack=ack, selector="color = 'red'")
        client.subscribe(destination, "1", ack=ack, selector="color = 'blue'")
        for number, color in enumerate(("red", "blue", "green", "red")):
            other.publish("/topic/a", b"%d" % number, color=color)
        assert [(each.subscription, each.body) for each in client.messages()] == [
            ("0", b"0"),
            ("1", b"1"),
            ("0", b"3"),
        ]
        assert scene.broker.counters.delivered == 3

    def test_not_ones_own(self, scene: Scene, version: Version, ack: str, destination: str) -> None:
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe(destination, "0", ack=ack, **{"no-local": "true"})
        client.subscribe(destination, "1", ack=ack, **{"activemq.noLocal": "true", "selector": "color = 'red'"})
        client.subscribe(destination, "2", ack=ack)
        for sender in (client, other):
            sender.publish("/topic/a", sender.session.id.encode(), color="red")
        found = sorted((each.subscription, each.body) for each in client.messages())
        mine, others = client.session.id.encode(), other.session.id.encode()
        assert found == sorted([("0", others), ("1", others), ("2", mine), ("2", others)])

    def test_not_ones_own_in_a_transaction(self, scene: Scene, version: Version, ack: str, destination: str) -> None:
        client = scene.connect(version)
        client.subscribe(destination, ack=ack, **{"no-local": "true"})
        client.begin()
        client.publish("/topic/a", b"m", transaction="t")
        client.commit()
        assert not client.received()

    def test_another_session_of_the_same_user_is_somebody_else(self, scene: Scene, ack: str, destination: str) -> None:
        one, two = (scene.connect_by(b"CONNECT\nlogin:ada\n\n\0") for _ in range(2))
        one.subscribe(destination, ack=ack, **{"no-local": "true"})
        two.publish("/topic/a", b"m")
        assert one.bodies() == [b"m"]

    def test_it_ends(self, scene: Scene, version: Version, ack: str, destination: str) -> None:
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe(destination, ack=ack, selector="color = 'red'")
        client.unsubscribe()
        other.publish("/topic/a", b"m", color="red")
        assert not client.received()
        assert not scene.broker.registry.count()


class TestAcknowledging:
    """A subscription that must acknowledge has its own copies, its own window and its own ledger."""

    def test_window(self, stage: Stage, version: Version) -> None:
        scene = stage(max_unacknowledged=2)
        client, other = scene.connect(version), scene.connect(version)
        for each in (client, other):
            each.subscribe("/topic/a", ack="client")
        bodies = fill(other, 5)
        messages = client.messages()
        assert [each.body for each in messages] == bodies[:2]
        client.ack(messages[-1])
        assert client.bodies() == bodies[2:4]
        assert other.bodies() == bodies[:2]

    @pytest.mark.requirement("ACK-04")
    def test_cumulative_ack(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("/topic/a", ack="client")
        fill(client, 5)
        client.ack(client.messages()[2])
        assert client.session.outstanding == 2
        assert scene.broker.counters.acknowledged == 3

    @pytest.mark.requirement("NAK-03")
    @with_nack
    def test_a_nack_comes_back_to_the_same_and_to_nobody_else(self, scene: Scene, version: Version) -> None:
        client, other = scene.connect(version), scene.connect(version)
        for each in (client, other):
            each.subscribe("/topic/a", ack="client")
        fill(other, 2)
        other.received()
        client.nack(client.messages()[-1])
        again = client.messages()
        assert [(each.body, each.headers["delivery-count"]) for each in again] == [(b"1", "2"), (b"2", "2")]
        assert not other.received()

    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, Client.unsubscribe])
    def test_what_it_did_not_acknowledge_goes_with_it(self, stage: Stage, version: Version, leave: Step) -> None:
        """Sent or still waiting."""
        scene = stage(max_unacknowledged=2)
        client, other = scene.connect(version), scene.connect(version)
        for each in (client, other):
            each.subscribe("/topic/a", ack="client")
        fill(other, 5)
        assert scene.broker.context.waiting == 6
        leave(client)
        assert scene.broker.context.waiting == 3
        assert len(other.messages()) == 2

    @pytest.mark.requirement("TXN-03", "TXN-04")
    @pytest.mark.parametrize("end", [Client.commit, Client.abort, Client.drop])
    @pytest.mark.parametrize("unsubscribed", [False, True])
    def test_in_a_transaction(self, scene: Scene, version: Version, end: Step, unsubscribed: bool) -> None:
        client = scene.connect(version)
        client.subscribe("/topic/a", ack="client")
        fill(client, 3)
        messages = client.messages()
        client.begin()
        client.ack(messages[1], transaction="t")
        if unsubscribed:
            client.unsubscribe()
        held = scene.broker.memory.used
        assert held > 0
        end(client)
        if unsubscribed or end is Client.drop:
            assert scene.broker.memory.used == 0
        elif end is Client.abort:
            assert scene.broker.memory.used == held
        else:
            assert scene.broker.memory.used == held // 3
        assert not client.received()

    @pytest.mark.parametrize("end", [Client.commit, Client.abort, Client.drop])
    def test_what_waits_goes_with_the_subscription_what_a_transaction_holds_with_that(
        self, stage: Stage, version: Version, end: Step
    ) -> None:
        scene = stage(max_unacknowledged=2)
        client = scene.connect(version)
        client.subscribe("/topic/a", ack="client")
        fill(client, 5)
        client.begin()
        client.ack(client.messages()[0], transaction="t")
        assert scene.broker.context.waiting == 3
        nbytes = scene.broker.memory.used
        client.unsubscribe()
        assert scene.broker.context.waiting == 0
        assert scene.broker.memory.used == nbytes // 5
        end(client)
        assert scene.broker.memory.used == 0

    @with_nack
    @pytest.mark.parametrize("end", [Client.commit, Client.abort, Client.drop])
    def test_also_what_waits_because_it_came_back_by_nack(self, stage: Stage, version: Version, end: Step) -> None:
        scene = stage(max_outbound=8 * 1024)
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe("/topic/a", "0", ack="client-individual")
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

    @pytest.mark.requirement("TXN-13")
    @with_nack
    @pytest.mark.parametrize("unsubscribed", [False, True])
    def test_a_nack_in_a_transaction(self, scene: Scene, version: Version, unsubscribed: bool) -> None:
        client = scene.connect(version)
        client.subscribe("/topic/a", ack="client")
        client.publish("/topic/a", b"m")
        message = client.message()
        client.begin()
        client.nack(message, transaction="t")
        if unsubscribed:
            client.unsubscribe()
        client.commit()
        assert [each.redelivered for each in client.messages()] == ([] if unsubscribed else [True])

    def test_the_topics_row_has_what_waits_in_there(self, stage: Stage, version: Version) -> None:
        scene = stage(max_unacknowledged=2)
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe("/topic/a", ack="client")
        other.subscribe("/topic/a")
        fill(client, 5)
        row = of_destination(scene.broker.destinations["/topic/a"])
        assert (row["name"], row["kind"], row["subscriptions"]) == ("/topic/a", "topic", 2)
        assert row["unacknowledged"] == 2

    def test_who_never_acknowledges_is_closed_and_holds_up_nobody(self, stage: Stage, version: Version) -> None:
        scene = stage(max_unacknowledged=2, max_outbound=64 * 1024)
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe("/topic/a", ack="client")
        other.subscribe("/topic/a")
        for _ in range(20):
            other.publish("/topic/a", b"x" * 4096)
        (failure,) = client.failures
        assert str(failure) == "slow consumer"
        assert "(max_outbound) of '/topic/a'" in failure.detail
        assert client.closed
        assert scene.broker.counters.slow_consumers == 1
        assert len(other.messages()) == 20


class TestPrivateQueue:
    """It goes with its subscription, and nothing refers to it any more."""

    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, Client.unsubscribe])
    @pytest.mark.parametrize("ack", ["client", "auto"], ids=["unacknowledged", "slow"])
    @pytest.mark.parametrize("headers", [{"ttl": str(365 * 86_400_000)}, {}], ids=["by header", "by policy"])
    def test_it_leaves_nothing_on_the_agenda(
        self, stage: Stage, version: Version, leave: Step, ack: str, headers: dict[str, str]
    ) -> None:
        """Messages of a year would keep the queue, and themselves, for a year."""
        slow = SlowConsumerAction.DROP_OLDEST if ack == "auto" else SlowConsumerAction.BLOCK
        scene = stage({"/topic/a": {"slow_consumer": slow, "time_to_live": 0 if headers else 365 * 86_400}})
        producer = scene.connect(version)
        for _ in range(45):
            client = scene.connect(version)
            client.subscribe("/topic/a", ack=ack, **{"prefetch-count": "1"})
            client.stalled = True
            for _ in range(4):
                producer.publish("/topic/a", b"x" * 10_000, **headers)
            assert scene.broker.context.waiting > 0
            assert in_force(scene) == 1
            leave(client)
            assert in_force(scene) == 0
            assert scene.broker.memory.used == 0
        assert len(scene.broker.scheduler) < 40

    def test_others_are_still_looked_at(self, scene: Scene) -> None:
        one, two = scene.connect(), scene.connect()
        for client in (one, two):
            client.subscribe("/topic/a", ack="client", **{"prefetch-count": "1"})
        for _ in range(3):
            one.publish("/topic/a", ttl="1000")
        one.unsubscribe()
        assert scene.broker.context.waiting == 2
        scene.wait(1.1)
        assert scene.broker.context.waiting == 0
        assert scene.broker.counters.expired == 2


class TestLimits:
    def test_those_of_a_queue_that_the_subscribe_asks_for(self, stage: Stage, version: Version) -> None:
        """To RabbitMQ, a topic's subscription is a queue."""
        scene = stage(max_outbound=32 * 1024)
        client, producer = scene.connect(version), scene.connect(version)
        client.stalled = True
        client.subscribe("/topic/a", **{"x-max-length": "2"})
        for number in range(20):
            producer.publish("/topic/a", b"%d" % number + b" " * 4_000)
        client.resume()
        found = [int(body) for body in client.bodies()]
        assert found[-2:] == [18, 19]
        assert len(found) < 10


class TestDurableSubscriptions:
    def test_each_by_what_it_wants(self, stage: Stage) -> None:
        scene = stage()
        client, producer = scene.connect(), scene.connect()
        client.subscribe("/topic/a", id="1", durable="true")
        client.subscribe("/topic/a", id="2", durable="true", selector="n = 1")
        producer.publish("/topic/a", b"0")
        producer.publish("/topic/a", b"1", n="1")
        assert [(each.subscription, each.body) for each in client.messages()] == [
            ("1", b"0"),
            ("1", b"1"),
            ("2", b"1"),
        ]
        for number in ("1", "2"):
            client.send("UNSUBSCRIBE", {"id": number, "durable": "true"})


class TestLate:
    """Who is replayed what he missed is a subscriber already, but gets nothing else."""

    def test_the_topic_stays(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stream, "_TAIL", 0)  # it is read from the store
        scene = stage({"/topic/a": {"log_messages": 9}}, stored=True)
        producer = scene.connect()
        fill(producer, 3)
        client = scene.connect()
        client.subscribe("/topic/a", **{"from-seq": "0"})
        topic = scene.broker.destinations["/topic/a"]
        assert len(topic.subscriptions) == 1
        assert not topic.is_idle
        producer.publish("/topic/a", b"4")
        assert client.messages() == []
        scene.commit()
        assert client.bodies() == [b"1", b"2", b"3", b"4"]
        assert len(topic.subscriptions) == 1


def in_force(scene: Scene) -> int:
    """What stands on the agenda and was not cancelled."""
    return sum(entry.action is not None for _, _, entry in scene.broker.scheduler._heap)
