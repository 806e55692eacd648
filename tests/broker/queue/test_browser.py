"""Browsing: reading what waits in a queue, and what comes, without changing anything."""

from __future__ import annotations

import pytest

from ..client import Client, Scene, Step
from ..conftest import Stage, small
from .helpers import QUEUE, fill, queue_of

TAILING = {"browser-end": "false"}


def browse(client: Client, id: str = "b", **headers: str) -> None:
    client.subscribe(QUEUE, id, browser="true", **headers)


def shown(client: Client) -> list[bytes]:
    """What a browser showed to its end."""
    *messages, last = client.messages()
    assert last.headers.get("browser") == "end"
    assert not any("browser" in message.headers for message in messages)
    return [message.body for message in messages]


class TestToTheEnd:
    def test_what_waits_in_order_and_an_end_mark(self, scene: Scene) -> None:
        client = scene.connect()
        bodies = fill(client, 5)
        browse(client)
        *messages, last = client.messages()
        assert [message.body for message in messages] == bodies
        assert {message.subscription for message in [*messages, last]} == {"b"}
        assert last.headers["browser"] == "end"
        assert last.headers["destination"] == QUEUE
        assert last.body == b""
        assert len({message.message_id for message in [*messages, last]}) == 6

    @pytest.mark.parametrize("selector", ["n = 1", ""])
    def test_of_an_empty_queue_only_the_mark(self, scene: Scene, selector: str) -> None:
        scene.consumer(QUEUE)
        client = scene.connect()
        browse(client, selector=selector)
        assert shown(client) == []

    def test_a_message_that_waits_for_a_busy_group_is_shown(self, scene: Scene) -> None:
        owner, other, client = scene.connect(), scene.connect(), scene.connect()
        owner.subscribe(QUEUE, ack="client", **{"prefetch-count": "1"})
        bodies = fill(client, 3, JMSXGroupID="g")
        browse(client, "0")
        assert shown(client) == bodies[1:]
        other.subscribe(QUEUE, ack="client")
        browse(client, "1")
        assert shown(client) == bodies[1:]


class TestNothingChanges:
    @pytest.mark.parametrize("headers", [{}, TAILING], ids=["to the end", "tailing"])
    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, lambda client: client.unsubscribe("b")])
    def test_for_consumers(self, scene: Scene, headers: dict[str, str], leave: Step) -> None:
        client, consumer = scene.connect(), scene.connect()
        bodies = fill(consumer, 5)
        browse(client, **headers)
        assert [each.body for each in client.messages() if "browser" not in each.headers] == bodies
        leave(client)
        scene.settle()
        consumer.subscribe(QUEUE)
        messages = consumer.messages()
        assert [message.body for message in messages] == bodies
        assert not any(message.redelivered for message in messages)

    def test_topics_keep_nothing_to_browse(self, scene: Scene) -> None:
        client = scene.consumer("/topic/a", browser="true")
        assert client.error().headers["message"] == "browsers are for queues"


class TestTheEndOfABrowser:
    def test_it_does_not_keep_the_queue(self, scene: Scene) -> None:
        client, consumer = scene.connect(), scene.connect()
        fill(client, 1)
        browse(client)
        consumer.subscribe(QUEUE)
        consumer.drop()
        assert QUEUE not in scene.broker.destinations
        fill(client, 1)
        client.unsubscribe("b")
        assert scene.broker.context.waiting == 1


KIB = 1024


@pytest.fixture
def pair(stage: Stage) -> tuple[Client, Client]:
    """A browser that may hold 8 KiB, of which 1 KiB at a time goes into its outbox, and a producer."""
    scene = stage(max_outbound=8 * KIB)
    return scene.connect(), scene.connect()


@pytest.mark.parametrize("headers", [{}, TAILING], ids=["to the end", "tailing"])
def test_it_goes_on_as_its_client_reads(pair: tuple[Client, Client], headers: dict[str, str]) -> None:
    client, producer = pair
    bodies = fill(producer, 40, size=300)
    client.stalled = True
    browse(client, **headers)
    assert 1 * KIB <= client.session.outbox.size < 2 * KIB
    (later,) = fill(producer, 1, start=41)  # a browser to the end does not show what comes meanwhile
    client.resume()
    *messages, last = client.messages()
    assert [message.body for message in messages] == bodies
    assert (last.body, last.headers.get("browser")) == ((later, None) if headers else (b"", "end"))


def test_what_went_meanwhile_is_passed_over(pair: tuple[Client, Client]) -> None:
    client, producer = pair
    bodies = fill(producer, 10, size=300)
    client.stalled = True
    browse(client)
    consumer = producer.scene.connect()
    consumer.subscribe(QUEUE, ack="client", **{"prefetch-count": "8"})
    assert len(consumer.messages()) == 8
    client.resume()
    found = shown(client)
    assert found[-2:] == bodies[8:]
    assert found[:-2] == bodies[: len(found) - 2]
    assert 2 < len(found) < 10


def test_a_tailing_one_that_never_reads_is_closed(pair: tuple[Client, Client]) -> None:
    client, producer = pair
    browse(client, **TAILING)
    client.stalled = True
    sent = 0
    while not client.closed:
        sent += len(fill(producer, 1, size=300))
        assert sent < 40
    assert [str(failure) for failure in client.failures] == ["slow consumer"]
    assert "8192 bytes (max_outbound)" in client.failures[0].detail
    assert "browser" in client.failures[0].detail
    assert client.scene.broker.context.waiting == sent


def test_one_that_has_left_is_forgotten(pair: tuple[Client, Client]) -> None:
    client, producer = pair
    fill(producer, 10, size=300)
    client.stalled = True
    browse(client, "0")
    for headers in ({}, TAILING) * 10:
        browse(client, "1", **headers)
        client.unsubscribe("1")
    assert len(client.session.outbox.starved) == 1


@small(browser_looks=3)
def test_a_long_queue_is_shown_in_turns(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A selector that takes little must not stop everything else."""
    client, producer = scene.connect(), scene.connect()
    for number in range(20):
        producer.publish(QUEUE, b"%d" % number, n=str(number))
    monkeypatch.setattr(scene, "settle", scene.audit)
    browse(client, selector="n = 7 OR n > 17", **TAILING)
    turns = 1
    while scene.broker.scheduler.proceed():
        turns += 1
    assert turns == 20 // 3
    producer.publish(QUEUE, b"20", n="20")
    Scene.settle(scene)
    assert client.bodies() == [b"7", b"18", b"19", b"20"]


def test_what_expires_meanwhile_is_not_shown(pair: tuple[Client, Client]) -> None:
    client, producer = pair
    fill(producer, 10, size=300)
    producer.publish(QUEUE, b"old", ttl="1000")
    client.stalled = True
    browse(client, **TAILING)
    producer.publish(QUEUE, b"new", ttl="1000")
    producer.publish(QUEUE, b"last")
    producer.scene.now += 2.0  # nobody has looked at the agenda yet
    client.resume()
    bodies = client.bodies()
    assert len(bodies) == 11
    assert bodies[-1] == b"last"


def test_its_list_does_not_keep_what_has_gone(pair: tuple[Client, Client]) -> None:
    client, producer = pair
    fill(producer, 300, size=300)
    client.stalled = True
    browse(client)
    queue = queue_of(producer.scene)
    consumer = producer.scene.connect()
    consumer.subscribe(QUEUE)
    assert len(consumer.messages()) == 300
    (found,) = queue.browsers.values()
    assert len(found._waited) <= 64


def test_with_the_connection_broken_it_shows_nothing(pair: tuple[Client, Client]) -> None:
    """The transport knows it, and the session's end comes a little later."""
    client, producer = pair
    fill(producer, 2)
    browse(client, "0", **TAILING)
    assert len(client.messages()) == 2
    client.session.outbox.close()
    fill(producer, 2, start=3)
    browse(client, "1", **TAILING)
    browse(client, "2")
    client.drop()
    assert client.written.count(b"MESSAGE") == 2


@small(browser_looks=3)
def test_it_may_leave_between_two_turns(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    client, producer = scene.connect(), scene.connect()
    fill(producer, 20)
    with monkeypatch.context() as patch:
        patch.setattr(scene, "settle", scene.audit)
        browse(client)
        client.unsubscribe("b")
    scene.settle()
    assert client.bodies() == [b"1", b"2", b"3"]
