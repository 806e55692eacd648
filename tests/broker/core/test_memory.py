"""Memory account: what counts, which findings make it short, and what the part of a session is."""

from __future__ import annotations

import pytest

from gateway.broker.session.cost import SUBSCRIPTION, cost_of

from ..client import Client, Rules, Scene
from ..conftest import Stage

LIMIT = "memory limit reached"


def judge(
    scene: Scene, *, scarce: bool = False, flooded: bool = False, nearly: bool = False, exhausted: str = ""
) -> None:
    scene.broker.judge_memory(scarce=scarce, flooded=flooded, nearly_exhausted=nearly, exhausted=exhausted)


def test_partial_messages_count(stage: Stage) -> None:
    scene = stage(memory_limit=8_000)
    memory, client = scene.broker.memory, scene.connect()
    found = []
    for nbytes in (1_000, 1, 5_000, -1, 2_000):
        memory.buffer(nbytes)
        found.append((memory.is_crowded, memory.pressed, bool(memory.is_full)))
    no, crowd = (False, False, False), (True, False, False)
    assert found == [no, crowd, (True, True, False), crowd, (True, True, True)]
    assert (memory.used, memory.partial, memory.kept) == (8_000, 8_000, 0)
    assert memory.is_full == "kept messages cost 8,000 bytes, 8,000 may (memory_limit)"
    client.publish("/queue/a", b"x")
    assert client.error().headers["message"] == LIMIT
    memory.buffer(-8_000)
    assert memory.is_full == ""
    assert scene.pressure == [True, False, True, False]


class TestJudged:
    """The memory guard looks at what the process takes."""

    def test_scarce(self, scene: Scene) -> None:
        memory, context = scene.broker.memory, scene.broker.context
        judge(scene, scarce=True, flooded=True)
        judge(scene, scarce=True)
        assert (memory.pressed, memory.flooded, context.checks_sends) == (True, False, True)
        judge(scene)
        assert (memory.pressed, context.checks_sends) == (False, False)
        assert scene.pressure == [True, False]

    def test_one_pressure_of_two_reasons(self, stage: Stage) -> None:
        scene = stage(memory_limit=4_000)
        memory = scene.broker.memory
        memory.keep(3_500)
        judge(scene, scarce=True)
        memory.release(3_500)
        assert memory.pressed
        memory.keep(3_500)
        judge(scene)
        assert memory.pressed
        memory.release(3_500)
        memory.keep(3_001)
        assert memory.pressed
        memory.release(1)
        assert not memory.pressed, "at 3/4 of the limit it ends"
        memory.release(3_000)
        assert scene.pressure == [True, False] * 2

    def test_while_outboxes_flood_the_memory_each_holds_little(self, stage: Stage) -> None:
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
        assert failure.detail == "more than 10000 bytes (max_outbound, less while memory is short) wait to be read"
        judge(scene)
        assert other.session.outbox.limit == 320_000

    def test_nearly(self, stage: Stage) -> None:
        scene = stage(memory_limit=16_000)
        memory = scene.broker.memory
        for nearly in (True, False):
            judge(scene, nearly=nearly)
            assert memory.nearly_full is nearly
        memory.buffer(14_999)
        assert not memory.nearly_full
        memory.buffer(1)
        assert memory.nearly_full
        memory.buffer(-15_000)


@pytest.mark.parametrize(
    ("destination", "headers", "policies", "goes_on"),
    [
        ("/topic/a", {}, None, True),
        ("/queue/a", {}, None, False),
        ("/topic/nobody", {}, None, False),
        ("/topic/a,/queue/a", {}, None, False),
        ("/topic/a", {"retain": "set"}, None, False),
        ("/topic/a", {"priority": "7"}, None, False),
        ("/topic/a", {}, {"/topic/a": {"log_messages": 10}}, False),
    ],
)
def test_at_the_limit_only_topics_that_keep_nothing_go_on(
    stage: Stage, destination: str, headers: dict[str, str], policies: Rules | None, goes_on: bool
) -> None:
    scene = stage(policies, memory_limit=100_000)
    client = scene.connect()
    client.subscribe("/topic/a")
    scene.broker.memory.buffer(100_000)
    client.publish(destination, b"x", **headers)
    if goes_on:
        assert client.bodies() == [b"x"]
    else:
        assert client.error().headers["message"] == LIMIT
    client = scene.connect()
    client.subscribe("/topic/*")  # it may be that of a durable subscription
    client.publish("/topic/a", b"x")
    assert client.error().headers["message"] == LIMIT
    scene.broker.memory.buffer(-100_000)


class TestCost:
    @pytest.fixture
    def client(self, stage: Stage) -> Client:
        return stage(max_unacknowledged=2).connect()

    def test_of_what_waits_to_be_written(self, client: Client) -> None:
        client.subscribe("/topic/a")
        client.stalled = True
        client.scene.connect().publish("/topic/a", b"x" * 1_000)
        cost = cost_of(client.session)
        assert cost.outbox == client.session.outbox.size > 1_000
        assert cost.own == cost.outbox + SUBSCRIPTION

    def test_of_transactions(self, client: Client) -> None:
        for name in ("t", "u"):
            client.begin(name)
            client.publish("/queue/a", b"x" * 1_000, transaction=name)
        cost = cost_of(client.session)
        assert cost.transactions == client.scene.broker.memory.used == cost.own

    @pytest.mark.parametrize("destination", ["/topic/a", "/queue/a"])
    def test_a_private_queue_goes_with_the_session_and_a_shared_one_stays(
        self, client: Client, destination: str
    ) -> None:
        """A topic's subscriber that acknowledges has a queue of its own."""
        client.subscribe(destination, ack="client")
        other = client.scene.connect()
        for _ in range(5):
            other.publish(destination, b"x" * 1_000)
        cost, used = cost_of(client.session), client.scene.broker.memory.used
        private = destination == "/topic/a"
        assert cost.subscriptions == (used if private else 0) + SUBSCRIPTION
        assert cost.unacknowledged == pytest.approx(0 if private else used * 2 / 5)
