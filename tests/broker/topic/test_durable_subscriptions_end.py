"""The end of durable subscriptions: by UNSUBSCRIBE, by another of the same name, by another session, by time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.codec import V10, V12, Version

from ..client import WITH_NACK, Client, Scene
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
    end,
    ending,
    known,
    names,
    publish,
)

spelled = pytest.mark.parametrize("headers", LASTING, ids=lambda headers: next(iter(headers)))
named = pytest.mark.parametrize("headers", NAMED, ids=lambda headers: next(iter(headers)))
held = pytest.mark.parametrize("holding", ["transaction", "back-off", "socket"])


@pytest.fixture
def stage(stage: Stage) -> Iterator[Stage]:
    yield from ending(stage)


def hold(scene: Scene, client: Client, headers: Headers, holding: str) -> None:
    """Subscribe, and get a message that is not settled when the subscription is left."""
    client.subscribe(TOPIC, ack="auto" if holding == "socket" else "client", **headers)
    client.stalled = holding == "socket"
    publish(scene, b"held", persistent="true")
    if holding == "transaction":
        client.begin()
        client.ack(client.message(), transaction="t")
    elif holding == "back-off":
        client.nack(client.message())


def let_go(scene: Scene, client: Client, holding: str) -> None:
    """What was held comes back, or is settled."""
    if holding == "transaction":
        client.abort()
    elif holding == "socket":
        client.resume()
    scene.wait(3.0)


class TestUnsubscribe:
    @spelled
    def test_with_the_same_headers_it_ends(self, scene: Scene, version: Version, headers: Headers) -> None:
        client = known(scene, version)
        client.subscribe(TOPIC, ack="client", **headers, **{"prefetch-count": "1"})
        publish(scene, b"1", b"2")
        end(client, headers)
        assert not names(scene)
        assert not scene.broker.registry.count()
        publish(scene, b"3")
        client.received()
        client.subscribe(TOPIC, **headers)
        publish(scene, b"4")
        assert client.bodies() == [b"4"]

    @spelled
    @pytest.mark.parametrize("others", [{}, {"durable": "false"}, {"durable-subscription-name": ""}])
    def test_without_them_it_stays(self, scene: Scene, headers: Headers, others: Headers) -> None:
        client = known(scene)
        client.subscribe(TOPIC, **headers)
        end(client, others)
        publish(scene, b"m")
        client.subscribe(TOPIC, **headers)
        assert client.bodies() == [b"m"]

    @pytest.mark.parametrize(
        ("subscribed", "headers"),
        [(RABBITMQ, APOLLO), (APOLLO, {"durable": "true"}), (ACTIVEMQ, ARTEMIS), (SHARED, APOLLO), (ACTIVEMQ, APOLLO)],
    )
    def test_another_spelling_does_as_well(self, scene: Scene, subscribed: Headers, headers: Headers) -> None:
        client = known(scene)
        client.subscribe(TOPIC, **subscribed)
        end(client, headers)
        assert not names(scene)

    @pytest.mark.parametrize("version", [V10], ids=["1.0"])
    @pytest.mark.parametrize("headers", [*NAMED, SHARED])
    def test_in_1_0_by_the_destination(self, scene: Scene, version: Version, headers: Headers) -> None:
        client = known(scene, version)
        client.send("SUBSCRIBE", {"destination": TOPIC, **headers})
        client.send("UNSUBSCRIBE", {"destination": TOPIC, **headers})
        assert not client.closed
        assert not names(scene)

    @named
    def test_one_with_a_name_need_not_be_consumed(self, scene: Scene, version: Version, headers: Headers) -> None:
        client = known(scene, version)
        client.subscribe(TOPIC, **headers)
        client.drop()
        publish(scene, b"m")
        again = known(scene, version)
        end(again, {**headers, "receipt": "r"}, id="any")
        assert again.receipts() == ["r"]
        assert not scene.broker.registry.count()
        assert scene.broker.memory.used == 0

    @named
    @pytest.mark.parametrize(("login", "client_id"), [("eve", "one"), ("ada", "two"), ("ada", "")])
    def test_only_ones_own(self, scene: Scene, headers: Headers, login: str, client_id: str) -> None:
        client = known(scene, client_id="one")
        client.subscribe(TOPIC, **headers)
        client.drop()
        other = known(scene, login=login, client_id=client_id)
        end(other, headers)
        error = other.error()
        assert error.headers["message"] == "unknown durable subscription"
        assert b"user, client-id and name" in error.body
        assert len(names(scene)) == 1

    @pytest.mark.parametrize("headers", UNNAMED)
    def test_one_without_a_name_must_be_consumed(self, scene: Scene, headers: Headers) -> None:
        client = known(scene)
        client.subscribe(TOPIC, **headers)
        client.drop()
        again = known(scene)
        end(again, headers)
        assert again.error().headers["message"] == "unknown subscription"
        assert len(names(scene)) == 1

    @pytest.mark.parametrize("headers", [*UNNAMED, SHARED])
    def test_not_while_others_consume_it(self, scene: Scene, headers: Headers) -> None:
        client, other = known(scene), known(scene)
        for each in (client, other):
            each.subscribe(TOPIC, ack="client", **headers)
        end(client, headers if "durable" in headers else {"durable": "true"})
        assert client.error().headers["message"] == "a durable subscription is in use"
        publish(scene, b"m")
        assert other.bodies() == [b"m"]

    @named
    def test_not_while_another_session_consumes_it(self, scene: Scene, headers: Headers) -> None:
        client, other = known(scene), known(scene)
        client.subscribe(TOPIC, **headers)
        end(other, headers)
        assert other.error().headers["message"] == "a durable subscription is in use"
        publish(scene, b"m")
        assert client.bodies() == [b"m"]

    @pytest.mark.parametrize("headers", [PASSING, {"durable": "true", "auto-delete": "true"}])
    def test_one_that_does_not_last_has_gone_by_then(self, scene: Scene, headers: Headers) -> None:
        client = known(scene)
        client.subscribe(TOPIC, **headers)
        end(client, {"durable": "true"})
        assert not client.closed
        assert not names(scene)

    @pytest.mark.parametrize("headers", [APOLLO, ACTIVEMQ])
    def test_of_an_ordinary_subscription(self, scene: Scene, headers: Headers) -> None:
        """There is nothing more to be ended; but a name that is none is a mistake."""
        client = known(scene)
        client.subscribe(TOPIC)
        end(client, headers)
        assert client.closed is (headers is ACTIVEMQ)

    @spelled
    @held
    def test_what_is_still_held_is_thrown_away(self, stage: Stage, headers: Headers, holding: str) -> None:
        scene = stage({"#": {"backoff": 1.0}})
        client = known(scene)
        hold(scene, client, headers, holding)
        end(client, headers | {"durable": "true"})
        assert not names(scene)
        client.subscribe(TOPIC, id="1", **headers)
        let_go(scene, client, holding)
        publish(scene, b"new")
        assert client.bodies()[-1:] == [b"new"]
        assert len(names(scene)) == 1

    @pytest.mark.parametrize("headers", UNNAMED)
    def test_no_date_of_it_ends_the_next_one(self, stage: Stage, headers: Headers) -> None:
        scene = stage({"#": {"backoff": 9.0, "idle_timeout": 2.0, "time_to_live": 1.0}})
        client = known(scene)
        client.subscribe(TOPIC, ack="client", **headers, **{"prefetch-count": "1"})
        publish(scene, b"1", b"2", JMSXGroupID="g")
        client.nack(client.messages()[0])
        end(client, headers)
        client.subscribe(TOPIC, ack="client", **headers)
        scene.wait(10.0)
        client.received()
        publish(scene, b"3")
        assert client.bodies() == [b"3"]
        assert scene.broker.context.group_bytes == 0

    @named
    def test_an_id_of_one_and_the_name_of_another(self, scene: Scene, headers: Headers) -> None:
        client = known(scene)
        client.subscribe(TOPIC, **headers)
        name = next(name for name in headers if name.endswith(("name", "Name")))
        client.send("UNSUBSCRIBE", {"id": "0", **headers, name: "another"})
        assert client.error().headers["message"] == "UNSUBSCRIBE names two subscriptions"
        assert names(scene) != []


class TestAnother:
    """The same name with another topic, selector or no-local is a new subscription."""

    CHANGES = (
        {"selector": "k = 'v'"},
        {"no-local": "true"},
        {"selector": "k = 'v'", "activemq.noLocal": "true"},
    )

    @spelled
    @pytest.mark.parametrize("changes", CHANGES)
    @pytest.mark.parametrize("back", [False, True])
    def test_the_old_messages_are_gone(self, scene: Scene, headers: Headers, changes: Headers, back: bool) -> None:
        first, then = (changes, {}) if back else ({}, changes)
        client = known(scene)
        client.subscribe(TOPIC, **headers, **first)
        client.unsubscribe()
        publish(scene, b"old", k="v")
        assert scene.broker.context.waiting == 1
        client.subscribe(TOPIC, **headers, **then)
        publish(scene, b"new", k="v")
        assert client.bodies() == [b"new"]
        assert len(names(scene)) == 1
        assert scene.broker.counters.dropped == 1

    @pytest.mark.parametrize("headers", [*NAMED, SHARED])
    @pytest.mark.parametrize("topic", ["/topic/b", "/topic/*", "/exchange/amq.direct/a"])
    def test_another_topic(self, scene: Scene, headers: Headers, topic: str) -> None:
        client = known(scene)
        client.subscribe(TOPIC, **headers)
        client.unsubscribe()
        publish(scene, b"old")
        client.subscribe(topic, **headers)
        publish(scene, b"new", to=topic.replace("*", "b"))
        assert client.bodies() == [b"new"]
        assert [target.name for target in scene.broker.registry.patterns.values()] == ["/topic/*"] * ("*" in topic)
        assert TOPIC not in scene.broker.destinations

    @pytest.mark.parametrize("headers", [*UNNAMED, SHARED])
    def test_not_while_somebody_consumes_it(self, scene: Scene, headers: Headers) -> None:
        client, other = known(scene), known(scene)
        client.subscribe(TOPIC, **headers)
        other.subscribe(TOPIC, **headers, selector="k = 'v'")
        assert other.error().headers["message"] == "a durable subscription is in use"
        publish(scene, b"m")
        assert client.bodies() == [b"m"]

    @named
    def test_nor_while_the_session_itself_does(self, scene: Scene, headers: Headers) -> None:
        client = known(scene)
        client.subscribe(TOPIC, **headers)
        client.subscribe("/topic/b", id="1", **headers)
        assert client.error().headers["message"] == "a durable subscription is in use"
        assert list(scene.broker.destinations) == [TOPIC]

    @named
    def test_one_with_a_name_is_taken_from_another_session(self, stage: Stage, headers: Headers) -> None:
        scene = stage({"#": {"idle_timeout": 2.0}})
        ghost, client = known(scene), known(scene)
        ghost.subscribe(TOPIC, ack="client", **headers)
        publish(scene, b"1", b"2")
        client.subscribe("/topic/b", ack="client", **headers)
        assert ghost.error().headers["message"] == "subscription taken over"
        assert list(scene.broker.destinations) == ["/topic/b"]
        scene.wait(2.1)  # no date of the old one ends the new one
        publish(scene, b"3", to="/topic/b")
        assert client.bodies() == [b"3"]
        assert len(scene.broker.registry.durable_subscriptions) == 1


class TestTime:
    @spelled
    @pytest.mark.parametrize("by", ["policy", "header"])
    def test_nobody_came_back(self, stage: Stage, headers: Headers, by: str) -> None:
        scene = stage({TOPIC: {"idle_timeout": 2.0}} if by == "policy" else {})
        client = known(scene)
        client.subscribe(TOPIC, ack="client", **headers, **({"x-expires": "2000"} if by == "header" else {}))
        scene.wait(5.0)
        publish(scene, b"1")
        client.drop()
        publish(scene, b"2")
        scene.wait(1.9)
        assert scene.broker.context.waiting == 2
        scene.wait(0.2)
        assert not names(scene)
        assert not scene.broker.registry.count()
        assert scene.broker.memory.used == 0

    @spelled
    def test_who_comes_in_time_finds_everything(self, stage: Stage, headers: Headers) -> None:
        scene = stage({"/topic/#": {"idle_timeout": 2.0}})
        for bodies in ([], [b"m"], [b"m"]):
            client = known(scene)
            client.subscribe(TOPIC, **headers)
            scene.wait(5.0)
            assert client.bodies() == bodies
            client.drop()
            publish(scene, b"m")
            scene.wait(1.9)

    @pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)
    def test_what_comes_back_behind_that_time_does_not_stay(self, stage: Stage, version: Version) -> None:
        scene = stage({TOPIC: {"idle_timeout": 2.0, "backoff": 5.0}})
        client = known(scene, version)
        client.subscribe(TOPIC, ack="client", **RABBITMQ)
        publish(scene, b"m")
        client.nack(client.message())
        client.drop()
        scene.wait(3.0)
        assert not names(scene)
        scene.wait(3.0)
        assert scene.broker.memory.used == 0

    def test_one_that_comes_and_goes_leaves_nothing_on_the_agenda(self, scene: Scene) -> None:
        client = known(scene, V12)
        for _ in range(300):
            client.subscribe(TOPIC, **RABBITMQ, **{"x-expires": "86400000"})
            end(client, RABBITMQ)
        assert len(scene.broker.scheduler) <= 200
