"""What a durable subscription takes and how it gives it out: it is a queue, with all that queues have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.broker.model.policy import OnNack
from gateway.broker.queue.consumers import MOST_SETS
from gateway.codec import V12, Version

from ..client import EPOCH, WITH_NACK, Client, Scene
from ..conftest import Stage
from ..wire import build
from .durable_scenes import (
    ACTIVEMQ,
    LASTING,
    PASSING,
    RABBITMQ,
    SHARED,
    TOPIC,
    Headers,
    end,
    ending,
    known,
    names,
    publish,
)

spelled = pytest.mark.parametrize("headers", LASTING, ids=lambda headers: next(iter(headers)))
some = pytest.mark.parametrize("headers", [RABBITMQ, ACTIVEMQ, SHARED, PASSING], ids=",".join)
with_nack = pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)


@pytest.fixture
def stage(stage: Stage) -> Iterator[Stage]:
    yield from ending(stage)


def away(scene: Scene, headers: Headers, **more: str) -> None:
    """Somebody subscribes, and goes."""
    client = known(scene)
    client.subscribe(TOPIC, **headers, **more)
    client.drop()


def back(scene: Scene, headers: Headers, ack: str = "auto", **more: str) -> Client:
    """He comes back."""
    client = known(scene)
    client.subscribe(TOPIC, ack=ack, **headers, **more)
    return client


class TestWhatItTakes:
    @spelled
    def test_selector(self, scene: Scene, version: Version, headers: Headers) -> None:
        client = known(scene, version)
        client.subscribe(TOPIC, selector="price > 10", **headers)
        publish(scene, b"1", price="11")
        client.drop()
        for body, price in ((b"2", "9"), (b"3", "12"), (b"4", "")):
            publish(scene, body, price=price)
        assert scene.broker.context.waiting == 1
        assert back(scene, headers, selector=" price > 10 ").bodies() == [b"3"]

    @spelled
    @pytest.mark.parametrize("name", ["no-local", "activemq.noLocal"])
    def test_no_local(self, scene: Scene, headers: Headers, name: str) -> None:
        client, other = known(scene), known(scene, client_id="other")
        client.subscribe(TOPIC, **headers, **{name: "true"})
        client.publish(TOPIC, b"own")
        other.publish(TOPIC, b"other")
        assert client.bodies() == [b"other"]
        client.unsubscribe()
        client.publish(TOPIC, b"nobody's own")
        assert back(scene, headers, **{"no-local": "true"}).bodies() == [b"nobody's own"]

    def test_no_local_of_several(self, scene: Scene) -> None:
        """What one of them sends is for none of them."""
        clients = [known(scene), known(scene)]
        for client in clients:
            client.subscribe(TOPIC, **RABBITMQ, **{"no-local": "true"})
        for client in clients:
            client.publish(TOPIC, b"own")
        assert [client.received() for client in clients] == [[], []]

    @some
    def test_selector_and_no_local(self, scene: Scene, headers: Headers) -> None:
        client = back(scene, headers, selector="k = 'v'", **{"no-local": "true"})
        client.publish(TOPIC, b"1", k="v")
        publish(scene, b"2")
        publish(scene, b"3", k="v")
        assert client.bodies() == [b"3"]

    @pytest.mark.parametrize("headers", LASTING)
    def test_a_delayed_message_and_one_of_a_transaction(self, scene: Scene, headers: Headers) -> None:
        away(scene, headers)
        client = known(scene, client_id="")
        client.publish(TOPIC, b"late", **{"x-delay": "1000"})
        client.begin()
        client.publish(TOPIC, b"committed", transaction="t")
        assert scene.broker.context.waiting == 0
        client.commit()
        scene.wait(1.1)
        assert back(scene, headers).bodies() == [b"committed", b"late"]

    @some
    def test_what_the_topic_retained_comes_once(self, scene: Scene, headers: Headers) -> None:
        publish(scene, b"old", retain="set")
        client = known(scene)
        client.subscribe(TOPIC, ack="client", **headers)
        message = client.message()
        assert (message.body, message.headers["retained"]) == (b"old", "true")
        client.ack(message)
        other = known(scene, client_id="other")
        other.subscribe(TOPIC, ack="client", **headers)
        if headers is not ACTIVEMQ:  # else it is another one
            assert other.received() == []
        for each in (client, other):
            each.drop()
        if headers is not PASSING:
            assert back(scene, headers).received() == []

    @pytest.mark.parametrize("pattern", [TOPIC, "/topic/#"])
    def test_what_the_topic_retained_waits_like_the_rest(self, scene: Scene, pattern: str) -> None:
        publish(scene, b"red", retain="set", k="v")
        publish(scene, b"blue", retain="set", to="/topic/b")
        client = known(scene)
        client.subscribe(pattern, ack="client", selector="k = 'v'", **RABBITMQ)
        client.drop()
        again = known(scene)
        again.subscribe(pattern, ack="client", selector="k = 'v'", **RABBITMQ)
        message = again.message()
        assert (message.body, message.redelivered) == (b"red", True)


class TestItIsAQueue:
    @spelled
    def test_priority(self, scene: Scene, headers: Headers) -> None:
        away(scene, headers)
        for body, priority in ((b"1", "4"), (b"2", "9"), (b"3", "0"), (b"4", "9")):
            publish(scene, body, priority=priority)
        assert back(scene, headers).bodies() == [b"2", b"4", b"1", b"3"]

    @spelled
    def test_expiry(self, stage: Stage, headers: Headers) -> None:
        scene = stage({TOPIC: {"dead_letter": "/queue/dead", "dead_letter_expired": True}})
        away(scene, headers)
        publish(scene, b"brief", ttl="500")
        publish(scene, b"long", expires=str(int((EPOCH + scene.now) * 1000) + 60_000))
        scene.wait(1.0)
        assert back(scene, headers).bodies() == [b"long"]
        dead = known(scene, client_id="")
        dead.subscribe("/queue/dead")
        message = dead.message()
        assert (message.body, message.headers["dlq-reason"]) == (b"brief", "expired")
        assert message.headers["original-destination"] == TOPIC

    @pytest.mark.parametrize("headers", [RABBITMQ, SHARED])
    def test_groups(self, scene: Scene, headers: Headers) -> None:
        clients = [back(scene, headers, "client"), back(scene, headers, "client")]
        for body in (b"a1", b"b1", b"a2", b"b2"):
            publish(scene, body, JMSXGroupID=body[:1].decode())
        assert [client.bodies() for client in clients] == [[b"a1", b"a2"], [b"b1", b"b2"]]
        clients[0].drop()
        publish(scene, b"a3", JMSXGroupID="a")
        assert clients[1].bodies() == [b"a1", b"a2", b"a3"]
        end(clients[1], {"durable": "true"})
        assert scene.broker.context.group_bytes == 0

    @some
    @with_nack
    def test_nack(self, stage: Stage, version: Version, headers: Headers) -> None:
        scene = stage({TOPIC: {"max_attempts": 2, "backoff": 1.0, "dead_letter": "/queue/dead"}})
        client = known(scene, version)
        client.subscribe(TOPIC, ack="client", **headers)
        publish(scene, b"m")
        client.nack(client.message())
        assert client.received() == []
        scene.wait(1.1)
        again = client.message()
        assert again.headers["delivery-count"] == "2"
        client.nack(again, reason="no")
        client.subscribe("/queue/dead", id="1")
        dead = client.message()
        assert (dead.headers["dlq-reason"], dead.headers["dlq-attempts"]) == ("max-attempts", "2")
        assert dead.headers["reason"] == "no"
        assert dead.headers["dlq-source"] == names(scene)[0]

    @spelled
    @with_nack
    def test_nack_while_the_consumer_leaves(self, stage: Stage, version: Version, headers: Headers) -> None:
        scene = stage({TOPIC: {"backoff": 1.0}})
        client = known(scene, version)
        client.subscribe(TOPIC, ack="client-individual", **headers)
        publish(scene, b"1", b"2")
        client.nack(client.messages()[0])
        client.drop()
        scene.wait(1.1)
        messages = back(scene, headers).messages()
        assert [(each.body, each.redelivered) for each in messages] == [(b"1", True), (b"2", True)]

    @some
    def test_a_lost_connection_fails_the_oldest(self, stage: Stage, headers: Headers) -> None:
        scene = stage({TOPIC: {"max_attempts": 1, "dead_letter": "/queue/dead"}})
        client = back(scene, headers, "client")
        publish(scene, b"1", b"2")
        client.drop()
        other = known(scene, client_id="")
        other.subscribe("/queue/dead")
        assert other.bodies() == [b"1"]

    @pytest.mark.parametrize("headers", [ACTIVEMQ, SHARED, PASSING])
    def test_consumers_differ_in_so_many_ways(self, scene: Scene, headers: Headers) -> None:
        client = known(scene)
        frames = [
            build("SUBSCRIBE", {"destination": TOPIC, "id": str(rank), "x-priority": str(rank), **headers}, version=V12)
            for rank in range(MOST_SETS + 1)
        ]
        client.receive(b"".join(frames[:-1]))
        publish(scene, b"m")
        assert client.message().subscription == ("0" if headers is ACTIVEMQ else str(MOST_SETS - 1))
        client.receive(frames[-1])
        assert client.error().headers["message"] == "too many different consumers"


class TestHints:
    """Queue arguments of the SUBSCRIBE that creates it are its own."""

    @some
    @pytest.mark.parametrize(
        ("hint", "left"),
        [
            ({"x-max-length": "2"}, [b"2", b"3"]),
            ({"x-max-length-bytes": "900"}, [b"2", b"3"]),
            ({"x-message-ttl": "500"}, []),
            ({"auto-delete": "false"}, [b"1", b"2", b"3"]),
        ],
    )
    def test_limits(self, scene: Scene, headers: Headers, hint: Headers, left: list[bytes]) -> None:
        client = back(scene, {**headers, **hint}, "client", **{"prefetch-count": "1"})
        publish(scene, b"0", b"1", b"2", b"3")
        scene.wait(1.0)
        client.ack(client.message())
        for body in left:
            message = client.message()
            assert message.body == body
            client.ack(message)
        assert client.received() == []

    @some
    def test_dead_letters(self, scene: Scene, headers: Headers) -> None:
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed", "x-max-length": "1"}
        client = back(scene, {**headers, **arguments}, "client-individual", **{"prefetch-count": "1"})
        publish(scene, b"1", b"2", b"3")
        client.nack(client.message(), requeue="false")
        client.subscribe("/queue/failed", id="1")
        bodies = {each.body: each.headers.get("dlq-reason") for each in client.messages()}
        assert bodies == {b"3": None, b"1": "rejected", b"2": "queue-full"}

    @some
    def test_others_are_not_touched(self, scene: Scene, headers: Headers) -> None:
        client = back(scene, headers, "client", **{"x-max-length": "1", "prefetch-count": "1"})
        other = known(scene, client_id="")
        other.subscribe(TOPIC, id="1", ack="client", **{"prefetch-count": "1"})
        other.subscribe(TOPIC, id="2", ack="client", durable="true", **{"prefetch-count": "1"})
        publish(scene, b"1", b"2", b"3")
        assert client.session.outstanding == 1
        assert scene.broker.counters.dropped == 1

    def test_only_the_first_are_heard(self, scene: Scene) -> None:
        away(scene, RABBITMQ, **{"x-max-length": "1"})
        away(scene, RABBITMQ, **{"x-max-length": "2"})
        publish(scene, b"1", b"2")
        assert back(scene, RABBITMQ).bodies() == [b"2"]

    def test_the_policy_of_the_topic_holds(self, stage: Stage) -> None:
        scene = stage({"/topic/*": {"time_to_live": 1.0}, TOPIC: {"on_nack": OnNack.DROP}})
        client = back(scene, RABBITMQ, "client")
        publish(scene, b"1")
        client.nack(client.message())
        client.drop()
        publish(scene, b"2")
        scene.wait(1.1)
        assert back(scene, RABBITMQ).received() == []
        assert (scene.broker.counters.dropped, scene.broker.counters.expired) == (1, 1)


class TestLimits:
    @pytest.mark.parametrize("headers", [*LASTING, PASSING])
    def test_so_many(self, stage: Stage, headers: Headers) -> None:
        scene = stage(max_durable_subscriptions=2)
        clients = [known(scene, login=login) for login in ("ada", "bob", "eve")]
        clients[0].subscribe(TOPIC, id="1", **{"x-queue-name": "a"})
        clients[1].subscribe(TOPIC, durable="true")
        clients[2].subscribe("/topic/b", **headers)
        error = clients[2].error()
        assert error.headers["message"] == "too many durable subscriptions"
        assert b"2 (max_durable_subscriptions)" in error.body
        assert list(scene.broker.destinations) == [TOPIC]
        clients[1].unsubscribe()
        clients[1].subscribe(TOPIC, durable="true", selector="k = 'v'")  # takes the place of the old one
        end(clients[1], {"durable": "true"})
        again = known(scene, login="eve")
        again.subscribe("/topic/b", **headers)
        assert not again.closed

    def test_none(self, stage: Stage) -> None:
        scene = stage(max_durable_subscriptions=0)
        client = known(scene)
        client.subscribe("/topic/*", **RABBITMQ)
        assert client.closed
        assert not scene.broker.registry.count()

    @some
    def test_what_waits_counts_as_memory(self, stage: Stage, headers: Headers) -> None:
        scene = stage(memory_limit=4_000)
        client = back(scene, headers, "client", **{"prefetch-count": "1"})
        publisher = known(scene, client_id="")
        for _ in range(2):
            publisher.publish(TOPIC, b"x" * 1_300)
        assert scene.broker.memory.pressed
        publisher.publish(TOPIC, b"x" * 1_300)
        publisher.publish(TOPIC, b"x")
        assert b"(memory_limit)" in publisher.error().body
        while messages := client.messages():
            client.ack(messages[0])
        assert not scene.broker.memory.pressed
        assert scene.broker.memory.used == 0
