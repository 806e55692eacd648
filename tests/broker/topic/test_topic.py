"""Topics: a copy to every current subscriber, and what becomes of those that do not keep up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.broker.model.policy import SlowConsumerAction
from gateway.codec import Version

from ..client import ALL, Client, Scene, Step
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
LIMIT = "activemq.maximumPendingMessageLimit"


def flood(producer: Client, topic: str = TOPIC) -> list[int]:
    """Numbered messages of 1,000 bytes, each with one of three keys; returns their numbers."""
    for number in range(SENT):
        producer.publish(topic, str(number).rjust(1_000).encode(), key="abc"[number % 3])
    return list(range(SENT))


def numbers(client: Client) -> list[int]:
    """Those of the messages that came."""
    return [int(body) for body in client.bodies()]


def test_every_subscriber_gets_every_message_in_order(scene: Scene) -> None:
    clients = [scene.connect(version) for version in ALL * 2]
    for number, client in enumerate(clients):
        client.subscribe(TOPIC, ack="auto" if number < 3 else "client")
    sent = flood(clients[0])
    assert [numbers(client) for client in clients] == [sent] * 6


@pytest.mark.parametrize("options", [{}, {"ack": "client"}, {"selector": "TRUE"}], ids=["auto", "client", "choosy"])
def test_frames_end_as_the_transport_has_it(scene: Scene, version: Version, options: dict[str, str]) -> None:
    """With an LF behind the NUL on TCP and without one in WebSocket messages, also those of one message."""
    clients = [scene.connect(version, transport=transport) for transport in ("tcp", "websocket") * 2]
    for client in clients:
        client.subscribe(TOPIC, **options)
    sent = flood(clients[0])
    assert [numbers(client) for client in clients] == [sent] * 4
    assert [client.written.count(b"\0\n") == client.written.count(b"\0") for client in clients] == [True, False] * 2
    assert b"\0\n" not in clients[1].written


def test_one_message_is_encoded_once_per_version(scene: Scene) -> None:
    clients = [scene.connect(version) for version in ALL for _ in range(3)]
    for client in clients:
        client.subscribe(TOPIC)
        client.stalled = True
    clients[0].publish(TOPIC, b"m")
    assert len({id(client.session.outbox.parts[1]) for client in clients}) == 3
    for client in clients:
        client.resume()
        assert client.bodies() == [b"m"]


def in_force(scene: Scene) -> int:
    """Actions on the agenda that were not cancelled."""
    return sum(entry.action is not None for _, _, entry in scene.broker.scheduler._heap)


@pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, Client.unsubscribe])
@pytest.mark.parametrize("ack", ["client", "auto"], ids=["unacknowledged", "slow"])
@pytest.mark.parametrize("headers", [{"ttl": str(365 * 86_400_000)}, {}], ids=["by header", "by policy"])
def test_the_queue_of_a_subscriber_leaves_nothing_on_the_agenda(
    stage: Stage, leave: Step, ack: str, headers: dict[str, str]
) -> None:
    """Messages of a year would keep the queue, and themselves, for a year."""
    slow = SlowConsumerAction.DROP_OLDEST if ack == "auto" else SlowConsumerAction.BLOCK
    scene = stage({TOPIC: {"slow_consumer": slow, "time_to_live": 0 if headers else 365 * 86_400}})
    producer = scene.connect()
    for _ in range(45):
        client = scene.connect()
        client.subscribe(TOPIC, ack=ack, **{"prefetch-count": "1"})
        client.stalled = True
        for _ in range(4):
            producer.publish(TOPIC, b"x" * 10_000, **headers)
        assert scene.broker.context.waiting > 0
        assert in_force(scene) == 1
        leave(client)
        assert in_force(scene) == 0
        assert scene.broker.memory.used == 0
    assert len(scene.broker.scheduler) < 40


# subscribers that do not keep up


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
    @pytest.mark.parametrize(
        ("policy", "asked"),
        [
            (OLDEST | THREE, {}),
            (CONFLATE | {"conflate_by": "key"}, {}),
            ({}, {LIMIT: "3"}),
            (OLDEST | THREE, {LIMIT: "0"}),
            (OLDEST | THREE, {LIMIT: "-1"}),
        ],
    )
    def test_the_newest_are_left(
        self, stage: Stage, become: Become, policy: dict[str, object], asked: dict[str, str]
    ) -> None:
        scene = stage({TOPIC: policy})
        client, fast, counters = become(scene, **asked), scene.connect(), scene.broker.counters
        fast.subscribe(TOPIC)
        assert flood(fast) == numbers(fast)
        assert scene.broker.context.waiting == 3
        assert sorted(went_on(client)) == [37, 38, 39]
        conflates = "conflate_by" in policy
        assert (counters.totals()["dropped"] > 0, counters.conflated > 0) == (not conflates, conflates)
        fast.publish(TOPIC, b"99")  # it keeps up again
        assert numbers(client) == [99]

    def test_drop_newest(self, stage: Stage, become: Become) -> None:
        scene = stage({TOPIC: NEWEST | THREE})
        client = become(scene)
        flood(scene.connect())
        found = went_on(client)
        assert found[-3:] == list(range(found[-1] - 2, found[-1] + 1))
        assert scene.broker.counters.totals()["dropped"] == SENT - 1 - found[-1] > 10

    @pytest.mark.parametrize(("asked", "most"), [({}, 3), ({LIMIT: "2"}, 2), ({LIMIT: "5"}, 5)])
    def test_disconnect(self, stage: Stage, become: Become, asked: dict[str, str], most: int) -> None:
        scene = stage({TOPIC: DISCONNECT | THREE})
        client, fast, of_b = become(scene, **asked), scene.connect(), become(scene)
        of_b.unsubscribe()
        of_b.subscribe("/topic/b", "b")  # policies go by the topic
        fast.subscribe(TOPIC)
        assert flood(fast) == numbers(fast)
        flood(fast, "/topic/b")
        (failure,) = client.failures
        assert str(failure) == "slow consumer"
        assert failure.detail.startswith(f"more than {most} messages")
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


@pytest.mark.parametrize("pattern", ["/topic/a.*", "/topic/#"])
def test_a_pattern_has_the_policy_of_its_own_name(stage: Stage, pattern: str) -> None:
    scene = stage({"/topic/a.#": DISCONNECT | THREE})
    client = scene.connect()
    client.subscribe(pattern, ack="client", **{"prefetch-count": "1"})
    flood(scene.connect(), "/topic/a.b")
    assert client.closed is (pattern == "/topic/a.*")


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
