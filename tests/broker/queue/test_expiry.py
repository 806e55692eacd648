"""Expiry: by whichever header or policy, wherever the message is at that time, and nothing of it is kept any longer."""

from __future__ import annotations

import gc

import pytest

from gateway.broker.model.message import Message

from ..client import EPOCH, Client, Scene
from ..conftest import Stage
from .helpers import DEAD, QUEUE


def moment(scene: Scene, seconds: float) -> str:
    """So many seconds from now, as `expires` has it."""
    return str(int((EPOCH + scene.now + seconds) * 1000))


def lived(scene: Scene, header: str, seconds: float) -> dict[str, str]:
    """The header by which a message lives so long."""
    return {header: moment(scene, seconds) if header == "expires" else str(int(seconds * 1000))}


def pass_unseen(scene: Scene, seconds: float) -> None:
    """Time passes, and the agenda is not looked at yet: between two ticks."""
    scene.now += seconds


HEADERS = ["expires", "expiration", "ttl"]


class TestWhileItWaits:
    @pytest.mark.parametrize("header", HEADERS)
    def test_it_goes_at_its_time_and_not_before(self, scene: Scene, header: str) -> None:
        client = scene.connect()
        client.publish(QUEUE, b"m", **lived(scene, header, 2.0))
        client.publish(QUEUE, b"other")
        scene.wait(1.99)
        assert scene.broker.context.waiting == 2
        scene.wait(0.03)
        assert (scene.broker.context.waiting, scene.broker.counters.expired) == (1, 1)
        client.subscribe(QUEUE)
        assert client.bodies() == [b"other"]

    @pytest.mark.parametrize("seconds", [1.0, 4.0])
    @pytest.mark.parametrize("header", HEADERS)
    def test_the_message_says_more_than_the_policy(self, stage: Stage, header: str, seconds: float) -> None:
        scene = stage({QUEUE: {"time_to_live": 2.0}})
        client = scene.connect()
        client.publish(QUEUE, b"m", **lived(scene, header, seconds))
        scene.wait(seconds - 0.01)
        assert scene.broker.context.waiting == 1
        scene.wait(0.03)
        assert scene.broker.context.waiting == 0

    def test_more_than_fit_into_one_turn(self, scene: Scene) -> None:
        client = scene.connect()
        client.begin()
        for _ in range(1_200):
            client.publish(QUEUE, b"m", ttl="1000", transaction="t")
        client.commit()
        pass_unseen(scene, 1.0)
        scene.broker.scheduler.tick()
        assert scene.broker.context.waiting == 700
        scene.settle()
        assert (scene.broker.context.waiting, scene.broker.memory.used) == (0, 0)

    @pytest.mark.parametrize("group", [{}, {"JMSXGroupID": "g"}], ids=["no group", "group"])
    @pytest.mark.parametrize("selector", ["", "n > 0"])
    def test_between_two_looks_at_the_agenda(self, scene: Scene, selector: str, group: dict[str, str]) -> None:
        """The agenda is late by some milliseconds; the message is not delivered in these."""
        client = scene.connect()
        for number in range(1, 5):
            client.publish(QUEUE, b"%d" % number, n=str(number), **({"ttl": "1000"} if number != 3 else {}), **group)
        pass_unseen(scene, 1.0)
        client.subscribe(QUEUE, selector=selector)
        assert client.bodies() == [b"3"]
        assert scene.broker.counters.expired == 3


class TestWhileSomebodyHasIt:
    def test_while_it_is_in_back_off(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"backoff": 3.0}})
        client = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"m", ttl="1000")
        client.nack(client.message())
        scene.wait(0.9)
        assert len(scene.broker.destinations[QUEUE].resting) == 1
        scene.wait(0.2)
        assert (scene.broker.counters.expired, scene.broker.memory.used) == (1, 0)
        scene.wait(2.0)
        assert not client.received()


class TestTheHeaderExpires:
    @pytest.mark.parametrize("header", HEADERS)
    @pytest.mark.parametrize("destination", [QUEUE, "/topic/a"])
    def test_has_the_moment(self, scene: Scene, header: str, destination: str) -> None:
        client = scene.consumer(destination)
        expected = moment(scene, 30.5)
        client.publish(destination, b"m", **lived(scene, header, 30.5))
        assert client.message().headers["expires"] == expected

    def test_none_for_a_policys_time_to_live_and_zero_is_none(self, stage: Stage) -> None:
        scene = stage({"/queue/b": {"time_to_live": 1.0}})
        client = scene.connect()
        client.publish(QUEUE, b"m", expires="0")
        scene.wait(100.0)
        client.subscribe(QUEUE, "0")
        assert client.message().headers["expires"] == "0"
        client.subscribe("/queue/b", "1")
        client.publish("/queue/b", b"m")
        assert "expires" not in client.message().headers


class TestDeadLetters:
    def test_of_what_waited(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"dead_letter_expired": True}})
        client = scene.connect()
        client.publish(QUEUE, b"m", ttl="1000")
        scene.wait(1.01)
        first_at = int(moment(scene, 0.0))
        client.subscribe(DEAD)
        headers = client.message().headers
        assert abs(int(headers.pop("dlq-first-at")) - first_at) <= 20
        assert {name: value for name, value in headers.items() if name.startswith("dlq-")} == {
            "dlq-reason": "expired",
            "dlq-source": QUEUE,
            "dlq-attempts": "0",
        }
        counters = scene.broker.counters
        assert (counters.expired, counters.dead_lettered, counters.totals()["dropped"]) == (1, 1, 0)

    def test_two_queues_that_send_theirs_to_each_other(self, stage: Stage) -> None:
        """Once for each time to live, and no faster."""
        rules = {"time_to_live": 1.0, "dead_letter_expired": True}
        scene = stage(
            {"/queue/a": rules | {"dead_letter": "/queue/b"}, "/queue/b": rules | {"dead_letter": "/queue/a"}}
        )
        client = scene.connect()
        client.publish("/queue/a", b"m")
        scene.wait(5.5)
        assert scene.broker.counters.dead_lettered == 5
        client.subscribe("/queue/b")
        assert client.bodies() == [b"m"]


class TestNothingIsKeptUntilThen:
    """A client chooses the time; what was consumed long before it must not stay in memory."""

    def kept(self, body: bytes) -> int:
        gc.collect()
        return sum(isinstance(each, Message) and each.body == body for each in gc.get_objects())

    def test_of_a_queue_that_is_used_on(self, scene: Scene) -> None:
        client, other = scene.connect(), scene.connect()
        for number in range(1_000):
            client.publish(QUEUE, b"used on", ttl=str(9_000_000 - number))
            if number % 100 == 99:
                other.subscribe(QUEUE)
                other.unsubscribe()
        assert scene.broker.context.waiting == 0
        assert self.kept(b"used on") <= 64
        assert len(scene.broker.scheduler) <= 200


def test_a_queue_that_was_forgotten_with_a_message_outstanding(scene: Scene, client: Client) -> None:
    client.publish(QUEUE, b"m", ttl="5000")
    client.subscribe(QUEUE, ack="client")
    client.begin()
    client.ack(client.message(), transaction="t")
    client.unsubscribe()
    assert not scene.broker.destinations
    client.abort()
    assert scene.broker.context.waiting == 1
    scene.wait(5.1)
    assert (scene.broker.context.waiting, scene.broker.counters.expired) == (0, 1)
