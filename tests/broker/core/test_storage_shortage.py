"""What a store that is short of room, or fails, means for clients: who is refused, who goes on, and what they read."""

from __future__ import annotations

import pytest

from gateway.broker.core.storage import Storage

from ..client import Scene
from ..conftest import Stage

P = {"persistent": "true"}
REASON = "/var/lib/store.db: 100 octets are free"
TOLD = "the disk is nearly full"


@pytest.fixture
def scene(stage: Stage) -> Scene:
    return stage(stored=True)


@pytest.fixture
def storage(scene: Scene) -> Storage:
    return scene.vault.storage


def detail(scene: Scene) -> bytes:
    """What a client reads whose durable message is refused."""
    client = scene.connect()
    client.publish("/queue/refused", b"m", **P)
    error = client.error()
    assert error.headers["message"] == "the store cannot be written"
    return error.body


class TestShort:
    def test_new_durable_messages_are_refused(self, scene: Scene, storage: Storage) -> None:
        assert not storage.is_short
        storage.run_short(REASON, TOLD)
        assert (storage.failure, storage.is_failing, storage.is_short) == (REASON, False, True)
        assert detail(scene) == b"durable messages are refused for now: the disk is nearly full"
        assert not scene.broker.context.waiting

    def test_also_in_a_transaction(self, scene: Scene, storage: Storage) -> None:
        client = scene.connect()
        client.begin()
        client.publish("/queue/a", b"m", transaction="t", **P)
        storage.run_short(REASON, TOLD)
        client.commit()
        assert client.error().headers["message"] == "the store cannot be written"
        assert not scene.commit()

    def test_all_else_is_written(self, scene: Scene, storage: Storage) -> None:
        client = scene.connect()
        client.subscribe("/queue/a", ack="client-individual")
        scene.commit()
        for number in range(2):
            client.publish("/queue/a", b"%d" % number, **P)
        first, second = client.messages()
        storage.run_short(REASON, TOLD)
        scene.commit()
        assert len(scene.store.rows) == 2
        client.ack(first, receipt="1")
        client.nack(second, requeue="false", receipt="2")
        scene.commit()
        assert client.receipts() == ["1", "2"]
        (row,) = scene.store.rows.values()
        assert scene.store.places[row.place].name == "/queue/dlq.a"

    def test_what_is_not_stored_goes_on(self, scene: Scene, storage: Storage) -> None:
        storage.run_short(REASON, TOLD)
        client = scene.connect()
        client.subscribe("/queue/a")
        client.subscribe("/topic/a", "1")
        client.publish("/queue/a", b"queue")
        client.publish("/topic/a", b"topic", **P)
        assert client.bodies() == [b"queue", b"topic"]

    def test_ends(self, scene: Scene, storage: Storage) -> None:
        storage.run_short(REASON, TOLD)
        assert scene.broker.context.checks_sends
        storage.has_room()
        assert (storage.failure, storage.is_short, scene.broker.context.checks_sends) == ("", False, False)
        assert scene.vault.reliefs == 1
        client = scene.connect()
        client.publish("/queue/a", b"m", receipt="r", **P)
        scene.commit()
        assert client.receipts() == ["r"]

    def test_room_that_was_there_is_no_news(self, scene: Scene, storage: Storage) -> None:
        storage.has_room()
        assert not scene.vault.reliefs


class TestBoth:
    def test_the_failure_is_told(self, scene: Scene, storage: Storage) -> None:
        storage.run_short(REASON, TOLD)
        storage.failed("/var/lib/store.db cannot grow", "the disk is full")
        assert storage.failure == "/var/lib/store.db cannot grow"
        assert detail(scene) == b"durable messages are refused for now: the disk is full"

    @pytest.mark.parametrize("first", ["room", "works"])
    def test_each_ends_for_itself(self, scene: Scene, storage: Storage, first: str) -> None:
        storage.run_short(REASON, TOLD)
        storage.failed("/var/lib/store.db cannot grow", "the disk is full")
        ends = {"room": storage.has_room, "works": storage.works}
        ends.pop(first)()
        assert storage.failure
        assert scene.broker.context.checks_sends
        (last,) = ends.values()
        last()
        assert storage.failure == ""
        assert not scene.broker.context.checks_sends


class TestWhatClientsRead:
    def test_the_reason_where_it_names_nothing(self, scene: Scene, storage: Storage) -> None:
        storage.failed("the disk is full")
        assert detail(scene) == b"durable messages are refused for now: the disk is full"


def test_messages_that_get_a_row_are_counted(scene: Scene, storage: Storage) -> None:
    client = scene.connect()
    client.publish("/queue/a", b"m")
    client.publish("/topic/a", b"m", **P)
    assert storage.entered == 0
    client.publish("/queue/a", b"m", **P)
    client.publish("/queue/b,/queue/c", b"m", **P)
    assert storage.entered == 3
    scene.commit()
    client.subscribe("/queue/b")
    scene.commit()
    assert storage.entered == 3
