"""What is stored, in which batch, and who waits for it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gateway.broker.core.storage import Storage
from gateway.broker.model.changes import Batch
from gateway.broker.queue.queue import Queue

from ..client import Scene
from ..conftest import Stage, small

P = {"persistent": "true"}
DURABLE = {"#": {"backoff": 0.0, "durable": True}}
NOT_STORED = ["/topic/a", "/exchange/amq.direct/a", "/temp-topic/a", "/temp-queue/a"]


@pytest.fixture
def scene(stage: Stage) -> Scene:
    return stage(stored=True)


def bodies(scene: Scene) -> list[bytes]:
    """Of what is stored, in order."""
    return [scene.store.contents[scene.store.rows[row].content].body for row in sorted(scene.store.rows)]


def changes(batch: Batch) -> tuple[int, int, int]:
    """Rows that are new, have changed, are gone."""
    return len(batch.rows), len(batch.facts), len(batch.gone)


class TestWhatIsStored:
    def test_what_its_sender_wants_to_be(self, scene: Scene) -> None:
        client = scene.connect()
        client.publish("/queue/a", b"yes", **P)
        client.publish("/queue/a", b"no")
        client.publish("/queue/a", b"no", persistent="false")
        client.publish("/queue/a", b"yes, too", priority="7", **P)
        (batch,) = scene.commit()
        assert [(place.kind, place.name) for place in batch.places.values()] == [("queue", "/queue/a")]
        assert bodies(scene) == [b"yes", b"yes, too"]
        assert [row.rank for row in batch.rows.values()] == [5, 2]
        assert not any(row.transient for row in batch.rows.values())

    @pytest.mark.parametrize(("durable", "expected"), [(True, [b"0", b"1"]), (None, [b"1"]), (False, [])])
    def test_or_what_the_policy_says(self, stage: Stage, durable: bool | None, expected: list[bytes]) -> None:
        scene = stage({"/queue/#": {"durable": durable}}, stored=True)
        client = scene.connect()
        client.publish("/queue/a", b"0")
        client.publish("/queue/a", b"1", **P)
        scene.commit()
        assert bodies(scene) == expected

    @pytest.mark.parametrize("destination", NOT_STORED)
    def test_nothing_of_topics_and_temporary_destinations(self, stage: Stage, destination: str) -> None:
        scene = stage(DURABLE, stored=True)
        client, answering = scene.connect(), scene.connect()
        client.subscribe(destination)
        client.publish(destination, b"m", receipt="r", **P)
        assert [frame.command for frame in client.received()] == ["MESSAGE", "RECEIPT"]
        assert not scene.commit()
        answering.subscribe("/queue/a")
        client.stalled = True
        client.publish("/queue/a", b"?", **{"reply-to": "/temp-queue/r"})
        scene.commit()
        answering.publish(answering.message().headers["reply-to"], b"!", receipt="r", **P)
        assert answering.receipts() == ["r"]
        assert not scene.commit(), "nor of replies"


class TestElision:
    """What came and went within one batch is never written."""

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_a_message_that_was_consumed_at_once(self, scene: Scene, ack: str) -> None:
        client, consumer = scene.connect(), scene.connect()
        consumer.subscribe("/queue/a", ack=ack)
        scene.commit()
        client.publish("/queue/a", b"m", **P)
        if ack == "client":
            consumer.ack(consumer.message())
        batches = scene.commit()
        assert [changes(batch) for batch in batches] in ([], [(0, 0, 0)])

    def test_a_queue_that_was_made_for_it(self, scene: Scene) -> None:
        client = scene.connect()
        for number in range(5):
            client.subscribe(f"/queue/{number}", str(number))
            client.publish(f"/queue/{number}", b"m", receipt="r", **P)
            client.unsubscribe(str(number))
        assert scene.vault.take() is None
        scene.settle()
        assert [frame.command for frame in client.received()] == ["MESSAGE"] * 5 + ["RECEIPT"] * 5

    def test_not_while_it_is_being_written(self, scene: Scene) -> None:
        client = scene.connect()
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a", b"m", **P)
        first = scene.vault.take()
        client.ack(client.message())
        scene.vault.write(first)
        assert bodies(scene) == [b"m"]
        (second,) = scene.commit()
        assert changes(second) == (0, 0, 1)
        assert not bodies(scene)


class TestBatches:
    def test_numbers(self, scene: Scene) -> None:
        client = scene.connect()
        storage = scene.vault.storage
        assert (storage.number, storage.committed, storage.unwritten) == (1, 0, False)
        client.publish("/queue/a", b"m", **P)
        assert storage.unwritten
        batch = scene.vault.take()
        assert batch is not None
        assert (batch.number, storage.number, storage.committed) == (1, 2, 0)
        assert storage.unwritten
        scene.vault.write(batch)
        assert (storage.number, storage.committed, storage.unwritten) == (2, 1, False)
        assert scene.vault.take() is None, "an empty one is not written"
        assert (storage.committed, len(scene.store.batches)) == (2, 1)

    def test_the_committer_is_called_once_per_batch(self, scene: Scene) -> None:
        client = scene.connect()
        for _ in range(3):
            client.publish("/queue/a", b"m", **P)
        assert scene.vault.asked == 1
        batch = scene.vault.take()
        client.publish("/queue/a", b"m", **P)
        assert scene.vault.asked == 2
        scene.vault.write(batch)
        client.publish("/queue/a", b"m", **P)
        assert scene.vault.asked == 2

    def test_a_commit_is_in_one(self, scene: Scene) -> None:
        client, consumer = scene.connect(), scene.connect()
        client.publish("/queue/in", b"0", **P)
        client.publish("/queue/in", b"1", **P)
        scene.commit()
        consumer.subscribe("/queue/in", ack="client-individual")
        scene.commit()
        first, second = consumer.messages()
        consumer.begin()
        consumer.publish("/queue/out", b"a", transaction="t", **P)
        consumer.ack(first, transaction="t")
        consumer.publish("/queue/other", b"b", transaction="t", **P)
        consumer.nack(second, transaction="t", requeue="false")
        assert not scene.commit()
        consumer.commit()
        (batch,) = scene.commit()
        assert changes(batch) == (3, 0, 2)  # two SENDs and a dead letter; an ACK and a NACK
        places = {scene.store.places[row.place].name for row in scene.store.rows.values()}
        assert places == {"/queue/out", "/queue/other", "/queue/dlq.in"}

    @pytest.mark.parametrize("persistent", ["true", "false"])
    def test_a_dead_letter_comes_with_the_end_of_its_original(self, scene: Scene, persistent: str) -> None:
        client = scene.connect()
        client.publish("/queue/a", b"m", persistent=persistent)
        scene.commit()
        client.subscribe("/queue/a", ack="client")
        scene.commit()
        client.nack(client.message(), requeue="false")
        batches = scene.commit()
        if persistent == "false":
            assert not bodies(scene), "it outlives the process only if its original did"
            return
        assert [changes(batch) for batch in batches] == [(1, 0, 1)]
        (row,) = scene.store.rows.values()
        assert scene.store.places[row.place].name == "/queue/dlq.a"
        assert scene.store.contents[row.content].headers["dlq-reason"] == "rejected"


class TestReceipts:
    def test_not_for_what_is_not_stored(self, scene: Scene) -> None:
        client = scene.connect()
        client.publish("/queue/a", b"m", receipt="1")
        client.publish("/topic/a", b"m", receipt="2", **P)
        client.send("BEGIN", {"transaction": "t", "receipt": "3"})
        client.publish("/queue/a", b"m", receipt="4", transaction="t", **P)
        client.send("ABORT", {"transaction": "t", "receipt": "5"})
        client.subscribe("/queue/a", ack="client", receipt="6")
        message = client.received()[-1]
        assert message.body == b"m"
        client.ack(message, receipt="7")
        assert client.receipts() == ["7"]
        assert not scene.vault.storage.unwritten

    def test_in_order(self, scene: Scene) -> None:
        """A RECEIPT says that all frames before it were carried out, too."""
        client = scene.connect()
        client.publish("/topic/a", b"m", receipt="1")
        client.publish("/queue/a", b"m", receipt="2", **P)
        client.publish("/topic/a", b"m", receipt="3")
        assert client.receipts() == ["1"]
        batch = scene.vault.take()
        client.publish("/queue/a", b"m", receipt="4", **P)
        client.publish("/topic/a", b"m", receipt="5")
        scene.vault.write(batch)
        assert client.receipts() == ["2", "3"]
        scene.commit()
        client.publish("/topic/a", b"m", receipt="6")
        assert client.receipts() == ["4", "5", "6"]

    @pytest.mark.requirement("DSC-03")
    def test_of_a_disconnect(self, scene: Scene) -> None:
        client = scene.connect()
        client.publish("/queue/a", b"m", receipt="1", **P)
        other = scene.connect()
        other.send("DISCONNECT", {"receipt": "r"})
        assert other.closed
        assert other.receipts() == ["r"], "it changed nothing"
        client.send("DISCONNECT", {"receipt": "2"})
        assert not client.closed
        assert not client.receipts()
        scene.commit()
        assert client.closed
        assert client.receipts() == ["1", "2"]

    def test_none_behind_an_error(self, scene: Scene) -> None:
        client = scene.connect()
        client.publish("/queue/a", b"m", receipt="1", **P)
        client.send("BOGUS", {"receipt": "2"})
        assert client.error().headers["receipt-id"] == "2"
        scene.commit()
        assert not client.received()
        assert bodies(scene) == [b"m"]


class TestFailure:
    @pytest.fixture
    def failing(self, scene: Scene) -> Scene:
        """A scene whose store has just failed."""
        client = scene.connect()
        client.publish("/queue/before", b"before", receipt="r", **P)
        scene.store.failure = "the disk is full"
        assert not scene.commit()
        assert not client.receipts()
        return scene

    @pytest.mark.parametrize(
        ("destination", "headers"),
        [
            ("/queue/before", P),
            ("/queue/new", P),
            ("/queue/policy", {}),
            ("/topic/a,/queue/a", P),
            ("/queue/a", P | {"priority": "9"}),
            ("/queue/a", P | {"x-delay": "5000"}),
        ],
    )
    def test_refuses_durable_messages(self, stage: Stage, destination: str, headers: dict[str, str]) -> None:
        scene = stage({"/queue/policy": {"durable": True}}, stored=True)
        client, other = scene.connect(), scene.connect()
        other.publish("/queue/before", b"before", **P)
        scene.store.failure = "the disk is full"
        scene.commit()
        client.publish(destination, b"m", receipt="r", **headers)
        error = client.error()
        assert error.headers["message"] == "the store cannot be written"
        assert b"the disk is full" in error.body
        assert error.headers["receipt-id"] == "r"
        assert scene.broker.context.waiting == 1

    def test_refuses_a_commit_as_a_whole(self, failing: Scene) -> None:
        failing.store.failure = ""
        failing.commit()
        client = failing.connect()
        client.begin()
        client.publish("/queue/a", b"m", transaction="t")
        client.publish("/queue/b", b"m", transaction="t", **P)
        failing.connect().publish("/queue/before", b"m", **P)
        failing.store.failure = "the disk is full"
        failing.commit()
        client.commit()
        assert client.error().headers["message"] == "the store cannot be written"
        assert set(failing.broker.destinations) == {"/queue/before"}

    def test_lets_what_is_not_stored_go_on(self, stage: Stage) -> None:
        scene = stage({"/queue/never": {"durable": False}, "/queue/policy": {}}, stored=True)
        client, other = scene.connect(), scene.connect()
        scene.vault.storage.check()
        other.publish("/queue/before", b"before", **P)
        scene.store.failure = "the disk is full"
        scene.commit()
        for id, name in enumerate(["/queue/a", "/queue/never", *NOT_STORED]):
            client.subscribe(name, str(id))
            client.publish(name, name.encode(), receipt=name, **(P if id else {}))
            assert {frame.command for frame in client.received()} == {"MESSAGE", "RECEIPT"}
        client.begin()
        client.publish("/queue/a", b"3", transaction="t")
        client.commit()
        assert client.bodies() == [b"3"]

    def test_ends_by_itself(self, failing: Scene) -> None:
        storage = failing.vault.storage
        assert storage.failure == "the disk is full"
        assert failing.broker.context.checks_sends
        before, client = failing.clients[0], failing.connect()
        failing.store.failure = ""
        assert [batch.number for batch in failing.commit()] == [1]
        assert storage.failure == ""
        assert not failing.broker.context.checks_sends
        assert before.receipts() == ["r"]
        client.publish("/queue/a", b"m", receipt="r", **P)
        failing.commit()
        assert client.receipts() == ["r"]
        assert bodies(failing) == [b"before", b"m"]

    def test_the_same_batch_is_tried_again_and_others_gather(self, failing: Scene) -> None:
        first = failing.vault.take()
        assert first is not None
        failing.vault.write(first)
        client = failing.connect()
        client.subscribe("/queue/before", ack="client")
        failing.vault.write(first)
        assert client.bodies() == [b"before"]
        client.disconnect()
        assert failing.vault.take() is first
        failing.store.failure = ""
        assert [batch.number for batch in failing.commit()] == [1, 2]
        (row,) = failing.store.rows.values()
        assert row.facts == '{"attempts":1}'


@small(unwritten_bytes=5_000)
@pytest.mark.parametrize("fails", [True, False])
def test_too_much_that_waits_to_be_written_is_pressure(scene: Scene, fails: bool) -> None:
    storage, client = scene.vault.storage, scene.connect()
    client.publish("/queue/a", b"x" * 3_000, **P)
    assert not storage.is_behind
    first = scene.vault.take()
    client.publish("/queue/a", b"x" * 3_000, **P)
    assert storage.is_behind
    if fails:
        scene.store.failure = "the disk is full"
        scene.vault.write(first)
        assert storage.is_behind
        scene.store.failure = ""
    scene.vault.write(first)
    assert not storage.is_behind
    scene.commit()
    assert scene.vault.reliefs == 1


class TestReads:
    @pytest.fixture
    def found(self) -> list[bytes]:
        return []

    def read(self, scene: Scene, rows: list[int], found: list[bytes]) -> None:
        scene.vault.storage.read(rows, lambda some: found.extend(each.content.body for each in some))

    @pytest.mark.parametrize("count", [1, 2])
    def test_behind_the_batch_that_is_being_written_or_gathers(
        self, scene: Scene, count: int, found: list[bytes]
    ) -> None:
        client = scene.connect()
        client.publish("/queue/a", b"0", **P)
        first = scene.vault.take()
        client.publish("/queue/a", b"1", **P)
        queue = scene.broker.destinations["/queue/a"]
        assert isinstance(queue, Queue)
        self.read(scene, [message.row for message in queue.waiting_messages()][:count], found)
        scene.vault.write(None)
        assert found == []
        scene.vault.write(first)
        assert found == ([b"0"] if count == 1 else [])
        scene.commit()
        assert found == [b"0", b"1"][:count]

    def test_in_order_and_each_once(self, scene: Scene, found: list[bytes]) -> None:
        client, asked = scene.connect(), scene.vault
        for number in range(3):
            client.publish("/queue/a", b"%d" % number, **P)
        scene.commit()
        before, rows = asked.asked, sorted(scene.store.rows)
        for row in reversed(rows):
            self.read(scene, [row], found)
        assert asked.asked == before + 1
        scene.vault.storage.read(rows, lambda _: self.read(scene, rows, found))  # an action may ask for more
        for _ in range(2):
            scene.commit()
        assert found == [b"2", b"1", b"0", b"0", b"1", b"2"]


def test_numbers_of_messages_and_places_are_never_used_again(scene: Scene) -> None:
    """Neither those that were stored nor those that were not: message-ids are unique over restarts (MSG-02)."""
    seen: list[str] = []
    for round in range(3):
        client = scene.connect()
        client.subscribe("/queue/a", ack="client")
        scene.commit()
        for headers in ({}, P, {}):
            client.publish("/queue/a", b"m", **headers)
        client.publish(f"/queue/{round}", b"m", **P)
        seen += [message.message_id.partition("-")[2] for message in client.messages() if not message.redelivered]
        scene.commit()
        scene = scene.crash()
    assert len(set(seen)) == len(seen) == 9
    assert all(int(one) < int(other) for one, other in pairwise(seen))
    places = [(place.number, place.name) for place in scene.store.places.values()]
    assert sorted(places) == [(1, "/queue/a"), (2, "/queue/0"), (3, "/queue/1"), (4, "/queue/2")]


class TestShortage:
    """Little room is left, for which a reason is for the log and another one for clients."""

    REASON, TOLD = "/var/lib/store.db: 100 bytes are free", "the disk is nearly full"

    @pytest.fixture
    def storage(self, scene: Scene) -> Storage:
        return scene.vault.storage

    def detail(self, scene: Scene) -> bytes:
        """The refusal of a durable message, as its client reads it."""
        client = scene.connect()
        client.publish("/queue/refused", b"m", **P)
        error = client.error()
        assert error.headers["message"] == "the store cannot be written"
        return error.body

    def test_new_durable_messages_are_refused(self, scene: Scene, storage: Storage) -> None:
        storage.room_came()
        assert (storage.is_short, scene.vault.reliefs) == (False, 0)
        client = scene.connect()
        client.begin()
        client.publish("/queue/a", b"m", transaction="t", **P)
        storage.run_short(self.REASON, self.TOLD)
        assert (storage.failure, storage.is_failing, storage.is_short) == (self.REASON, False, True)
        assert scene.broker.context.checks_sends
        assert self.detail(scene) == b"durable messages are refused for now: the disk is nearly full"
        client.commit()
        assert client.error().headers["message"] == "the store cannot be written"
        assert not scene.broker.context.waiting
        assert not scene.commit()
        storage.room_came()
        assert (storage.failure, storage.is_short, scene.broker.context.checks_sends) == ("", False, False)
        assert scene.vault.reliefs == 1
        client = scene.connect()
        client.publish("/queue/a", b"m", receipt="r", **P)
        scene.commit()
        assert client.receipts() == ["r"]

    @pytest.mark.parametrize("first", ["room", "works"])
    def test_a_failure_besides_is_told_and_each_ends_for_itself(
        self, scene: Scene, storage: Storage, first: str
    ) -> None:
        storage.run_short(self.REASON, self.TOLD)
        storage.failed("/var/lib/store.db cannot grow", "the disk is full")
        assert storage.failure == "/var/lib/store.db cannot grow"
        assert self.detail(scene) == b"durable messages are refused for now: the disk is full"
        ends = {"room": storage.room_came, "works": storage.works}
        ends.pop(first)()
        assert storage.failure
        assert scene.broker.context.checks_sends
        (last,) = ends.values()
        last()
        assert storage.failure == ""
        assert not scene.broker.context.checks_sends
        storage.failed("it is gone")
        assert self.detail(scene) == b"durable messages are refused for now: it is gone"


class TestWaiting:
    """A failure that may pass by itself: the election of a cluster."""

    def test_publishers_are_held_back_and_receipts_wait(self, scene: Scene) -> None:
        client, storage = scene.connect(), scene.vault.storage
        client.publish("/queue/a", b"m", receipt="r", **P)
        batch = scene.vault.take()
        storage.wait()
        assert (storage.holds_back, storage.failure, client.receipts()) == (True, "", [])
        assert storage.take() is batch
        assert scene.vault.write(batch)
        assert (storage.holds_back, scene.vault.reliefs, client.receipts()) == (False, 1, ["r"])

    def test_ends_in_a_failure(self, scene: Scene) -> None:
        client, storage = scene.connect(), scene.vault.storage
        client.publish("/queue/a", b"m", receipt="r", **P)
        scene.vault.take()
        storage.wait()
        storage.failed("no answer")
        assert (storage.holds_back, storage.failure, scene.vault.reliefs) == (False, "no answer", 1)
        client.publish("/queue/a", b"m", **P)
        assert client.error().headers["retry-after"] == "5000"
        scene.commit()


def test_messages_that_get_a_row_are_counted(scene: Scene) -> None:
    client, storage = scene.connect(), scene.vault.storage
    client.publish("/queue/a", b"m")
    client.publish("/topic/a", b"m", **P)
    assert storage.entered == 0
    client.publish("/queue/a,/queue/b,/queue/c", b"m", **P)
    assert storage.entered == 3
    scene.commit()
    client.subscribe("/queue/b")
    scene.commit()
    assert storage.entered == 3
