"""Tallies: each way in, out and to nowhere counts once, where it happens; and what a look makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.broker.core.counters import Counts, Tallies, Tally
from gateway.broker.model.policy import OnNack, SlowConsumerAction, WhenFull

from ..client import Client, Scene

Q, T = "/queue/q", "/topic/t"


def counts(scene: Scene, name: str = Q) -> dict[str, float]:
    """What is not 0."""
    target = scene.broker.registry.find(name)
    assert target is not None
    found = {field: getattr(target.tally, field) for field in Counts._fields}
    return {field: value for field, value in found.items() if value}


def test_of_a_queue() -> None:
    scene = Scene()
    publisher, consumer = scene.connect(), scene.connect()
    consumer.subscribe(Q, ack="client-individual")
    for _ in range(3):
        publisher.publish(Q)
    consumer.ack(consumer.messages()[0])
    assert counts(scene) == {"published": 3, "delivered": 3, "acknowledged": 1}


def test_of_a_topic_with_all_its_subscribers() -> None:
    """In mode auto, with a selector, with a private queue, by a pattern; and a durable one, which counts by itself."""
    scene = Scene()
    plain, choosy, queued, pattern, durable = (scene.connect() for _ in range(5))
    plain.subscribe(T)
    choosy.subscribe(T, selector="a = '1'")
    queued.subscribe(T, ack="client")
    pattern.subscribe("/topic/*")
    durable.subscribe(T, id="d", durable="true")
    for a in "12":
        scene.connect().publish(T, a=a)
    queued.ack(queued.messages()[-1])
    assert counts(scene, T) == {"published": 2, "delivered": 5, "acknowledged": 2}
    assert scene.broker.registry.patterns.get("/topic/*").tally.delivered == 2
    (own,) = scene.broker.registry.hidden.values()
    assert (own.tally.published, own.tally.delivered) == (2, 2)


def full(scene: Scene) -> None:
    for _ in range(3):
        scene.connect().publish(Q)


def nacked(scene: Scene) -> None:
    full(scene)
    consumer = scene.connect()
    consumer.subscribe(Q, ack="client-individual")
    consumer.nack(consumer.messages()[0])


def late(scene: Scene) -> None:
    scene.connect().publish(Q)
    scene.connect().subscribe(Q, ack="client", **{"prefetch-count": "1"})  # so that the queue stays
    scene.connect().publish(Q, expiration="1000")
    scene.wait(2.0)


@pytest.mark.parametrize(
    ("policy", "does", "lost", "drops"),
    [
        ({"max_messages": 2, "when_full": WhenFull.DROP_OLDEST}, full, {"dropped": 1}, {"queue-full": 1}),
        ({"max_messages": 2, "when_full": WhenFull.DROP_NEWEST}, full, {"dropped": 1}, {"queue-full": 1}),
        (
            {"max_messages": 2, "when_full": WhenFull.DEAD_LETTER},
            full,
            "dead_lettered",
            None,
        ),
        ({"on_nack": OnNack.DEAD_LETTER, "dead_letter": ""}, nacked, {"dropped": 1}, {"rejected": 1}),
        ({"on_nack": OnNack.DEAD_LETTER}, nacked, "dead_lettered", None),
        ({}, late, "expired", None),
        ({"dead_letter_expired": True}, late, "dead_lettered", None),
    ],
)
def test_a_loss_counts_once(
    policy: dict[str, Any], does: Callable[[Scene], None], lost: dict[str, int] | str, drops: dict[str, int] | None
) -> None:
    scene = Scene({Q: policy})
    does(scene)
    tally, counters = scene.broker.destinations[Q].tally, scene.broker.counters
    expected = {lost: 1} if isinstance(lost, str) else lost
    assert {way: value for way, value in counts(scene).items() if way not in Counts._fields[:3]} == expected
    assert (tally.drops, tally.lost) == (drops, 1)
    assert counters.losses() == dict.fromkeys(Counts._fields[3:], 0) | expected


def stalled(scene: Scene) -> Client:
    client = scene.connect()
    client.subscribe(T)
    client.stalled = True
    return client


@pytest.mark.parametrize(
    ("policy", "way"),
    [
        ({"slow_consumer": SlowConsumerAction.DROP_OLDEST, "slow_messages": 2}, "dropped"),
        ({"slow_consumer": SlowConsumerAction.CONFLATE, "conflate_by": "key"}, "conflated"),
    ],
)
def test_what_a_slow_subscriber_loses_is_its_topic_s(policy: dict[str, Any], way: str) -> None:
    scene = Scene({T: policy})
    stalled(scene)
    publisher = scene.connect()
    for _ in range(9):
        publisher.publish(T, b"x" * 8000, key="k")
    lost = counts(scene, T)[way]
    assert lost > 0
    assert scene.broker.destinations[T].tally.lost == (lost if way == "dropped" else 0)


def test_a_message_that_expires_on_its_way_to_a_topic() -> None:
    scene = Scene()
    client = scene.connect()
    client.subscribe(T)
    for name in (T, "/topic/unknown"):
        client.publish(name, expiration="1000", **{"x-delay": "2000"})
    scene.wait(3.0)
    assert (counts(scene, T), scene.broker.counters.expired) == ({"expired": 1}, 2)


def test_what_operators_remove_is_no_loss() -> None:
    scene = Scene()
    scene.connect().publish(Q)
    tally = scene.broker.destinations[Q].tally
    scene.message_admin.purge(Q, "", lambda outcome: None)
    scene.settle()
    assert scene.broker.counters.drops["purged"] == 1
    assert tally.lost == 0


def test_rates_between_two_looks() -> None:
    tally = Tally(Q, 100.0)
    tally.published = 10
    assert tally.look(105.0)
    assert tally.rates == Counts(published=2.0)
    tally.delivered, tally.expired = 1, 2
    tally.drop("queue-full")
    assert tally.look(110.0)
    assert tally.rates == Counts(delivered=0.2, expired=0.4, dropped=0.2)
    assert tally.rates.lost == 0.6
    assert not tally.look(115.0)
    assert tally.rates == Counts()


def test_a_new_one_is_not_taken_for_busy() -> None:
    tally = Tally(Q, 100.0)
    tally.published = 5
    tally.look(100.01)
    assert tally.rates.published == 5.0


def test_it_loses_for_a_minute() -> None:
    tally = Tally(Q, 100.0)
    tally.published = 1
    tally.look(105.0)
    assert not tally.look(106.0)
    assert (tally.lost_age, tally.is_losing) == (None, False)
    tally.expired = 1
    tally.look(110.0)
    assert (tally.lost_age, tally.is_losing) == (0.0, True)
    tally.published = 2
    tally.look(160.0)
    assert (tally.lost_age, tally.is_losing) == (50.0, True)
    tally.look(170.0)
    assert (tally.lost_age, tally.is_losing) == (60.0, False)


def test_each_way_of_losing_begins_and_ends_for_itself() -> None:
    tally = Tally(Q, 100.0)
    tally.drop("queue-full")
    tally.look(105.0)
    assert tally.present_losses == {"dropped": 1}
    tally.expired = 3
    tally.look(160.0)
    assert tally.present_losses == {"dropped": 1, "expired": 3}
    tally.expired = 5
    tally.look(200.0)
    assert tally.present_losses == {"expired": 5}
    tally.drop("queue-full")
    tally.look(205.0)
    assert tally.present_losses == {"expired": 5, "dropped": 1}, "and not the one that was over"


def test_a_queue_that_comes_again_knows_what_it_lost() -> None:
    """In a queue without consumers whose messages expire, and nothing else comes: it goes with each of them."""
    scene = Scene({Q: {"time_to_live": 1.0}, T: {"slow_consumer": SlowConsumerAction.DROP_OLDEST, "slow_messages": 2}})
    publisher = scene.connect()
    for count in (1, 2, 3):
        publisher.publish(Q)
        scene.wait(2.0)
        assert Q not in scene.broker.destinations
        assert scene.broker.context.tallies.gone[Q].expired == count
    slow = stalled(scene)
    for _ in range(9):
        publisher.publish(T, b"x" * 8000)
    slow.drop()
    assert list(scene.broker.context.tallies.gone) == [Q, T]


def test_those_that_have_gone_are_bounded() -> None:
    tallies = Tallies(lambda: 0.0)
    for name in (*map(str, range(502)), "x" * 300):
        tally = tallies.begin(name)
        tally.expired = 1
        tallies.end(tally)
    tallies.end(tallies.begin("idle"))
    assert list(tallies.gone) == [str(number) for number in range(2, 502)]
