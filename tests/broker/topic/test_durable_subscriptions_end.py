"""The end of durable subscriptions: by UNSUBSCRIBE, another of the name, another session, or time; and the store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.broker.errors import NotAllowed
from gateway.codec import Frame, Head

from ..client import Client, Scene
from ..conftest import Stage, small
from .durable_scenes import (
    ACTIVEMQ,
    APOLLO,
    ARTEMIS,
    HOLDING,
    KINDS,
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
    is_ghost,
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
            (ACTIVEMQ, ARTEMIS),
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


@small(drops_per_turn=2)
class TestManyMessages:
    """A subscription for which much waits goes at once, and its messages in slices."""

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

    def test_the_groups_of_the_old_one_give_their_room_back(self, scene: Scene) -> None:
        client = consumer(scene, ACTIVEMQ)
        client.unsubscribe()
        publish(scene, b"old", JMSXGroupID="g")
        assert scene.broker.context.group_bytes > 0
        client.subscribe("/topic/b", **ACTIVEMQ)
        assert scene.broker.context.group_bytes == 0

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

    def test_twice_in_a_session_the_second_stands_by(self, scene: Scene) -> None:
        client = consumer(scene, ACTIVEMQ)
        client.subscribe(TOPIC, id="1", **ACTIVEMQ)
        publish(scene, b"1", b"2")
        assert [(each.subscription, each.body) for each in client.messages()] == [("0", b"1"), ("0", b"2")]
        client.unsubscribe("0")
        publish(scene, b"3")
        assert [(each.subscription, each.body) for each in client.messages()] == [("1", b"3")]


@kinds
@pytest.mark.parametrize("by", ["policy", "header"])
def test_one_ends_when_no_consumer_came_back(stage: Stage, headers: Headers, by: str) -> None:
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
    assert (names(scene), scene.broker.registry.count(), scene.broker.memory.used) == ([], 0, 0)


def store(scene: Scene, *bodies: bytes, to: str = TOPIC, **headers: str) -> None:
    """Durable messages; they are written."""
    publish(scene, *bodies, to=to, persistent="true", **headers)
    scene.commit()


class Stored:
    """They and their durable messages survive a kill; what was ended does not."""

    @pytest.fixture
    def scene(self, stage: Stage) -> Scene:
        return stage(stored=True)


class TestKill(Stored):
    @spelled
    @pytest.mark.parametrize("topic", [TOPIC, "/topic/*"])
    def test_what_was_missed_is_there(self, scene: Scene, headers: Headers, topic: str) -> None:
        """The RECEIPT of the SUBSCRIBE says that the subscription itself is."""
        client = known(scene)
        client.subscribe(topic, receipt="r", **headers)
        assert client.receipts() == []
        scene.commit()
        assert client.receipts() == ["r"]
        scene = scene.crash()
        store(scene, b"1", b"2")
        scene = scene.crash()
        assert len(names(scene)) == 1
        store(scene, b"3")
        messages = consumer(scene, headers, topic).messages()
        assert [(each.body, each.redelivered) for each in messages] == [(b"1", True), (b"2", True), (b"3", False)]

    def test_all_that_it_is_comes_back(self, scene: Scene) -> None:
        """Topic, selector, no-local and queue arguments: it is the same one, and not a new one."""
        headers = RABBITMQ | {"selector": "k = 'v'", "no-local": "true", "x-max-length": "2", "x-expires": "9000"}
        consumer(scene, headers).drop()
        for _ in range(2):
            scene = scene.crash()
            store(scene, b"1", b"2", b"3", k="v")
            store(scene, b"none of it")
            assert scene.broker.context.waiting == 2
        client = consumer(scene, headers)
        assert client.bodies() == [b"2", b"3"]
        client.publish(TOPIC, b"own", k="v")
        assert client.received() == []
        client.drop()
        scene = scene.crash()
        scene.wait(9.1)
        assert not names(scene)

    @pytest.mark.parametrize("headers", [PASSING, RABBITMQ | {"auto-delete": "true"}])
    def test_one_that_does_not_last_is_not_stored(self, scene: Scene, headers: Headers) -> None:
        client = consumer(scene, headers, ack="client")
        store(scene, b"m")
        assert client.bodies() == [b"m"]
        assert not scene.store.places
        assert not names(scene.crash())


class TestContents(Stored):
    def test_they_are_shared_and_go_with_the_last_row(self, scene: Scene) -> None:
        clients = [known(scene, client_id=client_id) for client_id in "abc"]
        for client, headers in zip(clients, KINDS, strict=True):
            client.subscribe(TOPIC, ack="client", **headers)
        store(scene, b"m")
        assert (len(scene.store.rows), len(scene.store.contents)) == (3, 1)
        for client in clients:
            assert len(scene.store.contents) == 1
            client.ack(client.message())
            scene.commit()
        assert (scene.store.rows, scene.store.contents) == ({}, {})
        assert len(scene.store.places) == 3

    def test_stored_messages_stay_where_the_policy_stores_none_any_more(self, scene: Scene) -> None:
        consumer(scene, RABBITMQ).drop()
        store(scene, b"1")
        scene = scene.crash(policies={"/topic/#": {"durable": False}})
        store(scene, b"2")
        assert len(scene.store.rows) == 1
        assert consumer(scene, RABBITMQ).bodies() == [b"1", b"2"]


class TestEnded(Stored):
    @kinds
    @pytest.mark.parametrize("waits", [False, True])
    def test_what_was_ended_does_not_come_back(self, scene: Scene, headers: Headers, waits: bool) -> None:
        client = consumer(scene, {**headers, "prefetch-count": "1"}, ack="client")
        if waits:
            store(scene, b"1", b"2")
        end(client, headers | {"receipt": "r"})
        scene.commit()
        assert client.receipts() == ["r"]
        assert (scene.store.places, scene.store.rows, scene.store.contents) == ({}, {}, {})
        assert not names(scene.crash())

    @kinds
    @pytest.mark.parametrize("holding", HOLDING)
    @pytest.mark.parametrize("written", [False, True])
    @pytest.mark.parametrize("settled", [False, True])
    def test_nor_what_somebody_still_held(
        self, stage: Stage, headers: Headers, holding: str, written: bool, settled: bool
    ) -> None:
        scene = stage({"#": {"backoff": 1.0}}, stored=True)
        client = known(scene)
        hold(scene, client, headers, holding)
        if written:
            scene.commit()
        end(client, headers | {"durable": "true"})
        if settled:
            let_go(scene, client, holding)
        scene.commit()
        scene = scene.crash()
        assert not names(scene)
        assert scene.broker.context.waiting == 0
        scene.commit()
        assert not scene.store.places

    @pytest.mark.parametrize("limit", ["max_durable_subscriptions", "max_destinations"])
    def test_more_are_there_than_may_come(self, stage: Stage, limit: str) -> None:
        """A limit that was lowered ends nothing."""
        scene = stage(stored=True)
        consumer(scene, RABBITMQ).drop()
        consumer(scene, RABBITMQ, "/topic/*").drop()
        scene._made_of = (None, {limit: 1})
        scene = scene.crash()
        assert len(names(scene)) == 2
        store(scene, b"m")
        assert consumer(scene, RABBITMQ).bodies() == [b"m"]
        client = known(scene)
        client.subscribe("/topic/b", id="another", **RABBITMQ)
        assert f"({limit})".encode() in client.error().body
