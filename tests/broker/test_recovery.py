"""A process ends, in order or not, and the next one has all that was promised: by its own clock and policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gateway.broker.core.work_limits import WorkLimits
from gateway.broker.model.changes import Stored
from gateway.broker.model.policy import WhenFull

from .client import Client, Scene
from .conftest import Stage
from .durable import ONE, P, drain, fill, marks, queue, storage, stored
from .store import MemoryStore

QUEUE = "/queue/a"
End = Callable[[Scene], Scene]
both = pytest.mark.parametrize("end", [Scene.crash, Scene.restart], ids=["killed", "stopped"])


@pytest.fixture
def scene(stage: Stage) -> Scene:
    return stage(stored=True)


def consumer_of(scene: Scene, ack: str = "client", **headers: str) -> Client:
    """A consumer of the queue, with what it gets at once."""
    consumer = scene.connect()
    consumer.subscribe(QUEUE, ack=ack, **headers)
    scene.commit()
    return consumer


@both
def test_queues_come_back_as_rows_alone(scene: Scene, end: End) -> None:
    fill(scene, 5)
    nbytes = queue(scene).nbytes
    scene = end(scene)
    found = queue(scene)
    assert (found.waiting, found.nbytes, stored(scene)) == (5, nbytes, 5)
    assert not found.waiting_messages()
    assert (scene.broker.context.waiting, scene.broker.memory.used) == (5, 0)
    assert list(marks(scene)) == [0, 1, 2, 3, 4]


@both
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_what_was_not_acknowledged_comes_again(scene: Scene, ack: str, end: End) -> None:
    consumer = consumer_of(scene, ack)
    fill(scene, 3)
    first = consumer.messages()
    consumer.ack(first[0])
    scene.commit()
    scene = end(scene)
    again = drain(scene)
    assert [(message.body, message.redelivered) for message in again] == [(b"1", True), (b"2", True)]
    assert [message.headers["delivery-count"] for message in again] == ["2", "2"]
    assert [message.message_id for message in again] == [message.message_id for message in first[1:]]


class TestTime:
    """The clock of each process begins anew; dates are those of the calendar."""

    @both
    @pytest.mark.parametrize(
        ("policy", "headers"),
        [({}, {"ttl": "10000"}), ({}, {"expires": "1700001010000"}), ({"time_to_live": 10.0}, {})],
    )
    def test_messages_that_expire(
        self, stage: Stage, policy: dict[str, float], headers: dict[str, str], end: End
    ) -> None:
        scene = stage({QUEUE: policy}, stored=True)
        fill(scene, 2, **headers)
        scene.wait(2.0)
        scene = end(scene)
        consumer = consumer_of(scene, **ONE)
        message = consumer.message()
        assert message.body == b"0"
        scene.wait(8.0)  # the second has waited for ten seconds now, in two processes
        consumer.ack(message)
        scene.commit()
        assert not consumer.received()
        assert scene.broker.counters.expired == 1

    @both
    def test_messages_that_have_expired_meanwhile(self, stage: Stage, end: Callable[..., Scene]) -> None:
        scene = stage({QUEUE: {"dead_letter_expired": True}}, stored=True)
        fill(scene, 3, ttl="5000")
        scene = end(scene, 60.0)
        consumer = consumer_of(scene)
        assert not consumer.received()
        assert sorted(marks(scene, "/queue/dlq.a")) == [0, 1, 2]

    def test_an_unused_queue_has_its_whole_time_again(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"idle_timeout": 10.0}}, stored=True)
        fill(scene, 1)
        scene.wait(8.0)
        scene = scene.crash()
        scene.wait(8.0)
        assert set(scene.broker.destinations) == {QUEUE}
        scene.wait(2.1)
        assert not scene.broker.destinations
        scene.commit()
        assert not scene.store.rows


class TestFailures:
    @both
    def test_are_counted_on_and_end_as_a_dead_letter(self, stage: Stage, end: End) -> None:
        scene = stage({QUEUE: {"max_attempts": 3, "backoff": 0.0}}, stored=True)
        fill(scene, 1)
        for number in range(3):
            consumer = consumer_of(scene)
            message = consumer.message()
            consumer.nack(message, reason=f"reason {number}")
            if number < 2:
                scene.commit()
                scene = end(scene)
        scene.commit()
        scene = end(scene)
        (letter,) = drain(scene, "/queue/dlq.a")
        expected = {
            "dlq-reason": "max-attempts",
            "dlq-source": QUEUE,
            "dlq-attempts": "3",
            "dlq-first-at": "1700001000000",
            "original-destination": QUEUE,
            "reason": "reason 2",
        }
        assert expected.items() <= letter.headers.items()
        assert letter.redelivered == (end is Scene.crash)

    @both
    def test_a_back_off_is_over(self, stage: Stage, end: End) -> None:
        scene = stage({QUEUE: {"backoff": 60.0, "backoff_max": 60.0}}, stored=True)
        consumer = consumer_of(scene)
        fill(scene, 1)
        consumer.nack(consumer.message())
        scene.commit()
        assert len(queue(scene).resting) == 1
        scene = end(scene)
        (message,) = consumer_of(scene).messages()
        assert message.headers["delivery-count"] == "2"

    def test_a_process_that_is_killed_is_no_failure_of_the_message(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"max_attempts": 2}}, stored=True)
        fill(scene, 1)
        for _ in range(5):
            assert consumer_of(scene).bodies() == [b"0"]
            scene = scene.crash()


@both
@pytest.mark.parametrize("header", ["key", "_AMQ_LVQ_NAME"])
def test_of_a_key_the_newest_is_in_the_place_of_the_oldest(stage: Stage, end: End, header: str) -> None:
    """By the policy, or where messages say so themselves."""
    scene = stage({QUEUE: {"conflate_by": "key"} if header == "key" else {}}, stored=True)
    client = scene.connect()
    for number, key in enumerate("abcab"):
        client.publish(QUEUE, b"%d" % number, **{header: key}, **P)
        scene.commit()
    scene = end(scene)
    if header == "key":
        assert [message.body for message in queue(scene).waiting_messages()] == [b"3", b"4", b"2"]
    scene.connect().publish(QUEUE, b"5", **{header: "b"}, **P)
    scene.commit()
    assert [message.body for message in drain(end(scene))] == [b"3", b"5", b"2"]


class TestOtherPolicies:
    """They hold for stored messages, too."""

    @pytest.mark.parametrize("durable", [False, None, True])
    def test_nothing_is_durable_any_more(self, stage: Stage, durable: bool | None) -> None:
        scene = stage({QUEUE: {"durable": True}}, stored=True)
        fill(scene, 2)
        scene = scene.crash(policies={QUEUE: {"durable": durable, "backoff": 0.0}})
        client = scene.connect()
        client.publish(QUEUE, b"2")
        client.publish(QUEUE, b"3", **P)
        scene.commit()
        lasting = [row for row in scene.store.rows.values() if not row.transient]
        assert len(lasting) == {False: 2, None: 3, True: 4}[durable]
        consumer = consumer_of(scene)
        assert [int(message.body) for message in consumer.messages()] == [0, 1, 2, 3]
        consumer.drop()
        scene.commit()
        assert list(marks(scene)) == [0, 1, 2, 3]

    @pytest.mark.parametrize(
        ("policy", "left"),
        [
            ({"max_messages": 3, "when_full": WhenFull.DROP_OLDEST}, [3, 4, 5]),
            ({"max_messages": 3, "when_full": WhenFull.DROP_NEWEST}, [0, 1, 2]),
            ({"max_messages": 3, "when_full": WhenFull.DEAD_LETTER}, [3, 4, 5]),
            ({"max_messages": 3}, [0, 1, 2, 3, 4, 5]),
            ({"conflate_by": "key"}, [4, 5]),
        ],
    )
    def test_limits(self, stage: Stage, policy: dict[str, Any], left: list[int]) -> None:
        scene = stage(stored=True)
        client = scene.connect()
        for number in range(5):
            client.publish(QUEUE, b"%d" % number, key="ab"[number % 2], **P)
        scene.commit()
        scene = scene.crash(policies={QUEUE: policy})
        scene.connect().publish(QUEUE, b"5", key="b", **P)
        assert queue(scene).full is (policy == {"max_messages": 3}), "the publisher waits"
        scene.commit()
        found = sorted(marks(scene))
        if policy.get("when_full") is WhenFull.DROP_NEWEST:
            assert 5 not in found
        else:
            assert found == left


def test_a_queue_with_two_places(scene: Scene) -> None:
    """It was forgotten while a transaction held a message of it, and came again; the first has the arguments."""
    client, consumer = scene.connect(), scene.connect()
    client.publish(QUEUE, b"0", **P, **{"x-max-length": "10"})
    consumer.subscribe(QUEUE, ack="client")
    consumer.begin()
    consumer.ack(consumer.message(), transaction="t")
    consumer.unsubscribe()
    client.publish(QUEUE, b"1", **P, **{"x-max-length": "20"})
    scene.commit()
    scene = scene.crash()
    assert len(scene.store.places) == 2
    assert (queue(scene).policy.max_messages, queue(scene).of_client) == (10, ("max_messages", "when_full"))
    last = scene.connect()
    last.subscribe(QUEUE, ack="client-individual")
    scene.commit()
    last.ack(last.messages()[-1])
    scene.commit()
    scene = scene.crash()
    scene.commit()
    assert len(scene.store.places) == 1
    assert [message.body for message in drain(scene)] == [b"0"]


class TestDelayed:
    @both
    @pytest.mark.parametrize("headers", [{"x-delay": "10000"}, {"_AMQ_SCHED_DELIVERY": "1700001010000"}])
    def test_come_when_it_is_time(self, scene: Scene, headers: dict[str, str], end: End) -> None:
        client = scene.connect()
        client.publish(QUEUE, b"1", receipt="1", **P, **headers)
        client.publish(QUEUE, b"2", **headers)
        client.publish("/topic/a", b"3", **P, **headers)
        assert not client.received()
        scene.commit()
        assert client.receipts() == ["1"]
        scene.wait(4.0)
        scene = end(scene)
        assert len(scene.broker.router.delayed) == 2
        consumer, other = scene.connect(), scene.connect()
        consumer.subscribe(QUEUE, ack="client")
        other.subscribe("/topic/a")
        scene.wait(4.9)
        assert not consumer.received()
        scene.wait(0.2)
        message = consumer.message()
        assert (message.body, message.redelivered) == (b"1", False)
        assert other.bodies() == [b"3"]
        consumer.ack(message)
        scene.commit()
        assert not scene.store.rows

    def test_with_all_they_asked_for(self, scene: Scene) -> None:
        client = scene.connect()
        options = {"x-delay": "1000", "priority": "9", "ttl": "60000", "k": "v", "x-max-length": "1"}
        for body in (b"1", b"2"):
            client.publish(f"{QUEUE},/queue/b", body, **P, **options)
        scene.commit()
        scene = scene.crash()
        scene.wait(1.0)
        for name in (QUEUE, "/queue/b"):
            (message,) = drain(scene, name)
            assert (message.body, message.headers["destination"]) == (b"2", name)
            assert (message.headers["priority"], message.headers["k"]) == ("9", "v")
            assert message.headers["expires"] == "1700001060000"


class TestRetained:
    @both
    def test_are_shown_to_later_subscribers(self, scene: Scene, end: End) -> None:
        client = scene.connect()
        client.publish("/topic/a.b", b"old", retain="set", **P)
        client.publish("/topic/a.b", b"new", retain="set", k="v", receipt="r", **P)
        client.publish("/topic/a.c", b"mortal", retain="set")
        scene.commit()
        assert client.receipts() == ["r"]
        assert len(scene.store.rows) == 1
        scene = end(scene)
        client = scene.connect()
        client.subscribe("/topic/a.*")
        message = client.message()
        assert (message.body, message.headers["retained"], message.headers["k"]) == (b"new", "true", "v")

    @both
    def test_not_what_was_removed_or_has_expired(self, scene: Scene, end: Callable[..., Scene]) -> None:
        client = scene.connect()
        client.publish("/topic/a", b"1", retain="set", **P)
        client.publish("/topic/b", b"2", retain="set", ttl="5000", **P)
        client.publish("/topic/c", b"3", retain="set", ttl="90000", **P)
        client.publish("/topic/d", b"4", retain="set", **P)
        scene.commit()
        client.publish("/topic/a", b"", retain="remove")
        client.publish("/topic/d", b"5", retain="set")  # which is not durable
        scene.commit()
        assert len(scene.store.rows) == 2
        scene = end(scene, 60.0)
        client = scene.connect()
        client.subscribe("/topic/#")
        assert client.bodies() == [b"3"]
        scene.wait(40.0)
        scene.commit()
        assert not scene.store.rows


class TestDeduplication:
    @both
    def test_ids_count_as_long_as_the_window(self, stage: Stage, end: Callable[..., Scene]) -> None:
        scene = stage(stored=True, dedup_window=60.0)
        scene.connect().publish(QUEUE, b"1", **P, **{"dedup-id": "x"})
        scene.commit()
        scene.wait(20.0)
        scene = end(scene, 20.0)
        client = scene.connect()
        client.publish(QUEUE, b"2", receipt="r", **P, **{"dedup-id": "x"})
        client.publish("/queue/b", b"3", **P, **{"dedup-id": "x"})
        scene.commit()
        assert client.receipts() == ["r"]
        assert list(marks(scene)) == [1]
        assert list(marks(scene, "/queue/b")) == [3]
        scene.wait(21.0)
        client.publish(QUEUE, b"4", **P, **{"dedup-id": "x"})
        assert list(marks(scene)) == [4]

    def test_of_what_only_a_durable_subscription_stores(self, scene: Scene) -> None:
        client = scene.consumer("/topic/a", durable="true")
        client.unsubscribe("0")
        client.publish("/topic/a", b"1", **{"dedup-id": "x"})
        scene.commit()
        scene = scene.crash()
        client = scene.connect()
        client.publish("/topic/a", b"2", **{"dedup-id": "x"})
        client.subscribe("/topic/a", durable="true")
        scene.commit()
        assert client.bodies() == [b"1"]
        client.send("UNSUBSCRIBE", {"id": "0", "durable": "true"})

    def test_not_without_its_message(self, scene: Scene) -> None:
        scene.connect().publish(QUEUE, b"1", **P, **{"dedup-id": "x"})
        scene = scene.crash()
        scene.connect().publish(QUEUE, b"2", **P, **{"dedup-id": "x"})
        assert list(marks(scene)) == [2]


def test_what_is_read_at_once_is_read_in_pages(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    policies = {QUEUE: {"max_messages": 9, "when_full": WhenFull.DROP_OLDEST}}
    scene = stage(policies, stored=True, work_limits=WorkLimits(recovery_rows=2))
    fill(scene, 5)
    sizes: list[int] = []
    read = MemoryStore.read

    def counted(store: MemoryStore, rows: Sequence[int]) -> list[Stored]:
        sizes.append(len(rows))
        return read(store, rows)

    monkeypatch.setattr(MemoryStore, "read", counted)
    scene = scene.crash()
    assert sizes == [2, 2, 1]
    assert len(queue(scene).waiting_messages()) == 5
    assert storage(scene).rows == 5
    assert scene.broker.memory.used == queue(scene).nbytes
