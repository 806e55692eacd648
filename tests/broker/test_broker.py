"""The broker itself: sessions, what replaces or outlives them, and destinations that come and go."""

from __future__ import annotations

import gc
from itertools import product

import pytest

from gateway.broker import Session
from gateway.broker.errors import TakenOver
from gateway.broker.model.policy import DEFAULT
from gateway.broker.topic.topic import Topic
from gateway.codec import Version

from .client import Client, Scene, Step
from .conftest import Stage
from .topic.durable_scenes import known


def test_an_operator_ends_one_session_and_no_other(scene: Scene) -> None:
    client, other = scene.connect(), scene.connect()
    assert scene.broker.end_session(client.session.id, "maintenance")
    scene.settle()
    error = client.error()
    assert (error.headers["message"], error.body) == ("session ended", b"maintenance")
    assert list(scene.broker.sessions) == [other.session.id]
    assert not scene.broker.end_session(client.session.id, "again")
    assert not scene.broker.end_session("nope", "no session")


class TestForgotten:
    """A broker runs for months: of sessions that are gone nothing may be left, or all that they held stays."""

    def latest_is_gone(self, scene: Scene) -> bool:
        id = scene.clients.pop().session.id
        gc.collect()
        return not any(isinstance(each, Session) and each.id == id for each in gc.get_objects())

    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, lambda client: client.send("BOGUS")])
    def test_a_session_with_all_that_it_had(self, scene: Scene, leave: Step) -> None:
        other = scene.connect()
        client = scene.connect()
        for id, (destination, ack) in enumerate(product(("/queue/a", "/topic/a"), ("auto", "client"))):
            client.subscribe(destination, str(id), ack)
        other.publish("/topic/a")
        message = client.messages()[-1]
        client.begin()
        client.ack(message, transaction="t")
        client.publish("/queue/b", transaction="t")
        client.stalled = True
        other.publish("/queue/a")
        other.publish("/queue/a", b"x" * 1_000_000)
        other.publish("/queue/a")
        leave(client)
        del client
        assert self.latest_is_gone(scene)

    def test_a_slow_consumer(self, stage: Stage) -> None:
        scene = stage(max_outbound=8 * 1024)
        other = scene.connect()
        client = scene.connect()
        client.subscribe("/topic/a")
        client.stalled = client.session.outbox.excused = True
        for _ in range(10):
            other.publish("/topic/a", b"x" * 1_000)
        assert client.closed
        scene.broker.context.slow_consumers.strained.clear()
        del client
        assert self.latest_is_gone(scene)

    @pytest.mark.parametrize("headers", [{"x-delay": "5000"}, {"ttl": "5000"}, {"reply-to": "/temp-queue/x"}])
    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
    def test_one_whose_message_is_still_to_come(self, scene: Scene, headers: dict[str, str], destination: str) -> None:
        client = scene.connect()
        client.publish(destination, b"m", retain="set" if destination == "/topic/a" else "false", **headers)
        client.drop()
        del client
        assert self.latest_is_gone(scene)


class TestDestinations:
    def test_a_queue_is_there_while_it_has_consumers_or_messages(self, scene: Scene) -> None:
        client, other = scene.connect(), scene.connect()
        names = scene.broker.destinations
        client.publish("a")
        assert list(names) == ["/queue/a"]
        other.subscribe("a", ack="client")
        message = other.message()
        assert list(names) == ["/queue/a"]
        other.ack(message)
        assert list(names) == ["/queue/a"]
        other.unsubscribe()
        assert not names

    def test_one_that_is_gone_does_not_take_its_successor_along(self, scene: Scene) -> None:
        client = scene.connect()
        for id, name in enumerate(("/topic/a", "/topic/*")):
            client.subscribe(name, str(id))
            scene.broker.forget_if_idle(Topic(scene.broker.context, name, DEFAULT))
        client.publish("/topic/a", b"m")
        assert [each.subscription for each in client.messages()] == ["0", "1"]


def test_the_old_session_is_told_why_it_ends(scene: Scene, version: Version) -> None:
    ghost, client = known(scene, version, client_id="one"), known(scene, version, client_id="one")
    error = ghost.error()
    assert error.headers["message"] == "client-id taken over"
    assert b"need different ones" in error.body
    assert list(scene.broker.sessions) == [client.session.id]
    assert scene.broker.known == {("ada", "one"): client.session}
    (failure,) = ghost.failures
    assert isinstance(failure, TakenOver)
    assert failure.by == "127.0.0.1:50000", "for the log"


@pytest.mark.parametrize(("login", "client_id"), [("eve", "one"), ("ada", "two"), ("ada", ""), ("ada", "ONE")])
@pytest.mark.parametrize("mine", ["one", ""])
def test_no_other_session_is(scene: Scene, mine: str, login: str, client_id: str) -> None:
    clients = [known(scene, client_id=mine), known(scene, login=login, client_id=client_id)]
    assert not any(each.closed for each in clients)
    assert len(scene.broker.known) == sum(bool(each) for each in (mine, client_id))


@pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, lambda client: client.send("BOGUS")])
def test_one_that_has_left_is_known_no_more(scene: Scene, leave: Step) -> None:
    client = known(scene, client_id="one")
    leave(client)
    assert not scene.broker.known
    known(scene, client_id="one")
    assert not any(isinstance(error, TakenOver) for error in client.failures)
