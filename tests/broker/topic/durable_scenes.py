"""What the tests of durable subscriptions share: clients with a login and a client-id, and the spellings.

A durable subscription stays when all clients have gone, as it should; `ending` ends what a test leaves, so that the
scene's own end can find that nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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

Headers = dict[str, str]


def known(scene: Scene, version: Version = V12, *, login: str = "ada", client_id: str = "") -> Client:
    """A client that has logged in, and may have said its client-id."""
    headers = f"login:{login}\n" + (f"client-id:{client_id}\n" if client_id else "")
    if version is not V10:
        headers += f"accept-version:{version.name}\nhost:localhost\n"
    return scene.connect_by(f"CONNECT\n{headers}\n\0".encode())


def end(client: Client, headers: Headers, id: str = "0") -> None:
    """UNSUBSCRIBE with the headers of the SUBSCRIBE."""
    client.send("UNSUBSCRIBE", {"id": id, **headers})


def publish(scene: Scene, *bodies: bytes, to: str = TOPIC, **headers: str) -> None:
    """SENDs of somebody who then leaves."""
    client = known(scene, login="publisher", client_id="")
    for body in bodies:
        client.publish(to, body, **headers)
    assert not client.closed, client.failures
    client.drop()


def names(scene: Scene) -> list[str]:
    """The durable and shared subscriptions that are there."""
    return list(scene.broker.registry.durable_subscriptions._found)


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
