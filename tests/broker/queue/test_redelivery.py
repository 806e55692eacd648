"""What becomes of messages that are rejected or lost under way: back-off, attempts, and what counts as one.

For dead letters see test_dead_letters, for expiry test_expiry, for idle queues test_queue.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.admin.rows import of_destination
from gateway.broker.errors import SlowConsumer
from gateway.broker.model.policy import OnNack, Policy
from gateway.broker.queue.redelivery import DeadLetter, Discard, Requeue, RequeueAfter, Verdict, after_loss, after_nack

from ..client import Client, Scene, Step
from ..conftest import Stage
from .helpers import DEAD, QUEUE


def slip(client: Client) -> None:
    client.send("BOGUS")


def be_slow(client: Client) -> None:
    client.end(SlowConsumer("too much waits", "max_outbound"))
    client.scene.settle()


def be_sent_away(client: Client) -> None:
    client.scene.broker.end_session(client.session.id, "maintenance")
    client.scene.settle()


def waiting(scene: Scene, queue: str) -> int:
    rows = {row["name"]: row["waiting"] for row in map(of_destination, scene.broker.destinations.values())}
    return int(str(rows.get(queue, 0)))


AGAIN, REJECTED, LAST = Requeue(), DeadLetter("rejected"), DeadLetter("max-attempts")


@pytest.mark.parametrize(
    ("policy", "failures", "requeue", "nack", "loss"),
    [
        ({}, 1, True, RequeueAfter(0.1), AGAIN),
        ({"backoff": 0.0}, 9, True, AGAIN, AGAIN),
        ({"backoff": 1.0, "backoff_factor": 3.0, "backoff_max": 5.0}, 2, True, RequeueAfter(3.0), AGAIN),
        ({"backoff": 1.0, "backoff_factor": 3.0, "backoff_max": 5.0}, 3, True, RequeueAfter(5.0), AGAIN),
        ({"max_attempts": 3}, 3, True, LAST, LAST),
        ({"max_attempts": 3}, 4, True, LAST, LAST),
        ({"max_attempts": 0, "backoff": 0.0}, 1_000, True, AGAIN, AGAIN),
        ({}, 1, False, REJECTED, AGAIN),
        ({"on_nack": OnNack.DEAD_LETTER}, 1, True, REJECTED, AGAIN),
        ({"on_nack": OnNack.DROP}, 1, True, Discard("rejected"), AGAIN),
        ({"on_nack": OnNack.DROP}, 1, False, REJECTED, AGAIN),
        ({"on_nack": OnNack.DROP, "max_attempts": 1}, 1, True, Discard("rejected"), LAST),
    ],
)
def test_a_verdict_for_each_failure(
    policy: dict[str, Any], failures: int, requeue: bool, nack: Verdict, loss: Verdict
) -> None:
    assert after_nack(Policy(**policy), failures, requeue=requeue) == nack
    assert after_loss(Policy(**policy), failures) == loss


class TestBackOff:
    def test_it_grows_to_its_bound_and_is_never_short(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"backoff": 1.0, "backoff_factor": 3.0, "backoff_max": 5.0, "max_attempts": 0}})
        client = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"m")
        message = client.message()
        for count, delay in enumerate([1.0, 3.0, 5.0, 5.0], start=2):
            client.nack(message)
            scene.wait(delay - 0.01)
            assert not client.received()
            scene.wait(0.02)
            message = client.message()
            assert (message.body, message.redelivered, message.headers["delivery-count"]) == (b"m", True, str(count))

    def test_by_default_it_is_a_tenth_of_a_second_and_doubles(self, stage: Stage) -> None:
        scene = stage({"#": {}})
        client = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"m")
        for delay in (0.1, 0.2, 0.4):
            client.nack(client.message())
            scene.wait(delay - 0.01)
            assert of_destination(scene.broker.destinations[QUEUE])["delayed"] == 1
            assert not client.received()
            scene.wait(0.02)
        assert client.message().headers["delivery-count"] == "4"

    def test_another_consumer_is_preferred_also_behind_it(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"backoff": 1.0}})
        client = scene.consumer(QUEUE, ack="client")
        other = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"1")
        client.publish(QUEUE, b"2")
        client.nack(client.message())
        assert other.bodies() == [b"2"]
        client.publish(QUEUE, b"3")  # so that it would be the other's turn no more
        other.publish(QUEUE, b"4")
        assert (client.bodies(), other.bodies()) == ([b"3"], [b"4"])
        scene.wait(1.1)
        assert not client.received()
        assert other.bodies() == [b"1"]


class TestAttempts:
    def test_the_last_one_ends_it(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"max_attempts": 3}})
        client = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"m")
        for count in (None, "2", "3"):
            message = client.message()
            assert message.headers.get("delivery-count") == count
            client.nack(message)
        assert not client.received()
        assert waiting(scene, DEAD) == 1
        assert scene.broker.counters.dead_lettered == 1

    def test_ten_by_default(self, scene: Scene) -> None:
        client = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"m")
        for _ in range(10):
            client.nack(client.message())
        assert not client.received()
        assert waiting(scene, DEAD) == 1

    @pytest.mark.parametrize("leave", [Client.drop, slip, be_slow])
    def test_a_lost_connection_fails_the_oldest_unacknowledged_message_and_no_other(
        self, stage: Stage, leave: Step
    ) -> None:
        """It was probably at work on that one; the others lay in its window."""
        scene = stage({QUEUE: {"max_attempts": 1}})
        client, other = scene.consumer(QUEUE, ack="client"), scene.connect()
        for body in (b"1", b"2", b"3", b"4"):
            other.publish(QUEUE, body)
        client.ack(client.messages()[0])
        leave(client)
        other.subscribe(QUEUE, "0")
        other.subscribe(DEAD, "1")
        found = [(each.body, each.headers["destination"], each.redelivered) for each in other.messages()]
        assert found == [(b"3", QUEUE, True), (b"4", QUEUE, True), (b"2", DEAD, False)]

    @pytest.mark.parametrize("leave", [Client.disconnect, Client.unsubscribe, be_sent_away])
    def test_an_orderly_end_fails_none(self, stage: Stage, leave: Step) -> None:
        scene = stage({QUEUE: {"max_attempts": 1}})
        client, other = scene.consumer(QUEUE, ack="client"), scene.connect()
        for body in (b"1", b"2"):
            other.publish(QUEUE, body)
        leave(client)
        other.subscribe(QUEUE)
        assert other.bodies() == [b"1", b"2"]
        assert scene.broker.counters.dead_lettered == 0

    def test_a_lost_one_and_a_rejected_one_are_two(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"max_attempts": 2, "backoff": 5.0}})
        client, other = scene.consumer(QUEUE, ack="client"), scene.connect()
        other.publish(QUEUE, b"m")
        client.drop()
        other.subscribe(QUEUE, ack="client")  # at once: the message is not to blame, as far as anybody knows
        other.nack(other.message())
        assert waiting(scene, DEAD) == 1


class TestOnNack:
    def test_dead_letter(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"on_nack": OnNack.DEAD_LETTER}})
        client = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"m")
        client.nack(client.message())
        assert not client.received()
        assert waiting(scene, DEAD) == 1
        assert scene.broker.counters.rejected == scene.broker.counters.dead_lettered == 1

    def test_drop(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"on_nack": OnNack.DROP}})
        client = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"m")
        client.nack(client.message())
        assert not client.received()
        assert (scene.broker.context.waiting, scene.broker.memory.used) == (0, 0)
        assert scene.broker.counters.totals()["dropped"] == 1
