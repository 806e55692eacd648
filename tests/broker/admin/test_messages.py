"""Administration of waiting messages: pages, one message, deletions, and the names of destinations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.broker.admin import messages as module
from gateway.broker.admin.messages import Busy, Unknown
from gateway.broker.admin.scan import SLICE
from gateway.broker.errors import NotAllowed
from gateway.broker.model.message import Message
from gateway.broker.queue.queue import Queue

from ..client import Scene
from ..conftest import Stage
from ..durable import P, drain
from ..recorder import recorded
from .operators import Operator, fill, texts

RUN = Message.run.decode()
DURABLE = {"durable": "true"}


@pytest.fixture
def operator(scene: Scene) -> Operator:
    return Operator(scene)


class TestBrowse:
    @pytest.mark.parametrize(
        ("offset", "limit", "shown"),
        [(0, 100, range(7)), (0, 3, range(3)), (3, 2, range(3, 5)), (6, 9, range(6, 7)), (7, 1, range(0))],
    )
    def test_a_page(self, operator: Operator, offset: int, limit: int, shown: range) -> None:
        fill(operator.scene, 7)
        page = operator.browse("a", offset, limit)
        assert [row["body"] for row in page.messages] == texts(*shown)
        assert [row["position"] for row in page.messages] == list(shown)
        assert page.total == 7
        assert page.next == (offset + limit if offset + limit < 7 else None)

    @pytest.mark.parametrize("selector", ["", "color = 'red'"])
    def test_a_page_ends_early_where_rows_are_large(
        self, operator: Operator, selector: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "MOST_OF_A_PAGE", 20_000)
        client = operator.scene.connect()
        for number in range(12):
            client.publish("a", b"%04d" % number + b"x" * 100_000, color="red", long="y" * (number % 2 * 60_000))
        seen: list[object] = []
        sizes, place = [], 0
        while True:
            page = operator.browse("a", place, 10, selector)
            assert page.total == 12
            sizes.append(len(page.messages))
            seen += [str(row["body"])[:4] for row in page.messages]
            if page.next is None:
                break
            assert page.next == place + sizes[-1]
            place = page.next
        assert seen == [f"{number:04}" for number in range(12)]
        assert sizes == [3, 3, 3, 3]

    def test_one_row_is_always_there(self, operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
        client = operator.scene.connect()
        client.subscribe("b")
        page = operator.browse("b")
        assert (page.messages, page.total) == ([], 0)
        for _ in range(300):
            client.publish("a", b"x" * 100_000)
        page = operator.browse("a")
        assert 100 < len(page.messages) < 128
        assert page.next == len(page.messages)
        monkeypatch.setattr(module, "MOST_OF_A_PAGE", 1)
        page = operator.browse("a")
        assert (len(page.messages), page.total, page.next) == (1, 300, 1)
        assert operator.scene.broker.counters.delivered == 0, "nothing is taken"

    def test_in_the_order_in_which_they_are_due(self, operator: Operator) -> None:
        client = operator.scene.connect()
        for number, priority in enumerate("4294"):
            client.publish("a", b"%d" % number, priority=priority)
        assert operator.bodies("a") == texts(2, 0, 3, 1)
        assert operator.bodies("a", 1, 2) == texts(0, 3)

    def test_a_selector(self, operator: Operator) -> None:
        client = operator.scene.connect()
        for number in range(9):
            client.publish("a", b"%d" % number, n=str(number % 3))
        page = operator.browse("a", 1, 1, "n = 1")
        assert [(row["body"], row["position"]) for row in page.messages] == [("4", 1)]
        assert page.total == 3

    @pytest.mark.parametrize("has_consumer", [True, False])
    def test_groups(self, operator: Operator, has_consumer: bool) -> None:
        client = operator.scene.connect()
        if has_consumer:
            client.subscribe("a", ack="client", **{"prefetch-count": "1"})
        for number, group in enumerate("aababxx"):
            headers = {} if group == "x" else {"JMSXGroupID": group}
            client.publish("a", b"%d" % number, **headers)
        first = 1 if has_consumer else 0
        assert operator.bodies("a") == texts(*range(first, 7))
        assert operator.bodies("a", 2, 2) == texts(first + 2, first + 3)

    def test_what_comes_back_later_stands_at_the_end(self, stage: Stage) -> None:
        scene = stage({"/queue/a": {"backoff": 5.0}})
        operator, client = Operator(scene), scene.connect()
        client.subscribe("a", ack="client-individual", **{"prefetch-count": "2"})
        for number in range(4):
            client.publish("a", b"%d" % number)
        first, _ = client.messages()
        client.nack(first)
        page = operator.browse("a")
        assert [(row["body"], row["delayed"]) for row in page.messages] == [("3", False), ("0", True)]
        assert page.total == 2
        assert operator.bodies("a", 1, 1) == texts(0)

    def test_what_has_expired_is_not_shown(self, stage: Stage) -> None:
        scene = stage({"/queue/a": {"backoff": 5.0}})
        operator, client = Operator(scene), scene.connect()
        client.subscribe("a", ack="client")
        client.publish("a", b"m", ttl="1000")
        client.nack(client.message())
        fill(scene, 2, "b", ttl="10")
        assert operator.bodies("a") == ["m"]
        scene.now += 1.1
        for name in "ab":
            assert operator.bodies(name) == []
        scene.broker.scheduler.tick()

    def test_a_cancelled_one_does_not_call_back(self, operator: Operator) -> None:
        fill(operator.scene, 3)
        search = operator.administration.browse("a", 0, 3, "", operator.pages.append)
        search.cancel()
        operator.scene.settle()
        assert operator.pages == []


class TestFind:
    def test_one(self, operator: Operator) -> None:
        fill(operator.scene, 5)
        (id,) = operator.ids("a")[3:4]
        found = operator.find("a", id)
        assert found is not None
        assert (found["id"], found["body"], found["position"]) == (id, "3", None)

    @pytest.mark.parametrize("id", ["RUN-99", "RUN-", "RUN-x", "RUN-١", "x-1", "", "RUN-" + "9" * 40])
    def test_none(self, operator: Operator, id: str) -> None:
        fill(operator.scene, 5)
        assert operator.find("a", id.replace("RUN", RUN)) is None

    def test_one_at_a_consumer(self, operator: Operator) -> None:
        fill(operator.scene, 1)
        (id,) = operator.ids("a")
        operator.scene.connect().subscribe("a", ack="client")
        assert operator.find("a", id) is None


class TestDelete:
    def test_some(self, operator: Operator) -> None:
        scene = operator.scene
        fill(scene, 6)
        ids = operator.ids("a")
        consumer = scene.connect()
        consumer.subscribe("a", ack="client", **{"prefetch-count": "1"})
        outcome = operator.delete("a", [ids[3], "other-1", ids[1], ids[0], f"{RUN}-99"])
        assert (outcome.done, outcome.missing) == (2, ["other-1", ids[0], f"{RUN}-99"])
        assert (outcome.refused, outcome.refusals, outcome.stopped) == ([], 0, "")
        assert operator.delete("a", []).done == 0
        assert scene.broker.counters.totals()["dropped"] == 2
        consumer.drop()
        assert operator.bodies("a") == texts(0, 2, 4, 5)
        assert operator.delete("a", ids).done == 4
        assert not scene.broker.destinations, "the queue goes with its last message"

    def test_the_first_of_a_group(self, operator: Operator) -> None:
        """The next of it takes its place, and goes to the group's consumer."""
        scene = operator.scene
        client, busy = scene.connect(), scene.connect()
        busy.subscribe("a", ack="client", **{"prefetch-count": "1"})
        for number in range(3):
            client.publish("a", b"%d" % number, JMSXGroupID="g")
        operator.delete("a", operator.ids("a")[:1])
        busy.ack(busy.message())
        assert busy.message().body == b"2"


class TestPurge:
    def test_all_or_by_a_selector(self, stage: Stage) -> None:
        scene = stage({"/queue/a": {"max_messages": 6}})
        operator, notebook, client = Operator(scene), recorded(scene), scene.connect()
        for number in range(6):
            client.publish("a", b"%d" % number, n=str(number % 2))
        operator.delete("a", operator.ids("a")[:1])
        assert scene.rooms == 1, "publishers go on"
        assert operator.purge("a", "n = 1").done == 3
        assert operator.bodies("a") == texts(2, 4)
        assert operator.purge("a").done == 2
        assert not scene.broker.destinations
        assert scene.broker.counters.totals()["dropped"] == 6
        rows = notebook.of("dropped")
        assert [(row.destination, row.reason) for row in rows] == [
            ("/queue/a", why) for why in ("deleted", *["purged"] * 5)
        ]

    def test_of_what_went_in_a_turn_no_place_is_left(self, operator: Operator) -> None:
        """Else many would be looked at in one turn, to find the half of them that is left."""
        scene = operator.scene
        fill(scene, SLICE + 700, ttl="10000")
        queue = scene.broker.destinations["/queue/a"]
        assert isinstance(queue, Queue)
        expiry = queue.in_memory._expiry
        assert expiry is not None
        operator.administration.purge("a", "", operator.told.append)
        scene.broker.scheduler.proceed()
        assert (len(queue.in_memory.ready_lists[0]), len(expiry._heap.heap)) == (700, 700)
        scene.settle()

    @pytest.mark.parametrize("way", ["purge", "delete"])
    def test_what_would_come_back_later_goes_too(self, stage: Stage, way: str) -> None:
        scene = stage({"/queue/a": {"backoff": 5.0}})
        operator, client = Operator(scene), scene.connect()
        client.subscribe("a", ack="client-individual", **{"prefetch-count": "4"})
        for _ in range(4):
            client.publish("a")
        kept, *rejected = client.messages()
        for message in rejected:
            client.nack(message)
        ids = operator.ids("a")
        assert (operator.purge("a") if way == "purge" else operator.delete("a", ids)).done == 3
        scene.wait(10.0)
        client.ack(kept)
        assert client.messages() == []
        assert scene.broker.memory.used == 0

    def test_what_comes_back_meanwhile(self, stage: Stage) -> None:
        """It was to come back later when the purge began, and waits when the purge comes to it."""
        scene = stage({"/queue/a": {"backoff": 0.5}})
        operator, client = Operator(scene), scene.connect()
        client.subscribe("a", ack="client-individual", **{"prefetch-count": "1"})
        client.publish("a", b"0")
        client.publish("a", b"1")
        client.nack(client.message())
        operator.administration.purge("a", "", operator.told.append)
        scene.now += 1.0
        scene.broker.scheduler.tick()
        scene.settle()
        assert [outcome.done for outcome in operator.told] == [1]
        assert client.message().body == b"1"

    @pytest.mark.parametrize("is_cancelled", [True, False])
    def test_others_come_meanwhile(self, operator: Operator, is_cancelled: bool) -> None:
        client = fill(operator.scene, 1_200)
        work = operator.administration.purge("a", "", operator.told.append)
        operator.scene.broker.scheduler.proceed()
        assert 0 < work.done < 1_200
        if is_cancelled:
            work.cancel()
        client.publish("a", b"new")
        operator.scene.settle()
        work.cancel()  # after the end there is nothing to cancel
        assert [outcome.done for outcome in operator.told] == ([] if is_cancelled else [1_200])
        assert operator.browse("a").total == (1_201 - work.done if is_cancelled else 1)


class TestNames:
    @pytest.mark.parametrize("name", ["a", "/queue/a", "/amq/queue/a"])
    def test_as_clients_write_them(self, operator: Operator, name: str) -> None:
        fill(operator.scene, 1)
        assert operator.bodies(name) == ["0"]

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("b", "there is no queue 'b': it has no messages"),
            ("/topic/t", "there is no queue '/topic/t': it is a topic, which keeps no waiting messages"),
            ("/bogus/a", "'/bogus/a' is of no known kind"),
            ("/dsub/x", "'/dsub/x' is of no known kind"),
        ],
    )
    def test_none(self, operator: Operator, name: str, sentence: str) -> None:
        operator.scene.connect().subscribe("/topic/t")
        administration = operator.administration
        calls: list[Callable[[], object]] = [
            lambda: administration.browse(name, 0, 1, "", operator.pages.append),
            lambda: administration.find(name, "", 1, operator.found.append),
            lambda: administration.delete(name, [], operator.told.append),
            lambda: administration.purge(name, "", operator.told.append),
            lambda: administration.move(name, "b", None, "", None, operator.told.append),
            lambda: administration.redrive(name, None, None, operator.told.append),
        ]
        for call in calls:
            with pytest.raises(Unknown) as raised:
                call()
            assert raised.value.detail.startswith(sentence)

    @pytest.mark.parametrize(
        ("target", "sentence"),
        [
            ("a", "the messages are in '/queue/a' already"),
            ("/amq/queue/a", "the messages are in '/queue/a' already"),
            ("/app/f", "'/app/f' is handled by a function"),
            ("/queue/b,/queue/c", "'/queue/b,/queue/c' must name one destination"),
            ("/bogus/a", "'/bogus/a' is of no known kind"),
            ("/topic/a.*", "'/topic/a.*' is for SUBSCRIBE"),
            ("", "the destination header is empty"),
        ],
    )
    def test_no_target(self, operator: Operator, target: str, sentence: str) -> None:
        fill(operator.scene, 1)
        with pytest.raises(NotAllowed) as raised:
            operator.move("a", target)
        assert raised.value.detail.startswith(sentence)

    def test_no_selector(self, operator: Operator) -> None:
        fill(operator.scene, 1)
        for call in (operator.browse, operator.purge):
            with pytest.raises(NotAllowed):
                call("a", selector="n =")  # type: ignore[operator]
        with pytest.raises(NotAllowed):
            operator.move("a", "b", selector="n =")


class TestDurables:
    def subscribed(self, scene: Scene) -> str:
        client = scene.connect()
        client.subscribe("/topic/a", "d", **DURABLE)
        client.drop()
        (name,) = scene.broker.registry.durable_subscriptions._found
        return name

    def test_what_waits(self, operator: Operator) -> None:
        name = self.subscribed(operator.scene)
        fill(operator.scene, 5, "/topic/a")
        assert operator.bodies(name) == texts(*range(5))
        ids = operator.ids(name)
        assert operator.delete(name, ids[1:3]).done == 2
        assert operator.move(name, "b", limit=1).done == 1
        assert operator.purge(name).done == 2
        assert operator.bodies("b") == ["0"]
        operator.administration.delete_durable(name, lambda: None)

    def test_it_ends(self, operator: Operator) -> None:
        """Also while it is purged."""
        scene = operator.scene
        name = self.subscribed(scene)
        fill(scene, 1_200, "/topic/a")
        operator.administration.purge(name, "", operator.told.append)
        scene.broker.scheduler.proceed()
        told: list[str] = []
        operator.administration.delete_durable(name, lambda: told.append("gone"))
        assert told == []
        scene.settle()
        assert told == ["gone"]
        assert [outcome.done for outcome in operator.told] == [SLICE]
        assert not scene.broker.registry.hidden
        assert not scene.broker.destinations

    def test_it_ends_in_the_store_too(self, stage: Stage) -> None:
        scene = stage(stored=True)
        name = self.subscribed(scene)
        fill(scene, 3, "/topic/a", **P)
        scene.commit()
        told: list[str] = []
        scene.message_admin.delete_durable(name, lambda: told.append("gone"))
        scene.settle()
        assert told == []
        scene.commit()
        assert told == ["gone"]
        assert not scene.crash().broker.registry.hidden

    def test_it_has_a_consumer(self, operator: Operator) -> None:
        name = self.subscribed(operator.scene)
        client = operator.scene.connect()
        client.subscribe("/topic/a", "d", **DURABLE)
        with pytest.raises(Busy, match="in use"):
            operator.administration.delete_durable(name, lambda: None)
        client.send("UNSUBSCRIBE", {"id": "d", **DURABLE})

    def test_there_is_none(self, operator: Operator) -> None:
        with pytest.raises(Unknown) as raised:
            operator.administration.delete_durable("/dsub/x", lambda: None)
        assert raised.value.detail == "there is no durable subscription '/dsub/x'"


class TestStored:
    """What is done is told once the store has it."""

    @pytest.fixture
    def scene(self, stage: Stage) -> Scene:
        return stage(stored=True)

    def test_not_before(self, operator: Operator) -> None:
        scene = operator.scene
        told: list[str] = []
        operator.administration.when_stored(lambda: told.append("nothing to write"))
        scene.settle()
        assert told == ["nothing to write"]
        fill(scene, 3, **P)
        batch = scene.vault.take()
        operator.administration.when_stored(lambda: told.append("stored"))
        scene.settle()
        assert len(told) == 1
        scene.vault.write(batch)
        assert told[1:] == ["stored"]
        operator.administration.purge("a", "", operator.told.append)
        scene.settle()
        batch = scene.vault.take()
        assert operator.told == []
        scene.vault.write(batch)
        assert [outcome.done for outcome in operator.told] == [3]
        assert not scene.crash().broker.destinations

    def test_what_is_not_deleted_is_there_after_a_kill(self, operator: Operator) -> None:
        fill(operator.scene, 4, **P)
        operator.delete("a", operator.ids("a")[1:3])
        again = operator.scene.crash()
        assert [message.body for message in drain(again)] == [b"0", b"3"]

    def test_a_queue_that_was_full(self, stage: Stage) -> None:
        scene = stage({"/queue/a": {"max_messages": 2}}, stored=True)
        fill(scene, 2, **P)
        queue = scene.broker.destinations["/queue/a"]
        assert isinstance(queue, Queue)
        assert queue.full
        Operator(scene).purge("a")
        assert not queue.full
