"""Headers that only the broker writes never reach a subscriber from a SEND, on any destination."""

from __future__ import annotations

import itertools

from gateway.broker.headers.table import INDEX
from gateway.codec import V10, Version
from gateway.codec.encoder import BROKER_HEADERS, NOT_PASSED_ON

from ..client import Scene
from ..conftest import Stage

FORGED = dict.fromkeys(sorted(BROKER_HEADERS), "forged")
DESTINATIONS = [
    *("/queue/a", "/topic/a", "/temp-queue/a", "/user/queue/a"),
    *("/exchange/amq.topic/a", "/exchange/amq.direct/a", "/exchange/amq.fanout"),
]


def test_the_encoder_and_the_dictionary_name_the_same() -> None:
    cut = {name for name, entry in INDEX["SEND"].items() if not entry.row.visible}
    assert cut >= BROKER_HEADERS
    assert not BROKER_HEADERS & NOT_PASSED_ON


def test_on_every_destination(scene: Scene, version: Version) -> None:
    client = scene.connect(version)
    for destination, ack in itertools.product(DESTINATIONS, ["auto", "client"]):
        client.subscribe(destination, ack=ack)
        target = destination.replace("/user/", f"/user/{client.session.user}/")
        client.publish(target, b"m", colour="red", **FORGED)
        message = client.message()
        assert not BROKER_HEADERS & message.headers.keys()
        assert message.headers["colour"] == "red"
        if ack == "client":
            client.ack(message)
        client.unsubscribe()


def test_in_the_log_and_the_retained_message_of_a_topic(stage: Stage) -> None:
    """There the broker's own stand."""
    client = stage({"/topic/a": {"log_messages": 10}}).connect()
    client.publish("/topic/a", b"m", retain="set", **FORGED)
    client.subscribe("/topic/a", "0", **{"from-seq": "0"})
    client.subscribe("/topic/a", "1")
    logged, retained = client.messages()
    assert logged.headers.keys() & BROKER_HEADERS == {"seq"}
    assert retained.headers.keys() & BROKER_HEADERS == {"seq", "retained"}
    assert "forged" not in [*logged.headers.values(), *retained.headers.values()]


def test_on_a_dead_letter(scene: Scene) -> None:
    client = scene.connect()
    client.publish("/queue/a", b"m", **FORGED)
    client.subscribe("/queue/a", ack="client")
    client.nack(client.message(), requeue="false")
    client.subscribe("/queue/dlq.a", "1")
    found = client.message().headers
    assert found.keys() >= {"dlq-reason", "dlq-source", "original-destination"}
    assert "forged" not in found.values()


def test_by_a_name_that_clients_trim(stage: Stage, version: Version) -> None:
    """stompjs trims in every version: the first header counts, and the sender's come before the broker's."""
    scene = stage({"/topic/a": {"log_messages": 10}})
    sender, client = scene.connect(), scene.connect(version)
    client.subscribe("/topic/a", ack="client")
    names = [*BROKER_HEADERS, "message-id", "subscription", "ack", "redelivered", "content-length", "user-id"]
    for space in (" ", "\t", "\ufeff", "\u00a0"):
        forged = {f"{name}{space}": "forged" for name in names} | {f"{space}{name}": "forged" for name in names}
        sender.publish("/topic/a", b"m", **forged, **{f"colour{space}": "red"})
        headers = client.message().headers
        assert "forged" not in headers.values()
        assert headers.get(f"colour{space}") == (None if version is V10 and space == "\t" else "red")


def test_by_a_name_in_any_case_to_1_0(stage: Stage) -> None:
    """Its clients may read names in any case and trim them; so what is nearly such a name is left out, too."""
    scene = stage({"/topic/a": {"log_messages": 10}})
    sender, client = scene.connect(), scene.connect(V10)
    nearly = {"Dlq-Reason": "forged", "SEQ": "forged", " retained": "forged", "Content-Length ": "forged"}
    for id, destination in enumerate(("/queue/a", "/topic/a")):
        client.subscribe(destination, str(id))
        sender.publish(destination, b"m", **nearly)
        headers = client.message().headers
        assert "forged" not in headers.values()
        assert headers.get("seq", "").isdecimal() is (destination == "/topic/a")
