"""Scenes of durable subscriptions: clients with a login and a client-id, the spellings, and the end of a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.broker.errors import TakenOver
from gateway.codec import V10, V12, Version

from ..client import Client, Scene
from ..conftest import Stage

TOPIC = "/topic/a"

RABBITMQ = {"durable": "true", "auto-delete": "false"}
APOLLO = {"persistent": "true"}
ACTIVEMQ = {"activemq.subscriptionName": "mine"}
ARTEMIS = {"durable-subscription-name": "mine"}
SHARED = {"x-queue-name": "ours", "durable": "true", "auto-delete": "false"}
PASSING = {"x-queue-name": "ours"}

UNNAMED = [RABBITMQ, APOLLO, {"durable": "true"}]
NAMED = [ACTIVEMQ, ARTEMIS, {"durable-subscriber-name": "mine"}]
LASTING = [*UNNAMED, *NAMED, SHARED]
KINDS = [RABBITMQ, ACTIVEMQ, SHARED]

spelled = pytest.mark.parametrize("headers", LASTING, ids=lambda headers: next(iter(headers)))
kinds = pytest.mark.parametrize("headers", KINDS, ids=lambda headers: next(iter(headers)))

ONE = {"prefetch-count": "1"}
HOLDING = ["transaction", "back-off", "socket"]

Headers = dict[str, str]


def message_of(client: Client) -> str:
    """The message of the ERROR that ended a client."""
    return client.error().headers["message"]


def known(scene: Scene, version: Version = V12, *, login: str = "ada", client_id: str = "") -> Client:
    """A client that has logged in, and may have a client-id."""
    headers = f"login:{login}\n" + (f"client-id:{client_id}\n" if client_id else "")
    if version is not V10:
        headers += f"accept-version:{version.name}\nhost:localhost\n"
    return scene.connect_by(f"CONNECT\n{headers}\n\0".encode())


def is_ghost(client: Client) -> bool:
    """True if a client was ended for another that came under its client-id."""
    if not client.closed:
        return False
    assert isinstance(client.failures[0], TakenOver)
    return client.error().headers["message"] in ("client-id taken over", "subscription taken over")


def consumer(scene: Scene, headers: Headers, topic: str = TOPIC, **more: str) -> Client:
    """A client with the subscription; where there is a store, what it asks of it is read."""
    client = known(scene)
    client.subscribe(topic, **(headers | more))
    if scene.is_stored:
        scene.commit()
    return client


def end(client: Client, headers: Headers, id: str = "0") -> None:
    """UNSUBSCRIBE with the headers of the SUBSCRIBE."""
    client.send("UNSUBSCRIBE", {"id": id, **headers})


def publish(scene: Scene, *bodies: bytes, to: str = TOPIC, **headers: str) -> None:
    """SENDs of a client that then leaves."""
    client = known(scene, login="publisher", client_id="")
    for body in bodies:
        client.publish(to, body, **headers)
    assert not client.closed, client.failures
    client.drop()


def names(scene: Scene) -> list[str]:
    """The durable and shared subscriptions that are there."""
    return list(scene.broker.registry.durable_subscriptions._found)


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
    """Give back, or settle, the message that was held."""
    if holding == "transaction":
        client.abort()
    elif holding == "socket":
        client.resume()
    scene.wait(3.0)


def ending(stage: Stage) -> Iterator[Stage]:
    """Makes scenes, and ends the durable subscriptions that they have at the end."""
    scenes: list[Scene] = []

    def make(*arguments: Any, **quotas: Any) -> Scene:
        scenes.append(stage(*arguments, **quotas))
        return scenes[-1]

    yield make
    for scene in scenes:
        while scene._next is not None:
            scene = scene._next
        for client in scene.clients:
            client.drop()
        durable_subscriptions = scene.broker.registry.durable_subscriptions
        for name in names(scene):
            durable_subscriptions.end(name)
        scene.settle()
