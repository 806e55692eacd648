"""Subscribers of a topic that do not keep up: each policy, what a client may ask for, and no other client notices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.broker.model.policy import SlowConsumerAction

from ..client import Client, Scene
from ..conftest import Stage

TOPIC = "/topic/a"
SENT = 40
OLDEST, NEWEST, CONFLATE, DISCONNECT = (
    {"slow_consumer": action}
    for action in (
        SlowConsumerAction.DROP_OLDEST,
        SlowConsumerAction.DROP_NEWEST,
        SlowConsumerAction.CONFLATE,
        SlowConsumerAction.DISCONNECT,
    )
)
THREE = {"slow_messages": 3}


def flood(producer: Client, topic: str = TOPIC) -> list[int]:
    """Numbered messages of 1,000 bytes, each with one of three keys; returns their numbers."""
    for number in range(SENT):
        producer.publish(topic, str(number).rjust(1_000).encode(), key="abc"[number % 3])
    return list(range(SENT))


def numbers(client: Client) -> list[int]:
    """Those of the messages that came."""
    return [int(body) for body in client.bodies()]


def stalled(scene: Scene, **headers: str) -> Client:
    """A subscriber whose socket takes nothing: its window of news is 16 KiB."""
    client = scene.connect()
    client.subscribe(TOPIC, **headers)
    client.stalled = True
    return client


def acknowledging(scene: Scene, **headers: str) -> Client:
    """A subscriber that acknowledges nothing: its window is two messages."""
    client = scene.connect()
    client.subscribe(TOPIC, ack="client", **{"prefetch-count": "2"}, **headers)
    return client


def went_on(client: Client) -> list[int]:
    """It takes everything, acknowledging where it must; returns what came beyond its window."""
    if client.stalled:
        client.resume()
        found = numbers(client)
        window = 0
        while window < len(found) and found[window] == window:
            window += 1
        # The window ends where the first message is missing; those that waited came behind it.
        return found[window:] if window < len(found) else found[window - 3 :]
    found = []
    while messages := client.messages():
        found += [int(each.body) for each in messages]
        client.ack(messages[-1])
    assert found[:2] == [0, 1]
    return found[2:]


Become = Callable[..., Client]
slow = pytest.mark.parametrize("become", [stalled, acknowledging])


@slow
class TestPolicies:
    def test_drop_oldest(self, stage: Stage, become: Become) -> None:
        scene = stage({TOPIC: OLDEST | THREE})
        client, fast = become(scene), scene.connect()
        fast.subscribe(TOPIC)
        assert flood(fast) == numbers(fast)
        assert went_on(client) == [37, 38, 39]
        assert scene.broker.counters.totals()["dropped"] > 0
        assert scene.broker.context.waiting == 0
        fast.publish(TOPIC, b"99")  # it keeps up again
        assert numbers(client) == [99]

    def test_drop_newest(self, stage: Stage, become: Become) -> None:
        scene = stage({TOPIC: NEWEST | THREE})
        client, fast = become(scene), scene.connect()
        fast.subscribe(TOPIC)
        assert flood(fast) == numbers(fast)
        found = went_on(client)
        assert found[-3:] == list(range(found[-1] - 2, found[-1] + 1))
        assert found[-1] < 30
        assert scene.broker.counters.totals()["dropped"] == SENT - 1 - found[-1]

    def test_conflate(self, stage: Stage, become: Become) -> None:
        scene = stage({TOPIC: CONFLATE | {"conflate_by": "key"}})
        client, fast = become(scene), scene.connect()
        fast.subscribe(TOPIC)
        assert flood(fast) == numbers(fast)
        assert scene.broker.context.waiting == 3
        assert sorted(went_on(client)) == [37, 38, 39]
        assert scene.broker.counters.conflated > 0
        assert scene.broker.counters.totals()["dropped"] == 0

    @pytest.mark.parametrize(
        ("policy", "waiting", "last"),
        [
            ({"conflate_by": "key", "slow_messages": 2}, 2, [38, 39]),  # more keys than may wait
            ({"conflate_by": "other", "slow_messages": 3}, 3, [37, 38, 39]),  # a header that no message has
        ],
    )
    def test_conflate_within_limits(
        self, stage: Stage, become: Become, policy: dict[str, object], waiting: int, last: list[int]
    ) -> None:
        scene = stage({TOPIC: CONFLATE | policy})
        client = become(scene)
        flood(scene.connect())
        assert scene.broker.context.waiting == waiting
        assert scene.broker.counters.conflated == 0
        assert sorted(went_on(client)[-len(last) :]) == last

    def test_disconnect(self, stage: Stage, become: Become) -> None:
        scene = stage({TOPIC: DISCONNECT | THREE})
        client, fast, of_b = become(scene), scene.connect(), become(scene)
        of_b.unsubscribe()
        of_b.subscribe("/topic/b", "b")  # policies go by the topic
        fast.subscribe(TOPIC)
        assert flood(fast) == numbers(fast)
        flood(fast, "/topic/b")
        (failure,) = client.failures
        assert str(failure) == "slow consumer"
        assert failure.detail == "more than 3 messages (slow_messages) of '/topic/a' wait for this client"
        assert scene.broker.counters.slow_consumers == 1
        assert scene.broker.memory.used == 0
        assert not of_b.closed

    def test_bytes_are_limited_too_and_publishers_are_not_held_back(self, stage: Stage, become: Become) -> None:
        scene = stage({TOPIC: OLDEST}, max_outbound=32 * 1024)
        client, other = become(scene), scene.connect()
        flood(other)
        flood(other)
        assert client.session.outbox.size < client.session.outbox.high
        assert not scene.broker.context.slow_consumers.take_strained()
        assert scene.broker.memory.used <= 32 * 1024 + 4_000
        assert went_on(client)[-1] == 39

    @pytest.mark.parametrize(
        ("policy", "asked", "left"),
        [
            ({}, "3", [37, 38, 39]),
            (OLDEST | THREE, "0", [37, 38, 39]),
            (OLDEST | THREE, "-1", [37, 38, 39]),
            (DISCONNECT | THREE, "2", None),
            (DISCONNECT | THREE, "5", None),
        ],
    )
    def test_activemqs_limit_counts_in_the_way_of_the_policy(
        self, stage: Stage, become: Become, policy: dict[str, object], asked: str, left: list[int] | None
    ) -> None:
        scene = stage({TOPIC: policy})
        client = become(scene, **{"activemq.maximumPendingMessageLimit": asked})
        flood(scene.connect())
        if left is None:
            (failure,) = client.failures
            assert failure.detail.startswith(f"more than {asked} messages")
        else:
            assert went_on(client) == left


@pytest.mark.parametrize("pattern", ["/topic/a.*", "/topic/#"])
def test_a_pattern_has_the_policy_of_its_own_name(stage: Stage, pattern: str) -> None:
    scene = stage({"/topic/a.#": DISCONNECT | THREE})
    client = scene.connect()
    client.subscribe(pattern, ack="client", **{"prefetch-count": "1"})
    flood(scene.connect(), "/topic/a.b")
    assert client.closed is (pattern == "/topic/a.*")


def test_only_wanted_messages_count(stage: Stage) -> None:
    scene = stage({TOPIC: DISCONNECT | {"slow_messages": 13}})
    client, own = scene.connect(), scene.connect()
    client.subscribe(TOPIC, ack="client", selector="key = 'a'", **{"prefetch-count": "1"})
    own.subscribe(TOPIC, ack="client", **{"no-local": "true", "prefetch-count": "1"})
    flood(own)
    assert not client.closed
    assert not own.received()
    assert scene.broker.context.waiting == 13


def test_retained_messages_wait_like_others(stage: Stage) -> None:
    scene = stage({"/topic/#": OLDEST | THREE})
    client, other = scene.connect(), scene.connect()
    for number in range(10):
        other.publish(f"/topic/{number}", b"%d" % number, retain="set")
    client.subscribe("/topic/*", ack="client", **{"prefetch-count": "1"})
    first = client.message()
    assert first.body == b"0"
    assert scene.broker.context.waiting == 3
    client.ack(first)
    assert client.bodies() == [b"7"]


def test_queue_arguments_of_the_subscribe_limit_it(stage: Stage) -> None:
    """To RabbitMQ, a topic's subscription is a queue."""
    scene = stage(max_outbound=32 * 1024)
    client, producer = stalled(scene, **{"x-max-length": "2"}), scene.connect()
    for number in range(20):
        producer.publish(TOPIC, b"%d" % number + b" " * 4_000)
    client.resume()
    found = numbers(client)
    assert found[-2:] == [18, 19]
    assert len(found) < 10


def test_blocking_is_the_default(stage: Stage) -> None:
    """The publisher is held back; once that was for too long, the client is closed."""
    scene = stage(max_outbound=16 * 1024)
    client, other = stalled(scene), scene.connect()
    flood(other)
    assert scene.broker.context.slow_consumers.take_strained() == {client.session.outbox}
    assert not client.closed
    client.session.outbox.excused = True
    flood(other)
    (failure,) = client.failures
    assert failure.detail == "more than 16384 bytes (max_outbound) wait to be read"


def test_conflation_by_the_header_of_artemis_needs_no_policy(scene: Scene) -> None:
    """Among the messages that wait for a subscriber that must acknowledge."""
    client, other = scene.connect(), scene.connect()
    client.subscribe(TOPIC, ack="client", **{"prefetch-count": "1"})
    for number in range(9):
        other.publish(TOPIC, b"%d" % number, _AMQ_LVQ_NAME="x")
    client.ack(client.message())
    assert client.bodies() == [b"8"]
