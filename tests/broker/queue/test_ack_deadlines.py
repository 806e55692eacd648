"""The time that a consumer has for a message: what becomes of the message, of the consumer, and of an ACK too late."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gateway.broker.core.work_limits import WORK_LIMITS
from gateway.broker.model.policy import LateAck
from gateway.codec import V10, V11, V12

from ..client import ALL, Client, Scene
from ..conftest import Stage
from .helpers import DEAD, QUEUE, consumer, fill, go_on, names, queue_of, waits

TIMEOUT = 10.0


def scene_of(stage: Stage, *, timeout: float = TIMEOUT, scene: dict[str, Any] | None = None, **policy: Any) -> Scene:
    return stage({"#": {"ack_timeout": timeout, "backoff": 0.0, **policy}}, **(scene or {}))


def at_work(stage: Stage, *, more: int = 1) -> tuple[Scene, Client]:
    """A consumer with room for two, that has had its first message for half of the time; `more` have just come."""
    scene = scene_of(stage)
    client, producer = consumer(scene, prefetch=2), scene.connect()
    fill(producer, 1)
    scene.wait(TIMEOUT / 2)
    fill(producer, more, 2)
    return scene, client


def is_stalled(scene: Scene, client: Client) -> bool:
    (subscription,) = client.session.subscriptions.values()
    assert subscription.has_stalled == (scene.broker.context.stalled_consumers > 0)
    return subscription.has_stalled


class TestMessage:
    def test_it_goes_to_another_consumer_in_time_and_has_failed_once(self, stage: Stage) -> None:
        scene = scene_of(stage)
        hung, other, producer = consumer(scene), consumer(scene), scene.connect()
        fill(producer, 2)
        other.ack(other.message())
        assert names(hung) == ["1"]
        scene.wait(TIMEOUT - 0.05)
        assert not other.received()
        scene.wait(0.1)
        again = other.message()
        assert (again.body, again.redelivered, again.headers["delivery-count"]) == (b"1", True, "2")
        assert scene.broker.counters.ack_timeouts == 1
        assert not hung.received()

    def test_behind_the_last_attempt_it_is_a_dead_letter_with_the_reason(self, stage: Stage) -> None:
        scene = scene_of(stage, max_attempts=2)
        for each in (consumer(scene), consumer(scene)):
            each.stalled = True
        fill(scene.connect(), 1)
        scene.wait(2 * TIMEOUT + 0.1)
        dead = scene.consumer(DEAD).message()
        assert (dead.headers["dlq-reason"], dead.headers["reason"]) == ("max-attempts", "ack-timeout")

    def test_each_has_its_own_time_and_the_order_stays(self, stage: Stage) -> None:
        scene = scene_of(stage)
        hung, producer = consumer(scene), scene.connect()
        for count in (1, 3, 5):
            fill(producer, 2, count)
            scene.wait(1.0)
        other = consumer(scene, prefetch=1)
        scene.wait(TIMEOUT - 3.0 + 0.1)
        assert (names(hung), names(other), waits(scene)) == (["1", "2", "3", "4", "5", "6"], ["1"], ["2"])
        scene.wait(2.0)
        assert waits(scene) == ["2", "3", "4", "5", "6"]

    def test_many_are_due_at_once_and_each_turn_takes_some(self, stage: Stage) -> None:
        limits = dataclasses.replace(WORK_LIMITS, actions_per_turn=7)
        scene = scene_of(stage, scene={"work_limits": limits})
        consumer(scene)
        fill(scene.connect(), 40)
        scene.wait(TIMEOUT + 1.0)
        assert waits(scene) == [str(number) for number in range(1, 41)]

    def test_one_that_is_settled_is_forgotten(self, stage: Stage) -> None:
        scene = scene_of(stage)
        client, producer = consumer(scene), scene.connect()
        fill(producer, 3)
        first, second, third = client.messages()
        client.ack(first)
        client.nack(second)
        assert client.message().body == b"2"
        scene.wait(TIMEOUT - 1.0)
        client.disconnect()
        scene.wait(TIMEOUT)
        assert (waits(scene), scene.broker.counters.ack_timeouts) == (["2", "3"], 0)
        assert third.body == b"3"

    def test_mode_auto_has_no_deadline(self, stage: Stage) -> None:
        scene = scene_of(stage)
        client = scene.consumer(QUEUE)
        client.stalled = True
        fill(scene.connect(), 1)
        scene.wait(TIMEOUT * 2)
        client.resume()
        assert names(client) == ["1"]

    def test_a_stored_one_counts_the_failure_also_behind_a_kill(self, stage: Stage) -> None:
        scene = scene_of(stage, timeout=1.0, max_attempts=2, durable=True, scene={"stored": True})
        consumer(scene)
        fill(scene.connect(), 1)
        scene.commit()
        scene.wait(1.1)
        scene.commit()
        again = scene.crash()
        dead = again.consumer(DEAD)
        consumer(again)
        again.commit()
        again.wait(1.1)
        again.commit()
        assert dead.message().body == b"1"

    def test_a_transaction_that_holds_it_decides(self, stage: Stage) -> None:
        scene = scene_of(stage)
        client, other = consumer(scene), consumer(scene)
        fill(scene.connect(), 1)
        client.begin()
        client.ack(client.message(), transaction="t")
        scene.wait(TIMEOUT * 2.5)
        assert not other.received()
        client.abort()
        scene.wait(TIMEOUT)
        assert names(other) == ["1"]

    def test_it_goes_on_though_a_transaction_holds_another(self, stage: Stage) -> None:
        scene = scene_of(stage)
        client, other = consumer(scene), scene.connect()
        fill(other, 2)
        first, _ = client.messages()
        client.begin()
        client.ack(first, transaction="t")
        scene.wait(TIMEOUT + 0.1)
        assert waits(scene) == ["2"]
        client.commit()
        assert (is_stalled(scene, client), names(client)) == (False, ["2"])

    def test_a_queue_that_goes_leaves_no_timer(self, stage: Stage) -> None:
        scene = scene_of(stage, timeout=3600.0)
        client = consumer(scene)
        fill(scene.connect(), 1)
        client.ack(client.message())
        client.disconnect()
        assert QUEUE not in scene.broker.destinations
        assert not [entry for *_, entry in scene.broker.scheduler._heap if entry.action is not None]


class TestGroups:
    def test_a_group_goes_to_another_consumer_in_its_order(self, stage: Stage) -> None:
        scene = scene_of(stage)
        hung, producer = consumer(scene, prefetch=4), scene.connect()
        fill(producer, 2, JMSXGroupID="g")
        scene.wait(1.0)
        fill(producer, 2, 3, JMSXGroupID="g")
        other = consumer(scene, prefetch=1)
        fill(producer, 1, 5, JMSXGroupID="h")
        assert (names(hung), names(other)) == (["1", "2", "3", "4"], ["5"])
        other.subscribe("/queue/none", "1")
        scene.wait(TIMEOUT - 0.5)
        # The last two of the group are the hung consumer's still: no other may have the first two meanwhile.
        assert waits(scene) == ["1", "2"]
        (of_h,) = list(other.session.subscriptions["0"].ledger or ())
        other.send("ACK", {"id": of_h})
        assert not other.received()
        scene.wait(1.0)
        assert go_on(other) == ["1", "2", "3", "4"]


class TestConsumer:
    def test_it_gets_nothing_more_until_it_settles_a_message(self, stage: Stage) -> None:
        scene, client = at_work(stage, more=2)
        first, second = client.messages()
        scene.wait(6.0)
        assert is_stalled(scene, client)
        assert (waits(scene), client.received()) == (["1", "3"], [])
        client.ack(second)
        assert not is_stalled(scene, client)
        assert (first.body, names(client)) == (b"1", ["1", "3"])

    def test_a_further_message_that_times_out_gives_it_nothing(self, stage: Stage) -> None:
        scene, client = at_work(stage)
        assert names(client) == ["1", "2"]
        scene.wait(TIMEOUT * 2)
        assert (is_stalled(scene, client), client.received(), waits(scene)) == (True, [], ["1", "2"])

    def test_a_nack_shows_that_it_is_at_work(self, stage: Stage) -> None:
        scene, client = at_work(stage)
        _, second = client.messages()
        scene.wait(6.0)
        client.nack(second)
        assert (is_stalled(scene, client), names(client)) == (False, ["1", "2"])

    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, Client.unsubscribe])
    def test_one_that_leaves_is_no_longer_counted(self, stage: Stage, leave: Any) -> None:
        scene = scene_of(stage)
        client = consumer(scene)
        fill(scene.connect(), 1)
        scene.wait(TIMEOUT + 0.1)
        assert is_stalled(scene, client)
        leave(client)
        assert scene.broker.context.stalled_consumers == 0

    def test_one_that_has_stopped_takes_nothing_back(self, stage: Stage) -> None:
        """It leaves in steps, and its time is over between two of them."""
        scene = scene_of(stage)
        client = consumer(scene)
        fill(scene.connect(), 1)
        client.session.subscriptions.stop()
        scene.wait(TIMEOUT + 0.1)
        assert waits(scene) == ["1"]
        assert not is_stalled(scene, client)


class TestMoreTime:
    @pytest.mark.parametrize("version", ALL)
    def test_it_begins_anew(self, stage: Stage, version: Any) -> None:
        scene = scene_of(stage)
        client = scene.connect(version)
        client.subscribe(QUEUE, ack="client")
        fill(scene.connect(), 2)
        first, second = client.messages()
        for _ in range(3):
            scene.wait(TIMEOUT - 1.0)
            client.ack(second, **{"in-progress": "true"})  # in mode client also the one before it
        assert not waits(scene)
        client.ack(second)
        scene.wait(TIMEOUT * 2)
        assert (waits(scene), first.body) == ([], b"1")

    def test_one_that_has_stalled_goes_on(self, stage: Stage) -> None:
        scene, client = at_work(stage)
        _, second = client.messages()
        scene.wait(6.0)
        client.ack(second, **{"in-progress": "true"})
        assert (is_stalled(scene, client), names(client)) == (False, ["1"])

    def test_where_there_is_no_deadline_it_is_no_ack_either(self, stage: Stage) -> None:
        scene = stage()
        client = consumer(scene)
        fill(scene.connect(), 1)
        message = client.message()
        client.ack(message, **{"in-progress": "true"})
        assert scene.broker.counters.acknowledged == 0
        client.ack(message, **{"in-progress": "false"})
        assert scene.broker.counters.acknowledged == 1

    @pytest.mark.parametrize(
        ("headers", "wanted"),
        [
            ({"in-progress": "yes"}, "in-progress"),
            ({"in-progress": "true", "transaction": "t"}, "in-progress in a transaction"),
        ],
    )
    def test_refusals(self, stage: Stage, headers: dict[str, str], wanted: str) -> None:
        scene = scene_of(stage)
        client = consumer(scene)
        fill(scene.connect(), 1)
        client.begin()
        client.ack(client.message(), **headers)
        assert wanted in client.error().headers["message"]


class TestLate:
    @pytest.mark.parametrize("version", ALL)
    def test_it_is_ignored_and_its_consumer_goes_on(self, stage: Stage, version: Any) -> None:
        scene = scene_of(stage)
        client, other = scene.connect(version), scene.connect()
        client.subscribe(QUEUE, ack="client")
        fill(other, 1)
        message = client.message()
        scene.wait(TIMEOUT + 0.1)
        other.subscribe(QUEUE, ack="client")
        assert other.message().body == b"1"
        fill(other, 1, 2)
        other.disconnect()
        assert waits(scene) == ["1", "2"]
        client.ack(message)
        assert (scene.broker.counters.late_acks, scene.broker.counters.acknowledged) == (1, 0)
        assert names(client) == ["1", "2"]

    @pytest.mark.parametrize(("version", "command"), [(V10, "ACK"), (V11, "NACK"), (V12, "ACK"), (V12, "NACK")])
    def test_an_error_where_the_policy_says_so(self, stage: Stage, version: Any, command: str) -> None:
        scene = scene_of(stage, late_ack=LateAck.ERROR)
        client = scene.connect(version)
        client.subscribe(QUEUE, ack="client")
        fill(scene.connect(), 1)
        message = client.message()
        scene.wait(TIMEOUT + 0.1)
        client.send(command, client.named(message))
        error = client.error()
        assert error.headers["message"].startswith(f"{command} came too late")
        assert b"ack_timeout" in error.body + error.headers["message"].encode()

    def test_a_second_one_is_of_an_unknown_message(self, stage: Stage) -> None:
        scene = scene_of(stage)
        client, other = consumer(scene), consumer(scene)
        other.disconnect()
        fill(scene.connect(), 1)
        message = client.message()
        scene.wait(TIMEOUT + 0.1)
        client.ack(message)
        client.ack(message)
        assert "unknown message" in client.error().headers["message"]

    def test_so_many_are_remembered(self, stage: Stage) -> None:
        scene = scene_of(stage)
        client = consumer(scene)
        fill(scene.connect(), 1_000)
        first, *_, last = client.messages()
        scene.wait(TIMEOUT + 2.0)
        assert len(waits(scene)) == 1_000
        client.ack(last)  # it gets them again
        client.ack(client.messages()[0])
        scene.wait(TIMEOUT + 2.0)
        client.ack(first)  # forgotten by now
        assert "unknown message" in client.error().headers["message"]


def test_lenient_clients_name_the_message(stage: Stage) -> None:
    scene = scene_of(stage, scene={"lenient": True})
    client = consumer(scene)
    fill(scene.connect(), 1)
    message = client.message()
    scene.wait(TIMEOUT + 0.1)
    client.send("ACK", {"message-id": message.message_id})
    assert (scene.broker.counters.late_acks, names(client)) == (1, ["1"])


def test_a_subscriber_of_a_topic_has_deadlines_as_well(stage: Stage) -> None:
    scene = scene_of(stage)
    client, producer = scene.consumer("/topic/a", ack="client"), scene.connect()
    producer.publish("/topic/a", b"1")
    message = client.message()
    scene.wait(TIMEOUT + 0.1)
    assert is_stalled(scene, client)
    client.ack(message)
    assert client.message().redelivered


def test_other_queues_know_nothing_of_it(stage: Stage) -> None:
    scene = stage({"/queue/b": {"ack_timeout": 1.0}})
    client = consumer(scene)
    fill(scene.connect(), 1)
    scene.wait(100.0)
    assert (queue_of(scene).policy.ack_timeout, waits(scene)) == (0.0, [])
    client.ack(client.message())
