"""The watch of destinations: rates of all, series of the busiest, and what is wrong with which."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.broker.model.policy import WhenFull
from gateway.observe.destination_watch import KEPT, MOST_NAMED, STEP, DestinationWatch
from tests.broker.client import Scene

A = "/queue/a"


@pytest.fixture
def scene() -> Iterator[Scene]:
    found = Scene({"/queue/short.#": {"max_messages": 1, "when_full": WhenFull.DROP_OLDEST}})
    yield found
    found.finish()


async def step(scene: Scene, watch: DestinationWatch, count: int = 1) -> None:
    for _ in range(count):
        scene.wait(STEP)
        await watch.look()


def published(watch: DestinationWatch, scene: Scene, name: str) -> object:
    series = watch.series(scene.broker.destinations[name].tally)
    return series and series["published"]


async def test_a_series_is_there_while_something_happens(scene: Scene) -> None:
    watch, client = DestinationWatch(scene.broker), scene.connect()
    client.publish(A)
    client.publish(A)
    await step(scene, watch)
    client.publish("/queue/b")
    await step(scene, watch)
    assert published(watch, scene, A) == [0.4, 0.0]
    assert published(watch, scene, "/queue/b") == [0.2]
    assert scene.broker.destinations[A].tally.rates.published == 0
    assert watch.at == scene.epoch + scene.now
    await step(scene, watch, KEPT - 2)
    assert published(watch, scene, A) == [0.4] + [0.0] * (KEPT - 1)
    await step(scene, watch, 2)
    assert published(watch, scene, A) is published(watch, scene, "/queue/b") is None


async def test_of_very_many_the_busiest_have_one(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.observe.destination_watch.MOST_SERIES", 2)
    watch, client = DestinationWatch(scene.broker), scene.connect()
    for number in range(9):
        for _ in range(number):
            client.publish(f"/queue/{number}")
    await step(scene, watch)
    have = [name for name in scene.broker.destinations if published(watch, scene, name)]
    assert have == ["/queue/7", "/queue/8"]


async def test_very_many_are_looked_at_one_part_after_the_other(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.observe.destination_watch.PER_LOOK", 2)
    watch, client = DestinationWatch(scene.broker), scene.connect()
    for name in ("a", "b", "dlq.c"):
        client.publish(name)
    await step(scene, watch)
    assert [bool(each.tally.rates.published) for each in scene.broker.destinations.values()] == [True, True, False]
    assert not watch.troubles.unconsumed
    await step(scene, watch)
    assert scene.broker.destinations["/queue/dlq.c"].tally.rates.published == 0.1, "of ten seconds"
    assert watch.troubles.unconsumed == {"/queue/a": 1, "/queue/b": 1}
    assert watch.troubles.dead_letters == {"/queue/dlq.c": 1}


async def test_what_is_wrong_with_which(scene: Scene) -> None:
    watch, client = DestinationWatch(scene.broker), scene.connect()
    for name in ("short.x", "short.x", "stuck", "stuck", "dlq.d", "alone"):
        client.publish(name)
    client.subscribe("stuck", ack="client", **{"prefetch-count": "1"})
    await step(scene, watch)
    found = watch.troubles
    assert (list(found.losing), scene.broker.context.tallies.losing) == (["/queue/short.x"], 1)
    assert found.dead_letters == {"/queue/dlq.d": 1}
    assert found.unconsumed == {"/queue/short.x": 1, "/queue/alone": 1}
    assert found.still == {}
    await step(scene, watch)
    assert watch.troubles.still == {"/queue/stuck": 1}
    client.ack(client.messages()[-1])
    await step(scene, watch)
    assert watch.troubles.still == {}


async def test_some_are_named_and_all_are_counted(scene: Scene) -> None:
    watch, client = DestinationWatch(scene.broker), scene.connect()
    for number in range(MOST_NAMED + 1):
        for _ in range(2):
            client.publish(f"short.{number}")
    await step(scene, watch)
    assert (len(watch.troubles.losing), scene.broker.context.tallies.losing) == (MOST_NAMED, MOST_NAMED + 1)


async def test_one_that_has_gone_is_still_told(scene: Scene) -> None:
    watch, client = DestinationWatch(scene.broker), scene.connect()
    for _ in range(2):  # it goes when the message expires, and comes again
        client.publish(A, expiration="1000")
        await step(scene, watch)
        assert list(watch.troubles.losing) == [A]
    await step(scene, watch, 12)
    assert list(watch.troubles.losing) == []
