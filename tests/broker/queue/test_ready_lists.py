"""What the lanes of selectors cost, and that it is given back.

Each keeps a place for whatever its consumers may want.  Many of them on a deep queue are as good as more messages, so
they count as memory.
"""

from __future__ import annotations

import pytest

from gateway.broker.queue.queue import Queue
from gateway.codec import V12

from ..client import Client, Scene, Step
from ..conftest import Stage
from ..wire import build

QUEUE = "/queue/a"
SELECTORS = 16
DEEP = 1_030


def subscribe(client: Client, number: int) -> None:
    """A consumer with a selector of its own, which takes one message at a time."""
    headers = {"selector": f"n <> {number}", "prefetch-count": "1"}
    client.subscribe(QUEUE, str(number), "client", **headers)


def send(client: Client, count: int) -> None:
    """So many messages that all of them want."""
    client.receive(count * build("SEND", {"destination": QUEUE, "n": "100"}, version=V12))


def queue_of(scene: Scene) -> Queue:
    queue = scene.broker.destinations[QUEUE]
    assert isinstance(queue, Queue)
    return queue


@pytest.fixture
def client(scene: Scene) -> Client:
    """Sixteen selective consumers, none of whom has room; 1,030 messages wait."""
    client = scene.connect()
    for number in range(SELECTORS):
        subscribe(client, number)
    send(client, SELECTORS)
    assert len(client.messages()) == SELECTORS
    send(client, DEEP)
    return client


def test_they_count_as_memory(scene: Scene, client: Client) -> None:
    queue = queue_of(scene)
    assert 8 * 1_024 * SELECTORS <= queue.in_memory.ready_bytes <= 8 * (DEEP + SELECTORS) * SELECTORS
    held = sum(one.held_bytes for one in client.session.subscriptions.values())
    assert scene.broker.memory.used == queue.nbytes + held + queue.in_memory.ready_bytes


def test_one_more_counts_at_once(scene: Scene, client: Client) -> None:
    before = queue_of(scene).in_memory.ready_bytes
    subscribe(client, 50)
    assert queue_of(scene).in_memory.ready_bytes >= before + 8 * DEEP
    subscribed = queue_of(scene).in_memory.ready_bytes
    scene.consumer(QUEUE, "1", "client", **{"x-priority": "3", "selector": "n <> 1", "prefetch-count": "1"})
    assert queue_of(scene).in_memory.ready_bytes <= subscribed  # it reads the lane of another one


@pytest.mark.parametrize("leave", [Client.drop, Client.disconnect])
def test_they_go_with_the_consumers(scene: Scene, client: Client, leave: Step) -> None:
    before = queue_of(scene).in_memory.ready_bytes
    client.unsubscribe("0")
    assert queue_of(scene).in_memory.ready_bytes < before
    leave(client)
    queue = queue_of(scene)
    assert (queue.in_memory.ready_bytes, len(queue.in_memory.ready_lists)) == (0, 1)
    assert scene.broker.memory.used == queue.nbytes


def test_they_are_empty_when_the_messages_have_gone(scene: Scene, client: Client) -> None:
    """Though their consumers stay."""
    other = scene.connect(client.version)
    other.subscribe(QUEUE)
    assert len(other.messages()) == DEEP
    queue = queue_of(scene)
    assert (queue.in_memory.ready_bytes, len(queue.in_memory.ready_lists)) == (0, SELECTORS + 1)


def test_also_if_those_were_thrown_away(scene: Scene, client: Client) -> None:
    assert client.session.outstanding == SELECTORS
    queue_of(scene).purge()
    assert queue_of(scene).in_memory.ready_bytes == 0


def test_few_places_are_not_worth_counting(scene: Scene) -> None:
    client = scene.connect()
    for number in range(3):
        subscribe(client, number)
    send(client, 100)
    client.unsubscribe("2")
    assert queue_of(scene).in_memory.ready_bytes == 0


def test_they_hold_back_publishers_like_messages(stage: Stage) -> None:
    scene = stage(memory_limit=1_000_000)
    client = scene.connect()
    subscribe(client, 0)
    send(client, DEEP)
    assert not scene.broker.memory.pressed
    for number in range(1, 60):
        subscribe(client, number)
    assert scene.broker.memory.pressed
    client.drop()
    assert not scene.broker.memory.pressed
