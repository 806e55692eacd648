"""What waits beyond what memory holds: it goes out to the store and comes back in time, in order, and is counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.broker.core.work_limits import WorkLimits
from gateway.broker.queue.page_index import PageIndex
from gateway.broker.queue.queue import Queue

from ..client import Client, Scene
from ..conftest import Stage, small
from ..durable import ONE, P, drain, fill, marks, storage, stored
from ..store import MemoryStore
from .helpers import QUEUE, queue_of

SMALL = 1_500  # what memory may hold: about two messages
PAGES = {"few_messages": 2, "page_messages": 3, "index_slack": 4}


@pytest.fixture
def work_limits() -> WorkLimits:
    return WorkLimits(in_memory_bytes=SMALL, **PAGES)


@pytest.fixture
def scene(stage: Stage) -> Scene:
    return stage(stored=True)


def count(scene: Scene) -> int:
    """Messages in the backlog."""
    paged = storage(scene).paged
    return 0 if paged is None else paged.count


def publish(client: Client, numbers: range, **headers: str) -> None:
    for number in numbers:
        client.publish(QUEUE, b"%d" % number, **headers)


def consume(scene: Scene, consumer: Client, *, most: int = 1_000) -> list[int]:
    """Acknowledge whatever comes, until nothing does; what came."""
    found: list[int] = []
    idle = 0
    while idle < 3 and len(found) < most:
        messages = consumer.messages()
        idle = 0 if messages else idle + 1
        for message in messages:
            found.append(int(message.body))
            consumer.ack(message)
        scene.vault.write(scene.vault.take())
    return found


class TestSpill:
    @pytest.mark.parametrize("headers", [P, {}])
    def test_what_comes_beyond_the_limit(self, scene: Scene, headers: dict[str, str]) -> None:
        client = scene.connect()
        publish(client, range(10), **headers)
        assert 2 <= 10 - count(scene) <= 4
        assert scene.broker.context.waiting == queue_of(scene).waiting == 10
        assert scene.broker.memory.used == queue_of(scene).nbytes - storage(scene).paged.nbytes  # type: ignore[union-attr]
        assert scene.broker.memory.used < queue_of(scene).nbytes
        assert stored(scene) == (10 if headers else 0)

    @pytest.mark.parametrize("durable", [None, True])
    def test_the_next_ones_follow_until_it_is_empty(self, stage: Stage, durable: bool | None) -> None:
        scene = stage({QUEUE: {"durable": durable}}, stored=True)
        client, consumer = scene.connect(), scene.connect()
        publish(client, range(6))
        consumer.subscribe(QUEUE, ack="client", **ONE)
        scene.commit()
        got = []
        for number in range(6, 20):
            publish(client, range(number, number + 1))
            got += consume(scene, consumer, most=1)
        got += consume(scene, consumer)
        assert got == list(range(20))
        assert count(scene) == 0
        publish(client, range(20, 21))  # nothing is before it: it stays in memory
        assert count(scene) == 0
        assert consume(scene, consumer) == [20]

    @small(in_memory_bytes=10_000, least_in_memory_bytes=SMALL, **PAGES)
    def test_earlier_where_memory_is_short(self, stage: Stage) -> None:
        """However many queues there are, their backlogs cost no memory that publishers would have to wait for."""
        scene = stage(stored=True, memory_limit=160_000)
        client = scene.connect()
        for name in range(20):
            for number in range(40):
                client.publish(f"/queue/{name}", b"%d" % number + b"x" * 500, **P)
            scene.commit()
        assert not scene.pressure
        in_memory = [
            sum(message.size for message in target.waiting_messages())
            for target in scene.broker.destinations.values()
            if isinstance(target, Queue)
        ]
        assert all(10_000 <= data < 11_000 for data in in_memory[:3])
        assert all(SMALL <= data < SMALL + 1_000 for data in in_memory[8:])
        for name in range(20):
            assert [int(each.body.strip(b"x")) for each in drain(scene, f"/queue/{name}")] == list(range(40))


class TestReadingOn:
    def test_what_cannot_be_read_stays_in_the_store(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        fill(scene, 5)
        scene = scene.crash()
        consumer = scene.connect()
        with monkeypatch.context() as patch:
            patch.setattr(MemoryStore, "read", lambda store, rows: [])
            patch.setattr(Scene, "audit", lambda scene: None)
            consumer.subscribe(QUEUE, ack="client")
            scene.commit()
            assert not consumer.received()
            consumer.drop()
            scene.commit()
            assert scene.broker.context.waiting == 0
            again = scene.crash()
        assert list(marks(again)) == [0, 1, 2, 3, 4]

    def test_not_more_than_memory_allows(self, stage: Stage) -> None:
        scene = stage(stored=True, memory_limit=8_000)
        client = fill(scene, 40, kind="a")
        client.publish(QUEUE, b"40", kind="b", **P)
        scene.commit()
        consumer = scene.consumer(QUEUE, ack="client", selector="kind = 'b'")
        scene.commit()
        assert scene.broker.memory.used < 8_000
        consumer.unsubscribe()
        assert list(marks(scene)) == list(range(41))


class TestSelective:
    """Somebody has room and wants nothing of what is in memory: it is read on for him."""

    def test_by_a_selector(self, scene: Scene) -> None:
        client = fill(scene, 20, kind="a")
        client.publish(QUEUE, b"20", kind="b", **P)
        scene.commit()
        scene = scene.crash()
        consumer = scene.consumer(QUEUE, selector="kind = 'b'")
        scene.commit()
        assert consumer.bodies() == [b"20"]
        consumer.unsubscribe()
        assert [int(message.body) for message in drain(scene)] == list(range(20))


class TestOrder:
    @pytest.mark.parametrize("headers", [P, {}])
    @pytest.mark.parametrize("before", [0, 3])
    def test_groups_with_less_urgent_messages(self, scene: Scene, headers: dict[str, str], before: int) -> None:
        """What is parked with a consumer waits for what is more urgent in the backlog, and then it comes."""
        client = scene.connect()
        client.publish(QUEUE, b"0", JMSXGroupID="g", **P)
        client.publish(QUEUE, b"99", JMSXGroupID="g", priority="0", **headers)
        publish(client, range(1, 1 + before), **headers)
        filled = 1 + before
        while not count(scene):
            client.publish(QUEUE, b"%d" % filled, JMSXGroupID="g", **headers)
            filled += 1
        publish(client, range(filled, filled + 2), **headers)
        scene.commit()
        consumer = scene.consumer(QUEUE)
        scene.commit()
        assert [int(body) for body in consumer.bodies()] == [*range(filled + 2), 99]

    @pytest.mark.parametrize("turns", [1, 2])
    def test_keys_in_a_large_backlog_behind_a_restart(self, scene: Scene, turns: int) -> None:
        """Only those with a key are read at the start."""
        client = fill(scene, 9)
        for number in range(9, 12):
            client.publish(QUEUE, b"%d" % number, _AMQ_LVQ_NAME="ab"[number % 2], **P)  # 11 in the place of 9
        publish(client, range(12, 14), **P)
        scene.commit()
        for _ in range(turns):
            scene = scene.crash()
        assert [message.body for message in queue_of(scene).waiting_messages()] == [b"11", b"10"]
        assert count(scene) == 11
        client = scene.connect()
        client.publish(QUEUE, b"14", _AMQ_LVQ_NAME="a", **P)  # in the place of 10
        assert sorted(marks(scene)) == [*range(9), 11, 12, 13, 14]


class TestLimits:
    def test_whoever_publishes_waits(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"max_messages": 8}}, stored=True)
        client = fill(scene, 7)
        assert not queue_of(scene).full
        publish(client, range(7, 8), **P)
        assert queue_of(scene).full
        assert scene.broker.context.take_full() == {queue_of(scene)}
        consumer = scene.consumer(QUEUE, ack="client", **ONE)
        scene.commit()
        assert not queue_of(scene).full
        assert scene.rooms == 1
        assert consume(scene, consumer) == list(range(8))


class TestExpiry:
    @pytest.mark.parametrize("again", [Scene.crash, Scene.commit])
    def test_gone_within_moments(self, stage: Stage, again: Callable[[Scene], object]) -> None:
        scene = stage(stored=True)
        fill(scene, 10, ttl="1000")
        if again is Scene.crash:
            scene = scene.crash(0.1)
        scene.wait(1.5)
        scene.commit()
        scene.wait(0.1)
        assert not scene.broker.destinations
        assert scene.broker.counters.expired == 10
        scene.commit()
        assert not scene.store.rows

    @pytest.mark.parametrize("more", [0, 3])
    def test_thrown_away_while_it_is_read(self, stage: Stage, more: int) -> None:
        """It is not counted twice, nor is what expires afterwards."""
        scene = stage({QUEUE: {"idle_timeout": 1.5}}, stored=True)
        browser = scene.connect()
        browser.subscribe(QUEUE, browser="true", **{"browser-end": "false"})  # so that the queue stays
        publish(scene.connect(), range(10), ttl="1000")
        scene.vault.write(scene.vault.take())
        scene.wait(1.2)  # expired, and not read so far
        scene.wait(0.5)
        assert queue_of(scene).waiting == 0  # nobody has used it
        publish(scene.connect(), range(10, 10 + 2 * more), ttl="200")
        scene.wait(1.1)
        scene.commit()
        scene.wait(1.1)
        scene.commit()
        assert (queue_of(scene).waiting, queue_of(scene).nbytes, storage(scene).rows) == (0, 0, 0)
        assert not scene.store.rows


@small(in_memory_bytes=SMALL, purges_per_turn=4, **PAGES)
class TestPurge:
    def test_a_slice_with_each_batch(self, stage: Stage) -> None:
        """A million rows at once would hold up all receipts."""
        scene = stage({QUEUE: {"idle_timeout": 5.0}}, stored=True)
        fill(scene, 20)
        in_memory = 20 - count(scene)
        scene.wait(5.1)
        assert not scene.broker.destinations
        assert (scene.broker.context.waiting, scene.broker.counters.totals()["dropped"]) == (0, 20)
        batches = scene.commit()
        assert [len(batch.gone) for batch in batches][:-1] == [in_memory + 4, 4, 4, 4]
        assert [batch.dropped for batch in batches] == [[], [], [], [], [1]]
        assert not scene.store.rows

    def test_what_comes_meanwhile_stays(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"auto_delete": True}}, stored=True)
        consumer, browser = scene.connect(), scene.connect()
        browser.subscribe(QUEUE, browser="true", **{"browser-end": "false"})  # so that the queue stays
        client = scene.connect()
        for start in (0, 20):  # the second time some of the first are still there
            consumer.subscribe(QUEUE, ack="client", **ONE)
            publish(client, range(start, start + 20), **P)
            scene.vault.write(scene.vault.take())
            consumer.unsubscribe()
            assert (queue_of(scene).waiting, count(scene)) == (0, 0)
        publish(client, range(40, 50), **P)
        scene.vault.write(scene.vault.take())
        assert len(scene.store.rows) > 20
        scene.commit()
        assert len(scene.store.rows) == stored(scene) == 10
        assert list(marks(scene)) == list(range(40, 50))

    def test_no_slice_while_the_store_fails(self, stage: Stage) -> None:
        """Then all slices but one would wait in memory."""
        scene = stage({QUEUE: {"idle_timeout": 5.0}}, stored=True)
        fill(scene, 20)
        scene.store.failure = "the disk is full"
        scene.wait(5.1)
        before = scene.vault.storage.nbytes
        for _ in range(5):
            scene.commit()
        assert scene.vault.storage.nbytes == before
        scene.store.failure = ""
        scene.commit()
        assert not scene.store.rows

    @pytest.mark.parametrize("written", [True, False])
    def test_while_it_is_read(self, stage: Stage, written: bool) -> None:
        """What was thrown away does not come back; what comes afterwards is not lost."""
        scene = stage({QUEUE: {"auto_delete": True}}, stored=True)
        fill(scene, 10)
        browser, consumer, next_one = scene.connect(), scene.connect(), scene.connect()
        browser.subscribe(QUEUE, browser="true", **{"browser-end": "false"})  # so that the queue stays
        consumer.subscribe(QUEUE, ack="client")
        batch = scene.vault.take()
        if batch is not None:
            scene.store.write(batch)
            scene.vault.storage.written()  # now he may have some, and the backlog is asked for
        consumer.unsubscribe()
        assert queue_of(scene).waiting == 0
        next_one.subscribe(QUEUE, ack="client", **ONE)
        publish(scene.connect(), range(10, 20), **P)
        got = []
        while not written and (messages := next_one.messages()):  # until it is his turn to read on
            got += [int(message.body) for message in messages]
            next_one.ack(messages[-1])
        assert got + consume(scene, next_one) == list(range(10, 20))


class TestBrowsers:
    @pytest.mark.parametrize("end", ["true", "false"])
    def test_as_fast_as_they_read(self, stage: Stage, end: str) -> None:
        scene = stage(stored=True, max_outbound=8_000)
        client = scene.connect()
        for number in range(20):
            client.publish(QUEUE, b"%d" % number + b"x" * 500, **P)
        browser = scene.connect()
        browser.stalled = True
        browser.subscribe(QUEUE, browser="true", **{"browser-end": end})
        found: list[bytes] = []
        for _ in range(30):
            scene.commit()
            assert browser.session.outbox.size < 2_000
            browser.resume()
            found += [message.body for message in browser.messages() if "browser" not in message.headers]
            browser.stalled = True
        assert [int(body.strip(b"x")) for body in found] == list(range(20))


class TestWhatIsLetGo:
    """A deep backlog is no reason to hold on to messages that have gone."""

    def places(self, scene: Scene) -> int:
        found = queue_of(scene)
        ready_lists = sum(len(ready_list) for ready_list in found.in_memory.ready_lists)
        expiry = found.in_memory._expiry
        return ready_lists + (len(expiry._heap.heap) if expiry is not None else 0)

    def test_in_the_lanes_of_selectors_and_by_time(self, scene: Scene) -> None:
        client = scene.connect()
        for number in range(400):
            client.publish(QUEUE, b"%d" % number, kind="a", ttl="1000000", **P)
        scene.commit()
        scene = scene.crash()
        scene.consumer(QUEUE, ack="client", selector="kind = 'a'", **ONE)
        consumer = scene.consumer(QUEUE, ack="client", **ONE)
        scene.commit()
        for _ in range(200):
            message = next(iter(consumer.messages()), None)
            if message is not None:
                consumer.ack(message)
            scene.commit()
        assert count(scene) > 100
        assert self.places(scene) < 100


@pytest.fixture
def rows() -> PageIndex:
    rows = PageIndex(slack=3)
    for number in range(1, 11):
        rows.add(number if number % 3 else -number, 100 + number, 0.0)
    return rows


def test_removed(rows: PageIndex) -> None:
    assert [rows.remove(row) for row in (2, -6, 2, 99)] == [102, 106, None, None]
    assert list(rows.all()[0]) == [1, -3, 4, 5, 7, 8, -9, 10]
    assert [list(each) for each in rows.all()] == [
        [1, -3, 4, 5, 7, 8, -9, 10],
        [101, 103, 104, 105, 107, 108, 109, 110],
    ]
    assert len(rows) == 8
    assert rows.take(3) == [(1, 101), (-3, 103), (4, 104)]
    assert rows.take(2) == [(5, 105), (7, 107)]


def test_most_of_them(rows: PageIndex) -> None:
    rows.take(1)
    for row in (2, -3, 4, 5, -6, 7):
        rows.remove(row)
    assert list(rows.all()[0]) == [8, -9, 10]
    assert len(rows._rows) < 9
    assert rows.remove(-9) == 109
    assert rows.take(5) == [(8, 108), (10, 110)]
    assert len(rows) == 0
