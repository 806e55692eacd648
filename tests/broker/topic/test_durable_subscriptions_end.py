"""The end of durable subscriptions: by UNSUBSCRIBE, another of the name, another session, or time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.broker.errors import NotAllowed
from gateway.broker.topic import durable_subscriptions
from gateway.codec import Frame, Head

from ..client import Client, Scene
from ..conftest import Stage
from ..test_broker_take_over import is_ghost
from .durable_scenes import (
    ACTIVEMQ,
    APOLLO,
    ARTEMIS,
    HOLDING,
    NAMED,
    ONE,
    PASSING,
    RABBITMQ,
    SHARED,
    TOPIC,
    Headers,
    consumer,
    end,
    ending,
    hold,
    kinds,
    known,
    let_go,
    message_of,
    names,
    publish,
    spelled,
)

holdings = pytest.mark.parametrize("holding", HOLDING)


@pytest.fixture
def stage(stage: Stage) -> Iterator[Stage]:
    yield from ending(stage)


class TestUnsubscribe:
    @spelled
    def test_with_the_same_headers_it_ends(self, scene: Scene, headers: Headers) -> None:
        client = consumer(scene, headers, ack="client", **ONE)
        publish(scene, b"1", b"2")
        end(client, headers)
        assert not names(scene)
        assert not scene.broker.registry.count()
        publish(scene, b"3")
        client.received()
        client.subscribe(TOPIC, **headers)
        publish(scene, b"4")
        assert client.bodies() == [b"4"]

    @kinds
    @pytest.mark.parametrize("others", [{}, {"durable": "false"}, {"durable-subscription-name": ""}])
    def test_without_them_it_stays(self, scene: Scene, headers: Headers, others: Headers) -> None:
        client = consumer(scene, headers)
        end(client, others)
        publish(scene, b"m")
        client.subscribe(TOPIC, **headers)
        assert client.bodies() == [b"m"]

    @pytest.mark.parametrize(
        ("subscribed", "headers"),
        [
            (RABBITMQ, APOLLO),
            (ACTIVEMQ, ARTEMIS),
            (ACTIVEMQ, APOLLO),
            (SHARED, APOLLO),
            (PASSING, APOLLO),  # has gone by then
            ({"durable": "true", "auto-delete": "true"}, APOLLO),
            ({}, APOLLO),  # an ordinary one: there is nothing more to be ended
        ],
    )
    def test_another_spelling_does_as_well(self, scene: Scene, subscribed: Headers, headers: Headers) -> None:
        client = consumer(scene, subscribed)
        end(client, headers)
        assert not client.closed
        assert not names(scene)

    @pytest.mark.parametrize("headers", NAMED)
    def test_one_with_a_name_need_not_be_consumed(self, scene: Scene, headers: Headers) -> None:
        consumer(scene, headers).drop()
        publish(scene, b"m")
        for login, client_id in (("eve", ""), ("ada", "two")):
            other = known(scene, login=login, client_id=client_id)
            end(other, headers)
            error = other.error()
            assert error.headers["message"] == "unknown durable subscription"
            assert b"user, client-id and name" in error.body
        again = known(scene)
        end(again, {**headers, "receipt": "r"}, id="any")
        assert again.receipts() == ["r"]
        assert not scene.broker.registry.count()
        assert scene.broker.memory.used == 0

    def test_one_without_a_name_must_be_consumed(self, scene: Scene) -> None:
        consumer(scene, RABBITMQ).drop()
        again = known(scene)
        end(again, RABBITMQ)
        assert message_of(again) == "unknown subscription"
        assert len(names(scene)) == 1

    @kinds
    def test_not_while_other_sessions_consume_it(self, scene: Scene, headers: Headers) -> None:
        client, other = consumer(scene, headers, ack="client"), known(scene)
        if headers is not ACTIVEMQ:
            other.subscribe(TOPIC, ack="client", **headers)
        end(other, headers)
        assert message_of(other) == "a durable subscription is in use"
        publish(scene, b"m")
        assert client.bodies() == [b"m"]

    @pytest.mark.parametrize("topic", [TOPIC, "/topic/b"])
    def test_not_by_a_session_that_another_one_took_it_from(self, scene: Scene, topic: str) -> None:
        """Both frames come before the connection of the first one has ended."""
        ghost, client = consumer(scene, ACTIVEMQ), known(scene)
        subscribe = {"destination": topic, "id": "0", **ACTIVEMQ}
        client.session.handle(Frame(Head.of("SUBSCRIBE", subscribe), b""))
        with pytest.raises(NotAllowed):
            ghost.session.handle(Frame(Head.of("UNSUBSCRIBE", {"id": "0", **ACTIVEMQ}), b""))
        scene.settle()
        assert ghost.closed
        publish(scene, b"m", to=topic)
        assert client.bodies() == [b"m"]

    @pytest.mark.parametrize("headers", NAMED)
    @pytest.mark.parametrize("subscribed", [False, True])
    def test_an_id_of_one_and_the_name_of_another(self, scene: Scene, headers: Headers, subscribed: bool) -> None:
        client = consumer(scene, headers if subscribed else {})
        name = next(name for name in headers if name.endswith(("name", "Name")))
        client.send("UNSUBSCRIBE", {"id": "0", **headers, name: "another"})
        assert message_of(client) == "UNSUBSCRIBE names two subscriptions"
        assert len(names(scene)) == subscribed

    @kinds
    @holdings
    def test_messages_that_are_held_are_thrown_away(self, stage: Stage, headers: Headers, holding: str) -> None:
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

    def test_no_date_of_it_ends_the_next_one(self, stage: Stage) -> None:
        scene = stage({"#": {"backoff": 9.0, "idle_timeout": 2.0, "time_to_live": 1.0}})
        client = consumer(scene, RABBITMQ, ack="client", **ONE)
        publish(scene, b"1", b"2", JMSXGroupID="g")
        client.nack(client.messages()[0])
        end(client, RABBITMQ)
        client.subscribe(TOPIC, ack="client", **RABBITMQ)
        scene.wait(10.0)
        client.received()
        publish(scene, b"3")
        assert client.bodies() == [b"3"]
        assert scene.broker.context.group_bytes == 0


class TestManyMessages:
    """A subscription for which much waits goes at once, and its messages in slices."""

    @pytest.fixture
    def stage(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
        monkeypatch.setattr(durable_subscriptions, "_PER_TURN", 2)
        return stage

    def deep(self, scene: Scene, **headers: str) -> Client:
        """End a subscription of which a transaction holds the first message, and six wait."""
        client = consumer(scene, RABBITMQ, ack="client", **ONE)
        publish(scene, *[b"%d" % number for number in range(7)], **headers)
        client.begin()
        client.ack(client.message(), transaction="t")
        (name,) = names(scene)
        client.unsubscribe()
        if scene.is_stored:
            scene.commit()
        scene.message_admin.delete_durable(name, lambda: None)
        assert not names(scene)
        return client

    def test_other_sessions_have_their_turn(self, stage: Stage) -> None:
        scene = stage()
        self.deep(scene)
        left = [scene.broker.context.waiting]
        while scene.broker.scheduler.proceed():
            left.append(scene.broker.context.waiting)
        assert left == [4, 2, 2]
        assert (scene.broker.context.waiting, scene.broker.counters.totals()["dropped"]) == (0, 6)

    def test_the_next_one_of_its_name_has_nothing_of_it(self, stage: Stage) -> None:
        scene = stage()
        client = self.deep(scene, JMSXGroupID="g")
        client.subscribe(TOPIC, ack="client", **RABBITMQ)
        publish(scene, b"new")
        assert client.bodies() == [b"new"]
        assert scene.broker.context.group_bytes == 0

    def test_a_message_that_comes_back_meanwhile_takes_the_rest_with_it(self, stage: Stage) -> None:
        scene = stage()
        self.deep(scene).abort()
        assert (scene.broker.context.waiting, scene.broker.memory.used) == (0, 0)
        assert scene.broker.counters.totals()["dropped"] == 7

    def test_a_kill_between_two_slices_brings_nothing_back(self, stage: Stage) -> None:
        scene = stage(stored=True)
        self.deep(scene, persistent="true")
        batch = scene.vault.take()
        assert batch is not None
        scene.store.write(batch)
        assert len(scene.store.rows) == 5
        scene = scene.crash()
        assert not names(scene)
        scene.commit()
        assert (scene.store.places, scene.store.rows) == ({}, {})


class TestAnotherOfTheName:
    """The same name with another topic, selector or no-local is a new subscription."""

    @kinds
    @pytest.mark.parametrize("changes", [{"selector": "k = 'v'"}, {"no-local": "true"}])
    @pytest.mark.parametrize("back", [False, True])
    def test_the_old_messages_are_gone(self, scene: Scene, headers: Headers, changes: Headers, back: bool) -> None:
        first, then = (changes, {}) if back else ({}, changes)
        client = consumer(scene, headers | first)
        client.unsubscribe()
        publish(scene, b"old", k="v")
        assert scene.broker.context.waiting == 1
        client.subscribe(TOPIC, **headers, **then)
        publish(scene, b"new", k="v")
        assert client.bodies() == [b"new"]
        assert len(names(scene)) == 1
        assert scene.broker.counters.totals()["dropped"] == 1

    @pytest.mark.parametrize("headers", [ACTIVEMQ, SHARED])
    @pytest.mark.parametrize("topic", ["/topic/b", "/topic/*", "/exchange/amq.direct/a"])
    def test_another_topic(self, scene: Scene, headers: Headers, topic: str) -> None:
        client = consumer(scene, headers)
        client.unsubscribe()
        publish(scene, b"old")
        client.subscribe(topic, **headers)
        publish(scene, b"new", to=topic.replace("*", "b"))
        assert client.bodies() == [b"new"]
        assert [target.name for target in scene.broker.registry.patterns.values()] == ["/topic/*"] * ("*" in topic)
        assert TOPIC not in scene.broker.destinations

    @kinds
    def test_not_while_a_session_consumes_it(self, scene: Scene, headers: Headers) -> None:
        """One with a name is taken from other sessions, but not from the session itself."""
        client = consumer(scene, headers)
        if headers is ACTIVEMQ:
            client.subscribe("/topic/b", id="1", **headers)
            assert message_of(client) == "a durable subscription is in use"
            assert list(scene.broker.destinations) == [TOPIC]
            return
        other = consumer(scene, headers, selector="k = 'v'")
        assert message_of(other) == "a durable subscription is in use"
        publish(scene, b"m")
        assert client.bodies() == [b"m"]


class TestTakeOver:
    """A subscription with a name belongs to the session that came last."""

    @pytest.mark.parametrize("headers", NAMED)
    @pytest.mark.parametrize("mode", ["auto", "client"])
    def test_by_connect_with_the_client_id(self, stage: Stage, headers: Headers, mode: str) -> None:
        """The message of the old session has not failed: else ten page loads would make a dead letter."""
        scene = stage({TOPIC: {"max_attempts": 1, "dead_letter": "/queue/dead"}})
        ghost = known(scene, client_id="one")
        ghost.subscribe(TOPIC, ack=mode, **headers, **{"prefetch-count": "2"})
        ghost.stalled = mode == "auto"
        publish(scene, b"1", b"2", b"3")
        client = known(scene, client_id="one")
        assert list(scene.broker.sessions) == [client.session.id]
        client.subscribe(TOPIC, ack="client", **headers)
        messages = client.messages()
        # In mode auto all of them may have reached the old session with its last words.
        marked = [(each.body, each.redelivered) for each in messages]
        assert marked == [(b"1", True), (b"2", True), (b"3", mode == "auto")]
        assert scene.broker.counters.dead_lettered == 0
        for each in messages:
            client.ack(each)

    @pytest.mark.parametrize("headers", NAMED)
    def test_by_subscribe_of_the_user(self, scene: Scene, headers: Headers) -> None:
        for _ in range(3):
            ghost, client = consumer(scene, headers, ack="client", **{"prefetch-count": "2"}), known(scene)
            publish(scene, b"1", b"2", b"3", b"4")
            ghost.ack(ghost.messages()[0])
            client.subscribe(TOPIC, ack="client", **headers)
            assert is_ghost(ghost)
            messages = client.messages()
            marked = [(each.body, each.redelivered) for each in messages]
            assert marked == [(b"2", True), (b"3", True), (b"4", False)]
            client.ack(messages[-1])

    def test_with_another_topic(self, stage: Stage) -> None:
        scene = stage({"#": {"idle_timeout": 2.0}})
        ghost, client = consumer(scene, ACTIVEMQ, ack="client"), known(scene)
        publish(scene, b"1", b"2")
        client.subscribe("/topic/b", ack="client", **ACTIVEMQ)
        assert message_of(ghost) == "subscription taken over"
        assert list(scene.broker.destinations) == ["/topic/b"]
        scene.wait(2.1)  # no date of the old one ends the new one
        publish(scene, b"3", to="/topic/b")
        assert client.bodies() == [b"3"]
        assert len(names(scene)) == 1

    def test_the_ghost_gives_back_all_that_it_had(self, scene: Scene) -> None:
        ghost, client = consumer(scene, ACTIVEMQ, ack="client-individual"), known(scene)
        ghost.subscribe("/queue/a", id="1", ack="client")
        ghost.publish("/queue/a", b"m")
        publish(scene, b"1", b"2")
        ghost.begin()
        for message in ghost.messages():
            ghost.ack(message, transaction="t")
        ghost.publish("/queue/b", b"never", transaction="t")
        client.subscribe("/queue/a", id="1")
        client.subscribe(TOPIC, **ACTIVEMQ)
        assert sorted(client.bodies()) == [b"1", b"2", b"m"]
        assert "/queue/b" not in scene.broker.destinations

    @pytest.mark.parametrize(
        ("headers", "login", "client_id"),
        [(ACTIVEMQ, "eve", "one"), (ACTIVEMQ, "ada", "two"), (ACTIVEMQ, "ada", ""), (RABBITMQ, "ada", "two")],
    )
    def test_no_other_session_takes_it(self, scene: Scene, headers: Headers, login: str, client_id: str) -> None:
        clients = [known(scene, client_id="one"), known(scene, login=login, client_id=client_id)]
        for client in clients:
            client.subscribe(TOPIC, **headers)
        assert not any(client.closed for client in clients)
        assert len(names(scene)) == 1 + (headers is ACTIVEMQ)

    def test_twice_in_a_session_the_second_stands_by(self, scene: Scene) -> None:
        client = consumer(scene, ACTIVEMQ)
        client.subscribe(TOPIC, id="1", **ACTIVEMQ)
        publish(scene, b"1", b"2")
        assert [(each.subscription, each.body) for each in client.messages()] == [("0", b"1"), ("0", b"2")]
        client.unsubscribe("0")
        publish(scene, b"3")
        assert [(each.subscription, each.body) for each in client.messages()] == [("1", b"3")]


class TestTime:
    @kinds
    @pytest.mark.parametrize("by", ["policy", "header"])
    def test_it_ends_when_no_consumer_came_back(self, stage: Stage, headers: Headers, by: str) -> None:
        scene = stage({TOPIC: {"idle_timeout": 2.0}} if by == "policy" else {})
        headers = headers | ({"x-expires": "2000"} if by == "header" else {})
        client = consumer(scene, headers, ack="client")
        scene.wait(5.0)
        publish(scene, b"1")
        client.drop()
        scene.wait(1.9)
        again = consumer(scene, headers, ack="client")
        scene.wait(5.0)
        assert again.bodies() == [b"1"]
        again.drop()
        publish(scene, b"2")
        scene.wait(1.9)
        assert scene.broker.context.waiting == 2
        scene.wait(0.2)
        assert not names(scene)
        assert not scene.broker.registry.count()
        assert scene.broker.memory.used == 0

    def test_a_message_that_comes_back_behind_that_time_does_not_stay(self, stage: Stage) -> None:
        scene = stage({TOPIC: {"idle_timeout": 2.0, "backoff": 5.0}})
        client = consumer(scene, RABBITMQ, ack="client")
        publish(scene, b"m")
        client.nack(client.message())
        client.drop()
        scene.wait(3.0)
        assert not names(scene)
        scene.wait(3.0)
        assert scene.broker.memory.used == 0

    def test_one_that_comes_and_goes_leaves_nothing_on_the_agenda(self, scene: Scene) -> None:
        client = known(scene)
        for _ in range(300):
            client.subscribe(TOPIC, **RABBITMQ, **{"x-expires": "86400000"})
            end(client, RABBITMQ)
        assert len(scene.broker.scheduler) <= 200
