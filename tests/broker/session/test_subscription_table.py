"""Subscriptions of a session: what they may cost other clients, and how thousands of them end in steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.broker.core.work_limits import WorkLimits
from gateway.broker.errors import NotAllowed
from gateway.broker.session.subscription_table import ENDS_PER_STEP, SessionQuota
from gateway.codec import V10, Frame, Head

from ..client import Client, Scene
from ..conftest import Stage

MANY = 100
GOODBYE = Frame(Head.of("DISCONNECT", {"receipt": "bye"}), b"")


class TestQuota:
    def test_browsers_are_counted_apart(self, scene: Scene) -> None:
        client = scene.connect()
        headers = {"browser": "true", "browser-end": "false"}
        for id in range(SessionQuota.MOST_BROWSERS):
            client.subscribe("/queue/a", str(id), **headers)
        client.unsubscribe("0")
        client.subscribe("/queue/a", "0", **headers)
        client.subscribe("/queue/a", "x")
        client.subscribe("/queue/a", "y", **headers)
        assert client.error().headers["message"] == "too many browsers"

    def test_selectors_are_bounded_together(self, scene: Scene) -> None:
        client = scene.connect()
        selector = " OR ".join(["color = 'red'"] * 200)
        for id in range(SessionQuota.MOST_SELECTORS // len(selector)):
            client.subscribe("/topic/a", str(id), selector=selector)
        client.unsubscribe("0")
        client.subscribe("/topic/a", "0", selector=selector)
        client.subscribe("/topic/a", "x")
        client.subscribe("/topic/a", "y", selector=selector)
        assert client.error().headers["message"] == "too many selectors"

    @pytest.mark.parametrize("name", ["/queue/a", "/topic/a"])
    def test_ids_and_destinations_are_bounded_together(self, stage: Stage, name: str) -> None:
        """Three subscriptions to this name may have ids of one character."""
        scene = stage(work_limits=WorkLimits(subscription_characters=3 * (len(name) + 1)))
        client, other, old, long = scene.connect(), scene.connect(), scene.connect(V10), scene.connect()
        for id in "abc":
            client.subscribe(name, id)
            other.subscribe(name, id)  # each session has its own quota
            old.send("SUBSCRIBE", {"destination": f"{name}{id}"})
        for id in "abc" * 5:
            client.unsubscribe(id)
            client.subscribe(name, id)
        assert not other.closed
        client.subscribe(name, "d")
        old.send("UNSUBSCRIBE", {"destination": f"{name}a"})
        old.send("SUBSCRIBE", {"destination": f"{name}a"})
        old.send("SUBSCRIBE", {"destination": f"{name}d"})  # without an id the destination counts
        long.subscribe(name, "x" * (2 * len(name) + 3))
        long.subscribe(f"{name}x", "")
        for each in (client, old, long):
            assert each.error().headers["message"] == "subscription names are too long"


@pytest.fixture
def crowd(scene: Scene) -> Client:
    """A client with many subscriptions: one to a queue that must be acknowledged, the rest to topics."""
    client = scene.connect()
    client.subscribe("/queue/a", "queue", ack="client")
    for number in range(MANY):
        client.subscribe(f"/topic/{number}", str(number))
    return client


def rest_of(steps: Iterator[None]) -> int:
    return sum(1 for _ in steps)


def say(client: Client, command: str, body: bytes = b"", **headers: str) -> None:
    """A frame in the middle of the steps, without settling the scene."""
    client.session.handle(Frame(Head.of(command, headers), body))
    client.flush()


class TestSteps:
    def test_an_error_comes_behind_the_last_step(self, crowd: Client, scene: Scene) -> None:
        other = scene.connect()
        steps = crowd.session.failing(NotAllowed("no"))
        next(steps)
        assert scene.broker.context.subscriptions == 1 + MANY - ENDS_PER_STEP
        other.publish(f"/topic/{MANY - 1}", b"still there")
        other.publish("/topic/0", b"gone")
        assert rest_of(steps) == (1 + MANY) // ENDS_PER_STEP - 1
        crowd.flush()
        assert scene.broker.context.subscriptions == 0
        message, error = crowd.received()
        assert (message.body, error.command) == (b"still there", "ERROR")

    def test_the_receipt_of_a_disconnect_comes_with_the_last_step(self, crowd: Client, scene: Scene) -> None:
        other = scene.connect()
        crowd.session.handle(GOODBYE)
        other.session.handle(Frame(Head.of("SEND", {"destination": "/queue/a"}), b"for others"))
        steps = crowd.session.departing()
        next(steps)
        other.session.handle(Frame(Head.of("SEND", {"destination": f"/topic/{MANY - 1}"}), b"still there"))
        crowd.flush()
        assert crowd.bodies() == [b"still there"]
        rest_of(steps)
        crowd.flush()
        assert crowd.receipts() == ["bye"]
        assert rest_of(crowd.session.departing()) == 0
        crowd.flush()
        assert crowd.received() == []
        other.subscribe("/queue/a", "0")
        assert other.bodies() == [b"for others"]

    def test_a_connection_that_breaks_between_two_steps(self, crowd: Client, scene: Scene) -> None:
        steps = crowd.session.departing(lost=True)
        next(steps)
        crowd.drop()
        assert scene.broker.context.subscriptions == 0
        assert rest_of(steps) > 0

    def test_queues_are_left_in_steps(self, scene: Scene) -> None:
        client, other, observer = scene.connect(), scene.connect(), scene.connect()
        for number in range(MANY):
            client.subscribe(f"/queue/{number}", str(number), ack="client")
            other.publish(f"/queue/{number}", b"first")
        assert client.bodies() == [b"first"] * MANY
        steps = client.session.departing()
        next(steps)
        assert scene.broker.context.subscriptions == MANY - ENDS_PER_STEP
        last = f"/queue/{MANY - 1}"
        observer.subscribe(last, "0")
        other.publish(last, b"second")
        assert observer.bodies() == [b"second"], "the first one is not given back yet"
        rest_of(steps)
        observer.flush()
        assert observer.bodies() == [b"first"]
        assert client.bodies() == []

    def test_the_subscriptions_of_one_queue_end_in_one_step(self, scene: Scene) -> None:
        client, other = scene.connect(), scene.connect()
        for number in range(MANY):
            client.subscribe("/queue/a", str(number), ack="client")
        for number in range(MANY):
            other.publish("/queue/a", b"%d" % number)
        assert len(client.bodies()) == MANY
        other.subscribe("/queue/a", "0")
        assert rest_of(client.session.departing()) == 0, "none gets what another one gave back"
        other.flush()
        assert other.bodies() == [b"%d" % number for number in range(MANY)]

    @pytest.mark.parametrize("way", ["group", "exclusive"])
    def test_the_next_consumer_gets_all_in_order(self, scene: Scene, way: str) -> None:
        """The session has two subscriptions to the queue, which end in the second step."""
        client, other, publisher = scene.connect(), scene.connect(), scene.connect()
        for number in range(ENDS_PER_STEP):
            client.subscribe(f"/queue/other-{number}", f"other-{number}", ack="client")
        for id in "xy":
            own = {"exclusive": "true"} if (id, way) == ("x", "exclusive") else {}
            client.subscribe("/queue/a", id, ack="client", **{"prefetch-count": "1"}, **own)
        group = {"JMSXGroupID": "g"} if way == "group" else {}
        for number in range(3):
            publisher.publish("/queue/a", b"%d" % number, **group)
        assert client.bodies() == [b"0"]
        if way == "group":
            other.subscribe("/queue/a", "0")
        steps = client.session.failing(NotAllowed("no"))
        next(steps)
        if way == "exclusive":
            say(other, "SUBSCRIBE", destination="/queue/a", id="0")
        say(publisher, "SEND", b"3", destination="/queue/a", **group)
        rest_of(steps)
        other.flush()
        assert other.bodies() == [b"0", b"1", b"2", b"3"]

    @pytest.mark.parametrize("says_goodbye", [False, True])
    def test_the_bodies_of_a_transaction_are_freed_in_steps(self, scene: Scene, says_goodbye: bool) -> None:
        client = scene.connect()
        client.begin()
        for _ in range(8):
            client.publish("/queue/a", b"x" * 1024 * 1024, transaction="t")
        if says_goodbye:
            client.session.handle(GOODBYE)
            steps = client.session.departing()
        else:
            steps = client.session.failing(NotAllowed("no"))
            next(steps)
        assert scene.broker.memory.used == 0, "it counts no longer"
        assert not client.session.transactions
        assert rest_of(steps) == 1 + says_goodbye, "a step for each 3 MiB, and the rest"
        client.flush()
        assert client.received()[-1].command == ("RECEIPT" if says_goodbye else "ERROR")


class TestQueuesThatGoWithTheirConsumers:
    def test_a_message_behind_a_disconnect_stays(self, stage: Stage) -> None:
        scene = stage({"/queue/a": {"auto_delete": True}})
        client, other = scene.connect(), scene.connect()
        for number in range(ENDS_PER_STEP):
            client.subscribe(f"/queue/other-{number}", f"other-{number}")
        client.subscribe("/queue/a", "a")
        client.session.handle(GOODBYE)
        say(other, "SEND", b"stays", destination="/queue/a")
        rest_of(client.session.departing())
        other.subscribe("/queue/a")
        assert other.bodies() == [b"stays"]

    def test_no_queue_goes_with_a_browser(self, stage: Stage) -> None:
        scene = stage({"/queue/a": {"auto_delete": True}})
        client, other = scene.connect(), scene.connect()
        other.publish("/queue/a", b"stays")
        client.subscribe("/queue/a", browser="true")
        assert client.bodies() == [b"stays", b""], "the empty one is the end"
        client.drop()
        other.subscribe("/queue/a")
        assert other.bodies() == [b"stays"]

    def test_a_queue_goes_with_a_consumer_that_was_stopped(self, scene: Scene) -> None:
        """Though another consumer came and went between the steps."""
        client, other, third = scene.connect(), scene.connect(), scene.connect()
        for number in range(ENDS_PER_STEP):
            client.subscribe(f"/queue/other-{number}", f"other-{number}", ack="client")
        client.subscribe("/queue/a", "a", ack="client", **{"auto-delete": "true", "prefetch-count": "1"})
        for body in (b"first", b"second"):
            third.publish("/queue/a", body)
        steps = client.session.departing()
        next(steps)
        say(other, "SUBSCRIBE", destination="/queue/a", id="0", ack="client")
        say(other, "UNSUBSCRIBE", id="0")
        rest_of(steps)
        assert "/queue/a" not in scene.broker.destinations
