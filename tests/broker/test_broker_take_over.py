"""A client that comes back under its client-id replaces its old session, whatever that consumes, or nothing."""

from __future__ import annotations

import pytest

from gateway.broker.errors import TakenOver
from gateway.codec import V12, Version

from .client import Client, Scene, Step
from .conftest import Stage
from .topic import durable_scenes
from .topic.durable_scenes import publish

QUEUE = "/queue/a"


def known(scene: Scene, version: Version = V12, *, login: str = "ada", client_id: str = "one") -> Client:
    """A client that has logged in, and has said its client-id."""
    return durable_scenes.known(scene, version, login=login, client_id=client_id)


def is_ghost(client: Client) -> bool:
    """Whether a client was ended for another that came under its client-id."""
    if not client.closed:
        return False
    assert isinstance(client.failures[0], TakenOver)
    return client.error().headers["message"] in ("client-id taken over", "subscription taken over")


def test_the_old_session_is_told_why_it_ends(scene: Scene, version: Version) -> None:
    ghost, client = known(scene, version), known(scene, version)
    error = ghost.error()
    assert error.headers["message"] == "client-id taken over"
    assert b"need different ones" in error.body
    assert list(scene.broker.sessions) == [client.session.id]
    assert scene.broker.known == {("ada", "one"): client.session}
    (failure,) = ghost.failures
    assert isinstance(failure, TakenOver)
    assert failure.by == "127.0.0.1:50000", "for the log"


@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_what_it_had_of_a_queue_comes_again_in_order(stage: Stage, ack: str) -> None:
    """And has not failed: else ten page loads would make a dead letter."""
    scene = stage({QUEUE: {"max_attempts": 1, "dead_letter": "/queue/dead"}})
    ghost = known(scene)
    ghost.subscribe(QUEUE, ack=ack, **{"prefetch-count": "2"})
    publish(scene, b"1", b"2", b"3", to=QUEUE)
    assert ghost.bodies() == [b"1", b"2"]
    client = known(scene)
    client.subscribe(QUEUE, ack=ack)
    messages = client.messages()
    assert [(each.body, each.redelivered) for each in messages] == [(b"1", True), (b"2", True), (b"3", False)]
    for each in messages:
        client.ack(each)
    assert scene.broker.memory.used == 0
    assert scene.broker.counters.dead_lettered == 0


@pytest.mark.parametrize(("login", "client_id"), [("eve", "one"), ("ada", "two"), ("ada", ""), ("ada", "ONE")])
@pytest.mark.parametrize("mine", ["one", ""])
def test_no_other_session_is(scene: Scene, mine: str, login: str, client_id: str) -> None:
    clients = [known(scene, client_id=mine), known(scene, login=login, client_id=client_id)]
    assert not any(each.closed for each in clients)
    assert len(scene.broker.known) == sum(bool(each) for each in (mine, client_id))


@pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, lambda client: client.send("BOGUS")])
def test_one_that_has_left_is_known_no_more(scene: Scene, leave: Step) -> None:
    client = known(scene)
    leave(client)
    assert not scene.broker.known
    known(scene)
    assert not any(isinstance(error, TakenOver) for error in client.failures)
