"""Selectors that have much to read: a turn of their lane ends after fewer messages.

What a selector may cost is charged as bytes of headers, times its own characters; for the rest see `test_ready`.
"""

from __future__ import annotations

import pytest

from gateway.broker.model.message import Message
from gateway.broker.queue import ready as lane_module
from gateway.broker.queue.consumers import ConsumerSet
from gateway.broker.queue.dispatch import Dispatcher
from gateway.broker.queue.ready import ReadyList
from gateway.codec import Head

from ..client import Scene
from .test_ready import Asked, drain, filled, new


@pytest.fixture
def asked() -> Asked:
    return Asked()


def unwanted(count: int, size: int) -> list[Message]:
    """Messages with a header of that many bytes that the selector does not want."""
    found = [new(number, wanted=False) for number in range(count)]
    for message in found:
        message.head = Head.of("SEND", message.head.headers | {"filler": "x" * size})
    return found


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "urgent ones last"])
@pytest.mark.parametrize("weight", [4_096, 500, 10])
@pytest.mark.parametrize("size", [60_000, 5_000])
def test_what_it_reads_in_a_turn_is_bounded(asked: Asked, size: int, weight: int, order: int) -> None:
    messages = unwanted(100, size)[::order]
    ready_list = filled([*messages, new(100)], ReadyList(asked, weight))
    heaviest = messages[0].head.cost * weight
    most = lane_module.READS_PER_TURN * lane_module._SCANNED_PER_READ + heaviest
    before = turns = 0
    while ready_list.first() is None:
        assert ready_list.tired
        assert 1 <= asked.count.total() - before <= most // heaviest
        before, turns = asked.count.total(), turns + 1
    assert turns >= 100 * heaviest // most
    assert drain(ready_list) == [100]
    assert set(asked.count.values()) == {1}


def test_small_messages_cost_what_they_always_cost(asked: Asked) -> None:
    reads = lane_module.READS_PER_TURN
    ready_list = filled([*[new(number, wanted=False) for number in range(reads - 1)], new(reads)], ReadyList(asked, 20))
    assert ready_list.first() is not None


def test_a_copy_is_as_heavy_as_its_own_selector(asked: Asked) -> None:
    copy = filled(unwanted(5, 60_000)).copy(asked, 4_096)
    assert copy.weight == 4_096
    assert copy.first() is None
    assert (copy.tired, asked.count.total()) == (True, 1)


def test_the_copy_of_a_deep_lane_is_its_first_turn(asked: Asked) -> None:
    deep = lane_module.READS_PER_TURN * lane_module._COPIED_PER_READ
    copy = filled([new(number, wanted=False) for number in range(deep)]).copy(asked)
    assert copy.first() is None
    assert (copy.tired, asked.count.total()) == (True, 0)
    assert copy.first() is None
    assert (copy.tired, asked.count.total()) == (True, lane_module.READS_PER_TURN)


@pytest.mark.parametrize("size", [10, 60_000])
def test_a_subscriber_of_a_queue_reads_it_in_turns(scene: Scene, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Whatever it costs, others have their turns between them."""
    turns = []

    def catch_up(dispatcher: Dispatcher, consumer_set: ConsumerSet) -> None:
        turns.append(consumer_set)
        original(dispatcher, consumer_set)

    original = Dispatcher._catch_up
    monkeypatch.setattr(Dispatcher, "_catch_up", catch_up)
    producer, client = scene.connect(), scene.connect()
    for _ in range(20):
        producer.publish("/queue/a", filler="x" * size)
    producer.publish("/queue/a", b"wanted", color="red")
    client.subscribe("/queue/a", selector=" OR ".join(["color = 'red'"] * 20))
    assert client.bodies() == [b"wanted"]
    assert len(turns) == (0 if size == 10 else 10)
