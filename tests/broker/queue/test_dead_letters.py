"""Dead letters: where they go, which headers say what happened to them, and that they never go round for ever."""

from __future__ import annotations

import pytest

from gateway.broker.model.message import DEAD_LETTER, History, Message
from gateway.broker.model.options import SendOptions
from gateway.broker.model.policy import WhenFull
from gateway.broker.queue import dead_letters
from gateway.codec import V12, Head, Version

from ..client import EPOCH, Client, Scene
from ..conftest import Stage
from ..wire import Received
from .helpers import DEAD, QUEUE


def milliseconds(scene: Scene) -> str:
    """Now, as headers have it."""
    return str(int((EPOCH + scene.now) * 1000))


def taken(scene: Scene, queue: str, version: Version = V12) -> list[Received]:
    """What waits in a queue; it is taken out."""
    client = scene.connect(version)
    client.subscribe(queue)
    found = client.messages()
    client.disconnect()
    return found


def own_headers(message: Received) -> dict[str, str]:
    """The headers without those that every MESSAGE has."""
    common = ("subscription", "message-id", "content-length", "ack")
    return {name: value for name, value in message.headers.items() if name not in common}


def reject(client: Client, queue: str, **headers: str) -> None:
    """Take the one message of a queue and reject it; where it comes back, it goes back by UNSUBSCRIBE."""
    client.subscribe(queue, "reject", ack="client-individual")
    client.nack(client.message(), **headers)
    client.unsubscribe("reject")
    client.received()


def message(given: dict[str, str], *, failures: int = 0, reason: str = "", dead: bool = False) -> Message:
    """A message of a SEND with these headers that has failed so often, for the first time at second 7."""
    head = Head.of("SEND", given)
    head.derived = DEAD_LETTER if dead else None
    found = Message(1, head, b"", SendOptions(priority=7, group="g"))
    if failures:
        found.history = History(7.0)
        found.history.failures, found.history.reason = failures, reason
    return found


FORGED = {"dlq-reason": "expired", "dlq-source": "/queue/b", "dlq-attempts": "99", "dlq-first-at": "1"}
NEW = {"destination": DEAD, "dlq-reason": "rejected", "dlq-source": QUEUE}
FIRST = {"original-destination": "a", "dlq-first-at": "7000"}


@pytest.mark.parametrize(
    ("dead", "expected"),
    [
        (message({"destination": "a"}), {"dlq-attempts": "0", "original-destination": "a", "dlq-first-at": "9000"}),
        (message({"destination": "a"}, failures=2, reason="no"), FIRST | {"dlq-attempts": "2", "reason": "no"}),
        (message({"destination": "a", "reason": "mine"}, failures=1), FIRST | {"dlq-attempts": "1"}),
        (message({"destination": "a", "color": "red"}, failures=1), FIRST | {"dlq-attempts": "1", "color": "red"}),
        (message({"destination": "a"} | FORGED, failures=1), FIRST | {"dlq-attempts": "1"}),
        (message({"destination": "a", "ttl": "9", "expires": "9", "expiration": "9"}, failures=1),
         FIRST | {"dlq-attempts": "1"}),
        (message({"original-destination": "x", "dlq-first-at": "3", "reason": "old"}, failures=1, dead=True),
         {"dlq-attempts": "1", "original-destination": "x", "dlq-first-at": "3"}),
    ],
    ids=["not failed", "with a reason", "sender's reason", "other headers", "forged", "expiry", "second death"],
)  # fmt: skip
def test_the_head_is_decided_by_message_and_history(dead: Message, expected: dict[str, str]) -> None:
    head = dead_letters.head_of(dead, "rejected", QUEUE, DEAD, 9.0)
    assert head.headers == NEW | expected
    assert head.derived is DEAD_LETTER


@pytest.mark.parametrize("row", [0, 5, -5])
def test_priority_group_and_durability_are_kept(row: int) -> None:
    dead = message({})
    dead.row = row
    assert dead_letters.options_of(dead) == SendOptions(priority=7, group="g", persistent=row == 5)


class TestHeaders:
    def test_after_the_last_attempt(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"max_attempts": 3, "backoff": 1.0, "backoff_factor": 1.0}})
        client = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"body\xff", color="red", priority="7")
        scene.wait(5.0)
        first_at = milliseconds(scene)
        for _ in range(3):
            client.nack(client.message())
            scene.wait(2.0)
        (letter,) = taken(scene, DEAD)
        assert letter.body == b"body\xff"
        assert own_headers(letter) == {
            "destination": DEAD,
            "original-destination": QUEUE,
            "color": "red",
            "priority": "7",
            "dlq-reason": "max-attempts",
            "dlq-source": QUEUE,
            "dlq-attempts": "3",
            "dlq-first-at": first_at,
        }

    @pytest.mark.parametrize("destination", ["/topic/a.b", "/exchange/amq.topic/a.b"])
    def test_of_a_pattern_they_say_what_was_sent_to(self, stage: Stage, destination: str) -> None:
        scene = stage({"/topic/#": {"dead_letter": "/queue/dead"}})
        client = scene.consumer("/topic/a.*", ack="client")
        client.publish(destination, b"m")
        client.nack(client.message(), requeue="false")
        (letter,) = taken(scene, "/queue/dead")
        assert letter.headers["dlq-source"] == "/topic/a.*"
        assert letter.headers["original-destination"] == destination

    def test_it_is_a_new_message(self, scene: Scene) -> None:
        """With an id of its own, delivered the first time, and without the time of the old one."""
        client = scene.connect()
        client.publish(QUEUE, b"m", JMSXGroupID="g", ttl="1000")
        client.subscribe(QUEUE, "reject", ack="client")
        message = client.message()
        client.nack(message, requeue="false")
        scene.wait(1.5)
        (letter,) = taken(scene, DEAD)
        assert letter.message_id != message.message_id
        assert not letter.redelivered


class TestTargets:
    @pytest.mark.parametrize("target", ["", QUEUE])
    def test_nowhere_and_its_own_queue_mean_that_it_is_dropped(self, stage: Stage, target: str) -> None:
        scene = stage({QUEUE: {"dead_letter": target}})
        client = scene.connect()
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, requeue="false")
        assert not scene.broker.destinations
        assert (scene.broker.counters.totals()["dropped"], scene.broker.counters.dead_lettered) == (1, 0)

    def test_a_topic(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"dead_letter": "/topic/dead.a"}})
        client, exact, pattern = scene.connect(), scene.consumer("/topic/dead.a"), scene.connect()
        pattern.subscribe("/topic/dead.#", ack="client")
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, requeue="false")
        for each in (exact, pattern):
            message = each.message()
            assert (message.headers["destination"], message.headers["dlq-source"]) == ("/topic/dead.a", QUEUE)

    def test_a_full_queue_must_take_them(self, stage: Stage) -> None:
        scene = stage({DEAD: {"max_messages": 1}}, max_destinations=2)
        client = scene.connect()
        for body in (b"1", b"2", b"3"):
            client.publish(QUEUE, body)
            reject(client, QUEUE, requeue="false")
        assert len(taken(scene, DEAD)) == 3

    @pytest.mark.parametrize("ack", ["auto", "client"])
    @pytest.mark.parametrize("dead_first", [False, True])
    def test_the_session_that_fails_does_not_get_them(self, stage: Stage, ack: str, dead_first: bool) -> None:
        scene = stage({QUEUE: {"max_attempts": 1}})
        client = scene.connect()
        wanted = [(QUEUE, "client"), (DEAD, ack)]
        for id, (name, mode) in enumerate(reversed(wanted) if dead_first else wanted):
            client.subscribe(name, str(id), ack=mode)
        client.publish(QUEUE, b"m")
        assert client.bodies() == [b"m"]
        client.send("BOGUS")
        assert [frame.command for frame in client.received()] == ["ERROR"]
        (letter,) = taken(scene, DEAD)
        assert not letter.redelivered

    def test_each_subscriber_of_a_topic_has_dead_letters_of_its_own(self, stage: Stage) -> None:
        scene = stage({"/topic/#": {"dead_letter": "/queue/dead", "max_attempts": 1}})
        clients = [scene.consumer("/topic/a", ack="client") for _ in range(3)]
        clients[0].publish("/topic/a", b"m")
        clients[0].nack(clients[0].message())
        clients[1].drop()
        clients[2].ack(clients[2].message())
        assert len(taken(scene, "/queue/dead")) == 2


class TestDeadLettersOfDeadLetters:
    def test_a_nack_without_requeue_ends_one(self, scene: Scene) -> None:
        client = scene.connect()
        client.publish(DEAD, b"m")
        reject(client, DEAD, requeue="false")
        assert not scene.broker.destinations

    def test_a_circle_of_full_queues_ends(self, stage: Stage) -> None:
        """Each of the queues is full, and makes a dead letter of its oldest for the next."""
        names = ["/queue/a", "/queue/b", "/queue/c"]
        scene = stage(
            {
                name: {"max_messages": 1, "when_full": WhenFull.DEAD_LETTER, "dead_letter": names[(place + 1) % 3]}
                for place, name in enumerate(names)
            }
        )
        client = scene.connect()
        for name in names:
            client.publish(name, b"m")
        for number in range(20):
            client.publish("/queue/a", b"%d" % number)
        assert scene.broker.context.waiting == 3
        assert scene.broker.counters.totals()["dropped"] == 20
        assert scene.broker.context.dead_letters_under_way == 0
