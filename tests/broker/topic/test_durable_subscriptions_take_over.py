"""Named durable subscriptions belong to one session at a time: who comes last has them.

A CONNECT with a client-id ends the old session anyhow (test_broker_take_over.py); without one, the SUBSCRIBE does.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.codec import Version

from ..client import Scene
from ..conftest import Stage
from ..test_broker_take_over import is_ghost, known
from .durable_scenes import ACTIVEMQ, NAMED, RABBITMQ, TOPIC, Headers, ending, names, publish

named = pytest.mark.parametrize("headers", NAMED, ids=lambda headers: next(iter(headers)))


@pytest.fixture
def stage(stage: Stage) -> Iterator[Stage]:
    yield from ending(stage)


class TestByConnect:
    @named
    @pytest.mark.parametrize("mode", ["auto", "client"])
    def test_the_old_session_is_ended(self, scene: Scene, version: Version, headers: Headers, mode: str) -> None:
        ghost = known(scene, version)
        ghost.subscribe(TOPIC, ack=mode, **headers)
        ghost.stalled = True
        client = known(scene, version)
        assert is_ghost(ghost)
        assert list(scene.broker.sessions) == [client.session.id]

    @named
    def test_what_it_had_comes_to_the_new_one(self, scene: Scene, version: Version, headers: Headers) -> None:
        ghost = known(scene, version)
        ghost.subscribe(TOPIC, ack="client", **headers, **{"prefetch-count": "2"})
        publish(scene, b"1", b"2", b"3")
        assert ghost.bodies() == [b"1", b"2"]
        client = known(scene, version)
        client.subscribe(TOPIC, ack="client", **headers)
        messages = client.messages()
        assert [(each.body, each.redelivered) for each in messages] == [(b"1", True), (b"2", True), (b"3", False)]
        client.ack(messages[-1])
        assert client.session.outstanding == 0
        assert scene.broker.memory.used == 0

    @named
    def test_it_has_not_failed(self, stage: Stage, headers: Headers) -> None:
        """Who is sent away did nothing wrong: otherwise ten page loads would make a dead letter."""
        scene = stage({TOPIC: {"max_attempts": 1, "dead_letter": "/queue/dead"}})
        for _ in range(3):
            client = known(scene)
            client.subscribe(TOPIC, ack="client", **headers)
            if not client.messages():
                publish(scene, b"m")
        assert scene.broker.counters.dead_lettered == 0

    @pytest.mark.parametrize(("login", "client_id"), [("eve", "one"), ("ada", "two"), ("ada", "")])
    def test_nobody_else_can(self, scene: Scene, login: str, client_id: str) -> None:
        client = known(scene)
        client.subscribe(TOPIC, **ACTIVEMQ)
        other = known(scene, login=login, client_id=client_id)
        other.subscribe(TOPIC, **ACTIVEMQ)
        assert not client.closed
        assert not other.closed

    def test_without_a_client_id_nobody_is(self, scene: Scene) -> None:
        client = known(scene, client_id="")
        client.subscribe(TOPIC, **ACTIVEMQ)
        known(scene, client_id="")
        assert not client.closed


class TestBySubscribe:
    """Of sessions that have no client-id: the name belongs to their user."""

    @named
    def test_who_comes_last_has_it(self, scene: Scene, version: Version, headers: Headers) -> None:
        ghost, client = (known(scene, version, client_id="") for _ in range(2))
        ghost.subscribe(TOPIC, ack="client", **headers, **{"prefetch-count": "2"})
        publish(scene, b"1", b"2", b"3", b"4")
        ghost.ack(ghost.messages()[0])
        client.subscribe(TOPIC, ack="client", **headers)
        assert is_ghost(ghost)
        messages = client.messages()
        marked = [(each.body, each.redelivered) for each in messages]
        assert marked == [(b"2", True), (b"3", True), (b"4", False)]

    def test_one_after_the_other(self, scene: Scene) -> None:
        clients = [known(scene, client_id="") for _ in range(5)]
        for client in clients:
            client.subscribe(TOPIC, **ACTIVEMQ)
            publish(scene, b"m")
        assert [client.closed for client in clients] == [True] * 4 + [False]
        assert clients[-1].bodies() == [b"m"]

    @named
    def test_what_a_transaction_held_comes_as_well(self, scene: Scene, headers: Headers) -> None:
        ghost, client = known(scene, client_id=""), known(scene, client_id="")
        ghost.subscribe(TOPIC, ack="client-individual", **headers)
        publish(scene, b"1", b"2")
        ghost.begin()
        for message in ghost.messages():
            ghost.ack(message, transaction="t")
        ghost.publish("/queue/b", b"never", transaction="t")
        client.subscribe(TOPIC, **headers)
        assert client.bodies() == [b"1", b"2"]
        assert "/queue/b" not in scene.broker.destinations

    def test_what_else_the_ghost_had_goes_to_others(self, scene: Scene) -> None:
        ghost, client = known(scene, client_id=""), known(scene, client_id="")
        ghost.subscribe(TOPIC, **ACTIVEMQ)
        ghost.subscribe("/queue/a", id="1", ack="client")
        ghost.publish("/queue/a", b"m")
        client.subscribe("/queue/a", id="1")
        client.subscribe(TOPIC, **ACTIVEMQ)
        assert client.bodies() == [b"m"]

    @named
    def test_twice_in_a_session_the_second_stands_by(self, scene: Scene, headers: Headers) -> None:
        client = known(scene)
        client.subscribe(TOPIC, **headers)
        client.subscribe(TOPIC, id="1", **headers)
        publish(scene, b"1", b"2")
        assert [(each.subscription, each.body) for each in client.messages()] == [("0", b"1"), ("0", b"2")]
        client.unsubscribe("0")
        publish(scene, b"3")
        assert [(each.subscription, each.body) for each in client.messages()] == [("1", b"3")]

    def test_a_shared_one_is_not_taken_over(self, scene: Scene) -> None:
        clients = [known(scene, client_id=""), known(scene, client_id="")]
        for client in clients:
            client.subscribe(TOPIC, **RABBITMQ)
        assert not any(client.closed for client in clients)
        assert len(names(scene)) == 1

    @named
    def test_a_dead_socket_does_not_keep_it(self, scene: Scene, version: Version, headers: Headers) -> None:
        """In mode auto what was not written comes back, too."""
        ghost = known(scene, version)
        ghost.subscribe(TOPIC, **headers)
        ghost.stalled = True
        publish(scene, b"1", b"2")
        client = known(scene, version)
        client.subscribe(TOPIC, **headers)
        publish(scene, b"3")
        # The last words of the ghost may have reached it or not.
        assert client.bodies()[-1] == b"3"
        assert is_ghost(ghost)
