"""Delayed messages: routed when their time has come, never before, and bounded."""

from __future__ import annotations

import pytest

from gateway.codec import Version

from ..client import EPOCH, Scene
from ..conftest import Stage


def moment(scene: Scene, seconds: float) -> str:
    """So many seconds from now, in milliseconds since the epoch."""
    return str(int((EPOCH + scene.now + seconds) * 1000))


@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
@pytest.mark.parametrize("header", ["x-delay", "AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_TIME", "_AMQ_SCHED_DELIVERY"])
def test_never_early_and_at_most_50_ms_late(scene: Scene, version: Version, destination: str, header: str) -> None:
    client = scene.connect(version)
    client.subscribe(destination)
    value = "2000" if "DELAY" in header.upper() and "_AMQ" not in header else moment(scene, 2.0)
    client.publish(destination, b"m", **{header: value})
    scene.wait(1.999)
    assert not client.received()
    scene.wait(0.05)
    message = client.message()
    assert message.body == b"m"
    assert not {name for name in message.headers if "delay" in name.lower() or "SCHED" in name}


@pytest.mark.parametrize("header", ["x-delay", "AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_TIME"])
@pytest.mark.parametrize("value", ["0", "-5", "1"])
def test_what_is_past_is_now(scene: Scene, version: Version, header: str, value: str) -> None:
    if (header, value) == ("AMQ_SCHEDULED_TIME", "-5"):
        value = "5"
    client = scene.connect(version)
    client.subscribe("a")
    client.publish("a", b"m", **{header: value})
    if header != "AMQ_SCHEDULED_TIME" and value == "1":
        assert not client.received()
        scene.wait(0.02)
    assert client.bodies() == [b"m"]


def test_in_order_of_their_times_and_of_arrival(scene: Scene, version: Version) -> None:
    client = scene.connect(version)
    client.subscribe("a")
    for number, delay in enumerate((300, 100, 200, 100, 0)):
        client.publish("a", b"%d" % number, **{"x-delay": str(delay)})
    scene.wait(1.0)
    assert client.bodies() == [b"4", b"1", b"3", b"2", b"0"]


def test_until_then_it_is_in_no_queue_but_counts_as_memory(scene: Scene, version: Version) -> None:
    client = scene.connect(version)
    client.publish("a", b"x" * 1_000, receipt="r", **{"x-delay": "1000"})
    assert client.receipts() == ["r"]
    assert not scene.broker.destinations
    assert len(scene.broker.router.delayed) == 1
    assert scene.broker.memory.used > 1_000
    assert scene.broker.counters.published == 0
    client.subscribe("/topic/b", "0")
    client.publish("/topic/b", b"x", **{"x-delay": "1000"})
    scene.wait(1.1)
    assert len(client.messages()) == 1
    assert len(scene.broker.router.delayed) == 0
    assert scene.broker.memory.used < 1_600


def test_in_a_transaction_it_counts_from_commit(scene: Scene, version: Version) -> None:
    client = scene.connect(version)
    client.subscribe("a")
    client.begin()
    client.publish("a", b"m", transaction="t", **{"x-delay": "1000"})
    scene.wait(5.0)
    assert len(scene.broker.router.delayed) == 0
    client.commit()
    scene.wait(0.99)
    assert not client.received()
    scene.wait(0.02)
    assert client.bodies() == [b"m"]


def test_a_moment_stays_one_in_a_transaction(scene: Scene, version: Version) -> None:
    client = scene.connect(version)
    client.subscribe("a")
    client.begin()
    client.publish("a", b"m", transaction="t", AMQ_SCHEDULED_TIME=moment(scene, 2.0))
    scene.wait(1.5)
    client.commit()
    scene.wait(0.49)
    assert not client.received()
    scene.wait(0.05)
    assert client.bodies() == [b"m"]


def test_abort_and_a_lost_connection(scene: Scene, version: Version) -> None:
    """An open transaction is undone; what was sent outside of one is sent."""
    client = scene.connect(version)
    client.begin()
    client.publish("a", b"undone", transaction="t", **{"x-delay": "1000"})
    client.abort()
    client.publish("a", b"m", **{"x-delay": "1000"})
    client.begin()
    client.publish("a", b"undone", transaction="t", **{"x-delay": "1000"})
    client.drop()
    scene.wait(1.1)
    other = scene.connect(version)
    other.subscribe("a")
    assert other.bodies() == [b"m"]


def test_no_local_holds_behind_it(scene: Scene, version: Version) -> None:
    client, other = scene.connect(version), scene.connect(version)
    for each in (client, other):
        each.subscribe("/topic/a", **{"no-local": "true"})
    client.publish("/topic/a", b"m", **{"x-delay": "1000"})
    scene.wait(1.1)
    assert not client.received()
    assert other.bodies() == [b"m"]


def test_there_are_only_so_many(stage: Stage, version: Version) -> None:
    scene = stage(max_delayed=2)
    client, other = scene.connect(version), scene.connect(version)
    for _ in range(2):
        client.publish("a", b"m", **{"x-delay": "1000"})
    client.publish("a", b"m")
    other.publish("a", b"m", AMQ_SCHEDULED_TIME=moment(scene, 1.0))
    assert b"(max_delayed)" in other.error().body
    scene.wait(1.1)
    client.publish("a", b"m", **{"x-delay": "1000"})
    assert not client.closed


def test_also_in_a_transaction(stage: Stage, version: Version) -> None:
    scene = stage(max_delayed=2)
    client = scene.connect(version)
    client.begin()
    for _ in range(3):
        if not client.closed:
            client.publish("a", b"m", transaction="t", **{"x-delay": "1000"})
    if not client.closed:
        client.commit()
    assert len(scene.broker.router.delayed) <= 2
    assert b"(max_delayed)" in client.error().body
