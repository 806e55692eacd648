"""Queue arguments where the operator does not want them: refused, unless they ask for nothing new."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.broker.headers.parse import send_options
from gateway.broker.model.policy import QueueArguments
from gateway.codec import Head

from ..client import Client, Scene
from ..conftest import Stage

EACH = [
    {"x-max-length": "1"},
    {"x-max-length-bytes": "5000"},
    {"x-message-ttl": "1"},
    {"x-expires": "1000"},
    {"auto-delete": "true"},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "mine"},
]


@pytest.fixture
def closed(stage: Stage) -> Scene:
    """A broker that takes no arguments of clients."""
    return stage({"/queue/limited": {"max_messages": 5, "time_to_live": 9.0}}, client_queue_arguments=False)


def refusal(client: Client) -> str:
    """The body of the ERROR."""
    error = client.error()
    assert error.headers["message"] == "queue arguments are not for clients here"
    return error.body.decode()


def test_every_argument_is_tried_here() -> None:
    given = [send_options(headers).queue_arguments for headers in EACH]
    names = [field.name for field in dataclasses.fields(QueueArguments)]
    assert {name for each in given for name in names if getattr(each, name) is not None} == set(names)


@pytest.mark.parametrize("headers", EACH)
def test_each_is_refused_as_a_whole_and_concerns_no_topic(closed: Scene, headers: dict[str, str]) -> None:
    """Nothing of the frame is carried out, and messages of other clients stay."""
    other = closed.connect()
    for body in (b"1", b"2"):
        other.publish("/queue/a", body)
    for command in ("SEND", "SUBSCRIBE"):
        client = closed.connect()
        client.send(command, {"destination": "/queue/a", "id": "0"} | headers)
        name = next(iter(headers))
        assert refusal(client).startswith(f"{name} would change '/queue/a' for all users; leave that out")
    closed.wait(2.0)
    other.subscribe("/queue/a", "1")
    assert other.bodies() == [b"1", b"2"]
    for id, destination in enumerate(["/topic/a", "/temp-queue/a"]):
        other.subscribe(destination, f"of {id}", **headers)
        other.publish(destination, b"m", **headers)
        assert other.bodies() == [b"m"]


def test_all_of_a_frame_and_each_of_its_destinations_are_named(closed: Scene) -> None:
    clients = [closed.connect() for _ in range(3)]
    clients[0].publish("/queue/a", **{"x-max-length": "1", "x-expires": "5"})
    assert refusal(clients[0]).startswith("x-max-length, x-expires would change '/queue/a'")
    clients[1].subscribe("/topic/a")
    clients[2].publish("/topic/a,b", **{"x-max-length": "1"})
    assert "would change 'b' for all users" in refusal(clients[2])
    assert clients[1].messages() == []
    clients[1].begin()
    clients[1].publish("/queue/a", transaction="t", **{"x-max-length": "1"})
    refusal(clients[1])


@pytest.mark.parametrize("headers", [{"auto-delete": "false"}, {"x-max-length": "5"}, {"x-message-ttl": "9000"}])
def test_what_the_policy_says_already_is_accepted(closed: Scene, headers: dict[str, str]) -> None:
    client = closed.connect()
    client.publish("/queue/limited", b"m", **headers)
    client.subscribe("/queue/limited", **headers)
    assert client.bodies() == [b"m"]


def test_functions_are_the_operators_own(closed: Scene) -> None:
    headers = {"destination": "/queue/a", "x-max-length": "1"}
    router = closed.broker.router
    router.send(router.prepare(Head.of("SEND", headers), b"m", "/queue/a", send_options(headers), None))
    assert closed.broker.context.waiting == 1
