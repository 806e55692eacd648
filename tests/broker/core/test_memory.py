"""The account of memory: what counts, who else may say that it is short, and what a session's part of it is."""

from __future__ import annotations

import pytest

from gateway.broker.errors import OUTBOX
from gateway.broker.session.cost import SUBSCRIPTION, Cost, cost_of
from gateway.codec import Version

from ..client import Client, Rules, Scene
from ..conftest import Stage


def judge(
    scene: Scene, *, scarce: bool = False, flooded: bool = False, nearly: bool = False, exhausted: str = ""
) -> None:
    scene.broker.judge_memory(scarce=scarce, flooded=flooded, nearly_exhausted=nearly, exhausted=exhausted)


class TestIncompleteMessages:
    def test_they_count(self, stage: Stage) -> None:
        scene = stage(memory_limit=4_000)
        scene.broker.memory.buffer(3_001)
        assert (scene.broker.memory.used, scene.broker.memory.partial, scene.broker.memory.kept) == (3_001, 3_001, 0)
        assert scene.broker.memory.pressed
        scene.broker.memory.buffer(-1)
        assert not scene.broker.memory.pressed
        scene.broker.memory.buffer(-3_000)
        assert scene.pressure == [True, False]

    def test_an_eighth_of_the_memory_is_a_crowd(self, stage: Stage) -> None:
        scene = stage(memory_limit=8_000)
        scene.broker.memory.buffer(1_000)
        assert not scene.broker.memory.is_crowded
        scene.broker.memory.buffer(1)
        assert scene.broker.memory.is_crowded
        scene.broker.memory.buffer(-1_001)

    def test_full(self, stage: Stage) -> None:
        scene = stage(memory_limit=4_000)
        client = scene.connect()
        scene.broker.memory.buffer(4_000)
        assert scene.broker.memory.is_full == "kept messages cost 4000 bytes, 4000 may (memory_limit)"
        client.publish("/queue/a", b"x")
        assert client.error().headers["message"] == "memory limit reached"
        scene.broker.memory.buffer(-4_000)
        assert scene.broker.memory.is_full == ""


class TestJudged:
    """Somebody looks what the process takes."""

    def test_scarce(self, stage: Stage) -> None:
        scene = stage()
        judge(scene, scarce=True, flooded=True)
        judge(scene, scarce=True)
        assert (scene.broker.memory.pressed, scene.broker.memory.flooded, scene.broker.context.checks_sends) == (
            True,
            False,
            True,
        )
        judge(scene)
        assert (scene.broker.memory.pressed, scene.broker.context.checks_sends) == (False, False)
        assert scene.pressure == [True, False]

    def test_one_pressure_of_two_reasons(self, stage: Stage) -> None:
        scene = stage(memory_limit=4_000)
        scene.broker.memory.keep(3_500)
        judge(scene, scarce=True)
        scene.broker.memory.release(3_500)
        assert scene.broker.memory.pressed
        scene.broker.memory.keep(3_500)
        judge(scene)
        assert scene.broker.memory.pressed
        scene.broker.memory.release(3_500)
        assert scene.pressure == [True, False]

    def test_exhausted(self, stage: Stage, version: Version) -> None:
        scene = stage()
        client, other = scene.connect(version), scene.connect(version)
        judge(scene, scarce=True, exhausted="the process takes too much (memory_mark)")
        client.publish("/queue/a", b"x")
        error = client.error()
        assert error.headers["message"] == "memory limit reached"
        assert error.body == b"the process takes too much (memory_mark)"
        judge(scene)
        other.publish("/queue/a", b"x")
        assert not other.closed

    def test_nearly(self, stage: Stage) -> None:
        scene = stage(memory_limit=16_000)
        broker = scene.broker
        judge(scene, nearly=True)
        assert broker.memory.nearly_full
        judge(scene)
        assert not broker.memory.nearly_full
        broker.memory.buffer(14_999)
        assert not broker.memory.nearly_full
        broker.memory.buffer(1)
        assert broker.memory.nearly_full
        broker.memory.buffer(-15_000)

    def test_a_flood_of_outboxes(self, stage: Stage) -> None:
        """Each may have but little then, also that of somebody who comes later; and who does not read is closed."""
        scene = stage(max_outbound=320_000)
        client, other = scene.connect(), scene.connect()
        client.subscribe("/topic/a")
        judge(scene, scarce=True, flooded=True)
        late = scene.connect()
        judge(scene, scarce=True, flooded=True)
        assert [each.session.outbox.limit for each in (client, other, late)] == [10_000] * 3
        assert client.session.outbox.high == 7_500
        client.stalled = True
        other.publish("/topic/a", b"x" * 11_000)
        assert client.session.outbox in scene.broker.context.slow_consumers.take_strained(), "it is waited for"
        assert not client.closed
        client.session.outbox.excused = True
        other.publish("/topic/a", b"x")
        (failure,) = client.failures
        assert failure.detail == ("more than 10000 bytes (max_outbound, less while memory is short) wait to be read")
        judge(scene)
        assert other.session.outbox.limit == 320_000


class TestWhatIsKeptNowhere:
    """Topics flow on at the end, too, where nobody wants their messages kept."""

    def full(self, stage: Stage, policies: Rules | None = None) -> tuple[Scene, Client]:
        scene = stage(policies, memory_limit=100_000)
        client = scene.connect()
        client.subscribe("/topic/a")
        scene.broker.memory.buffer(100_000)
        return scene, client

    def test_a_topic(self, stage: Stage) -> None:
        scene, client = self.full(stage)
        client.publish("/topic/a", b"x")
        assert [message.body for message in client.messages()] == [b"x"]
        scene.broker.memory.buffer(-100_000)

    @pytest.mark.parametrize(
        ("destination", "headers"),
        [
            ("/queue/a", {}),
            ("/topic/nobody", {}),
            ("/topic/a,/queue/a", {}),
            ("/topic/a", {"retain": "set"}),
            ("/topic/a", {"priority": "7"}),
        ],
    )
    def test_anything_else(self, stage: Stage, destination: str, headers: dict[str, str]) -> None:
        scene, client = self.full(stage)
        client.publish(destination, b"x", **headers)
        assert client.error().headers["message"] == "memory limit reached"
        scene.broker.memory.buffer(-100_000)

    def test_a_topic_that_keeps_a_log(self, stage: Stage) -> None:
        scene, client = self.full(stage, {"/topic/a": {"log_messages": 10}})
        client.publish("/topic/a", b"x")
        assert client.error().headers["message"] == "memory limit reached"
        scene.broker.memory.buffer(-100_000)

    def test_where_somebody_has_a_pattern(self, stage: Stage) -> None:
        """It may be that of a durable subscription."""
        scene, client = self.full(stage)
        scene.connect().subscribe("/topic/*")
        client.publish("/topic/a", b"x")
        assert client.error().headers["message"] == "memory limit reached"
        scene.broker.memory.buffer(-100_000)


class TestCost:
    def test_nothing(self, stage: Stage, version: Version) -> None:
        client = stage().connect(version)
        assert cost_of(client.session) == Cost(0, 0, 0, 0)
        assert cost_of(client.session).own == 0

    def test_what_waits_to_be_written(self, stage: Stage, version: Version) -> None:
        scene = stage()
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe("/topic/a")
        client.stalled = True
        other.publish("/topic/a", b"x" * 1_000)
        cost = cost_of(client.session)
        assert cost.outbox == client.session.outbox.size > 1_000
        assert cost.own == cost.outbox + SUBSCRIPTION

    def test_transactions(self, stage: Stage, version: Version) -> None:
        client = stage().connect(version)
        for name in ("t", "u"):
            client.begin(name)
            client.publish("/queue/a", b"x" * 1_000, transaction=name)
        cost = cost_of(client.session)
        assert cost.transactions == client.scene.broker.memory.used == cost.own

    def test_a_private_queue_goes_with_it(self, stage: Stage, version: Version) -> None:
        """That is what a topic's subscriber has that acknowledges."""
        scene = stage(max_unacknowledged=2)
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe("/topic/a", ack="client")
        for _ in range(5):
            other.publish("/topic/a", b"x" * 1_000)
        cost = cost_of(client.session)
        assert cost.subscriptions == scene.broker.memory.used + SUBSCRIPTION
        assert cost.unacknowledged == 0

    def test_what_others_can_get_stays(self, stage: Stage, version: Version) -> None:
        scene = stage(max_unacknowledged=2)
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe("/queue/a", ack="client")
        for _ in range(5):
            other.publish("/queue/a", b"x" * 1_000)
        cost = cost_of(client.session)
        assert cost.unacknowledged == pytest.approx(scene.broker.memory.used * 2 / 5)
        assert cost.subscriptions == SUBSCRIPTION


def test_slow_consumers_are_counted_by_the_limit(stage: Stage) -> None:
    scene = stage(max_outbound=16_384)
    client, other = scene.connect(), scene.connect()
    client.subscribe("/topic/a")
    client.stalled = True
    client.session.outbox.excused = True
    while not client.closed:
        other.publish("/topic/a", b"x" * 1_000)
    assert scene.broker.context.slow_consumers.by_limit == {OUTBOX: 1, "slow_messages": 0, "browser": 0}
