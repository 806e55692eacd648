"""What may wait in a queue, and which message goes; and conflation. For slow subscribers see test_topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.broker.model.policy import Policy, WhenFull
from gateway.broker.queue.overflow import Overflow, limits_of

from ..client import Client, Scene
from ..conftest import Stage
from .helpers import DEAD, QUEUE, queue_of

# Three messages of 1,000 bytes each cost some 4,300 bytes, and in a transaction 4,600.
both = pytest.mark.parametrize("limit", [{"max_messages": 3}, {"max_bytes": 5_000}], ids=["messages", "octets"])
Fill = Callable[[Client, str], None]


def send(client: Client, numbers: str, **headers: str) -> None:
    """For each digit a message to /queue/a, of 1,000 bytes."""
    for number in numbers:
        client.publish(QUEUE, number.encode() * 1_000, **headers)


def send_in_transaction(client: Client, numbers: str) -> None:
    client.begin()
    send(client, numbers, transaction="t")
    client.commit()


def digits(client: Client) -> str:
    return "".join(body[:1].decode() for body in client.bodies())


def left(scene: Scene, queue: str = QUEUE) -> str:
    """What waits in a queue; it is taken out."""
    client = scene.consumer(queue)
    found = digits(client)
    client.disconnect()
    return found


@pytest.mark.parametrize("when_full", WhenFull)
@pytest.mark.parametrize(
    ("limit", "messages", "nbytes", "reached", "exceeded"),
    [
        ({}, 10**9, 10**12, False, False),
        ({"max_messages": 3}, 2, 10**12, False, False),
        ({"max_messages": 3}, 3, 0, True, False),
        ({"max_messages": 3}, 4, 0, True, True),
        ({"max_bytes": 3_000}, 10**9, 2_999, False, False),
        ({"max_bytes": 3_000}, 1, 3_000, True, False),
        ({"max_bytes": 3_000}, 1, 3_001, True, True),
        ({"max_messages": 3, "max_bytes": 3_000}, 1, 3_001, True, True),
    ],
)
def test_a_verdict_for_what_waits(
    when_full: WhenFull, limit: dict[str, int], messages: int, nbytes: int, reached: bool, exceeded: bool
) -> None:
    limits = limits_of(Policy(when_full=when_full, **limit))
    blocks = when_full is WhenFull.BLOCK
    assert limits.reached(messages, nbytes) is reached
    assert limits.verdict(messages, nbytes) is (limits.action if (reached if blocks else exceeded) else None)
    assert (limits.action is Overflow.BLOCK, limits.keeps_all) == (blocks, blocks or not limit)


at_once = pytest.mark.parametrize("fill", [send, send_in_transaction], ids=["one by one", "in a transaction"])


@pytest.mark.parametrize("limit", [{"max_messages": 3}, {"max_bytes": 4_000}], ids=["messages", "octets"])
class TestBlock:
    def test_nothing_is_lost_and_the_transports_are_told(self, stage: Stage, limit: dict[str, Any]) -> None:
        scene = stage({QUEUE: limit})
        client = scene.connect()
        send(client, "12")
        assert not scene.broker.context.take_full()
        send(client, "3")
        assert scene.broker.context.take_full() == {queue_of(scene)}
        assert not scene.broker.context.take_full()
        send(client, "4")
        assert scene.broker.context.take_full() == {queue_of(scene)}
        assert left(scene) == "1234"

    def test_and_told_again_when_there_is_room(self, stage: Stage, limit: dict[str, Any]) -> None:
        scene = stage({QUEUE: limit}, max_unacknowledged=1)
        client, other = scene.connect(), scene.connect()
        send(client, "1234")
        assert queue_of(scene).full
        other.subscribe(QUEUE, ack="client")
        assert scene.rooms == 0
        other.ack(other.message())
        assert scene.rooms == 1
        assert not queue_of(scene).full
        other.ack(other.message())
        assert scene.rooms == 1
        send(client, "5")
        send(client, "6")
        assert queue_of(scene).full

    def test_who_waits_is_told_when_the_queue_goes(self, stage: Stage, limit: dict[str, Any]) -> None:
        scene = stage({QUEUE: limit | {"idle_timeout": 5.0}})
        send(scene.connect(), "123")
        assert queue_of(scene).full
        scene.wait(5.1)
        assert scene.rooms == 1
        assert not scene.broker.destinations


@both
@at_once
@pytest.mark.parametrize(
    ("when_full", "stays"), [(WhenFull.DROP_OLDEST, "345"), (WhenFull.DROP_NEWEST, "123")], ids=["oldest", "newest"]
)
def test_the_oldest_or_the_newest_go(
    stage: Stage, limit: dict[str, Any], fill: Fill, when_full: WhenFull, stays: str
) -> None:
    scene = stage({QUEUE: limit | {"when_full": when_full}})
    fill(scene.connect(), "12345")
    assert scene.broker.counters.totals()["dropped"] == 2
    assert not scene.broker.context.full
    assert left(scene) == stays


@both
@at_once
def test_the_oldest_becomes_a_dead_letter(stage: Stage, limit: dict[str, Any], fill: Fill) -> None:
    scene = stage({QUEUE: limit | {"when_full": WhenFull.DEAD_LETTER}})
    fill(scene.connect(), "12345")
    counters = scene.broker.counters
    assert (counters.totals()["dropped"], counters.dead_lettered) == (0, 2)
    messages = scene.consumer(DEAD).messages()
    assert [each.body[:1] for each in messages] == [b"1", b"2"]
    for each in messages:
        said = {name: each.headers[name] for name in ("dlq-reason", "dlq-source", "dlq-attempts")}
        assert said == {"dlq-reason": "queue-full", "dlq-source": QUEUE, "dlq-attempts": "0"}
    assert left(scene) == "345"


def test_the_oldest_goes_also_behind_one_that_an_operator_took_out(stage: Stage) -> None:
    scene = stage({QUEUE: {"max_messages": 3, "when_full": WhenFull.DROP_OLDEST}})
    client = scene.connect()
    send(client, "123")
    queue = queue_of(scene)
    first, *_ = queue.waiting_messages()
    queue.take_out(first)
    queue.let_go(first)
    queue.close_gaps()
    send(client, "45")
    assert left(scene) == "345"


def test_a_message_bigger_than_the_limit_has_a_place_where_nothing_else_waits(stage: Stage) -> None:
    scene = stage({QUEUE: {"max_bytes": 100}})
    send(scene.connect(), "1")
    assert queue_of(scene).full
    assert left(scene) == "1"


class TestConflation:
    """A newer message replaces the one of its key that waits."""

    @pytest.fixture(params=["policy", "header"])
    def scene(self, request: pytest.FixtureRequest, stage: Stage) -> Scene:
        return stage({QUEUE: {"conflate_by": "key"} if request.param == "policy" else {}}, max_unacknowledged=1)

    @staticmethod
    def news(client: Client, key: str, number: str, **headers: str) -> None:
        """A message of a key: as the policy knows it, and as Artemis has it."""
        send(client, number, key=key, _AMQ_LVQ_NAME=key, **headers)

    def test_the_newer_one_takes_the_place_of_the_older(self, scene: Scene) -> None:
        """So that every key has its turn, however often it changes."""
        client = scene.connect()
        for number, key in zip("1234567", "abcbbab", strict=True):
            self.news(client, key, number)
        assert left(scene) == "673"

    def test_many_are_replaced_and_nothing_is_kept_of_them(self, scene: Scene) -> None:
        scene.consumer(QUEUE, selector="color = 'red'")
        client = scene.connect()
        for number in range(500):
            self.news(client, str(number % 7), str(number % 10))
        queue = queue_of(scene)
        assert queue.waiting == 7
        assert all(len(ready_list) <= 7 * 2 + 64 for ready_list in queue.in_memory.ready_lists)

    def test_it_makes_room_before_the_limit_is_asked(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"conflate_by": "key", "max_messages": 2, "when_full": WhenFull.DROP_NEWEST}})
        client = scene.connect()
        for number, key in zip("1234", "abac", strict=True):
            self.news(client, key, number)
        assert left(scene) == "32"

    def test_the_header_counts_before_the_policy(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"conflate_by": "key"}})
        client = scene.connect()
        send(client, "1", key="a", _AMQ_LVQ_NAME="x")
        send(client, "2", key="a", _AMQ_LVQ_NAME="y")
        assert left(scene) == "12"

    def test_a_place_counts_within_one_priority(self, scene: Scene) -> None:
        client = scene.connect()
        self.news(client, "a", "1", priority="9")
        self.news(client, "b", "2", priority="5")
        self.news(client, "c", "3")
        self.news(client, "a", "4")
        self.news(client, "c", "5", priority="6")
        assert left(scene) == "524"
