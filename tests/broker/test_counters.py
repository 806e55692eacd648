"""The counters: all of them explained, all zero at the start; what each counts of the broker's doings."""

from __future__ import annotations

import re

from gateway.broker.counters import Counters
from gateway.codec import Version

from .client import Scene


def test_all_are_explained_and_start_at_zero() -> None:
    counters = Counters()
    explained = re.findall(r"^ {8}(\w+): ", Counters.__doc__ or "", re.MULTILINE)
    assert set(explained) == set(Counters.__slots__) == set(Counters.__annotations__)
    assert {getattr(counters, name) for name in Counters.__slots__} == {0}


def test_a_broker_counts(scene: Scene, version: Version) -> None:
    counters = scene.broker.counters
    client, consumer, reader = (scene.connect(version) for _ in range(3))
    assert counters.sessions == 3
    client.publish("/topic/a")
    assert (counters.published, counters.unroutable, counters.delivered) == (1, 1, 0)
    consumer.subscribe("/topic/a", "0")
    reader.subscribe("/topic/a", "0")
    consumer.subscribe("/topic/a", "1", ack="client")
    client.publish("/topic/a")
    assert (counters.published, counters.unroutable, counters.delivered) == (2, 1, 3)
    client.publish("/queue/a")
    assert (counters.published, counters.delivered) == (3, 3)
    consumer.subscribe("/queue/a", "2", ack="client")
    reader.subscribe("/queue/a", "2")
    client.publish("/queue/a")
    assert (counters.delivered, counters.redelivered) == (5, 0)
    consumer.drop()
    assert (counters.delivered, counters.redelivered) == (7, 2)
    assert (counters.acknowledged, counters.rejected, counters.errors) == (0, 0, 0)


def test_what_a_transaction_sends_is_published_at_commit(scene: Scene, version: Version) -> None:
    client = scene.connect(version)
    client.begin()
    for _ in range(3):
        client.publish("/queue/a", transaction="t")
    assert scene.broker.counters.published == 0
    client.commit()
    assert scene.broker.counters.published == 3


def test_frames_are_counted_with_those_that_fail(scene: Scene, version: Version) -> None:
    client, other = scene.connect(version), scene.connect(version)
    client.begin()
    client.publish("/queue/a", transaction="t")
    other.publish("/queue/a")
    client.send("BOGUS")
    assert (client.session.frames_in, other.session.frames_in) == (3, 1)
    assert scene.broker.counters.frames_in == 4
    assert scene.broker.counters.errors == 1
