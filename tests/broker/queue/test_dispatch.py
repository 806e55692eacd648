"""Dispatch: consumers that want only some of the messages, long lists that are read in turns, and returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pytest

from gateway.broker import selectors
from gateway.broker.queue import ready
from gateway.broker.queue.queue import Queue

from ..client import Client, Scene, Step
from ..conftest import Stage
from ..durable import ONE, TWO, P, marks
from .helpers import QUEUE, go_on, names, queue_of, waits

RED, BLUE = "color = 'red'", "color = 'blue'"
Asked = Counter[str]


def send(producer: Client, *names: str, **headers: str) -> None:
    """Send messages whose bodies are these; `red1` is red, `blue2` is blue, `1` has no color."""
    for name in names:
        color = name.rstrip("0123456789")
        producer.publish(QUEUE, name.encode(), **({"color": color} if color else {}), name=name, **headers)


def selective(scene: Scene, selector: str = "", prefetch: int = 1_000, priority: int = 0) -> Client:
    """A connection that subscribes /queue/a in mode client."""
    client = scene.connect()
    headers = {"selector": selector, "prefetch-count": str(prefetch), "x-priority": str(priority)}
    client.subscribe(QUEUE, ack="client", **headers)
    return client


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """How often selectors were asked about each message."""
    count: Asked = Counter()
    parse = selectors.parse

    def counting(text: str) -> Callable[[Mapping[str, str]], bool]:
        wants = parse(text)

        def ask(headers: Mapping[str, str]) -> bool:
            count[headers["name"]] += 1
            return wants(headers)

        return ask

    monkeypatch.setattr(selectors, "parse", counting)
    return count


class TestWhoGetsWhat:
    def test_each_what_it_wants_in_order(self, scene: Scene) -> None:
        red, blue, producer = selective(scene, RED), selective(scene, BLUE), scene.connect()
        send(producer, "red1", "blue2", "3", "blue4", "red5")
        assert (names(red), names(blue), waits(scene)) == (["red1", "red5"], ["blue2", "blue4"], ["3"])

    def test_what_nobody_wants_waits_and_is_not_overtaken(self, scene: Scene) -> None:
        red, producer = selective(scene, RED), scene.connect()
        send(producer, "1", "red2", "3", "blue4", "5")
        assert names(red) == ["red2"]
        blue, plain = selective(scene, BLUE), selective(scene)
        send(producer, "6")
        assert (names(blue), names(plain)) == (["blue4"], ["1", "3", "5", "6"])

    def test_a_busy_selective_one_holds_nobody_up(self, scene: Scene) -> None:
        red, plain, producer = selective(scene, RED, 1), selective(scene), scene.connect()
        send(producer, *(f"red{number}" for number in range(10)))
        assert sorted(names(red) + names(plain)) == [f"red{number}" for number in range(10)]

    def test_from_the_middle_of_a_deep_queue(self, scene: Scene) -> None:
        producer = scene.connect()
        send(producer, *(f"{'red' if number % 100 == 50 else ''}{number}" for number in range(300)))
        red = selective(scene, RED, 1)
        assert go_on(red) == ["red50", "red150", "red250"]
        assert len(waits(scene)) == 297

    def test_plain_and_selective_ones_take_turns(self, scene: Scene) -> None:
        clients = [selective(scene), selective(scene, RED), selective(scene, BLUE)]
        send(scene.connect(), *(f"red{number}" for number in range(8)))
        assert [len(names(client)) for client in clients] == [4, 4, 0]

    def test_in_order_also_what_came_back(self, scene: Scene) -> None:
        red, plain, producer = selective(scene, RED, 2), selective(scene, prefetch=1), scene.connect()
        send(producer, "0", "red1", "2", "red3", "red4", "red5")
        first, second = red.messages()
        red.nack(second)
        assert [message.body for message in red.messages()] == [b"red1", b"red3"]
        assert waits(scene) == ["2", "red4", "red5"]
        plain.drop()
        assert first.body == b"red1"
        assert waits(scene) == ["0", "2", "red4", "red5"]


class TestLanes:
    """Which messages wait for whom is kept per selector, however many have it."""

    def test_equal_selectors_share_one(self, scene: Scene, asked: Asked) -> None:
        plain = selective(scene, prefetch=1)
        send(plain, "1", "2", "red3", "4", "red5", "red6")
        clients = [selective(scene, RED, 1, number) for number in range(3)]
        assert len(queue_of(scene).in_memory.ready_lists) == 2
        assert [names(client) for client in clients] == [["red3"], ["red5"], ["red6"]]
        assert set(asked.values()) == {1}

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
    def test_it_goes_with_the_last_of_them(self, scene: Scene, order: tuple[int, ...]) -> None:
        selective(scene)
        clients = [selective(scene, RED, priority=number % 2) for number in range(3)]
        for left, index in enumerate(reversed(order)):
            assert len(queue_of(scene).in_memory.ready_lists) == (2 if left < 3 else 1)
            clients[index].drop()
        assert len(queue_of(scene).in_memory.ready_lists) == 1

    def test_asked_once_about_what_waits(self, scene: Scene, asked: Asked) -> None:
        producer = scene.connect()
        send(producer, *(f"{'red' if number % 10 == 0 else ''}{number}" for number in range(200)))
        red = selective(scene, RED, 1)
        assert len(go_on(red)) == 20
        assert set(asked.values()) == {1}

    def test_what_came_back_does_not_cost_more_with_each_that_comes(self, scene: Scene, asked: Asked) -> None:
        one, two, producer = selective(scene, RED, 1), selective(scene, RED, 1), scene.connect()
        send(producer, "red1", "red2", "red3")
        one.drop()
        asked.clear()
        for number in range(50):
            send(producer, f"{number}", f"blue{number}")
        assert names(two) == ["red2"]
        assert waits(scene)[:2] == ["red1", "red3"]
        assert asked.total() <= 102

    def test_a_publisher_does_not_pay_for_busy_ones(self, scene: Scene, asked: Asked) -> None:
        for number in range(20):
            selective(scene, f"color = 'red' AND {number} = {number}", 1)
        producer = scene.connect()
        send(producer, *(f"red{number}" for number in range(21)))
        asked.clear()
        send(producer, *(f"red{number}" for number in range(50)))
        assert asked.total() == 0

    def test_stale_places_do_not_pile_up(self, scene: Scene) -> None:
        """The plain consumers never read the selective one's lane, and the other way round."""
        red, plain, producer = selective(scene, RED, 1), selective(scene, prefetch=1), scene.connect()
        send(producer, "red0", "1")
        for number in range(2, 400):
            send(producer, f"red{number}", f"{number}")
            (plain if number % 3 else red).ack((plain if number % 3 else red).messages()[-1])
            places = [len(each) for each in queue_of(scene).in_memory.ready_lists]
            assert max(places) <= 2 * len(waits(scene)) + 100
        for _ in range(2_000):
            messages = plain.messages()
            if not messages:
                break
            plain.ack(messages[-1])
        assert waits(scene) == []
        assert sum(len(each) for each in queue_of(scene).in_memory.ready_lists) < 200


@pytest.fixture
def held(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Turns are over after three messages, and none follows until the test says so."""
    monkeypatch.setattr(ready, "READS_PER_TURN", 3)
    monkeypatch.setattr(scene, "settle", scene.audit)
    return scene


def turns(scene: Scene, most: int = 1_000) -> int:
    """Let the broker go on with what it did not finish; returns how many turns it took."""
    count = 1
    while count < most and scene.broker.scheduler.proceed():
        count += 1
    Scene.settle(scene)
    return count


class TestTurns:
    """A long run of messages that nobody wants must not stop everything else."""

    def test_a_deep_queue_is_read_in_turns(self, held: Scene, asked: Asked) -> None:
        producer = held.connect()
        send(producer, *(str(number) for number in range(20)), "red20")
        red = selective(held, RED)
        assert asked.total() == 3
        held.broker.scheduler.proceed()
        assert asked.total() == 6
        turns(held)
        assert names(red) == ["red20"]
        assert asked.total() == 21

    def test_what_comes_does_not_overtake(self, held: Scene) -> None:
        producer = held.connect()
        send(producer, *(str(number) for number in range(10)), "red10", "red11")
        red = selective(held, RED)
        send(producer, "red12")
        assert not red.session.outbox.parts
        turns(held)
        send(producer, "red13")
        turns(held)
        assert names(red) == ["red10", "red11", "red12", "red13"]

    def test_also_not_past_others_with_the_selector(self, held: Scene) -> None:
        """Who comes while the lane is read, at whatever priority, reads on where it stands."""
        producer = held.connect()
        send(producer, *(str(number) for number in range(10)), "red10", "red11", "red12")
        clients = [selective(held, RED, 1, number) for number in (0, 5, 0)]
        send(producer, "red13")
        turns(held)
        assert sorted(name for client in clients for name in names(client)) == ["red10", "red11", "red12"]
        assert waits(held)[-1] == "red13"

    def test_what_came_back_meanwhile_is_first(self, held: Scene) -> None:
        plain, producer = selective(held, prefetch=1), held.connect()
        send(producer, "red0", *(str(number) for number in range(1, 11)), "red11")
        red = selective(held, RED)
        plain.drop()
        send(producer, "red12")
        turns(held)
        assert names(red) == ["red0", "red11", "red12"]

    @pytest.mark.parametrize("leave", [Client.drop, Client.unsubscribe])
    def test_the_consumer_leaves_while_its_lane_is_read(self, held: Scene, leave: Callable[[Client], None]) -> None:
        producer = held.connect()
        send(producer, *(str(number) for number in range(10)), "red10")
        red = selective(held, RED)
        leave(red)
        send(producer, "red11")
        turns(held)
        later = selective(held, RED)
        turns(held)
        assert names(later) == ["red10", "red11"]

    def test_the_consumer_has_no_room_any_more_when_it_is_its_turn(self, held: Scene) -> None:
        producer = held.connect()
        send(producer, *(str(number) for number in range(10)), "red10")
        red = selective(held, RED)
        red.stalled = True
        red.session.outbox.append(b"\n" * (red.session.outbox.window + 1))
        turns(held)
        assert waits(held)[-1] == "red10"
        red.resume()
        turns(held)
        assert red.written.endswith(b"red10\0\n")


STORED = pytest.mark.parametrize("stored", [False, True], ids=["memory", "stored"])


def publish(client: Client, *bodies: str, **headers: str) -> None:
    for body in bodies:
        client.publish(QUEUE, body.encode(), **P, **headers)


def consumer_of(scene: Scene, ack: str = "client", **headers: str) -> Client:
    consumer = scene.consumer(QUEUE, ack=ack, **headers)
    if scene.broker.storage is not None:
        scene.commit()
    return consumer


def got(*consumers: Client) -> list[str]:
    """What has come to each of them, in a word."""
    return [b"".join(consumer.bodies()).decode() for consumer in consumers]


class TestNack:
    @STORED
    def test_several_at_once_in_order(self, stage: Stage, stored: bool) -> None:
        scene = stage(stored=stored)
        consumer = consumer_of(scene, **{"prefetch-count": "4"})
        publish(consumer, "1", "2", "3", "4", "5")
        messages = consumer.messages()
        consumer.nack(messages[2])
        assert got(consumer) == ["123"]
        assert marks_of(scene) == [5]


class TestLeaving:
    @STORED
    @pytest.mark.parametrize(
        "leave",
        [Client.unsubscribe, Client.disconnect, Client.drop, lambda client: client.send("BOGUS")],
        ids=["unsubscribe", "disconnect", "drop", "error"],
    )
    def test_the_rest_gets_all_in_order(self, stage: Stage, stored: bool, leave: Step) -> None:
        scene = stage(stored=stored)
        first, second = consumer_of(scene, **TWO), consumer_of(scene, **ONE)
        publish(first, "1", "2", "3", "4", "5")
        assert got(first, second) == ["13", "2"]
        leave(first)
        second.unsubscribe()
        third = consumer_of(scene)
        assert got(third) == ["12345"]


class TestNobodyCanReadThem:
    @STORED
    @pytest.mark.parametrize("attempts", [1, 10])
    def test_of_a_temporary_queue(self, stage: Stage, stored: bool, attempts: int) -> None:
        scene = stage({"/reply-queue/#": {"max_attempts": attempts}}, stored=stored)
        client = scene.consumer("/temp-queue/a", ack="client", **ONE)
        client.publish("/temp-queue/a", b"1", **P)
        client.publish("/temp-queue/a", b"2", **P)
        assert scene.broker.memory.used > 0
        client.drop()
        assert scene.broker.memory.used == 0
        assert not scene.broker.destinations


class TestForgottenMeanwhile:
    """Somebody held a message of a queue that nobody else used any more."""

    def held(self, scene: Scene) -> Client:
        """A client in whose transaction lies the ACK of `1`, and the queue is gone."""
        client = consumer_of(scene)
        publish(client, "1")
        client.begin()
        client.ack(client.message(), transaction="t")
        client.unsubscribe()
        assert not scene.broker.destinations
        return client

    @STORED
    @pytest.mark.parametrize("end", [Client.abort, Client.drop])
    def test_the_queue_comes_back_with_it(self, stage: Stage, stored: bool, end: Step) -> None:
        scene = stage(stored=stored)
        end(self.held(scene))
        assert set(scene.broker.destinations) == {QUEUE}
        assert marks_of(scene) == [1]

    @STORED
    def test_it_goes_to_the_queue_of_that_name(self, stage: Stage, stored: bool) -> None:
        scene = stage(stored=stored)
        client = self.held(scene)
        publish(client, "2", "3")
        client.abort()
        queue = scene.broker.destinations[QUEUE]
        assert isinstance(queue, Queue)
        assert queue.stored == (3 if stored else 0)
        assert marks_of(scene) == [1, 2, 3]
        assert not scene.broker.destinations

    @pytest.mark.parametrize("settle", [Client.commit, Client.abort])
    def test_and_each_keeps_its_rows(self, stage: Stage, settle: Callable[[Client], None]) -> None:
        scene = stage(stored=True)
        client = self.held(scene)
        publish(client, "2")
        settle(client)
        scene.commit()
        scene = scene.crash()
        assert list(marks(scene)) == ([2] if settle is Client.commit else [1, 2])


def marks_of(scene: Scene) -> list[int]:
    """The numbers of what waits, which is consumed."""
    last = consumer_of(scene, "auto")
    found = [int(body) for body in last.bodies()]
    last.unsubscribe()
    if scene.broker.storage is not None:
        scene.commit()
    return found


class TestReplaced:
    """A message that replaces an older one of its key takes its place before anything else goes out."""

    def test_as_it_comes_back_with_others(self, scene: Scene) -> None:
        """The consumer that stood by has room already, and one message waits for it."""
        first = scene.consumer(QUEUE, ack="client", exclusive="true", selector=RED)
        other = selective(scene)
        send(other, "red1", "red2", _AMQ_LVQ_NAME="k")
        send(other, "red3", "blue4")
        assert names(first) == ["red1", "red2", "red3"]
        first.drop()
        assert names(other) == ["red2", "red3", "blue4"]

    def test_as_the_first_of_a_group_that_waits(self, scene: Scene) -> None:
        client = selective(scene, RED)
        send(client, "blue1", _AMQ_LVQ_NAME="k", JMSXGroupID="g")
        send(client, "red2", JMSXGroupID="g")
        send(client, "red3", _AMQ_LVQ_NAME="k", JMSXGroupID="g")
        assert names(client) == ["red3", "red2"]
