"""Topics with a stream for the tests of replay: how to fill one, and what to ask of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.broker.topic.stream import Stream
from gateway.broker.topic.topic import Topic

from ..client import Client, Rules, Scene
from ..wire import Received

T = "/topic/a"
LOG: Rules = {T: {"log_messages": 100}}
LOGS: Rules = {"/topic/#": {"log_messages": 100}}
FIRST = {"from-seq": "0"}
ME = {"resume": "me", "ack": "client"}
BOTH = pytest.mark.parametrize("stored", [False, True], ids=["memory", "stored"])


def log_of(scene: Scene, name: str = T) -> Stream:
    topic = scene.broker.destinations[name]
    assert isinstance(topic, Topic)
    assert topic.stream is not None
    return topic.stream


def fill(scene: Scene, count: int, name: str = T, *, start: int = 0, **headers: str) -> Client:
    """So many messages, one after the other, with their number as body; where there is a store, they are in it."""
    client = scene.connect()
    for number in range(start, start + count):
        client.publish(name, b"%d" % number, **headers)
    write(scene)
    return client


def write(scene: Scene) -> None:
    """What there is to write is written, and what is asked for is read."""
    if scene.broker.storage is not None:
        scene.commit()


def numbers(client: Client) -> list[int]:
    """The bodies of what came."""
    write(client.scene)
    return [int(body) for body in client.bodies()]


def seqs(messages: Sequence[Received]) -> list[int]:
    return [int(message.headers["seq"]) for message in messages]


def gaps(messages: Sequence[Received]) -> list[bool]:
    return ["gap" in message.headers for message in messages]


def got(client: Client) -> list[Received]:
    write(client.scene)
    return client.messages()


def bodies_and_gaps(messages: Sequence[Received]) -> list[tuple[int, bool]]:
    return [(int(message.body), "gap" in message.headers) for message in messages]
