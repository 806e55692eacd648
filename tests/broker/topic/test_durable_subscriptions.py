"""Durable and shared subscriptions: the spellings, the names, and what they keep."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
            *((each, "", "/user/queue/a", "a durable subscription of a user needs a login") for each in KINDS),
            (PASSING, "", "/user/queue/a", "a durable subscription of a user needs a login"),
            *((each, "", TOPIC, "a durable subscription with a name needs a client-id") for each in NAMED),
        ],
    )
    def test_refused(self, scene: Scene, headers: Headers, login: str, destination: str, message: str) -> None:
        client = known(scene, login=login) if login else scene.connect()
        client.subscribe(destination, **headers)
        assert message_of(client) == message
        assert not names(scene)
        assert not scene.broker.registry.count()

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
            if not bodies:
                client.drop()
                publish(scene, b"m")
        client.send("UNSUBSCRIBE", {"destination": TOPIC, **headers})
        assert not names(scene)


class TestNames:
    @pytest.mark.parametrize(
        ("first", "headers", "login", "client_id", "id", "topic", "is_same"),
        [
            (RABBITMQ, RABBITMQ, "ada", "two", "0", TOPIC, True),
            (RABBITMQ, APOLLO, "ada", "", "0", "/exchange/amq.topic/a", True),
            (ACTIVEMQ, ACTIVEMQ, "ada", "one", "1", TOPIC, True),
            (ACTIVEMQ, ARTEMIS, "ada", "one", "0", TOPIC, True),
            (ACTIVEMQ, ACTIVEMQ | RABBITMQ, "ada", "one", "0", TOPIC, True),
            (SHARED, PASSING, "bob", "two", "1", TOPIC, True),
            (RABBITMQ, RABBITMQ, "bob", "one", "0", TOPIC, False),
            (RABBITMQ, RABBITMQ, "ada", "one", "1", TOPIC, False),
            (RABBITMQ, RABBITMQ, "ada", "one", "0", "/topic/b", False),
            (ACTIVEMQ, ACTIVEMQ, "bob", "one", "0", TOPIC, False),
            (ACTIVEMQ, ACTIVEMQ, "ada", "two", "0", TOPIC, False),
            (ACTIVEMQ, {"activemq.subscriptionName": "other"}, "ada", "one", "0", TOPIC, False),
            (ACTIVEMQ, SHARED, "ada", "one", "0", TOPIC, False),
        ],
    )
    def test_what_is_the_same(
        self,
        scene: Scene,
        first: Headers,
        headers: Headers,
        login: str,
        client_id: str,
        id: str,
        topic: str,
        is_same: bool,
    ) -> None:
        client = known(scene, client_id="one")
        client.subscribe(TOPIC, **first)
        client.drop()
        publish(scene, b"m")
        again = known(scene, login=login, client_id=client_id)
        again.subscribe(topic, id=id, **headers)
        assert (again.bodies(), len(names(scene))) == (([b"m"], 1) if is_same else ([], 2))

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
        assert (names(scene), scene.broker.registry.count(), scene.broker.memory.used) == ([], 0, 0)

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

    @kinds
    def test_dead_letters_name_the_subscription(self, stage: Stage, headers: Headers) -> None:
        scene = stage({TOPIC: {"max_attempts": 1, "dead_letter": "/queue/dead", "dead_letter_expired": True}})
        client = consumer(scene, headers, ack="client", **ONE)
        publish(scene, b"m")
        publish(scene, b"brief", ttl="500")
        scene.wait(1.0)
        client.nack(client.message(), reason="no")
        client.subscribe("/queue/dead", id="1")
        (name,) = names(scene)
        shown = ("dlq-reason", "dlq-source", "original-destination")
        found = {each.body: [each.headers[header] for header in shown] for each in client.messages()}
        assert found == {b"brief": ["expired", name, TOPIC], b"m": ["max-attempts", name, TOPIC]}

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


@pytest.mark.parametrize("headers", [*KINDS, PASSING])
def test_there_are_only_so_many(stage: Stage, headers: Headers) -> None:
    scene = stage(max_durable_subscriptions=2)
    clients = [known(scene, login=login) for login in ("ada", "bob", "eve")]
    clients[0].subscribe(TOPIC, id="1", **{"x-queue-name": "a"})
    clients[1].subscribe(TOPIC, durable="true")
    clients[2].subscribe("/topic/b", **headers)
    error = clients[2].error()
    assert error.headers["message"] == "too many durable subscriptions"
    assert b"2 (max_durable_subscriptions)" in error.body
    assert list(scene.broker.destinations) == [TOPIC]
    end(clients[1], {"durable": "true"})
    again = known(scene, login="eve")
    again.subscribe("/topic/b", **headers)
    assert not again.closed
