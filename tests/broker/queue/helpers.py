"""What the tests of queues share: one queue, its consumers, and what they got."""

from __future__ import annotations

from gateway.broker.queue.queue import Queue

from ..client import Client, Scene, waiting

QUEUE = "/queue/a"
DEAD = "/queue/dlq.a"


def queue_of(scene: Scene) -> Queue:
    queue = scene.broker.destinations[QUEUE]
    assert isinstance(queue, Queue)
    return queue


def waits(scene: Scene) -> list[str]:
    """The bodies of what waits, in order."""
    queue = scene.broker.destinations.get(QUEUE)
    return [message.body.decode() for message in waiting(queue)] if isinstance(queue, Queue) else []


def consumer(scene: Scene, prefetch: int = 1_000, priority: int = 0, *, exclusive: bool = False, **more: str) -> Client:
    """A connection that subscribes the queue in mode client-individual."""
    headers = {"prefetch-count": str(prefetch), "x-priority": str(priority), "exclusive": str(exclusive).lower()}
    return scene.consumer(QUEUE, ack="client-individual", **headers, **more)


def fill(
    producer: Client, count: int, start: int = 1, *, size: int = 0, destination: str = QUEUE, **headers: str
) -> list[bytes]:
    """Send so many numbered messages; returns their bodies."""
    bodies = [b"%d" % number + b" " * size for number in range(start, start + count)]
    for body in bodies:
        producer.publish(destination, body, **headers)
    return bodies


def names(client: Client) -> list[str]:
    """The bodies that came."""
    return [message.body.decode() for message in client.messages()]


def go_on(client: Client) -> list[str]:
    """Acknowledge one by one until nothing comes; returns what came."""
    found = []
    while messages := client.messages():
        for message in messages:
            found.append(message.body.decode())
            client.ack(message)
    return found
