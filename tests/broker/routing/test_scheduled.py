"""Scheduled messages: routed when their time has come, never before; bounded, seen by operators, and called off."""

from __future__ import annotations

import pytest

from gateway.broker.model.message import Message
from gateway.broker.model.policy import Kept
from gateway.broker.routing.scheduled import ScheduledSends

from ..client import EPOCH, Client, Scene
from ..conftest import Stage
from ..durable import P
from ..topic.logged import BOTH, write

LATER = {"x-delay": "1000"}


def moment(scene: Scene, seconds: float) -> str:
    """So many seconds from now, in milliseconds since the epoch."""
    return str(int((EPOCH + scene.now + seconds) * 1000))


def delayed(scene: Scene) -> ScheduledSends:
    return scene.broker.router.delayed


@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
@pytest.mark.parametrize("header", ["x-delay", "AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_TIME", "_AMQ_SCHED_DELIVERY"])
def test_never_early_and_at_most_50_ms_late(scene: Scene, client: Client, destination: str, header: str) -> None:
    client.subscribe(destination)
    value = "2000" if "DELAY" in header.upper() and "_AMQ" not in header else moment(scene, 2.0)
    client.publish(destination, b"m", **{header: value})
    scene.wait(1.999)
    assert not client.received()
    scene.wait(0.05)
    message = client.message()
    assert message.body == b"m"
    assert not {name for name in message.headers if "delay" in name.lower() or "SCHED" in name}


def test_until_then_it_is_in_no_queue_but_counts_as_memory(scene: Scene, client: Client) -> None:
    client.publish("a", b"x" * 1_000, receipt="r", **LATER)
    assert client.receipts() == ["r"]
    assert not scene.broker.destinations
    assert len(delayed(scene)) == 1
    assert scene.broker.memory.used > 1_000
    assert scene.broker.counters.published == 0
    scene.wait(1.1)
    client.subscribe("a")
    assert len(client.messages()) == 1
    assert len(delayed(scene)) == 0
    assert scene.broker.memory.used == 0


@pytest.mark.parametrize("transaction", [{}, {"transaction": "t"}])
def test_there_are_only_so_many(stage: Stage, transaction: dict[str, str]) -> None:
    scene = stage(max_delayed=2)
    client, other = scene.connect(), scene.connect()
    for _ in range(2):
        client.publish("a", b"m", **LATER)
    client.publish("a", b"m")
    other.begin()
    other.publish("a", b"m", AMQ_SCHEDULED_TIME=moment(scene, 1.0), **transaction)
    assert b"(max_delayed)" in other.error().body
    delayed(scene).call_off(delayed(scene).every()[0])
    client.publish("a", b"m", **LATER)
    assert not client.closed
    scene.wait(1.1)
    client.publish("a", b"m", **LATER)
    assert not client.closed


@pytest.mark.parametrize("header", ["x-delay", "AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_TIME", "_AMQ_SCHED_DELIVERY"])
@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
def test_where_delays_are_switched_off_each_is_an_error(stage: Stage, header: str, destination: str) -> None:
    """ActiveMQ without its scheduler delivers at once, and says nothing."""
    scene = stage(max_delayed=0)
    client, other = scene.connect(), scene.connect()
    other.subscribe(destination)
    later = "1000" if header in ("x-delay", "AMQ_SCHEDULED_DELAY") else moment(scene, 1.0)
    other.publish(destination, b"now", **{"x-delay": "0"})
    client.publish(destination, b"m", receipt="r", **{header: later})
    (error,) = client.received()
    assert (error.command, error.headers["receipt-id"]) == ("ERROR", "r")
    assert b"(max_delayed)" in error.body
    scene.wait(2.0)
    assert other.bodies() == [b"now"]


@BOTH
def test_one_is_found_by_its_id_and_called_off(stage: Stage, stored: bool) -> None:
    run = Message.run.decode()
    scene = stage(stored=stored)
    client = scene.connect()
    for body in (b"1", b"2", b"3"):
        client.publish("a", body, **P, **LATER)
    write(scene)
    nbytes = scene.broker.memory.used
    first, second, third = delayed(scene).every()
    assert [each.sending.body for each in (first, second, third)] == [b"1", b"2", b"3"]
    assert first.due == scene.now + 1.0
    assert scene.message_admin.scheduled(f"{run}-{second.number}") is second
    for wrong in ("", "nothing", f"{run}-0", f"elsewhere-{first.number}"):
        assert scene.message_admin.scheduled(wrong) is None
    assert delayed(scene).call_off(second)
    assert not delayed(scene).call_off(second)
    assert len(delayed(scene)) == 2
    assert scene.broker.memory.used == nbytes * 2 // 3
    scene.audit()
    scene.wait(1.1)
    client.subscribe("a")
    write(scene)
    assert client.bodies() == [b"1", b"3"]


def test_by_the_same_id_after_a_restart(stage: Stage) -> None:
    scene = stage(stored=True)
    client = scene.connect()
    client.publish("a", b"1", **P, **LATER)
    client.publish("a,b", b"2", **P, **LATER)
    before = [each.number for each in delayed(scene).every()]
    scene.commit()
    scene = scene.crash()
    found = delayed(scene).every()
    assert [each.number for each in found][:2] == before
    assert [len(each.sending.targets) for each in found] == [1, 1, 1]


@pytest.mark.parametrize(
    ("keep", "headers", "left"),
    [
        (Kept.DURABLE, {}, 1),
        (Kept.DURABLE, {"persistent": "false"}, 0),
        (Kept.AS_SENT, {}, 0),
        (Kept.AS_SENT, P, 1),
    ],
)
@pytest.mark.parametrize("name", ["/topic/a", "/topic/*"])
def test_one_that_a_durable_subscription_will_store_is_stored(
    stage: Stage, name: str, keep: Kept, headers: dict[str, str], left: int
) -> None:
    scene = stage({"/topic/#": {"subscriptions_keep": keep}}, stored=True)
    client = scene.connect()
    client.subscribe(name, durable="true")
    client.publish("/topic/a", b"m", **headers, **LATER)
    scene.commit()
    scene = scene.crash()
    assert len(delayed(scene)) == left
    scene.wait(1.1)
    scene.commit()
    scene = scene.crash()
    client = scene.connect()
    client.subscribe(name, durable="true")
    scene.commit()
    assert client.bodies() == [b"m"] * left
    client.send("UNSUBSCRIBE", {"id": "0", "durable": "true"})


def test_one_is_as_durable_as_it_was_where_the_subscription_is_gone(stage: Stage) -> None:
    scene = stage(stored=True)
    client = scene.connect()
    client.subscribe("/topic/a", durable="true")
    client.publish("/topic/a", b"m", retain="set", **LATER)
    client.send("UNSUBSCRIBE", {"id": "0", "durable": "true"})
    scene.commit()
    scene = scene.crash()
    scene.wait(1.1)
    scene.commit()
    assert (len(scene.broker.router.retained), scene.broker.router.retained.stored) == (1, 0)


@pytest.mark.parametrize("name", ["/queue/a", "/topic/a"])
def test_one_that_is_durable_is_refused_while_the_store_fails(stage: Stage, name: str) -> None:
    scene = stage(stored=True)
    scene.connect().publish("/queue/b", b"m", **P)
    scene.store.failure = "the disk is full"
    scene.commit()
    client = scene.connect()
    client.publish(name, b"m", **P, **LATER)
    assert client.error().headers["message"] == "the store cannot be written"


@pytest.mark.parametrize("written", [False, True])
def test_nor_in_the_next_process(stage: Stage, written: bool) -> None:
    scene = stage(stored=True)
    scene.connect().publish("a,b", b"1", **P, **LATER)
    if written:
        scene.commit()
    (waiting,) = delayed(scene).every()
    assert delayed(scene).stored == 1
    delayed(scene).call_off(waiting)
    assert delayed(scene).stored == 0
    scene.commit()
    assert not scene.store.rows
    scene = scene.crash(60.0)
    assert not len(delayed(scene))
    assert not scene.broker.destinations
