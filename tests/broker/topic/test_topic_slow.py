"""Subscribers of a topic that do not keep up: each policy, what a client may ask for, and nobody else notices."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.model.policy import SlowConsumerAction
from gateway.codec import Version

from ..client import Client, Scene
from ..conftest import Stage

TOPIC = "/topic/a"
SENT = 40


def flood(producer: Client, topic: str = TOPIC) -> list[int]:
    """Numbered messages of 1,000 bytes, each with one of three keys; returns their numbers."""
    for number in range(SENT):
        producer.publish(topic, str(number).rjust(1_000).encode(), key="abc"[number % 3])
    return list(range(SENT))


def numbers(client: Client) -> list[int]:
    """Those of the messages that came."""
    return [int(body) for body in client.bodies()]


def stalled(scene: Scene, version: Version, **headers: str) -> Client:
    """A subscriber whose socket takes nothing: its window of news is 16 KiB."""
    client = scene.connect(version)
    client.subscribe(TOPIC, **headers)
    client.stalled = True
    return client


def acknowledging(scene: Scene, version: Version, **headers: str) -> Client:
    """A subscriber that acknowledges nothing: its window is two messages."""
    client = scene.connect(version)
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


slow = pytest.mark.parametrize("become", [stalled, acknowledging])
Become = Any


@slow
class TestPolicies:
    def test_drop_oldest(self, stage: Stage, version: Version, become: Become) -> None:
        scene = stage({TOPIC: {"slow_consumer": SlowConsumerAction.DROP_OLDEST, "slow_messages": 3}})
        client, fast = become(scene, version), scene.connect(version)
        fast.subscribe(TOPIC)
        sent = flood(fast)
        assert numbers(fast) == sent
        assert went_on(client) == [37, 38, 39]
        assert not client.closed
        assert scene.broker.counters.dropped > 0

    def test_drop_newest(self, stage: Stage, version: Version, become: Become) -> None:
        scene = stage({TOPIC: {"slow_consumer": SlowConsumerAction.DROP_NEWEST, "slow_messages": 3}})
        client, fast = become(scene, version), scene.connect(version)
        fast.subscribe(TOPIC)
        sent = flood(fast)
        assert numbers(fast) == sent
        found = went_on(client)
        assert found[-3:] == list(range(found[-1] - 2, found[-1] + 1))
        assert found[-1] < 30
        assert scene.broker.counters.dropped == SENT - 1 - found[-1]

    def test_conflate(self, stage: Stage, version: Version, become: Become) -> None:
        scene = stage({TOPIC: {"slow_consumer": SlowConsumerAction.CONFLATE, "conflate_by": "key"}})
        client, fast = become(scene, version), scene.connect(version)
        fast.subscribe(TOPIC)
        sent = flood(fast)
        assert numbers(fast) == sent
        assert scene.broker.context.waiting == 3
        assert sorted(went_on(client)) == [37, 38, 39]
        assert scene.broker.counters.conflated > 0
        assert scene.broker.counters.dropped == 0

    def test_conflate_with_more_keys_than_may_wait(self, stage: Stage, version: Version, become: Become) -> None:
        scene = stage({TOPIC: {"slow_consumer": SlowConsumerAction.CONFLATE, "conflate_by": "key", "slow_messages": 2}})
        client, other = become(scene, version), scene.connect(version)
        flood(other)
        assert scene.broker.context.waiting == 2
        assert sorted(went_on(client)[-2:]) == [38, 39]

    def test_conflate_leaves_alone_what_has_no_key(self, stage: Stage, version: Version, become: Become) -> None:
        scene = stage(
            {TOPIC: {"slow_consumer": SlowConsumerAction.CONFLATE, "conflate_by": "other", "slow_messages": 3}}
        )
        client, other = become(scene, version), scene.connect(version)
        flood(other)
        assert scene.broker.counters.conflated == 0
        assert went_on(client)[-3:] == [37, 38, 39]

    def test_disconnect(self, stage: Stage, version: Version, become: Become) -> None:
        scene = stage({TOPIC: {"slow_consumer": SlowConsumerAction.DISCONNECT, "slow_messages": 3}})
        client, fast = become(scene, version), scene.connect(version)
        fast.subscribe(TOPIC)
        sent = flood(fast)
        assert numbers(fast) == sent
        (failure,) = client.failures
        assert str(failure) == "slow consumer"
        assert failure.detail == "more than 3 messages (slow_messages) of '/topic/a' wait for this client"
        assert scene.broker.counters.slow_consumers == 1
        assert scene.broker.memory.used == 0

    def test_octets_are_limited_too(self, stage: Stage, version: Version, become: Become) -> None:
        scene = stage({TOPIC: {"slow_consumer": SlowConsumerAction.DROP_OLDEST}}, max_outbound=32 * 1024)
        client, other = become(scene, version), scene.connect(version)
        flood(other)
        flood(other)
        assert not client.closed
        assert scene.broker.memory.used <= 32 * 1024 + 4_000
        assert went_on(client)[-1] == 39

    def test_publishers_are_not_held_back(self, stage: Stage, version: Version, become: Become) -> None:
        scene = stage({"/topic/#": {"slow_consumer": SlowConsumerAction.DROP_OLDEST}}, max_outbound=32 * 1024)
        client, other = become(scene, version), scene.connect(version)
        flood(other)
        assert client.session.outbox.size < client.session.outbox.high
        assert not scene.broker.context.slow_consumers.take_strained()

    def test_keeping_up_again(self, stage: Stage, version: Version, become: Become) -> None:
        scene = stage({TOPIC: {"slow_consumer": SlowConsumerAction.DROP_OLDEST, "slow_messages": 3}})
        client, other = become(scene, version), scene.connect(version)
        flood(other)
        went_on(client)
        assert scene.broker.context.waiting == 0
        other.publish(TOPIC, b"99")
        assert numbers(client) == [99]

    def test_one_subscription_is_slow_and_another_is_not(self, stage: Stage, version: Version, become: Become) -> None:
        """Policies go by the topic."""
        scene = stage({TOPIC: {"slow_consumer": SlowConsumerAction.DISCONNECT, "slow_messages": 3}})
        client, other = become(scene, version), scene.connect(version)
        client.subscribe("/topic/b", "b")
        flood(other, "/topic/b")
        assert not client.closed


@slow
class TestAskedFor:
    """ActiveMQ's maximumPendingMessageLimit."""

    def test_the_oldest_go(self, scene: Scene, version: Version, become: Become) -> None:
        client, fast = become(scene, version, **{"activemq.maximumPendingMessageLimit": "3"}), scene.connect(version)
        fast.subscribe(TOPIC)
        sent = flood(fast)
        assert numbers(fast) == sent
        assert went_on(client) == [37, 38, 39]

    @pytest.mark.parametrize("asked", ["2", "5"])
    def test_instead_of_the_policys_number_in_the_policys_way(
        self, stage: Stage, version: Version, become: Become, asked: str
    ) -> None:
        scene = stage({TOPIC: {"slow_consumer": SlowConsumerAction.DISCONNECT, "slow_messages": 3}})
        client = become(scene, version, **{"activemq.maximumPendingMessageLimit": asked})
        flood(scene.connect(version))
        (failure,) = client.failures
        assert failure.detail.startswith(f"more than {asked} messages")

    @pytest.mark.parametrize("asked", ["0", "-1"])
    def test_or_nothing(self, stage: Stage, version: Version, become: Become, asked: str) -> None:
        scene = stage({TOPIC: {"slow_consumer": SlowConsumerAction.DROP_OLDEST, "slow_messages": 3}})
        client = become(scene, version, **{"activemq.maximumPendingMessageLimit": asked})
        flood(scene.connect(version))
        assert went_on(client) == [37, 38, 39]


@pytest.mark.parametrize("pattern", ["/topic/a.*", "/topic/#"])
def test_a_pattern_has_the_policy_of_its_own_name(stage: Stage, version: Version, pattern: str) -> None:
    scene = stage({"/topic/a.#": {"slow_consumer": SlowConsumerAction.DISCONNECT, "slow_messages": 3}})
    client, other = scene.connect(version), scene.connect(version)
    client.subscribe(pattern, ack="client", **{"prefetch-count": "1"})
    flood(other, "/topic/a.b")
    assert client.closed is (pattern == "/topic/a.*")


def test_what_a_selector_does_not_want_does_not_count(stage: Stage, version: Version) -> None:
    scene = stage({TOPIC: {"slow_consumer": SlowConsumerAction.DISCONNECT, "slow_messages": 13}})
    client, other = scene.connect(version), scene.connect(version)
    client.subscribe(TOPIC, ack="client", selector="key = 'a'", **{"prefetch-count": "1"})
    flood(other)
    assert not client.closed
    assert scene.broker.context.waiting == 13


def test_nor_ones_own_where_that_is_not_wanted(stage: Stage, version: Version) -> None:
    scene = stage({TOPIC: {"slow_consumer": SlowConsumerAction.DROP_OLDEST, "slow_messages": 3}})
    client = scene.connect(version)
    client.subscribe(TOPIC, ack="client", **{"no-local": "true", "prefetch-count": "1"})
    flood(client)
    assert scene.broker.context.waiting == 0
    assert not client.received()


def test_retained_messages_wait_like_others(stage: Stage, version: Version) -> None:
    scene = stage({"/topic/#": {"slow_consumer": SlowConsumerAction.DROP_OLDEST, "slow_messages": 3}})
    client, other = scene.connect(version), scene.connect(version)
    for number in range(10):
        other.publish(f"/topic/{number}", b"%d" % number, retain="set")
    client.subscribe("/topic/*", ack="client", **{"prefetch-count": "1"})
    first = client.message()
    assert first.body == b"0"
    assert scene.broker.context.waiting == 3
    client.ack(first)
    assert client.bodies() == [b"7"]


def test_blocking_is_the_default(stage: Stage, version: Version) -> None:
    """Who fills the outbox is held back; once that was for too long, the client is closed."""
    scene = stage(max_outbound=16 * 1024)
    client, other = scene.connect(version), scene.connect(version)
    client.subscribe(TOPIC)
    client.stalled = True
    flood(other)
    assert scene.broker.context.slow_consumers.take_strained() == {client.session.outbox}
    assert not client.closed
    client.session.outbox.excused = True
    flood(other)
    (failure,) = client.failures
    assert failure.detail == "more than 16384 bytes (max_outbound) wait to be read"


def test_conflation_by_the_header_of_artemis_needs_no_policy(scene: Scene, version: Version) -> None:
    """Among what waits for one who must acknowledge."""
    client, other = scene.connect(version), scene.connect(version)
    client.subscribe(TOPIC, ack="client", **{"prefetch-count": "1"})
    for number in range(9):
        other.publish(TOPIC, b"%d" % number, _AMQ_LVQ_NAME="x")
    client.ack(client.message())
    assert client.bodies() == [b"8"]
