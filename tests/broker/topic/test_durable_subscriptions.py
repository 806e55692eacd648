"""Durable and shared subscriptions: the spellings, whose they are, how they end; nothing of them stays behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.broker.model.destinations import DURABLE
from gateway.codec import V10, Version

from ..client import WITH_NACK, Client, Scene, Step
from ..conftest import Stage
from .durable_scenes import (
    ACTIVEMQ,
    APOLLO,
    ARTEMIS,
    LASTING,
    NAMED,
    PASSING,
    RABBITMQ,
    SHARED,
    TOPIC,
    UNNAMED,
    Headers,
    ending,
    known,
    names,
    publish,
)

spelled = pytest.mark.parametrize("headers", LASTING, ids=lambda headers: next(iter(headers)))
named = pytest.mark.parametrize("headers", NAMED, ids=lambda headers: next(iter(headers)))
shared = pytest.mark.parametrize("headers", [*UNNAMED, SHARED, PASSING], ids=lambda headers: ",".join(headers))


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

    @spelled
    @pytest.mark.parametrize("mode", ["client", "client-individual"])
    def test_only_what_was_delivered_is_marked(self, scene: Scene, headers: Headers, mode: str) -> None:
        client = known(scene)
        client.subscribe(TOPIC, ack=mode, **headers, **{"prefetch-count": "2"})
        publish(scene, b"1", b"2", b"3")
        first = client.messages()
        client.ack(first[0])
        client.drop()
        publish(scene, b"4")
        again = known(scene)
        again.subscribe(TOPIC, ack=mode, **headers)
        messages = again.messages()
        assert [(each.body, each.redelivered) for each in messages] == [(b"2", True), (b"3", True), (b"4", False)]
        assert messages[0].message_id == first[1].message_id

    @spelled
    @pytest.mark.parametrize("pattern", ["/topic/*", "/topic/#", "/exchange/amq.topic/*"])
    def test_wildcards(self, scene: Scene, version: Version, headers: Headers, pattern: str) -> None:
        client = known(scene, version)
        client.subscribe(pattern, **headers)
        client.drop()
        publish(scene, b"1")
        publish(scene, b"2", to="/topic/b")
        publish(scene, b"3", to="/queue/c")
        again = known(scene, version)
        again.subscribe(pattern, **headers)
        assert [(each.body, each.headers["destination"]) for each in again.messages()] == [
            (b"1", TOPIC),
            (b"2", "/topic/b"),
        ]

    @spelled
    @pytest.mark.parametrize(
        ("destination", "sent_to"),
        [("/exchange/amq.direct/a", "/exchange/amq.direct/a"), ("/user/queue/a", "/user/ada/queue/a")],
    )
    def test_other_kinds_of_topics(self, scene: Scene, headers: Headers, destination: str, sent_to: str) -> None:
        client = known(scene)
        client.subscribe(destination, **headers)
        client.drop()
        publish(scene, b"m", to=sent_to)
        again = known(scene)
        again.subscribe(destination, **headers)
        assert again.bodies() == [b"m"]

    @spelled
    @pytest.mark.parametrize("destination", ["/temp-topic/a", "/app/a"])
    def test_not_of_what_goes_with_its_session(self, scene: Scene, headers: Headers, destination: str) -> None:
        client = known(scene)
        client.subscribe(destination, **headers)
        expected = "temporary topic has no durable" if destination == "/temp-topic/a" else "no function for"
        assert expected in client.error().headers["message"]
        assert not names(scene)
        assert not scene.broker.registry.count()

    @pytest.mark.parametrize("headers", [*LASTING, PASSING])
    def test_not_of_the_mail_of_somebody_without_a_name(self, scene: Scene, headers: Headers) -> None:
        """His next session would have another name."""
        client = scene.connect()
        client.subscribe("/user/queue/a", **headers)
        assert client.error().headers["message"] == "a durable subscription to mail needs a login"
        assert not scene.broker.registry.count()

    @spelled
    def test_other_topics_of_somebody_without_a_name(self, scene: Scene, headers: Headers) -> None:
        for bodies in ([], [b"m"]):
            client = scene.connect_by(b"CONNECT\naccept-version:1.2\nhost:x\nclient-id:one\n\n\0")
            client.subscribe(TOPIC, **headers)
            assert client.bodies() == bodies
            client.drop()
            publish(scene, b"m")

    @named
    def test_one_with_a_name_needs_somebody_to_be_known_by(self, scene: Scene, headers: Headers) -> None:
        client = scene.connect()
        client.subscribe(TOPIC, **headers)
        assert client.error().headers["message"] == "a durable subscription with a name needs a client-id"

    @pytest.mark.parametrize("headers", UNNAMED)
    def test_without_a_name_it_needs_an_id(self, scene: Scene, headers: Headers) -> None:
        client = known(scene, V10)
        client.send("SUBSCRIBE", {"destination": TOPIC, **headers})
        assert client.error().headers["message"] == "a durable subscription needs an id"
        assert not scene.broker.registry.count()

    @pytest.mark.parametrize("headers", [*NAMED, SHARED])
    def test_with_a_name_it_needs_none(self, scene: Scene, headers: Headers) -> None:
        client = known(scene, V10)
        client.send("SUBSCRIBE", {"destination": TOPIC, **headers})
        client.drop()
        publish(scene, b"m")
        again = known(scene, V10)
        again.send("SUBSCRIBE", {"destination": TOPIC, **headers})
        assert again.bodies() == [b"m"]

    @spelled
    def test_a_topic_has_nothing_to_browse(self, scene: Scene, headers: Headers) -> None:
        client = known(scene)
        client.subscribe(TOPIC, browser="true", **headers)
        assert client.error().headers["message"] == "browsers are for queues"

    @spelled
    def test_no_client_can_name_it(self, scene: Scene, headers: Headers) -> None:
        client = known(scene)
        client.subscribe(TOPIC, **headers)
        (name,) = names(scene)
        assert name.startswith(DURABLE)
        for step in (Client.publish, Client.subscribe):
            other = known(scene, login="eve")
            step(other, name)
            assert other.error().headers["message"] == "unsupported kind of destination"

    @pytest.mark.parametrize("headers", LASTING)
    def test_a_queue_keeps_its_messages_anyway(self, scene: Scene, headers: Headers) -> None:
        client = known(scene)
        client.subscribe("/queue/a", **headers)
        client.unsubscribe()
        client.publish("/queue/a", b"m")
        client.subscribe("/queue/a")
        assert client.bodies() == [b"m"]
        assert not names(scene)


class TestWhoseItIs:
    """What a subscription is known by, and what is another one."""

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

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (("a/b", "c"), ("a", "b/c")),
            (("a", "b"), ("a/", "b")),
            (("a%2Fb", "c"), ("a/b", "c")),
            (("é", ""), ("", "é")),
        ],
    )
    def test_no_two_are_called_the_same(self, scene: Scene, one: tuple[str, str], other: tuple[str, str]) -> None:
        for login, client_id in (one, other):
            known(scene, login=login, client_id=client_id).subscribe(TOPIC, **ACTIVEMQ)
            known(scene, login=login).subscribe(TOPIC, id=client_id, **RABBITMQ)
            known(scene).subscribe(TOPIC, **{"x-queue-name": f"{login}/{client_id}"})
        assert len(set(names(scene))) == 6 - (one == ("a/b", "c"))
        for client in scene.clients:
            assert not client.closed


class TestShared:
    """Several sessions share the messages."""

    @shared
    def test_each_message_once(self, scene: Scene, version: Version, headers: Headers) -> None:
        clients = [known(scene, version, client_id=client_id) for client_id in ("one", "two", "")]
        for client in clients:
            client.subscribe(TOPIC, **headers)
        publish(scene, *[b"%d" % number for number in range(6)])
        assert [client.bodies() for client in clients] == [[b"0", b"3"], [b"1", b"4"], [b"2", b"5"]]

    @shared
    def test_who_goes_leaves_his_to_the_others(self, scene: Scene, headers: Headers) -> None:
        one, other = known(scene), known(scene)
        one.subscribe(TOPIC, ack="client", **headers)
        other.subscribe(TOPIC, **headers)
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

    @shared
    def test_ordinary_subscribers_have_copies_of_their_own(self, scene: Scene, headers: Headers) -> None:
        clients = [known(scene) for _ in range(4)]
        clients[0].subscribe(TOPIC, **headers)
        clients[1].subscribe(TOPIC, **headers)
        clients[2].subscribe(TOPIC)
        clients[3].subscribe("/topic/*", ack="client")
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
        clients = [known(scene), known(scene)]
        for client in clients:
            client.subscribe(TOPIC, ack=mode, **headers)
            client.stalled = True
        publish(scene, *[b"x" * clients[0].session.outbox.window] * 4)
        leave(clients[0])
        assert (len(names(scene)), scene.broker.context.waiting > 0) == (1, True)
        leave(clients[1])
        publish(scene, b"missed")
        assert not names(scene)
        assert not scene.broker.registry.count()
        assert scene.broker.memory.used == 0

    @pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)
    def test_nor_does_it_stay_for_what_comes_back_later(self, stage: Stage, version: Version) -> None:
        scene = stage({"#": {"backoff": 1.0}})
        client = known(scene, version)
        client.subscribe(TOPIC, ack="client", **PASSING)
        publish(scene, b"1")
        client.nack(client.message())
        client.drop()
        publish(scene, b"2")
        scene.wait(0.5)
        again = known(scene, version)
        again.subscribe(TOPIC, **PASSING)
        assert not again.received()
        again.drop()
        scene.wait(1.0)
        assert not names(scene)
        assert scene.broker.memory.used == 0

    def test_who_comes_while_something_is_still_to_come_back_gets_it(self, stage: Stage) -> None:
        scene = stage({"#": {"backoff": 1.0}})
        client = known(scene)
        client.subscribe(TOPIC, ack="client", **PASSING)
        publish(scene, b"1")
        client.nack(client.message())
        client.drop()
        again = known(scene)
        again.subscribe(TOPIC, **PASSING)
        scene.wait(1.1)
        publish(scene, b"2")
        assert again.bodies() == [b"1", b"2"]

    def test_what_a_transaction_gives_back_is_gone_too(self, scene: Scene) -> None:
        client = known(scene)
        client.subscribe(TOPIC, ack="client", **PASSING)
        publish(scene, b"m")
        client.begin()
        client.ack(client.message(), transaction="t")
        client.unsubscribe()
        assert not names(scene)
        client.abort()
        assert scene.broker.memory.used == 0

    def test_it_does_not_become_a_lasting_one_by_the_way(self, scene: Scene) -> None:
        client, other = known(scene), known(scene)
        client.subscribe(TOPIC, **PASSING)
        other.subscribe(TOPIC, **SHARED)
        assert other.error().headers["message"] == "a durable subscription is in use"
        assert client.received() == []

    def test_but_who_says_nothing_may_share_a_lasting_one(self, scene: Scene) -> None:
        client, other = known(scene), known(scene)
        client.subscribe(TOPIC, **SHARED)
        other.subscribe(TOPIC, **PASSING)
        for each in (client, other):
            each.drop()
        publish(scene, b"m")
        assert scene.broker.context.waiting == 1
