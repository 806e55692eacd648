"""A queue's rows: which of its messages have one, when they go, and what a crash finds."""

from __future__ import annotations

import pytest

from gateway.broker.model.policy import Kept, WhenFull

from ..client import Client, Scene, Step
from ..conftest import Stage
from ..durable import P, drain, fill, marks, stored


@pytest.fixture
def scene(stage: Stage) -> Scene:
    return stage(stored=True)


class TestRows:
    def test_are_counted(self, scene: Scene) -> None:
        client, consumer = scene.connect(), scene.connect()
        client.publish("/queue/a", b"m")
        assert stored(scene) == 0
        client.publish("/queue/a", b"m", **P)
        client.publish("/queue/a", b"m", **P)
        assert stored(scene) == 2
        consumer.subscribe("/queue/a", ack="client-individual")
        messages = consumer.messages()
        assert stored(scene) == 2
        consumer.ack(messages[0])
        assert stored(scene) == 2
        consumer.ack(messages[1])
        assert stored(scene) == 1
        consumer.nack(messages[2], requeue="false")
        assert (stored(scene), stored(scene, "/queue/dlq.a")) == (0, 1)

    @pytest.mark.parametrize(
        ("policy", "headers"), [({"time_to_live": 1.0}, {}), ({}, {"ttl": "1000"}), ({"idle_timeout": 1.0}, {})]
    )
    def test_gone_with_time(self, stage: Stage, policy: dict[str, float], headers: dict[str, str]) -> None:
        scene = stage({"/queue/a": policy}, stored=True)
        fill(scene, 3, **headers)
        assert len(scene.store.rows) == 3
        scene.wait(1.1)
        scene.commit()
        assert not scene.store.rows
        assert not scene.store.places

    @pytest.mark.parametrize(
        ("when_full", "left"),
        [
            (WhenFull.DROP_OLDEST, [b"3", b"4"]),
            (WhenFull.DROP_NEWEST, [b"0", b"1"]),
            (WhenFull.DEAD_LETTER, [b"0", b"1", b"2", b"3", b"4"]),
        ],
    )
    def test_gone_for_a_limit(self, stage: Stage, when_full: WhenFull, left: list[bytes]) -> None:
        scene = stage({"/queue/a": {"max_messages": 2, "when_full": when_full}}, stored=True)
        fill(scene, 5)
        assert sorted(content.body for content in scene.store.contents.values()) == left

    def test_replaced(self, stage: Stage) -> None:
        scene = stage({"/queue/a": {"conflate_by": "key"}}, stored=True)
        client = scene.connect()
        for number in range(6):
            client.publish("/queue/a", b"%d" % number, key="ab"[number % 2], **P)
            scene.commit()
        assert sorted(content.body for content in scene.store.contents.values()) == [b"4", b"5"]
        again = scene.crash()
        assert [message.body for message in drain(again)] == [b"4", b"5"]


class TestAuto:
    def test_octet_by_octet(self, scene: Scene) -> None:
        consumer = scene.consumer("/queue/a")
        consumer.stalled = True
        fill(scene, 2)
        outbox = consumer.session.outbox
        size = sum(map(len, outbox.take()))
        outbox.written(size // 2 - 1)
        assert stored(scene) == 2
        outbox.written(1)
        assert stored(scene) == 1
        outbox.written(size - size // 2)
        assert stored(scene) == 0
        consumer.stalled = False
        scene.settle()


class TestPlaces:
    def test_of_a_queue_that_was_made_again_meanwhile(self, scene: Scene) -> None:
        """Each row is one message, whichever of the two queues it was entered by."""
        client, consumer, other = scene.connect(), scene.consumer("/queue/a", ack="client"), scene.connect()
        client.publish("/queue/a", b"0", **P)
        consumer.begin()
        consumer.ack(consumer.message(), transaction="t")
        consumer.unsubscribe()
        other.subscribe("/queue/a", ack="client-individual")
        client.publish("/queue/a", b"1", **P)
        (last,) = other.messages()
        consumer.abort()
        (first,) = other.messages()
        assert (first.body, last.body) == (b"0", b"1")
        scene.commit()
        assert len(scene.store.places) == 1  # the old one has gone
        other.ack(first)
        other.begin()
        other.ack(last, transaction="t")
        other.unsubscribe()  # the queue goes, but not what a transaction holds of it
        scene.commit()
        assert marks(scene.crash()) == {1: True}

    def test_no_two_are_left_of_one_queue(self, scene: Scene) -> None:
        client, consumer = scene.connect(), scene.consumer("/queue/a")
        consumer.stalled = True
        client.publish("/queue/a", b"0", **P)
        consumer.unsubscribe()
        client.publish("/queue/a", b"1", **P)
        consumer.resume()
        scene.commit()
        again = scene.crash()
        assert list(marks(again)) == [1]
        again.commit()
        last = again.crash()
        last.commit()
        assert not last.store.places

    @pytest.mark.parametrize(("end", "left"), [(Client.commit, [3]), (Client.abort, [0, 1, 2, 3])])
    def test_a_transaction_gives_back_messages_beside_those_that_have_no_row(
        self, scene: Scene, end: Step, left: list[int]
    ) -> None:
        client, consumer = scene.connect(), scene.consumer("/queue/a", ack="client")
        for number, headers in enumerate([P, {}, P]):
            client.publish("/queue/a", b"%d" % number, **headers)
        consumer.begin()
        consumer.ack(consumer.messages()[-1], transaction="t")
        consumer.unsubscribe()
        client.publish("/queue/a", b"3", **P)
        end(consumer)
        assert stored(scene) == len([number for number in left if number != 1])
        assert list(marks(scene)) == left


class TestNotes:
    """What the store knows of a message that is there still."""

    def facts(self, scene: Scene) -> list[str | None]:
        return [scene.store.rows[row].facts for row in sorted(scene.store.rows)]

    @pytest.mark.parametrize("end", [Client.unsubscribe, Client.disconnect, Client.drop])
    def test_what_a_consumer_gives_back(self, scene: Scene, end: Step) -> None:
        consumer = scene.consumer("/queue/a", ack="client")
        fill(scene, 2)
        end(consumer)
        scene.commit()
        lost = '"failures":1,"first_at":1700001000.0,"reason":""' if end is Client.drop else ""
        assert self.facts(scene) == [f'{{"attempts":1{"," * bool(lost)}{lost}}}', '{"attempts":1}']

    def test_nothing_of_what_was_not_on_its_way(self, scene: Scene) -> None:
        consumer = scene.consumer("/queue/a")
        consumer.stalled = True
        fill(scene, 1)
        assert self.facts(scene) == ['{"attempts":1}']
        consumer.drop()
        scene.commit()
        assert self.facts(scene) == ["{}"]
        assert marks(scene.restart()) == {0: False}


NOT = {"persistent": "false"}
AS_SENT = {"subscriptions_keep": Kept.AS_SENT}


class TestDurableSubscriptions:
    """What a durable subscription keeps."""

    @pytest.mark.parametrize(
        ("policy", "headers", "kept"),
        [
            ({}, {}, True),
            ({}, P, True),
            ({}, NOT, False),
            (AS_SENT, {}, False),
            (AS_SENT, P, True),
            (AS_SENT | {"durable": True}, NOT, True),
            ({"durable": False}, P, False),
        ],
    )
    def test_is_stored_unless_its_sender_or_a_policy_says_otherwise(
        self, stage: Stage, policy: dict[str, object], headers: dict[str, str], kept: bool
    ) -> None:
        scene = stage({"/topic/a": policy}, stored=True)
        consumer = scene.consumer("/topic/a", durable="true")
        scene.commit()
        consumer.drop()
        for options in (headers, headers | {"priority": "9"}):
            scene.connect().publish("/topic/a", b"m", **options)
        scene.commit()
        assert len(scene.store.rows) == 2 * kept
        again = scene.crash()
        consumer = again.consumer("/topic/a", durable="true")
        again.commit()
        assert consumer.bodies() == [b"m", b"m"] * kept
        consumer.send("UNSUBSCRIBE", {"id": "0", "durable": "true"})

    def test_one_that_ends_with_its_consumers_stores_nothing(self, scene: Scene) -> None:
        scene.consumer("/topic/a", ack="client", **{"x-queue-name": "shared"})
        scene.connect().publish("/topic/a", b"m", **P)
        assert not scene.commit()

    @pytest.mark.parametrize(
        ("policy", "headers", "taken"), [({}, {}, False), ({}, NOT, True), (AS_SENT, {}, True), (AS_SENT, P, False)]
    )
    def test_while_the_store_fails(
        self, stage: Stage, policy: dict[str, object], headers: dict[str, str], taken: bool
    ) -> None:
        scene = stage({"/topic/#": policy}, stored=True)
        consumer, client = scene.consumer("/topic/*", durable="true"), scene.connect()
        scene.commit()
        scene.vault.storage.failed("the disk is full")
        client.publish("/topic/a", b"m", **headers)
        assert client.closed is not taken
        assert consumer.bodies() == [b"m"] * taken
        scene.vault.storage.works()
        consumer.send("UNSUBSCRIBE", {"id": "0", "durable": "true"})


class TestSuspension:
    """Another node of a cluster may be primary: what is stored goes to no consumer, and publishers are held back."""

    def suspended(self, scene: Scene) -> Client:
        """A consumer of `/queue/a`, which has three stored messages, and of a topic."""
        fill(scene, 3)
        storage = scene.broker.storage
        assert storage is not None
        assert scene.broker.suspend(storage)
        assert not scene.broker.suspend(storage)
        consumer = scene.connect()
        for name in ("/queue/a", "/queue/b", "/topic/t"):
            consumer.subscribe(name, id=name)
        return consumer

    def resume(self, scene: Scene) -> None:
        storage = scene.broker.storage
        assert storage is not None
        scene.broker.resume(storage)
        scene.settle()

    def test_holds_back_what_is_stored_and_nothing_else(self, scene: Scene) -> None:
        consumer, publisher = self.suspended(scene), scene.connect()
        for name in ("/queue/a", "/queue/b", "/topic/t"):
            publisher.publish(name, b"new")
        assert [each.headers["subscription"] for each in consumer.messages()] == ["/queue/b", "/topic/t"]
        self.resume(scene)
        assert [each.body for each in consumer.messages()] == [b"0", b"1", b"2", b"new"]

    def test_lets_a_stream_be_read(self, stage: Stage) -> None:
        """Each reader has a copy of its own: no other node would give it to another one instead."""
        scene = stage({"/topic/a": {"log_messages": 9}}, stored=True)
        publisher = scene.connect()
        for number in range(3):
            publisher.publish("/topic/a", b"%d" % number)
        scene.commit()
        storage = scene.broker.storage
        assert storage is not None
        scene.broker.suspend(storage)
        storage.refuse("the reason", "what clients read")
        reader = scene.connect()
        reader.subscribe("/topic/a", ack="client-individual", **{"from-seq": "0", "prefetch-count": "1"})
        for number in range(3):
            [message] = reader.messages()
            assert message.body == b"%d" % number
            reader.ack(message)
        publisher.publish("/topic/a", b"new")
        assert b"durable messages are refused for now: what clients read" in publisher.error().body
        self.resume(scene)

    def test_takes_what_is_to_be_stored(self, scene: Scene) -> None:
        consumer, publisher, storage = self.suspended(scene), scene.connect(), scene.vault.storage
        assert storage.holds_back
        publisher.publish("/queue/b", b"new", receipt="r", **P)
        assert not publisher.receipts()
        scene.commit()
        assert publisher.receipts() == ["r"]
        assert not consumer.messages()
        before = scene.vault.reliefs
        self.resume(scene)
        assert (storage.holds_back, scene.vault.reliefs) == (False, before + 1)
        assert len(consumer.messages()) == 4

    def test_refuses_it_when_it_takes_long(self, scene: Scene) -> None:
        self.suspended(scene)
        publisher, storage, before = scene.connect(), scene.vault.storage, scene.vault.reliefs
        storage.refuse("the reason", "what clients read")
        assert (storage.holds_back, storage.failure, scene.vault.reliefs) == (False, "the reason", before + 1)
        publisher.publish("/queue/a", b"new", **P)
        assert b"durable messages are refused for now: what clients read" in publisher.error().body
        self.resume(scene)

    def test_ends(self, scene: Scene) -> None:
        consumer = self.suspended(scene)
        for _ in range(2):
            self.resume(scene)
        assert [each.body for each in consumer.messages()] == [b"0", b"1", b"2"]
        scene.connect().publish("/queue/a", b"new", **P)
        scene.commit()
        assert [each.body for each in consumer.messages()] == [b"new"]
