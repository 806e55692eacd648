"""Durable messages for the tests of the store: into a queue, and out of it again."""

from __future__ import annotations

from gateway.broker.queue.durable import QueueStorage
from gateway.broker.queue.queue import Queue

from .client import Client, Scene
from .wire import Received

P = {"persistent": "true"}
ONE = {"prefetch-count": "1"}
TWO = {"prefetch-count": "2"}


def fill(scene: Scene, count: int, name: str = "/queue/a", **headers: str) -> Client:
    """So many durable messages, one after the other, that are in the store."""
    client = scene.connect()
    for number in range(count):
        client.publish(name, b"%d" % number, **P, **headers)
    scene.commit()
    return client


def queue(scene: Scene, name: str = "/queue/a") -> Queue:
    found = scene.broker.destinations[name]
    assert isinstance(found, Queue)
    return found


def storage(scene: Scene, name: str = "/queue/a") -> QueueStorage:
    found = queue(scene, name).storage
    assert found is not None
    return found


def stored(scene: Scene, name: str = "/queue/a") -> int:
    """What the queue says of itself."""
    return queue(scene, name).stored


def drain(scene: Scene, name: str = "/queue/a", **headers: str) -> list[Received]:
    """All that waits in a queue, which is consumed."""
    last = scene.connect()
    last.subscribe(name, **headers)
    scene.commit()
    found = last.messages()
    last.disconnect()
    scene.commit()
    return found


def marks(scene: Scene, name: str = "/queue/a") -> dict[int, bool]:
    """Number in the body -> whether it is marked as redelivered, of all that waits; it is consumed."""
    return {int(message.body): message.redelivered for message in drain(scene, name)}
