"""Queue scans: slices, messages that only the store has, and changes of the queue meanwhile."""

from __future__ import annotations

import pytest

from gateway.broker.admin.scan import SLICE, QueueScan, ScanPosition
from gateway.broker.core.work_limits import WorkLimits
from gateway.broker.model.message import Message

from ..client import Scene
from ..conftest import Stage, small
from ..durable import ONE, drain, fill, queue, storage
from ..recorder import recorded
from .operators import Operator, texts
from .operators import fill as send

QUEUE = "/queue/a"


class Stroller:
    """Notes what it sees, in which turn, and where."""

    def __init__(self, most: int = 1_000_000) -> None:
        self.needs_pause = False
        self.turns: list[list[str]] = [[]]
        self.where: list[ScanPosition] = []
        self.is_over = False
        self._most = most

    @property
    def seen(self) -> list[str]:
        return [body for turn in self.turns for body in turn]

    def visit(self, message: Message, where: ScanPosition) -> bool:
        self.turns[-1].append(message.body.decode())
        self.where.append(where)
        return len(self.seen) < self._most

    def turn_over(self) -> None:
        self.turns.append([])

    def over(self) -> None:
        self.is_over = True


def walk(scene: Scene, stroller: Stroller | None = None, *, skip: int = 0) -> Stroller:
    """A scan, as far as it gets without waiting."""
    stroller = stroller or Stroller()
    QueueScan(queue(scene), stroller, skip=skip)
    scene.settle()
    return stroller


class TestInMemory:
    @pytest.mark.parametrize("groups", [True, False])
    def test_slices(self, scene: Scene, groups: bool) -> None:
        client = scene.connect()
        for number in range(1_100):
            headers = {"JMSXGroupID": str(number % 7)} if groups else {}
            client.publish("a", b"%d" % number, **headers)
        stroller = Stroller()
        QueueScan(queue(scene), stroller)
        turns = 0
        while scene.broker.scheduler.proceed():
            turns += 1
        assert stroller.seen == texts(*range(1_100))
        assert SLICE - 7 <= max(map(len, stroller.turns)) <= SLICE
        assert turns >= (2 if groups else 1) * (1_100 // SLICE)  # to gather them, too
        assert stroller.is_over

    def test_slices_of_what_comes_back_later(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"backoff": 50.0}}, max_unacknowledged=1_000)
        client = scene.connect()
        client.subscribe("a", ack="client-individual")
        send(scene, SLICE + 10)
        for message in client.messages():
            client.nack(message)
        stroller = walk(scene)
        assert stroller.seen == texts(*range(SLICE + 10))
        assert set(stroller.where) == {ScanPosition.RESTING}
        assert max(map(len, stroller.turns)) == SLICE
        last = walk(scene, Stroller(most=3))
        assert (last.seen, last.is_over) == (texts(0, 1, 2), True)

    def test_until_the_visitor_has_enough(self, scene: Scene) -> None:
        send(scene, 5)
        stroller = walk(scene, Stroller(most=2), skip=1)
        assert (stroller.seen, stroller.is_over) == (texts(1, 2), True)

    def test_a_queue_that_goes_meanwhile(self, scene: Scene) -> None:
        """Another one of its name is not walked through."""
        client = send(scene, SLICE + 1)
        stroller = Stroller()
        QueueScan(queue(scene), stroller)
        scene.broker.scheduler.proceed()
        old = queue(scene)
        old.purge()
        scene.broker.forget_if_idle(old)
        client.publish("a", b"new")
        scene.settle()
        assert stroller.seen == texts(*range(SLICE))
        assert stroller.is_over

    @pytest.mark.parametrize("come_back", [True, False])
    def test_pauses(self, stage: Stage, come_back: bool) -> None:
        scene = stage({QUEUE: {"backoff": 50.0}})
        send(scene, 3)
        client = scene.connect()
        if come_back:
            client.subscribe("a", ack="client-individual")
            for message in client.messages():
                client.nack(message)
        stroller = Stroller()
        stroller.needs_pause = True
        walk(scene, stroller)
        scene.wait(1.0)
        assert stroller.seen == ["0"]
        stroller.needs_pause = False
        scene.wait(1.0)
        assert stroller.seen == texts(0, 1, 2)

    def test_the_recorder_catches_up_first(self, scene: Scene) -> None:
        notebook = recorded(scene)
        send(scene, SLICE + 1)
        notebook.is_behind = True
        stroller = walk(scene)
        assert len(stroller.seen) == SLICE
        notebook.is_behind = False
        scene.wait(1.0)
        assert stroller.is_over

    def test_cancelled_by_a_visit(self, scene: Scene) -> None:
        send(scene, 3)

        class Hasty(Stroller):
            def visit(self, message: Message, where: ScanPosition) -> bool:
                walk.cancel()
                return super().visit(message, where)

        hasty = Hasty()
        walk = QueueScan(queue(scene), hasty)
        scene.settle()
        assert (hasty.seen, hasty.is_over) == (["0"], False)


# Two messages are in memory.
SMALL = {"in_memory_bytes": 1_500, "few_messages": 2, "page_messages": 3, "index_slack": 4, "scan_rows": 4}


class TestBacklog:
    """A queue with two messages in memory, and more in the store."""

    @pytest.fixture
    def work_limits(self) -> WorkLimits:
        return WorkLimits(**SMALL)

    @pytest.fixture
    def scene(self, stage: Stage) -> Scene:
        return stage(stored=True)

    @pytest.fixture
    def operator(self, scene: Scene) -> Operator:
        fill(scene, 20)
        assert queue(scene).in_memory.count < 5
        return Operator(scene)

    @pytest.mark.parametrize("limit", [1, 4, 30])
    def test_a_page(self, operator: Operator, limit: int) -> None:
        for offset in range(0, 22, 3):
            page = operator.browse("a", offset, limit)
            shown = range(20)[offset : offset + limit]
            assert [row["body"] for row in page.messages] == texts(*shown)
            assert [row["position"] for row in page.messages] == list(shown)
            assert page.total == 20
            assert queue(operator.scene).in_memory.count < 5

    @pytest.fixture
    def reads(self, operator: Operator) -> list[int]:
        """The number of rows of each read of the store."""
        reads: list[int] = []
        read = operator.scene.store.read
        operator.scene.store.read = lambda rows: reads.append(len(rows)) or read(rows)  # type: ignore[method-assign,func-returns-value]
        return reads

    @small(**SMALL, scan_bytes=700)
    def test_bytes_of_a_page(self, operator: Operator, reads: list[int]) -> None:
        assert operator.bodies("a") == texts(*range(20))
        assert max(reads) == 2

    def test_one_is_found_without_reading_others(self, operator: Operator, reads: list[int]) -> None:
        for number, id in enumerate(operator.ids("a")):
            reads.clear()
            found = operator.find("a", id)
            assert found is not None
            assert found["body"] == str(number)
            assert sum(reads) <= 1

    def test_delete(self, operator: Operator) -> None:
        ids = operator.ids("a")
        wanted = [ids[number] for number in (0, 7, 8, 19)]
        outcome = operator.delete("a", wanted)
        assert (outcome.done, outcome.missing) == (4, [])
        left = [number for number in range(20) if number not in (0, 7, 8, 19)]
        assert operator.bodies("a") == texts(*left)
        assert operator.bodies("a", 7, 3) == texts(*left[7:10])
        assert [int(message.body) for message in drain(operator.scene)] == left

    def test_purge(self, operator: Operator, reads: list[int]) -> None:
        assert operator.purge("a").done == 20
        assert reads == []
        assert not operator.scene.broker.destinations
        assert not operator.scene.crash().broker.destinations

    @small(**SMALL, purges_per_turn=5)
    def test_a_purge_is_over_when_the_last_slice_is_written(self, operator: Operator) -> None:
        scene = operator.scene
        operator.administration.purge("a", "", operator.told.append)
        scene.settle()
        left = []
        while not operator.told:
            scene.vault.write(scene.vault.take())
            left.append(len(scene.store.rows))
        assert left[-1] == 0
        assert len(left) > 3
        assert left[-2] > 0

    @pytest.mark.parametrize("limit", [1, 5, 20])
    def test_move(self, operator: Operator, limit: int) -> None:
        assert operator.move("a", "b", limit=limit).done == limit
        assert limit == 20 or operator.bodies("a") == texts(*range(limit, 20))
        assert operator.bodies("b") == texts(*range(limit))
        found = [int(message.body) for message in drain(operator.scene.crash(), "/queue/b")]
        assert found == list(range(limit))

    def test_what_is_not_durable(self, scene: Scene) -> None:
        send(scene, 20)
        scene.commit()
        operator = Operator(scene)
        assert storage(scene).transient
        ids = operator.ids("a")
        assert operator.delete("a", ids[15:]).done == 5
        assert operator.move("a", "b").done == 15
        assert operator.bodies("b") == texts(*range(15))

    def test_consumers_go_on_meanwhile(self, operator: Operator) -> None:
        """What is read for them has left the backlog when the walk comes to it; so it is looked for in memory."""
        scene = operator.scene
        consumer = scene.connect()
        consumer.subscribe("a", ack="client", **ONE)
        operator.administration.purge("a", "kind IS NULL", operator.told.append)
        got = []
        for _ in range(40):
            scene.settle()
            scene.vault.write(scene.vault.take())
            for message in consumer.messages():
                got.append(int(message.body))
                consumer.ack(message)
        (outcome,) = operator.told
        assert outcome.done + len(got) == 20
        assert got == sorted(got)
        assert outcome.done > 0

    def test_what_is_being_read_for_a_consumer(self, scene: Scene) -> None:
        """It is purged before it comes; then no consumer gets it."""
        fill(scene, 20)
        operator = Operator(scene)
        ids = operator.ids("a")
        consumer = scene.connect()
        consumer.subscribe("a", ack="client-individual", **{"prefetch-count": "3"})
        paged = storage(scene).paged
        assert paged is not None
        while not paged._reading:
            scene.vault.write(scene.vault.take())
        reading = {abs(row) for row in paged._reading}
        wanted = [id for id in ids if int(id.partition("-")[2]) in reading][1:]
        assert wanted
        operator.administration.delete("a", wanted, operator.told.append)
        scene.settle()
        scene.commit()
        assert [(each.done, each.missing) for each in operator.told] == [(len(wanted), [])]
        got: list[str] = []
        while messages := consumer.messages():
            got += [message.message_id for message in messages]
            for message in messages:
                consumer.ack(message)
            scene.commit()
        assert set(got) == set(ids) - set(wanted)

    def test_pauses(self, operator: Operator) -> None:
        class Tired(Stroller):
            def visit(self, message: Message, where: ScanPosition) -> bool:
                self.needs_pause = True
                return super().visit(message, where)

        stroller = Tired()
        QueueScan(queue(operator.scene), stroller)
        for _ in range(60):
            operator.scene.commit()
            stroller.needs_pause = False
            operator.scene.wait(0.1)
        assert stroller.seen == texts(*range(20))
        assert max(map(len, stroller.turns)) == 1

    def test_durable_subscription(self, scene: Scene) -> None:
        """The number of a row is not that of its message there."""
        client = scene.connect()
        client.subscribe("/topic/t", "d", durable="true")
        client.subscribe("/topic/t", "e", durable="true")
        client.drop()
        fill(scene, 20, "/topic/t")
        operator = Operator(scene)
        first, second = scene.broker.registry.durable_subscriptions._found
        ids = operator.ids(first)
        assert operator.ids(second) == ids
        assert operator.delete(second, [ids[2], ids[17]]).done == 2
        assert operator.move(first, "b", ids[15:]).done == 5
        assert len(operator.bodies(first)) == 15
        assert len(operator.bodies(second)) == 18
        for name in (first, second):
            operator.administration.delete_durable(name, lambda: None)
        scene.commit()
