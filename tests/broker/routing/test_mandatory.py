"""Requests that fail at once: what their sender is told, and what it is not."""

from __future__ import annotations

import pytest

from gateway.broker.model.policy import OnNack

from ..client import Client
from ..conftest import Stage

ASK = {"mandatory": "true", "reply-to": "/temp-queue/answers", "correlation-id": "7"}


def ask(client: Client, destination: str, **headers: str) -> None:
    client.publish(destination, b"question", **ASK | {name.replace("_", "-"): text for name, text in headers.items()})


def told(client: Client) -> tuple[str, str | None, bytes]:
    message = client.message()
    assert message.headers["subscription"] == "/temp-queue/answers"
    return message.headers["reply-error"], message.headers.get("correlation-id"), message.body


@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
def test_without_a_consumer_its_sender_is_told(stage: Stage, destination: str) -> None:
    scene = stage()
    client = scene.connect()
    ask(client, destination)
    assert told(client) == ("no-consumer", "7", f"{destination} has no consumer".encode())
    assert (destination in scene.broker.destinations, scene.broker.counters.unroutable) == (False, 1)


def test_a_browser_is_no_consumer(stage: Stage) -> None:
    scene = stage()
    browser, client = scene.consumer("/queue/a", browser="true", **{"browser-end": "false"}), scene.connect()
    ask(client, "/queue/a")
    assert (told(client)[0], browser.received()) == ("no-consumer", [])


def test_a_durable_subscription_without_a_client_is_none(stage: Stage) -> None:
    scene = stage()
    durable = {"durable": "true", "x-queue-name": "d"}
    scene.consumer("/topic/a", "d", **durable).drop()
    client = scene.connect()
    ask(client, "/topic/a")
    assert told(client)[0] == "no-consumer"
    client.subscribe("/topic/a", "d", **durable)
    client.send("UNSUBSCRIBE", {"id": "d", "durable": "true"})


@pytest.mark.parametrize(
    ("destination", "subscribed"), [("/queue/a", "/queue/a"), ("/topic/a", "/topic/a"), ("/topic/a.b", "/topic/a.*")]
)
def test_a_consumer_gets_it_without_the_flag(stage: Stage, destination: str, subscribed: str) -> None:
    scene = stage()
    consumer, client = scene.consumer(subscribed), scene.connect()
    ask(client, destination)
    message = consumer.message()
    assert (message.body, "mandatory" in message.headers, client.received()) == (b"question", False, [])


def test_one_that_is_busy_is_there(stage: Stage) -> None:
    scene = stage()
    consumer = scene.consumer("/queue/a", ack="client", **{"prefetch-count": "1"})
    client = scene.connect()
    for _ in range(2):
        ask(client, "/queue/a")
    assert (len(consumer.messages()), client.received()) == (1, [])


def test_one_that_expires_waiting_is_told_of(stage: Stage) -> None:
    scene = stage()
    scene.consumer("/queue/a", ack="client", **{"prefetch-count": "1"})
    client = scene.connect()
    ask(client, "/queue/a")
    ask(client, "/queue/a", expiration="1000", correlation_id="8")
    scene.wait(0.9)
    assert not client.received()
    scene.wait(0.2)
    assert told(client) == ("expired", "8", b"no consumer of /queue/a has taken the message in time")


REJECTING: dict[str, tuple[dict[str, object], dict[str, str]]] = {
    "by the consumer": ({}, {"requeue": "false"}),
    "with a reason": ({}, {"requeue": "false", "reason": "no tea"}),
    "by the policy": ({"on_nack": OnNack.DROP}, {}),
    "at the last attempt": ({"max_attempts": 1}, {}),
}


@pytest.mark.parametrize("way", REJECTING)
def test_one_that_is_rejected_is_told_of(stage: Stage, way: str) -> None:
    policy, headers = REJECTING[way]
    scene = stage({"/queue/#": {"dead_letter": "", **policy}})
    consumer, client = scene.consumer("/queue/a", ack="client-individual"), scene.connect()
    ask(client, "/queue/a")
    consumer.nack(consumer.message(), **headers)
    reason = f": {headers['reason']}" if "reason" in headers else ""
    assert told(client) == ("rejected", "7", f"the consumers of /queue/a have rejected the message{reason}".encode())


def test_one_that_will_come_again_is_not_rejected(stage: Stage) -> None:
    scene = stage({"/queue/#": {"backoff": 0.0}})
    consumer, client = scene.consumer("/queue/a", ack="client-individual"), scene.connect()
    ask(client, "/queue/a")
    consumer.nack(consumer.message())
    assert (len(consumer.messages()), client.received()) == (1, [])


def test_copies_of_a_topic_expire_in_silence(stage: Stage) -> None:
    """Another subscriber may have answered."""
    scene = stage()
    scene.consumer("/topic/a", ack="client", **{"prefetch-count": "1"})
    client = scene.connect()
    ask(client, "/topic/a")
    ask(client, "/topic/a", expiration="1000")
    scene.wait(2.0)
    assert not client.received()


def test_without_correlation_id(stage: Stage) -> None:
    client = stage().connect()
    client.publish("/queue/a", b"", **{"mandatory": "true", "reply-to": "/temp-queue/answers"})
    assert told(client)[1] is None


def test_in_a_transaction_at_its_commit(stage: Stage) -> None:
    client = stage().connect()
    client.begin()
    ask(client, "/queue/a", transaction="t")
    assert not client.received()
    client.commit()
    assert told(client)[0] == "no-consumer"


def test_a_delayed_one_when_its_time_comes(stage: Stage) -> None:
    scene = stage()
    client = scene.connect()
    ask(client, "/queue/a", **{"x-delay": "1000"})
    assert not client.received()
    scene.wait(1.1)
    assert told(client)[0] == "no-consumer"


def test_several_destinations_are_asked_one_by_one(stage: Stage) -> None:
    scene = stage()
    consumer, client = scene.consumer("/queue/b"), scene.connect()
    ask(client, "/queue/a,/queue/b")
    assert (told(client)[2], consumer.message().body) == (b"/queue/a has no consumer", b"question")


def test_a_requester_that_has_gone_is_told_nothing(stage: Stage) -> None:
    scene = stage()
    scene.consumer("/queue/a", ack="client", **{"prefetch-count": "1"})
    client = scene.connect()
    for _ in range(2):
        ask(client, "/queue/a", expiration="1000")
    client.drop()
    scene.wait(1.1)
    assert list(scene.broker.destinations) == ["/queue/a"]


def test_without_reply_to_it_is_refused(stage: Stage) -> None:
    client = stage().connect()
    client.publish("/queue/a", b"", mandatory="true")
    assert client.error().headers["message"] == "mandatory without reply-to"


def test_false_is_as_without(stage: Stage) -> None:
    client = stage().connect()
    ask(client, "/queue/a", mandatory="false")
    assert not client.received()
