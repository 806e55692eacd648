"""Administration of waiting messages: pages, one message, deletions, and the names of destinations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.broker.admin.messages import Busy, Page, RedrivePlan, Unknown
from gateway.broker.admin.scan import SLICE
from gateway.broker.errors import NotAllowed
from gateway.broker.model.message import Message

from ..client import Scene
from ..conftest import Stage, small
from ..durable import P
from ..recorder import recorded
from ..topic.logged import BOTH, LOG, T, log_of, write
from ..topic.logged import fill as log
from .operators import Operator, fill, texts

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

    @small(listed_bytes=20_000)
    @pytest.mark.parametrize("selector", ["", "color = 'red'"])
    def test_a_page_ends_early_where_rows_are_large(self, operator: Operator, selector: str) -> None:
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

    @small(listed_bytes=1)
    def test_one_row_is_always_there(self, operator: Operator) -> None:
        client = operator.scene.connect()
        client.subscribe("b")
        page = operator.browse("b")
        assert (page.messages, page.total) == ([], 0)
        fill(operator.scene, 3)
        page = operator.browse("a")
        assert (len(page.messages), page.total, page.next) == (1, 3, 1)

    def test_a_cancelled_one_does_not_call_back(self, operator: Operator) -> None:
        fill(operator.scene, 3)
        operator.administration.browse("a", 0, 3, "", operator.pages.append).cancel()
        operator.scene.settle()
        assert operator.pages == []

    def test_a_selector(self, operator: Operator) -> None:
        client = operator.scene.connect()
        for number in range(9):
            client.publish("a", b"%d" % number, n=str(number % 3))
        page = operator.browse("/amq/queue/a", 1, 1, "n = 1")
        assert [(row["body"], row["position"]) for row in page.messages] == [("4", 1)]
        assert page.total == 3
        with pytest.raises(NotAllowed):
            operator.browse("a", selector="n =")

    @pytest.mark.parametrize("way", ["purge", "delete"])
    def test_what_comes_back_later_stands_at_the_end(self, stage: Stage, way: str) -> None:
        scene = stage({"/queue/a": {"backoff": 5.0}})
        operator, client = Operator(scene), scene.connect()
        client.subscribe("a", ack="client-individual", **{"prefetch-count": "2"})
        for number in range(4):
            client.publish("a", b"%d" % number)
        first, second = client.messages()
        client.nack(first)
        page = operator.browse("a")
        assert [(row["body"], row["delayed"]) for row in page.messages] == [("3", False), ("0", True)]
        assert page.total == 2
        assert operator.bodies("a", 1, 1) == texts(0)
        ids = operator.ids("a")
        assert (operator.purge("a") if way == "purge" else operator.delete("a", ids)).done == 2
        scene.wait(10.0)
        client.ack(second)
        assert client.bodies() == [b"2"]  # which it had already

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


def test_one_is_found_by_its_id(operator: Operator) -> None:
    run = Message.run.decode()
    fill(operator.scene, 5)
    (id,) = operator.ids("a")[3:4]
    found = operator.find("a", id)
    assert found is not None
    assert (found["id"], found["body"], found["position"]) == (id, "3", None)
    for wrong in (f"{run}-99", f"{run}-", f"{run}-x", f"{run}-١", "x-1", "", f"{run}-" + "9" * 40):
        assert operator.find("a", wrong) is None
    consumer = operator.scene.connect()
    consumer.subscribe("a", ack="client")
    assert operator.find("a", id) is None


def test_some_are_deleted(operator: Operator) -> None:
    run = Message.run.decode()
    scene = operator.scene
    fill(scene, 6)
    ids = operator.ids("a")
    consumer = scene.connect()
    consumer.subscribe("a", ack="client", **{"prefetch-count": "1"})
    outcome = operator.delete("a", [ids[3], "other-1", ids[1], ids[0], f"{run}-99"])
    assert (outcome.done, outcome.missing) == (2, ["other-1", ids[0], f"{run}-99"])
    assert (outcome.refused, outcome.refusals, outcome.stopped) == ([], 0, "")
    assert operator.delete("a", []).done == 0
    assert scene.broker.counters.totals()["dropped"] == 2
    consumer.drop()
    assert operator.bodies("a") == texts(0, 2, 4, 5)
    assert operator.delete("a", ids).done == 4
    assert not scene.broker.destinations, "the queue goes with its last message"


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
    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("b", "there is no queue 'b': it has no messages"),
            ("/topic/t", "there is no queue '/topic/t': it is a topic, which keeps no waiting messages"),
            ("/bogus/a", "'/bogus/a' is of no known kind"),
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
            ("/app/f", "'/app/f' is handled by a function"),
            ("/queue/b,/queue/c", "'/queue/b,/queue/c' must name one destination"),
            ("/bogus/a", "'/bogus/a' is of no known kind"),
            ("/topic/a.*", "'/topic/a.*' is for SUBSCRIBE"),
        ],
    )
    def test_no_target(self, operator: Operator, target: str, sentence: str) -> None:
        fill(operator.scene, 1)
        with pytest.raises(NotAllowed) as raised:
            operator.move("a", target)
        assert raised.value.detail.startswith(sentence)


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

    def test_it_has_a_consumer(self, operator: Operator) -> None:
        name = self.subscribed(operator.scene)
        client = operator.scene.connect()
        client.subscribe("/topic/a", "d", **DURABLE)
        with pytest.raises(Busy, match="in use"):
            operator.administration.delete_durable(name, lambda: None)
        with pytest.raises(Unknown):
            operator.administration.delete_durable("/dsub/x", lambda: None)
        client.send("UNSUBSCRIBE", {"id": "d", **DURABLE})


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


@BOTH
@small(tail_messages=2, listed_bytes=1_200, listed_refusals=1)
class TestStreams:
    """The messages that a topic keeps, the newest first: from memory, and those before them from the store."""

    def test_pages(self, stage: Stage, stored: bool) -> None:
        operator = Operator(stage(LOG, stored=stored))
        log(operator.scene, 7)
        first = operator.browse(T, limit=3)
        assert [(row["body"], row["delayed"], row["deliveries"]) for row in first.messages] == [
            (str(number), False, 0) for number in (6, 5, 4)
        ]
        now = operator.scene.broker.registry.streams.now()
        assert (first.total, first.next, first.messages[0]["sent"]) == (7, 3, now)
        pages = [first]
        while (place := pages[-1].next) is not None:
            pages.append(operator.browse("/exchange/amq.topic/a", place, 3))
        assert [row["body"] for page in pages for row in page.messages] == texts(*range(6, -1, -1))
        assert operator.browse(T, 7) == Page([], 7, None)
        for row in first.messages + pages[-1].messages:
            found = operator.find(T, str(row["id"]))
            assert found is not None
            assert found["body"] == row["body"]
        assert operator.find(T, "x-1") is None
        with pytest.raises(NotAllowed, match="a stream has no selector here"):
            operator.browse(T, selector="n = 1")
        large = operator.scene.connect()
        for _ in range(2):
            large.publish(T, b"x" * 2_000)
        assert (len(operator.browse(T).messages), operator.browse(T).next) == (1, 1)

    def test_what_goes_meanwhile(self, stage: Stage, stored: bool) -> None:
        operator = Operator(stage(LOG, stored=stored))
        scene = log(operator.scene, 4).scene
        operator.administration.browse(T, 0, 9, "", operator.pages.append).cancel()
        operator.administration.browse(T, 0, 9, "", operator.pages.append)
        scene.settle()
        log_of(scene).drop_first()
        write(scene)
        (page,) = operator.pages
        assert [row["body"] for row in page.messages][:3] == texts(3, 2, 1)


@small(listed_refusals=1)
def test_where_dead_letters_would_go(operator: Operator) -> None:
    scene = operator.scene
    plans: list[RedrivePlan] = []
    for name in ("a", "b"):
        client = fill(scene, 2, name)
        client.subscribe(name, name, ack="client-individual")
        for message in client.messages():
            client.nack(message, requeue="false")
        client.unsubscribe(name)
    operator.move("dlq.b", "dlq.a")
    for _ in range(2):
        client.publish("dlq.a", b"not a dead letter")
    operator.administration.plan_redrive("dlq.a", plans.append).cancel()
    plan = operator.administration.plan_redrive("dlq.a", plans.append)
    scene.settle()
    assert plans == [plan]
    assert (plan.targets, plan.refusals, len(plan.refused)) == ({"/queue/a": 2, "/queue/b": 2}, 2, 1)
    assert len(operator.ids("dlq.a")) == 6


@small(previewed_letters=3, listed_targets=1)
def test_a_preview_is_bounded(operator: Operator) -> None:
    plans: list[RedrivePlan] = []
    for name in ("a", "b"):
        client = fill(operator.scene, 2, name)
        client.subscribe(name, name, ack="client-individual")
        for message in client.messages():
            client.nack(message, requeue="false")
        client.unsubscribe(name)
    operator.move("dlq.b", "dlq.a")
    operator.administration.plan_redrive("dlq.a", plans.append)
    operator.scene.settle()
    (plan,) = plans
    assert (plan.targets, plan.others, plan.is_complete) == ({"/queue/a": 2}, 1, False)
