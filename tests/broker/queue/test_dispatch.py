"""Dispatch: consumers that want only some of the messages, their ready lists, and long lists that are read in turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pytest

from gateway.broker import selectors
from gateway.broker.core.work_limits import WorkLimits

from ..client import Client, Scene
from ..conftest import Stage
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
    def test_plain_and_selective_ones_take_turns(self, scene: Scene) -> None:
        clients = [selective(scene), selective(scene, RED), selective(scene, BLUE)]
        send(scene.connect(), *(f"red{number}" for number in range(8)))
        assert [len(names(client)) for client in clients] == [4, 4, 0]


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
def held(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Turns are over after three messages, and none follows until the test says so."""
    scene = stage(work_limits=WorkLimits(selector_reads=3))
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
