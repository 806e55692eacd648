"""After a crash, what may have been delivered is marked; the rest is not, but for what was next."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .client import Client, Scene, Step
from .conftest import Stage
from .durable import ONE, TWO, P, fill, marks


@pytest.fixture
def scene(stage: Stage) -> Scene:
    return stage(stored=True)


def numbers(*consumers: Client) -> set[int]:
    """What has come to them."""
    return {int(message.body) for consumer in consumers for message in consumer.messages()}


def step(scene: Scene) -> None:
    """The committer writes what there is, once; what follows from that is not written yet."""
    scene.vault.write(scene.vault.take())


def take_turns(scene: Scene, consumer: Client, turns: int) -> set[int]:
    """Acknowledge what comes; with each turn the store learns of the turn before.  What came."""
    seen: set[int] = set()
    for _ in range(turns):
        messages = consumer.messages()
        seen |= {int(message.body) for message in messages}
        step(scene)
        for message in messages:
            consumer.ack(message)
    return seen | numbers(consumer)


def unmarked(scene: Scene, seen: set[int]) -> set[int]:
    """What somebody has seen, and it comes again as if nobody had."""
    return {number for number, marked in marks(scene.crash()).items() if number in seen and not marked}


class TestWhatWasDelivered:
    def test_what_was_delivered_in_the_batch_of_its_row(self, scene: Scene) -> None:
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack="client", **ONE)
        fill(scene, 5)
        assert marks(scene.crash()) == {0: True, 1: False, 2: False, 3: False, 4: False}

    def test_what_waited(self, scene: Scene) -> None:
        fill(scene, 30)
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack="client", **TWO)
        assert not consumer.received()  # the store must know first
        scene.commit()
        assert len(consumer.messages()) == 2
        found = marks(scene.crash())
        assert found[0]
        assert found[1]
        assert not any(found[number] for number in range(10, 30))

    def test_nothing_where_nobody_came(self, scene: Scene) -> None:
        fill(scene, 3)
        scene = scene.crash()
        scene = scene.crash()
        assert marks(scene) == dict.fromkeys(range(3), False)

    def test_nothing_behind_an_orderly_stop(self, scene: Scene) -> None:
        fill(scene, 5)
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack="client", **ONE)
        scene.commit()
        assert len(consumer.messages()) == 1
        assert marks(scene.restart()) == {0: True, 1: False, 2: False, 3: False, 4: False}

    def test_every_consumer_that_comes_waits_for_the_store(self, scene: Scene) -> None:
        fill(scene, 10)
        consumers = [scene.connect() for _ in range(3)]
        for consumer in consumers:
            consumer.subscribe("/queue/a", ack="client", **TWO)
        assert not unmarked(scene, numbers(*consumers))

    def test_nobody_gets_anything_before_his_batch_is_written(self, scene: Scene) -> None:
        fill(scene, 10)
        scene.connect().publish("/queue/b", b"m", **P)
        batch = scene.vault.take()
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack="client")
        scene.vault.write(batch)
        assert not unmarked(scene, numbers(consumer))

    @pytest.mark.parametrize("turns", [1, 2, 3, 10, 11])
    @pytest.mark.parametrize("between", [0, 1, 5, 100])
    def test_wherever_the_rows_of_a_queue_stand_among_others(self, scene: Scene, between: int, turns: int) -> None:
        """Numbers are the broker's: those of other destinations stand between."""
        client, consumer = scene.connect(), scene.connect()
        consumer.subscribe("/queue/a", ack="client", **ONE)
        for number in range(20):
            client.publish("/queue/a", b"%d" % number, **P)
            for _ in range(between):
                client.publish("/topic/a", b"")
        scene.commit()
        seen = take_turns(scene, consumer, turns)
        assert len(seen) >= turns // 2
        assert not unmarked(scene, seen)

    def test_whatever_is_delivered_between_two_batches(self, scene: Scene) -> None:
        """A consumer that acknowledges fast may get any number of messages before the next batch is written."""
        fill(scene, 40)
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack="client-individual", **ONE)
        step(scene)
        seen: set[int] = set()
        while message := next(iter(consumer.messages()), None):
            seen.add(int(message.body))
            consumer.ack(message)
        assert not unmarked(scene, seen)

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_however_much_is_delivered_at_once(self, stage: Stage, ack: str) -> None:
        scene = stage(stored=True, max_unacknowledged=2)
        fill(scene, 40)
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack=ack, **{"prefetch-count": "0"})
        got: set[int] = set()
        for _ in range(30):
            step(scene)
            got |= {int(message.body) for message in consumer.messages()}
        assert got == set(range(40))
        killed = scene.crash()
        if ack == "client":
            assert all(marks(killed).values())

    def test_in_mode_auto_until_the_row_is_gone(self, stage: Stage) -> None:
        scene = stage(stored=True, max_unacknowledged=2)
        fill(scene, 40)
        consumer = scene.connect()
        consumer.subscribe("/queue/a")
        step(scene)
        assert not unmarked(scene, numbers(consumer))

    @pytest.mark.parametrize("first", ["clean", "killed"])
    def test_not_forgotten_over_several_restarts(self, scene: Scene, first: str) -> None:
        fill(scene, 5)
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack="client")
        scene.commit()
        assert len(consumer.messages()) == 5
        scene = scene.crash()
        scene = scene.restart() if first == "clean" else scene.crash()
        assert marks(scene) == dict.fromkeys(range(5), True)

    def test_nor_what_was_read_meanwhile(self, scene: Scene) -> None:
        fill(scene, 5)
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack="client")
        scene.commit()
        assert len(consumer.messages()) == 5
        scene = scene.crash()
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack="client", **ONE)
        scene.commit()
        assert marks(scene.restart()) == dict.fromkeys(range(5), True)

    def test_nor_by_a_consumer_that_takes_less(self, scene: Scene) -> None:
        fill(scene, 9)
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack="client")
        scene.commit()
        assert len(consumer.messages()) == 9
        scene = scene.crash()
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack="client", **ONE)
        scene.commit()
        assert len(consumer.messages()) == 1
        assert marks(scene.crash()) == dict.fromkeys(range(9), True)

    @pytest.mark.parametrize("headers", [{}, {"exclusive": "true"}])
    @pytest.mark.parametrize("leave", [Client.unsubscribe, Client.drop])
    def test_nor_when_another_consumer_leaves_meanwhile(
        self, scene: Scene, leave: Step, headers: dict[str, str]
    ) -> None:
        fill(scene, 10)
        first, second = scene.connect(), scene.connect()
        first.subscribe("/queue/a", ack="client", **ONE, **headers)
        scene.commit()
        second.subscribe("/queue/a", ack="client", **{"prefetch-count": "6"})
        leave(first)
        assert not unmarked(scene, numbers(first, second))

    def test_a_consumer_may_have_gone_when_the_store_is_ready(self, scene: Scene) -> None:
        fill(scene, 3)
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack="client")
        consumer.unsubscribe()
        scene.commit()
        assert not consumer.received()
        assert list(marks(scene)) == [0, 1, 2]

    @pytest.mark.parametrize("leave", [Client.unsubscribe, Client.drop])
    def test_nor_of_its_group(self, scene: Scene, leave: Step) -> None:
        """What is parked with a consumer waits for the store, and the consumer goes."""
        client, consumer = scene.connect(), scene.connect()
        consumer.subscribe("/queue/a", ack="client", **ONE)
        for number in range(4):
            client.publish("/queue/a", b"%d" % number, JMSXGroupID="g", **P)
        scene.commit()
        consumer.ack(consumer.message())
        assert not consumer.received()
        leave(consumer)
        scene.commit()
        assert not consumer.received()
        assert list(marks(scene)) == [1, 2, 3]

    def test_while_the_store_fails_consumers_come_all_the_same(self, scene: Scene) -> None:
        fill(scene, 3)
        consumer = scene.connect()
        scene.store.failure = "the disk is full"
        consumer.subscribe("/queue/a", ack="client")
        scene.commit()
        assert len(consumer.messages()) == 3

    def test_who_comes_where_nothing_stored_waits_need_not_wait(self, scene: Scene) -> None:
        client, consumer, other = scene.connect(), scene.connect(), scene.connect()
        client.publish("/queue/a", b"0")
        consumer.subscribe("/queue/a", ack="client")
        client.publish("/queue/a", b"1", **P)
        assert consumer.bodies() == [b"0", b"1"]
        other.subscribe("/queue/b")
        client.publish("/queue/b", b"2", **P)
        assert other.bodies() == [b"2"]

    def test_a_delivery_costs_the_store_next_to_nothing(self, stage: Stage) -> None:
        scene = stage(stored=True)
        fill(scene, 200)
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack="client", **{"prefetch-count": "10"})
        scene.commit()
        before = len(scene.store.batches)
        described = 0
        while messages := consumer.messages():
            for message in messages:
                consumer.ack(message)
            described += sum(len(batch.places) for batch in scene.commit())
        assert len(scene.store.batches) > before
        assert described <= 25


class TestInWhateverOrder:
    """What is next is not always what stands next in the store."""

    @pytest.mark.parametrize("turns", range(1, 8))
    @pytest.mark.parametrize("restarted", [False, True])
    @pytest.mark.parametrize(
        "headers",
        [
            lambda number: {},
            lambda number: {"JMSXGroupID": "g"},
            lambda number: {"JMSXGroupID": "gh"[number % 2]},
            lambda number: {"priority": str(9 - number % 10)},
            lambda number: {"priority": str(number % 10)},
            lambda number: {"_AMQ_LVQ_NAME": str(number % 15)},
        ],
    )
    def test_all_that_came_is_marked(
        self, scene: Scene, headers: Callable[[int], dict[str, str]], restarted: bool, turns: int
    ) -> None:
        client, consumer = scene.connect(), scene.connect()
        consumer.subscribe("/queue/a", ack="client", **ONE)
        for number in range(30):
            client.publish("/queue/a", b"%d" % number, **P, **headers(number))
            scene.commit()
        if restarted:
            scene = scene.restart()
            consumer = scene.connect()
            consumer.subscribe("/queue/a", ack="client", **ONE)
            scene.commit()
        seen = take_turns(scene, consumer, turns)
        assert seen
        assert not unmarked(scene, seen)

    @pytest.mark.parametrize("turns", range(1, 5))
    @pytest.mark.parametrize("restarted", [False, True])
    def test_for_somebody_who_wants_few(self, scene: Scene, restarted: bool, turns: int) -> None:
        client = scene.connect()
        for number in range(40):
            client.publish("/queue/a", b"%d" % number, kind="ab"[number % 10 == 9], **P)
        scene.commit()
        if restarted:
            scene = scene.crash()
        consumer = scene.connect()
        consumer.subscribe("/queue/a", ack="client", selector="kind = 'b'", **ONE)
        scene.commit()
        seen = take_turns(scene, consumer, turns)
        assert seen
        assert not unmarked(scene, seen)

    def test_for_a_group_whose_message_is_older(self, scene: Scene) -> None:
        """What is parked with a consumer goes before what has just come, which need not wait for the store."""
        client, consumer = scene.connect(), scene.connect()
        consumer.subscribe("/queue/a", ack="client", **ONE)
        for number in range(2):
            client.publish("/queue/a", b"%d" % number, JMSXGroupID="g", **P)
        scene.commit()
        client.publish("/queue/a", b"2", **P)
        consumer.ack(consumer.message())
        assert not consumer.received()
        step(scene)
        seen = numbers(consumer)
        assert seen == {1}
        assert not unmarked(scene, seen)

    @pytest.mark.parametrize(
        "headers",
        [
            lambda number: {"JMSXGroupID": "gh"[number % 2]},
            lambda number: {"priority": str(number % 10)},
            lambda number: {"kind": "ab"[number % 2]},
        ],
    )
    def test_few_have_to_wait_for_the_store(self, scene: Scene, headers: Callable[[int], dict[str, str]]) -> None:
        client, consumer, other = scene.connect(), scene.connect(), scene.connect()
        for number in range(100):
            client.publish("/queue/a", b"%d" % number, **P, **headers(number))
        scene.commit()
        consumer.subscribe("/queue/a", ack="client", selector="kind IS NULL OR kind = 'a'", **ONE)
        other.subscribe("/queue/a", ack="client", selector="kind = 'b'", **ONE)
        scene.commit()
        waited = 0
        for _ in range(40):
            consumer.ack(consumer.message())
            if not (consumer.session.outstanding or consumer.session.outbox.parts):
                waited += 1
                scene.commit()
        assert waited <= 1

    def test_beside_somebody_who_takes_more(self, scene: Scene) -> None:
        fill(scene, 40)
        first, second = scene.connect(), scene.connect()
        first.subscribe("/queue/a", ack="client", **ONE)
        step(scene)
        second.subscribe("/queue/a", ack="client", **{"prefetch-count": "20"})
        step(scene)
        step(scene)
        seen = numbers(first, second)
        assert len(seen) == 21
        assert not unmarked(scene, seen)
