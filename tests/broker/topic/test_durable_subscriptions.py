"""Durable and shared subscriptions: the spellings, the names, and what they keep."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.broker.model.destinations import DURABLE
from gateway.broker.model.policy import OnNack
from gateway.broker.topic import durable_subscriptions
from gateway.codec import V10, Version

from ..client import Client, Scene, Step
from ..conftest import Stage
from .durable_scenes import (
    ACTIVEMQ,
    APOLLO,
    ARTEMIS,
    KINDS,
    NAMED,
    ONE,
    PASSING,
    RABBITMQ,
    SHARED,
    TOPIC,
    UNNAMED,
    Headers,
    consumer,
    end,
    ending,
    kinds,
    known,
    message_of,
    names,
    publish,
    spelled,
)

shared = pytest.mark.parametrize("headers", [RABBITMQ, SHARED, PASSING], ids=lambda headers: ",".join(headers))


@pytest.fixture
def stage(stage: Stage) -> Iterator[Stage]:
    yield from ending(stage)


class TestSpellings:
    @spelled
    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, Client.unsubscribe])
    def test_what_was_missed_comes_in_order(
        self, scene: Scene, version: Version, headers: Headers, leave: Step
    ) -> None:
        client = known(scene, version)
        publish(scene, b"before")
        client.subscribe(TOPIC, **headers)
        publish(scene, b"1")
        leave(client)
        publish(scene, b"2", b"3")
        assert client.bodies() == [b"1"]
        again = known(scene, version)
        again.subscribe(TOPIC, **headers)
        publish(scene, b"4")
        messages = again.messages()
        assert [each.body for each in messages] == [b"2", b"3", b"4"]
        assert not any(each.redelivered for each in messages)
        assert {each.headers["destination"] for each in messages} == {TOPIC}

    @kinds
    @pytest.mark.parametrize("mode", ["client", "client-individual"])
    def test_only_delivered_messages_are_marked(self, scene: Scene, headers: Headers, mode: str) -> None:
        client = consumer(scene, headers, ack=mode, **{"prefetch-count": "2"})
        publish(scene, b"1", b"2", b"3")
        first = client.messages()
        client.ack(first[0])
        client.drop()
        publish(scene, b"4")
        messages = consumer(scene, headers, ack=mode).messages()
        assert [(each.body, each.redelivered) for each in messages] == [(b"2", True), (b"3", True), (b"4", False)]
        assert messages[0].message_id == first[1].message_id

    @kinds
    @pytest.mark.parametrize(
        ("destination", "sent_to"),
        [
            ("/topic/*", [TOPIC, "/topic/b"]),
            ("/exchange/amq.topic/*", [TOPIC, "/topic/b"]),
            ("/exchange/amq.direct/a", ["/exchange/amq.direct/a"]),
            ("/user/queue/a", ["/user/ada/queue/a"]),
        ],
    )
    def test_patterns_and_other_kinds_of_topics(
        self, scene: Scene, headers: Headers, destination: str, sent_to: list[str]
    ) -> None:
        consumer(scene, headers, destination).drop()
        for name in [*sent_to, "/queue/c"]:
            publish(scene, b"m", to=name)
        client = consumer(scene, headers, destination)
        assert [each.headers["destination"] for each in client.messages()] == sent_to

    @pytest.mark.parametrize(
        ("headers", "login", "destination", "message"),
        [
            (RABBITMQ, "ada", "/temp-topic/a", "a temporary topic has no durable subscriptions"),
            (SHARED, "ada", "/app/a", "no function for this destination"),
            *((each, "", "/user/queue/a", "a durable user destination needs a login") for each in KINDS),
            (PASSING, "", "/user/queue/a", "a durable user destination needs a login"),
            *((each, "", TOPIC, "a durable subscription with a name needs a client-id") for each in NAMED),
        ],
    )
    def test_refused(self, scene: Scene, headers: Headers, login: str, destination: str, message: str) -> None:
        client = known(scene, login=login) if login else scene.connect()
        client.subscribe(destination, **headers)
        assert message_of(client) == message
        assert not names(scene)
        assert not scene.broker.registry.count()

    @kinds
    def test_of_a_user_without_a_login_but_with_a_client_id(self, scene: Scene, headers: Headers) -> None:
        for bodies in ([], [b"m"]):
            client = scene.connect_by(b"CONNECT\naccept-version:1.2\nhost:x\nclient-id:one\n\n\0")
            client.subscribe(TOPIC, **headers)
            assert client.bodies() == bodies
            client.drop()
            publish(scene, b"m")

    @spelled
    def test_in_1_0_without_an_id_a_name_is_needed(self, scene: Scene, headers: Headers) -> None:
        for bodies in ([], [b"m"]):
            client = known(scene, V10)
            client.send("SUBSCRIBE", {"destination": TOPIC, **headers})
            if headers in UNNAMED:
                assert message_of(client) == "a durable subscription needs an id"
                assert not scene.broker.registry.count()
                return
            assert client.bodies() == bodies
            client.drop()
            publish(scene, b"m")
        client = known(scene, V10)
        client.send("SUBSCRIBE", {"destination": TOPIC, **headers})
        client.send("UNSUBSCRIBE", {"destination": TOPIC, **headers})
        assert not names(scene)

    def test_no_client_can_name_its_queue(self, scene: Scene) -> None:
        consumer(scene, RABBITMQ)
        (name,) = names(scene)
        assert name.startswith(DURABLE)
        for step in (Client.publish, Client.subscribe):
            other = known(scene, login="eve")
            step(other, name)
            assert message_of(other) == "unsupported kind of destination"

    @kinds
    def test_a_queue_keeps_its_messages_anyway(self, scene: Scene, headers: Headers) -> None:
        client = consumer(scene, headers, "/queue/a")
        client.unsubscribe()
        client.publish("/queue/a", b"m")
        client.subscribe("/queue/a")
        assert client.bodies() == [b"m"]
        assert not names(scene)


class TestNames:
    @pytest.mark.parametrize(
        ("headers", "login", "client_id", "id", "topic"),
        [
            (RABBITMQ, "bob", "one", "0", TOPIC),
            (RABBITMQ, "ada", "one", "1", TOPIC),
            (RABBITMQ, "ada", "one", "0", "/topic/b"),
            (ACTIVEMQ, "bob", "one", "0", TOPIC),
            (ACTIVEMQ, "ada", "two", "0", TOPIC),
            ({"activemq.subscriptionName": "other"}, "ada", "", "0", TOPIC),
            (SHARED, "ada", "one", "0", TOPIC),
        ],
    )
    def test_another_one(self, scene: Scene, headers: Headers, login: str, client_id: str, id: str, topic: str) -> None:
        client, other = known(scene), known(scene, login=login, client_id=client_id)
        client.subscribe(TOPIC, **(RABBITMQ if headers is RABBITMQ else ACTIVEMQ))
        other.subscribe(topic, id=id, **headers)
        publish(scene, b"a")
        publish(scene, b"b", to="/topic/b")
        assert len(names(scene)) == 2
        assert other.bodies() == [b"a" if topic == TOPIC else b"b"]
        assert client.bodies() == [b"a"]

    @pytest.mark.parametrize(
        ("first", "headers", "login", "client_id", "id", "topic"),
        [
            (RABBITMQ, RABBITMQ, "ada", "two", "0", TOPIC),
            (RABBITMQ, APOLLO, "ada", "", "0", "/exchange/amq.topic/a"),
            (ACTIVEMQ, ACTIVEMQ, "ada", "one", "1", TOPIC),
            (ACTIVEMQ, ARTEMIS, "ada", "one", "0", TOPIC),
            (ACTIVEMQ, ACTIVEMQ | RABBITMQ, "ada", "one", "0", TOPIC),
            (SHARED, SHARED, "bob", "two", "1", TOPIC),
            (SHARED, PASSING, "bob", "two", "1", TOPIC),
        ],
    )
    def test_the_same(
        self, scene: Scene, first: Headers, headers: Headers, login: str, client_id: str, id: str, topic: str
    ) -> None:
        client = known(scene, client_id="one")
        client.subscribe(TOPIC, **first)
        client.drop()
        publish(scene, b"m")
        again = known(scene, login=login, client_id=client_id)
        again.subscribe(topic, id=id, **headers)
        assert again.bodies() == [b"m"]
        assert len(names(scene)) == 1

    def test_no_two_have_the_same(self) -> None:
        parts = [("a/b", "c"), ("a", "b/c"), ("a", "b"), ("a/", "b"), ("a%2Fb", "c"), ("é", ""), ("", "é"), ("a/b/c",)]
        assert len({durable_subscriptions.joined(*each) for each in parts}) == len(parts)


class TestShared:
    @shared
    def test_each_message_once(self, scene: Scene, headers: Headers) -> None:
        clients = [known(scene, client_id=client_id) for client_id in ("one", "two", "")]
        for client in clients:
            client.subscribe(TOPIC, **headers)
        publish(scene, *[b"%d" % number for number in range(6)])
        assert [client.bodies() for client in clients] == [[b"0", b"3"], [b"1", b"4"], [b"2", b"5"]]

    @shared
    def test_a_consumer_that_goes_leaves_its_messages_to_the_others(self, scene: Scene, headers: Headers) -> None:
        one, other = consumer(scene, headers, ack="client"), consumer(scene, headers)
        publish(scene, b"1", b"2", b"3")
        assert one.bodies() == [b"1", b"3"]
        one.drop()
        publish(scene, b"4")
        assert [(each.body, each.redelivered) for each in other.messages()] == [
            (b"2", False),
            (b"1", True),
            (b"3", True),
            (b"4", False),
        ]

    def test_ordinary_subscribers_have_copies_of_their_own(self, scene: Scene) -> None:
        clients = [consumer(scene, headers) for headers in (SHARED, SHARED, {})]
        clients.append(consumer(scene, {}, "/topic/*", ack="client"))
        publish(scene, b"1", b"2")
        received = [client.messages() for client in clients]
        assert [[each.body for each in every] for every in received] == [[b"1"], [b"2"], [b"1", b"2"], [b"1", b"2"]]
        assert len({each.message_id for every in received for each in every}) == 2

    @pytest.mark.parametrize(
        "headers", [PASSING, SHARED | {"auto-delete": "true"}, {"durable": "true", "auto-delete": "true"}]
    )
    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, Client.unsubscribe])
    @pytest.mark.parametrize("mode", ["auto", "client"])
    def test_one_that_does_not_last_goes_with_its_last_consumer(
        self, scene: Scene, headers: Headers, leave: Step, mode: str
    ) -> None:
        clients = [consumer(scene, headers, ack=mode) for _ in range(2)]
        for client in clients:
            client.stalled = True
        publish(scene, *[b"x" * clients[0].session.outbox.window] * 4)
        leave(clients[0])
        assert (len(names(scene)), scene.broker.context.waiting > 0) == (1, True)
        leave(clients[1])
        publish(scene, b"missed")
        assert not names(scene)
        assert not scene.broker.registry.count()
        assert scene.broker.memory.used == 0

    @pytest.mark.parametrize("waits", [False, True])
    def test_it_does_not_stay_for_messages_that_come_back_later(self, stage: Stage, waits: bool) -> None:
        """But a consumer that comes in time gets them."""
        scene = stage({"#": {"backoff": 1.0}})
        client = consumer(scene, PASSING, ack="client")
        publish(scene, b"1")
        client.nack(client.message())
        client.drop()
        publish(scene, b"2")
        scene.wait(0.5)
        again = consumer(scene, PASSING)
        assert not again.received()
        if not waits:
            again.drop()
        scene.wait(1.0)
        assert again.bodies() == [b"1"] * waits
        again.drop()
        assert not names(scene)
        assert scene.broker.memory.used == 0

    def test_messages_that_a_transaction_gives_back_are_gone_too(self, scene: Scene) -> None:
        client = consumer(scene, PASSING, ack="client")
        publish(scene, b"m")
        client.begin()
        client.ack(client.message(), transaction="t")
        client.unsubscribe()
        assert not names(scene)
        client.abort()
        assert scene.broker.memory.used == 0

    def test_it_does_not_become_a_lasting_one_by_the_way(self, scene: Scene) -> None:
        client, other = consumer(scene, PASSING), consumer(scene, SHARED)
        assert message_of(other) == "a durable subscription is in use"
        client.drop()
        for each in (consumer(scene, SHARED), consumer(scene, PASSING)):  # but a lasting one may be shared
            each.drop()
        publish(scene, b"m")
        assert scene.broker.context.waiting == 1


class TestMessages:
    @spelled
    def test_selector_and_no_local(self, scene: Scene, headers: Headers) -> None:
        asked = {"selector": "price > 10", "no-local": "true"}
        client = consumer(scene, headers, **asked)
        client.publish(TOPIC, b"own", price="11")
        publish(scene, b"1", price="11")
        publish(scene, b"2", price="9")
        assert client.bodies() == [b"1"]
        client.unsubscribe()
        client.publish(TOPIC, b"own, but of no consumer", price="12")
        publish(scene, b"3", price="")
        assert scene.broker.context.waiting == 1
        again = {"selector": " price > 10 ", "activemq.noLocal": "true"}
        assert consumer(scene, headers, **again).bodies() == [b"own, but of no consumer"]

    def test_no_local_of_several(self, scene: Scene) -> None:
        """What one of them sends is for none of them."""
        clients = [consumer(scene, RABBITMQ, **{"no-local": "true"}) for _ in range(2)]
        for client in clients:
            client.publish(TOPIC, b"own")
        assert [client.received() for client in clients] == [[], []]

    @kinds
    def test_delayed_messages_those_of_a_transaction_and_priorities(self, scene: Scene, headers: Headers) -> None:
        consumer(scene, headers).drop()
        client = known(scene, client_id="")
        client.publish(TOPIC, b"late", **{"x-delay": "1000"})
        client.begin()
        client.publish(TOPIC, b"committed", transaction="t")
        assert scene.broker.context.waiting == 0
        client.commit()
        publish(scene, b"first", priority="9")
        scene.wait(1.1)
        assert consumer(scene, headers).bodies() == [b"first", b"committed", b"late"]

    @pytest.mark.parametrize("headers", [*KINDS, PASSING], ids=",".join)
    def test_what_the_topic_retained_comes_once(self, scene: Scene, headers: Headers) -> None:
        publish(scene, b"old", retain="set")
        client = consumer(scene, headers, ack="client")
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
            assert consumer(scene, headers).received() == []

    @pytest.mark.parametrize("pattern", [TOPIC, "/topic/#"])
    def test_what_the_topic_retained_waits_like_the_rest(self, scene: Scene, pattern: str) -> None:
        publish(scene, b"red", retain="set", k="v")
        publish(scene, b"blue", retain="set", to="/topic/b")
        for redelivered in (False, True):
            client = consumer(scene, RABBITMQ, pattern, ack="client", selector="k = 'v'")
            message = client.message()
            assert (message.body, message.redelivered) == (b"red", redelivered)
            client.drop()

    @kinds
    def test_dead_letters_name_the_subscription(self, stage: Stage, headers: Headers) -> None:
        scene = stage(
            {TOPIC: {"max_attempts": 2, "backoff": 1.0, "dead_letter": "/queue/dead", "dead_letter_expired": True}}
        )
        client = consumer(scene, headers, ack="client", **ONE)
        publish(scene, b"m")
        publish(scene, b"brief", ttl="500")
        scene.wait(1.0)
        client.nack(client.message())
        scene.wait(1.1)
        again = client.message()
        assert again.headers["delivery-count"] == "2"
        client.nack(again, reason="no")
        client.subscribe("/queue/dead", id="1")
        found = {each.body: each.headers for each in client.messages()}
        assert [(body, each["dlq-reason"]) for body, each in found.items()] == [
            (b"brief", "expired"),
            (b"m", "max-attempts"),
        ]
        assert {each["dlq-source"] for each in found.values()} == set(names(scene))
        assert {each["original-destination"] for each in found.values()} == {TOPIC}
        assert found[b"m"]["reason"] == "no"

    @kinds
    @pytest.mark.parametrize(
        ("hint", "left"),
        [
            ({"x-max-length": "2"}, [b"2", b"3"]),
            ({"x-max-length-bytes": "900"}, [b"2", b"3"]),
            ({"x-message-ttl": "500"}, []),
            ({"auto-delete": "false"}, [b"1", b"2", b"3"]),
        ],
    )
    def test_queue_arguments_of_the_first_subscribe(
        self, scene: Scene, headers: Headers, hint: Headers, left: list[bytes]
    ) -> None:
        client = consumer(scene, headers | hint, ack="client", **ONE)
        publish(scene, b"0", b"1", b"2", b"3")
        scene.wait(1.0)
        client.ack(client.message())
        for body in left:
            message = client.message()
            assert message.body == body
            client.ack(message)
        assert client.received() == []

    def test_queue_arguments_are_its_own_and_later_ones_do_not_count(self, scene: Scene) -> None:
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed", "x-max-length": "1"}
        client = consumer(scene, RABBITMQ | arguments, ack="client-individual", **ONE)
        other = known(scene, client_id="other")
        other.subscribe(TOPIC, id="1", ack="client", **ONE)
        other.subscribe(TOPIC, id="2", ack="client", durable="true", **ONE)
        consumer(scene, RABBITMQ | {"x-max-length": "2"}, ack="client", **ONE).drop()
        publish(scene, b"1", b"2", b"3")
        client.nack(client.message(), requeue="false")
        client.subscribe("/queue/failed", id="1")
        bodies = {each.body: each.headers.get("dlq-reason") for each in client.messages()}
        assert bodies == {b"3": None, b"1": "rejected", b"2": "queue-full"}

    def test_the_policy_of_the_topic_holds(self, stage: Stage) -> None:
        scene = stage({"/topic/*": {"time_to_live": 1.0}, TOPIC: {"on_nack": OnNack.DROP}})
        client = consumer(scene, RABBITMQ, ack="client")
        publish(scene, b"1")
        client.nack(client.message())
        client.drop()
        publish(scene, b"2")
        scene.wait(1.1)
        assert consumer(scene, RABBITMQ).received() == []
        assert (scene.broker.counters.totals()["dropped"], scene.broker.counters.expired) == (1, 1)


class TestLimits:
    @pytest.mark.parametrize("headers", [*KINDS, PASSING])
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
