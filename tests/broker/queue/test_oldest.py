"""The oldest message of a queue, against a look at all that wait."""

from __future__ import annotations

import random

import pytest

from gateway.broker.queue import durable, paging
from gateway.broker.queue.paging import PagedMessages
from gateway.broker.queue.queue import Queue

from ..client import Client, Scene
from ..conftest import Stage
from ..durable import fill

Q = "/queue/a"


def queue_of(scene: Scene) -> Queue:
    queue = scene.broker.destinations[Q]
    assert isinstance(queue, Queue)
    return queue


def waiting(queue: Queue) -> list[int]:
    """All that waits in memory."""
    return [message.number for message in queue.waiting_messages()]


def test_nothing_waits(scene: Scene) -> None:
    scene.consumer(Q)
    assert queue_of(scene).oldest() is None


def test_what_comes_back_later_does_not_wait(stage: Stage) -> None:
    scene = stage({Q: {"backoff": 10.0}})
    client = scene.consumer(Q, ack="client")
    client.publish(Q)
    client.nack(client.message())
    assert (len(queue_of(scene).resting), queue_of(scene).oldest()) == (1, None)


@pytest.fixture
def paged(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Two or three messages are in memory, and the others in the store alone."""
    monkeypatch.setattr(durable, "MOST_IN_MEMORY", 1_000)
    scene = stage(stored=True)
    fill(scene, 10)
    fill(scene, 3, priority="1")
    return scene


def backlog_of(scene: Scene) -> PagedMessages:
    found = queue_of(scene).storage
    assert found is not None
    assert found.paged is not None
    return found.paged


def test_of_what_the_store_alone_has(paged: Scene) -> None:
    queue, paging = queue_of(paged), backlog_of(paged)
    last = paged.broker.router.number
    assert queue.oldest() == last - 12
    in_memory = queue.waiting_messages()
    for message in in_memory:
        queue.take_out(message)
        queue.let_go(message)
    queue.close_gaps()
    left = list(range(last - 12 + len(in_memory), last + 1))
    assert paging.first_rows() == [left[0], last - 2]
    for place in (1, 1, 0, -1):  # somebody takes them out of turn
        _take(paged, left.pop(place))
        assert paging.first_rows() == [left[0], last - 2]
    while left:
        assert queue.oldest() == left[0]
        _take(paged, left.pop(0))
    assert queue.oldest() is None
    paged.broker.forget_if_idle(queue)


def _take(scene: Scene, row: int) -> None:
    """A message leaves the backlog, for good."""
    backlog_of(scene).claim(row)
    found = queue_of(scene).storage
    assert found is not None
    found.leave_row(row)


def test_of_what_is_being_read(paged: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "_PAGE", 2)
    paged.consumer(Q, ack="client", **{"prefetch-count": "1"})
    reading = list(backlog_of(paged)._reading)
    assert len(reading) == 2
    assert backlog_of(paged).first_rows() == [reading[0], reading[1] + 1, paged.broker.router.number - 2]


class Program:
    """Somebody sends, others consume, give back, and leave; at each step the oldest is looked for.

    Args:
        priorities, groups: what messages have.
    """

    def __init__(self, scene: Scene, seed: int, priorities: str, groups: str, *, selectors: bool) -> None:
        self.drawn = random.Random(seed)
        self.scene = scene
        self.sender = scene.connect()
        self.consumers: list[Client] = []
        self.priorities, self.groups, self.selectors = priorities, groups, selectors

    def step(self) -> None:
        (what,) = self.drawn.choices(["send", "come", "ack", "nack", "leave", "wait"], [8, 2, 6, 2, 1, 1])
        if what == "send":
            self._send()
        elif what == "come":
            self._come()
        elif what == "wait":
            self.scene.wait(0.2)
        elif self.consumers and what == "leave":
            self.consumers.pop(self.drawn.randrange(len(self.consumers))).drop()
        elif self.consumers:
            self._settle(self.drawn.choice(self.consumers), what)

    def _send(self) -> None:
        drawn = self.drawn
        headers = {"priority": drawn.choice(self.priorities), "x": drawn.choice("12")}
        if self.groups and drawn.random() < 0.7:
            headers["JMSXGroupID"] = drawn.choice(self.groups)
        for _ in range(drawn.randint(1, 5)):
            self.sender.publish(Q, b"", **headers)

    def _come(self) -> None:
        drawn = self.drawn
        more = {"selector": f"x = '{drawn.choice('12')}'"} if self.selectors and drawn.random() < 0.7 else {}
        if len(self.consumers) < 4:
            consumer = self.scene.connect()
            consumer.subscribe(Q, ack="client-individual", **{"prefetch-count": str(drawn.randint(1, 3))}, **more)
            self.consumers.append(consumer)

    def _settle(self, consumer: Client, what: str) -> None:
        subscription = next(iter(consumer.session.subscriptions.values()))
        if subscription.ledger:
            handle = self.drawn.choice(list(subscription.ledger))
            consumer.send(what.upper(), {"id": handle})


@pytest.mark.parametrize("selectors", [False, True])
@pytest.mark.parametrize("groups", ["", "abc"])
@pytest.mark.parametrize("seed", range(8))
def test_of_one_priority_it_is_exact(stage: Stage, seed: int, groups: str, selectors: bool) -> None:
    scene = stage({Q: {"max_attempts": 0, "backoff": 0.1}})
    program = Program(scene, seed, "4", groups, selectors=selectors)
    seen = 0
    for _ in range(150):
        program.step()
        queue = scene.broker.destinations.get(Q)
        if isinstance(queue, Queue):
            assert queue.oldest() == min(waiting(queue), default=None)
            seen += queue.waiting > 1
    assert seen > 20


@pytest.mark.parametrize("groups", ["", "abc"])
def test_of_many_it_waits_indeed_and_is_nearly_always_the_oldest(stage: Stage, groups: str) -> None:
    exact = seen = 0
    for seed in range(8):
        scene = stage({Q: {"max_attempts": 0, "backoff": 0.1}})
        program = Program(scene, seed, "1459", groups, selectors=seed % 2 > 0)
        for _ in range(150):
            program.step()
            queue = scene.broker.destinations.get(Q)
            if isinstance(queue, Queue) and (there := waiting(queue)):
                found = queue.oldest()
                assert found in there
                seen += 1
                exact += found == min(there)
    assert seen > 500
    assert exact > (0.3 if groups else 0.97) * seen


def test_a_less_urgent_one_that_came_back_is_not_forgotten(scene: Scene) -> None:
    client, other = scene.connect(), scene.connect()
    client.subscribe(Q, ack="client", **{"prefetch-count": "3"})
    for _ in range(3):
        other.publish(Q, priority="1")
    for _ in range(200):
        other.publish(Q, priority="5")
    client.drop()
    queue = queue_of(scene)
    assert queue.oldest() == 1
    queue.in_memory.ready_lists[0].compact()
    assert queue.oldest() == 1


def test_the_delivery_that_is_longest_without_an_ack(scene: Scene) -> None:
    client, other = scene.connect(), scene.connect()
    client.subscribe(Q, ack="client-individual")
    (subscription,) = client.session.subscriptions.values()
    assert subscription.oldest is None
    for _ in range(3):
        other.publish(Q)
    first, *_ = client.messages()
    assert subscription.oldest is not None
    assert subscription.oldest.message.number == 1
    client.ack(first)
    assert subscription.oldest is not None
    assert subscription.oldest.message.number == 2
