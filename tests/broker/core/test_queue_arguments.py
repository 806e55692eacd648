"""Queue arguments where the operator does not want them: refused, unless they ask for nothing new."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from gateway.broker.headers.parse import send_options
from gateway.broker.model.policy import ClientArguments
from gateway.codec import Head

from ..client import Client, Scene
from ..conftest import Stage

DEAD_LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "mine"}
EACH = [
    {"x-max-length": "1"},
    {"x-max-length-bytes": "5000"},
    {"x-message-ttl": "1"},
    {"x-expires": "1000"},
    {"auto-delete": "true"},
    DEAD_LETTERS,
]


@pytest.fixture
def closed(stage: Stage) -> Scene:
    """A broker that takes no arguments of clients."""
    return stage(client_queue_arguments=False)


def refusal(client: Client) -> str:
    """The body of the ERROR."""
    error = client.error()
    assert error.headers["message"] == "queue arguments are not for clients here"
    return error.body.decode()


def test_every_wish_is_tried_here() -> None:
    fields = {
        field.name
        for headers in EACH
        for field in dataclasses.fields(ClientArguments)
        if getattr(send_options(headers).queue_arguments, field.name) is not None
    }
    assert fields == {field.name for field in dataclasses.fields(ClientArguments)}


def test_refused(stage: Stage) -> None:
    """Nothing of the frame is carried out, and messages of other clients stay."""
    for headers, command in itertools.product(EACH, ["SEND", "SUBSCRIBE"]):
        closed = stage(client_queue_arguments=False)
        client, other = closed.connect(), closed.connect()
        for body in (b"1", b"2"):
            other.publish("/queue/a", body)
        client.send(command, {"destination": "/queue/a", "id": "0"} | headers)
        name = next(iter(headers))
        assert refusal(client).startswith(f"{name} would change '/queue/a' for all users; leave that out")
        closed.wait(2.0)
        other.subscribe("/queue/a", "1")
        assert other.bodies() == [b"1", b"2"]


def test_all_of_them_are_named(closed: Scene) -> None:
    client = closed.connect()
    client.publish("/queue/a", **{"x-max-length": "1", "x-expires": "5"})
    assert refusal(client).startswith("x-max-length, x-expires would change '/queue/a'")


def test_one_of_several_destinations(closed: Scene) -> None:
    client, other = closed.connect(), closed.connect()
    other.subscribe("/topic/a")
    client.publish("/topic/a,b", **{"x-max-length": "1"})
    assert "would change 'b' for all users" in refusal(client)
    assert other.messages() == []


def test_in_a_transaction(closed: Scene) -> None:
    client = closed.connect()
    client.begin()
    client.publish("/queue/a", transaction="t", **{"x-max-length": "1"})
    refusal(client)


def test_what_concerns_nobody_else(stage: Stage) -> None:
    for headers, destination in itertools.product(EACH, ["/topic/a", "/temp-queue/a"]):
        client = stage(client_queue_arguments=False).connect()
        client.subscribe(destination, **headers)
        client.publish(destination, b"m", **headers)
        assert client.bodies() == [b"m"]


def test_what_the_policy_says_already(stage: Stage) -> None:
    for headers in ({"auto-delete": "false"}, {"x-max-length": "5"}, {"x-message-ttl": "9000"}):
        client = stage({"/queue/a": {"max_messages": 5, "time_to_live": 9.0}}, client_queue_arguments=False).connect()
        client.publish("/queue/a", b"m", **headers)
        client.subscribe("/queue/a", **headers)
        assert client.bodies() == [b"m"]


def test_functions_are_the_operators_own(closed: Scene) -> None:
    headers = {"destination": "/queue/a", "x-max-length": "1"}
    router = closed.broker.router
    router.send(router.prepare(Head.of("SEND", headers), b"m", "/queue/a", send_options(headers), None))
    assert closed.broker.context.waiting == 1


def test_where_they_are_wanted(scene: Scene) -> None:
    client = scene.connect()
    for body in (b"1", b"2"):
        client.publish("/queue/a", body, **{"x-max-length": "1"})
    client.subscribe("/queue/a")
    assert client.bodies() == [b"2"]
