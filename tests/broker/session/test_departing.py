"""A session that leaves in steps: others have their turns between two, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.broker.errors import NotAllowed
from gateway.broker.session.subscriptions import ENDS_PER_STEP
from gateway.codec import Frame, Head

from ..client import Client, Scene
from ..conftest import Stage

MANY = 100
GOODBYE = Frame(Head.of("DISCONNECT", {"receipt": "bye"}), b"")


@pytest.fixture
def crowd(scene: Scene) -> Client:
    """A client with many subscriptions: one to a queue that must be acknowledged, the rest to topics."""
    client = scene.connect()
    client.subscribe("/queue/a", "queue", ack="client")
    for number in range(MANY):
        client.subscribe(f"/topic/{number}", str(number))
    return client


def first_step(steps: Iterator[None]) -> None:
    next(steps)


def rest_of(steps: Iterator[None]) -> int:
    return sum(1 for _ in steps)


def test_a_failure_is_told_behind_the_last_step(crowd: Client, scene: Scene) -> None:
    other = scene.connect()
    steps = crowd.session.failing(NotAllowed("no"))
    first_step(steps)
    assert scene.broker.context.subscriptions == 1 + MANY - ENDS_PER_STEP
    other.publish(f"/topic/{MANY - 1}", b"still there")
    other.publish("/topic/0", b"gone")
    assert rest_of(steps) == (1 + MANY) // ENDS_PER_STEP - 1
    crowd.flush()
    assert scene.broker.context.subscriptions == 0
    message, error = crowd.received()
    assert (message.body, error.command) == (b"still there", "ERROR")


def test_what_is_given_back_comes_with_the_first_step(crowd: Client, scene: Scene) -> None:
    other = scene.connect()
    other.publish("/queue/a", b"mine")
    assert crowd.message().body == b"mine"
    other.subscribe("/queue/a", "0")
    steps = crowd.session.departing(lost=True)
    first_step(steps)
    other.flush()
    assert other.bodies() == [b"mine"]
    other.publish("/queue/a", b"another")
    other.publish("/queue/a", b"and another")
    rest_of(steps)
    assert other.bodies() == [b"another", b"and another"], "nothing is given to who is leaving"
    assert crowd.bodies() == []


def test_the_receipt_of_a_disconnect_comes_with_the_last_step(crowd: Client, scene: Scene) -> None:
    other = scene.connect()
    crowd.session.handle(GOODBYE)
    other.session.handle(Frame(Head.of("SEND", {"destination": "/queue/a"}), b"for others"))
    steps = crowd.session.departing()
    first_step(steps)
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


def test_a_disconnect_of_one_with_many_subscriptions(crowd: Client, scene: Scene) -> None:
    crowd.send("DISCONNECT", {"receipt": "bye"})
    assert scene.broker.context.subscriptions == 0
    assert crowd.receipts() == ["bye"]


def test_a_disconnect_of_one_with_few_is_carried_out_at_once(scene: Scene) -> None:
    client = scene.connect()
    for number in range(ENDS_PER_STEP):
        client.subscribe(f"/topic/{number}", str(number))
    client.session.handle(GOODBYE)
    assert scene.broker.context.subscriptions == 0
    client.flush()
    assert client.receipts() == ["bye"]


def test_one_that_is_lost_before_its_last_step_gets_no_receipt(crowd: Client, scene: Scene) -> None:
    crowd.session.handle(GOODBYE)
    crowd.session.close()
    assert scene.broker.context.subscriptions == 0
    crowd.flush()
    assert crowd.received() == []


def test_one_that_is_closed_in_the_middle(crowd: Client, scene: Scene) -> None:
    steps = crowd.session.departing(lost=True)
    first_step(steps)
    crowd.drop()
    assert scene.broker.context.subscriptions == 0
    rest_of(steps)
    assert scene.broker.context.subscriptions == 0


def test_queues_are_left_in_steps_and_none_gives_anything_more(scene: Scene) -> None:
    client, other, observer = scene.connect(), scene.connect(), scene.connect()
    for number in range(MANY):
        client.subscribe(f"/queue/{number}", str(number), ack="client")
        other.publish(f"/queue/{number}", b"first")
    assert client.bodies() == [b"first"] * MANY
    steps = client.session.departing()
    first_step(steps)
    assert scene.broker.context.subscriptions == MANY - ENDS_PER_STEP
    last = f"/queue/{MANY - 1}"
    observer.subscribe(last, "0")
    other.publish(last, b"second")
    assert observer.bodies() == [b"second"], "the first is still the one's who leaves"
    rest_of(steps)
    observer.flush()
    assert observer.bodies() == [b"first"]
    observer.subscribe("/queue/0", "1")
    assert observer.bodies() == [b"first"]
    assert client.bodies() == []


def test_those_of_one_queue_end_in_one_step(scene: Scene) -> None:
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


def leaver(scene: Scene, **headers: str) -> Client:
    """A session whose two subscriptions to /queue/a end in the second step."""
    client = scene.connect()
    for number in range(ENDS_PER_STEP):
        client.subscribe(f"/queue/other-{number}", f"other-{number}", ack="client")
    for id in ("x", "y"):
        client.subscribe("/queue/a", id, ack="client", **{"prefetch-count": "1"}, **(headers if id == "x" else {}))
    return client


def say(client: Client, command: str, body: bytes = b"", **headers: str) -> None:
    """Without settling: who leaves is amid it."""
    client.session.handle(Frame(Head.of(command, headers), body))
    client.flush()


def test_a_group_keeps_its_order_while_its_owner_leaves(scene: Scene) -> None:
    client, other, publisher = leaver(scene), scene.connect(), scene.connect()
    for number in range(3):
        publisher.publish("/queue/a", b"%d" % number, JMSXGroupID="g")
    assert client.bodies() == [b"0"]
    other.subscribe("/queue/a", "0")
    steps = client.session.failing(NotAllowed("no"))
    first_step(steps)
    say(publisher, "SEND", b"3", destination="/queue/a", JMSXGroupID="g")
    rest_of(steps)
    other.flush()
    assert other.bodies() == [b"0", b"1", b"2", b"3"]


def test_who_follows_an_exclusive_consumer_gets_all_in_order(scene: Scene) -> None:
    client, other, publisher = leaver(scene, exclusive="true"), scene.connect(), scene.connect()
    for number in range(3):
        publisher.publish("/queue/a", b"%d" % number)
    assert client.bodies() == [b"0"]
    steps = client.session.failing(NotAllowed("no"))
    first_step(steps)
    say(other, "SUBSCRIBE", destination="/queue/a", id="0")
    rest_of(steps)
    other.flush()
    assert other.bodies() == [b"0", b"1", b"2"]


def test_dead_letters_outlive_the_session_that_consumed_them_too(stage: Stage) -> None:
    scene = stage({"/queue/a": {"max_attempts": 1, "dead_letter": "/queue/dead"}, "/queue/dead": {"auto_delete": True}})
    client, publisher = scene.connect(), scene.connect()
    client.subscribe("/queue/a", "0", ack="client")
    client.subscribe("/queue/dead", "1", ack="client")
    publisher.publish("/queue/a", b"failed")
    assert client.bodies() == [b"failed"]
    client.drop()
    other = scene.connect()
    other.subscribe("/queue/dead")
    assert other.bodies() == [b"failed"]


def test_what_comes_behind_a_goodbye_stays(stage: Stage) -> None:
    """Though the queue goes with its consumers, and the session has not left yet."""
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


def test_no_queue_goes_with_who_browses_it(stage: Stage) -> None:
    scene = stage({"/queue/a": {"auto_delete": True}})
    client, other = scene.connect(), scene.connect()
    other.publish("/queue/a", b"stays")
    client.subscribe("/queue/a", browser="true")
    assert client.bodies() == [b"stays", b""], "the empty one is the end"
    client.drop()
    other.subscribe("/queue/a")
    assert other.bodies() == [b"stays"]


def test_a_queue_goes_with_who_was_stopped(scene: Scene) -> None:
    """By `auto-delete`, though others came and went between his steps."""
    client, other, third = scene.connect(), scene.connect(), scene.connect()
    for number in range(ENDS_PER_STEP):
        client.subscribe(f"/queue/other-{number}", f"other-{number}", ack="client")
    client.subscribe("/queue/a", "a", ack="client", **{"auto-delete": "true", "prefetch-count": "1"})
    for body in (b"first", b"second"):
        third.publish("/queue/a", body)
    steps = client.session.departing()
    first_step(steps)
    say(other, "SUBSCRIBE", destination="/queue/a", id="0", ack="client")
    say(other, "UNSUBSCRIBE", id="0")
    rest_of(steps)
    assert "/queue/a" not in scene.broker.destinations


def test_deliveries_of_a_transaction_come_back_with_their_queue(scene: Scene) -> None:
    client, other = scene.connect(), scene.connect()
    for number in range(MANY):
        client.subscribe(f"/queue/{number}", str(number), ack="client")
    other.publish("/queue/0", b"acknowledged")
    other.publish("/queue/1", b"and unsubscribed")
    client.send("BEGIN", {"transaction": "t"})
    for message in client.received():
        client.send("ACK", {"id": message.headers["ack"], "transaction": "t"})
    client.send("UNSUBSCRIBE", {"id": "1"})
    client.session.handle(GOODBYE)
    steps = client.session.departing()
    first_step(steps)
    for number in range(2):
        other.subscribe(f"/queue/{number}", str(number))
    assert other.bodies() == [b"acknowledged", b"and unsubscribed"]
    assert rest_of(steps) > 1


def test_few_subscriptions_are_one_step(scene: Scene) -> None:
    client = scene.connect()
    client.subscribe("/topic/a")
    assert rest_of(client.session.departing()) == 0


def test_what_a_transaction_kept_is_freed_in_steps(scene: Scene) -> None:
    client = scene.connect()
    client.send("BEGIN", {"transaction": "t"})
    for _ in range(8):
        client.send("SEND", {"destination": "/queue/a", "transaction": "t"}, b"x" * 1024 * 1024)
    steps = client.session.failing(NotAllowed("no"))
    first_step(steps)
    assert scene.broker.memory.used == 0, "it counts no longer"
    assert not client.session.transactions
    assert rest_of(steps) == 1, "a step for each 3 MiB, and the rest"
    client.flush()
    assert client.received()[-1].command == "ERROR"


def test_of_who_says_goodbye_amid_a_transaction_too(scene: Scene) -> None:
    client = scene.connect()
    client.send("BEGIN", {"transaction": "t"})
    for _ in range(8):
        client.send("SEND", {"destination": "/queue/a", "transaction": "t"}, b"x" * 1024 * 1024)
    client.session.handle(GOODBYE)
    client.flush()
    assert client.received()[-1].command == "RECEIPT", "at once"
    assert scene.broker.memory.used == 0
    assert rest_of(client.session.departing()) == 2
