"""Bodies that a policy's schema refuses: by every way of a SEND, before anything of it is carried out."""

from __future__ import annotations

import sys

import pytest

from gateway.broker.errors import BodyRefused
from gateway.broker.model.patterns import Pattern
from gateway.broker.model.policy import Policies
from gateway.broker.routing import body_check
from gateway.broker.routing.body_check import BodyCheck
from gateway.codec import Head

from ..client import Client, Scene
from ..conftest import Stage


class Digits:
    """A schema: bodies are digits."""

    def __init__(self) -> None:
        self.checked: list[bytes] = []

    def refusal(self, body: bytes) -> str:
        self.checked.append(body)
        return "" if body.isdigit() else "the body: not digits"


@pytest.fixture
def schema() -> Digits:
    return Digits()


@pytest.fixture
def scene(stage: Stage, schema: Digits) -> Scene:
    return stage({"/queue/n": {"schema": schema}, "/topic/n.#": {"schema": schema}, "/topic/n.free": {"schema": None}})


@pytest.fixture
def reader(scene: Scene) -> Client:
    reader = scene.connect()
    for number, name in enumerate(("/queue/n", "/topic/n.a", "/topic/n.free", "/queue/other")):
        reader.subscribe(name, str(number))
    return reader


@pytest.mark.parametrize("destination", ["/queue/n", "/topic/n.a", "/amq/queue/n", "/queue/other,/queue/n"])
@pytest.mark.parametrize("headers", [{}, {"receipt": "r"}, {"x-delay": "1000"}, {"dedup-id": "d"}])
def test_a_body_that_does_not_fit_is_an_error(
    scene: Scene, reader: Client, destination: str, headers: dict[str, str]
) -> None:
    client = scene.connect()
    client.publish(destination, b"12x", **headers)
    error = client.error()
    assert error.headers["message"] == "the body does not fit"
    name = destination.rpartition(",")[2].replace("/amq", "")
    assert error.body == f"messages to '{name}' have a schema: the body: not digits".encode()
    assert reader.messages() == []
    assert scene.broker.context.counters.failures["schema"] == 1


@pytest.mark.parametrize("destination", ["/queue/n", "/topic/n.a"])
def test_bodies_that_fit(scene: Scene, reader: Client, schema: Digits, destination: str) -> None:
    client = scene.connect()
    for number in range(3):
        client.publish(destination, b"%d" % number)
        client.publish(destination, b"%d" % number, kind="k")
    assert len(reader.messages()) == 6
    assert schema.checked == [b"0", b"0", b"1", b"1", b"2", b"2"]


def test_a_run_of_equal_heads_is_checked_body_by_body(scene: Scene, reader: Client) -> None:
    session, head = scene.connect().session, Head.of("SEND", {"destination": "/queue/n"})
    with pytest.raises(BodyRefused):
        session.handle_run(head, iter([b"0", b"1", b"2", b"x", b"3"]), sys.maxsize)
    scene.settle()
    assert reader.bodies() == [b"0", b"1", b"2"]


def test_others_are_not_checked(scene: Scene, reader: Client, schema: Digits) -> None:
    client = scene.connect()
    client.publish("/topic/n.free", b"x")
    client.publish("/queue/other", b"x")
    assert len(reader.messages()) == 2
    assert schema.checked == []


def test_in_a_transaction_the_send_is_refused(scene: Scene, reader: Client) -> None:
    client = scene.connect()
    client.begin()
    client.publish("/queue/n", b"1", transaction="t")
    client.publish("/queue/n", b"x", transaction="t")
    assert client.error().headers["message"] == "the body does not fit"
    assert reader.messages() == []


def test_names_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch, schema: Digits) -> None:
    monkeypatch.setattr(body_check, "_MOST_REMEMBERED", 2)
    check = BodyCheck(Policies([(Pattern("/queue/n"), {"schema": schema})]))
    for name in ("/queue/a", "/queue/b", "/queue/c", "/queue/n"):
        assert check.schema_of(name) is (schema if name == "/queue/n" else None)
    check.check("/queue/a", b"x")
