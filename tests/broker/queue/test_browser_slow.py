"""A browser whose client reads slowly, or leaves in the middle."""

from __future__ import annotations

import pytest

from gateway.broker.queue import browser

from ..client import Client, Scene, Step
from ..conftest import Stage
from .test_browser import QUEUE, TAILING, bodies_of, browse, fill, queue_of, shown

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
    client.resume()
    messages = client.messages()
    assert [message.body for message in messages][:40] == bodies
    assert [message.headers.get("browser") for message in messages[40:]] == ([] if headers else ["end"])


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


def test_what_comes_meanwhile_is_not_part_of_it(pair: tuple[Client, Client]) -> None:
    client, producer = pair
    bodies = fill(producer, 10, size=300)
    client.stalled = True
    browse(client)
    fill(producer, 5, start=11)
    client.resume()
    assert shown(client) == bodies


def test_but_of_a_tailing_one_in_order(pair: tuple[Client, Client]) -> None:
    client, producer = pair
    bodies = fill(producer, 10, size=300)
    client.stalled = True
    browse(client, **TAILING)
    bodies += fill(producer, 5, start=11)
    client.resume()
    bodies += fill(producer, 2, start=16)
    assert client.bodies() == bodies


@pytest.mark.parametrize("step", [1, 100, 1_000])
def test_octet_by_octet(pair: tuple[Client, Client], step: int) -> None:
    """Whenever there is room in the outbox it fills it, and not further; each message comes once."""
    client, producer = pair
    fill(producer, 5, size=300)
    client.stalled = True
    browse(client, **TAILING)
    fill(producer, 5, size=300)
    outbox, nbytes = client.session.outbox, b""
    while outbox.size:
        nbytes += b"".join(outbox.take())
        assert outbox.size < 2 * KIB
        outbox.written(min(step, outbox.size))
        assert outbox.size >= outbox.window or nbytes.count(b"\0") + len(outbox.parts) // 2 >= 10
    assert nbytes.count(b"\0") == 10


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


@pytest.mark.parametrize("headers", [{}, TAILING], ids=["to the end", "tailing"])
@pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, lambda client: client.unsubscribe("b")])
def test_it_may_leave_in_the_middle(pair: tuple[Client, Client], headers: dict[str, str], leave: Step) -> None:
    client, producer = pair
    bodies = fill(producer, 20, size=300)
    client.stalled = True
    browse(client, **headers)
    leave(client)
    client.stalled = False
    if not client.closed:
        client.resume()
        assert 0 < len(client.messages()) < 10
    scene = producer.scene
    assert scene.broker.context.subscriptions == 0
    assert bodies_of(scene) == bodies


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


def test_one_that_has_left_is_forgotten(pair: tuple[Client, Client]) -> None:
    """Also by an outbox that never empties."""
    client, producer = pair
    fill(producer, 10, size=300)
    client.stalled = True
    browse(client, "0")
    for headers in ({}, TAILING) * 10:
        browse(client, "1", **headers)
        client.unsubscribe("1")
    assert len(client.session.outbox.starved) == 1


def test_a_long_queue_is_shown_in_turns(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A selector that takes little must not stop everything else."""
    monkeypatch.setattr(browser, "_LOOKS_PER_TURN", 3)
    scene = stage()
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


def test_it_may_leave_between_two_turns(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "_LOOKS_PER_TURN", 3)
    scene = stage()
    client, producer = scene.connect(), scene.connect()
    fill(producer, 20)
    with monkeypatch.context() as patch:
        patch.setattr(scene, "settle", scene.audit)
        browse(client)
        client.unsubscribe("b")
    scene.settle()
    assert client.bodies() == [b"1", b"2", b"3"]


def test_what_expires_meanwhile_is_not_shown(pair: tuple[Client, Client]) -> None:
    """Neither of what waited nor of what came."""
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
