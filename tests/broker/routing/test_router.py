"""The way of a SEND: several destinations, limits that refuse it before anything happened, and forged headers."""

from __future__ import annotations

import itertools

import pytest

from gateway.broker.headers.table import INDEX
from gateway.broker.model.policy import WhenFull
from gateway.codec import V10, Version
from gateway.codec.encoder import BROKER_HEADERS, NOT_PASSED_ON

from ..client import Scene
from ..conftest import Stage


class TestSeveralDestinations:
    def test_each_gets_a_copy_that_names_it(self, scene: Scene) -> None:
        client = scene.connect()
        for id, name in enumerate(("/queue/a", "/topic/b", "c")):
            client.subscribe(name, str(id), ack="client")
        client.publish("/queue/a,/topic/b,c", b"m", color="red")
        messages = client.messages()
        assert [(each.subscription, each.headers["destination"]) for each in messages] == [
            ("0", "/queue/a"),
            ("1", "/topic/b"),
            ("2", "c"),
        ]
        assert len({each.message_id for each in messages}) == 3
        assert {each.headers["color"] for each in messages} == {"red"}

    def test_spaces_beside_the_commas_are_none_of_the_name(self, scene: Scene) -> None:
        client = scene.connect()
        client.publish("/queue/a , /queue/b c,  d", b"m")
        assert list(scene.broker.destinations) == ["/queue/a", "/queue/b c", "/queue/d"]
        client.subscribe("/queue/b c")
        assert client.message().headers["destination"] == "/queue/b c"

    @pytest.mark.parametrize("headers", [{}, {"x-delay": "1000"}, {"transaction": "t"}])
    def test_one_receipt_and_so_many_messages(self, scene: Scene, headers: dict[str, str]) -> None:
        client, counters = scene.connect(), scene.broker.counters
        client.begin()
        client.publish("a,b,/topic/c", b"m", receipt="r", **headers)
        assert client.receipts() == ["r"]
        assert (counters.published > 0, bool(scene.broker.destinations)) == (not headers, not headers)
        client.commit()
        scene.wait(1.1)
        assert (counters.published, counters.unroutable, scene.broker.context.waiting) == (3, 1, 2)

    @pytest.mark.parametrize("wrong", ["", " ", "/nope/b", "/queue/", "/topic/*", "/app/x", "/user/queue/x"])
    @pytest.mark.parametrize("headers", [{}, {"x-delay": "10"}, {"transaction": "t"}, {"dedup-id": "1"}])
    def test_all_or_none(self, scene: Scene, wrong: str, headers: dict[str, str]) -> None:
        client, other = scene.connect(), scene.connect()
        other.subscribe("/topic/a")
        client.begin()
        client.publish(f"/topic/a,{wrong},b", b"m", **headers)
        assert client.error()
        assert not other.received()
        assert list(scene.broker.destinations) == ["/topic/a"]
        assert scene.broker.memory.used == 0

    def test_only_so_many(self, scene: Scene) -> None:
        client = scene.connect()
        client.publish(",".join(["a"] * 64), b"m")
        assert scene.broker.context.waiting == 64
        client.publish(",".join(["a"] * 65), b"m")
        assert client.error().headers["message"] == "too many destinations in a SEND"
        assert scene.broker.context.waiting == 64


class TestLimits:
    @pytest.mark.parametrize("subscribe", ["/queue/c", "/topic/c", "/topic/*", "/user/queue/x", "/temp-queue/x"])
    def test_so_many_destinations(self, stage: Stage, subscribe: str) -> None:
        scene = stage(max_destinations=2)
        client, other = scene.connect(), scene.connect()
        client.publish("a", b"m")
        client.subscribe("/topic/a.*")
        client.publish("a", b"m")
        client.publish("/topic/b", b"m")
        client.subscribe("a", "1")
        other.subscribe(subscribe)
        assert b"(max_destinations)" in other.error().body

    @pytest.mark.parametrize("destination", ["c", "a,c", "a,/topic/x,c"])
    def test_so_many_queues_by_send(self, stage: Stage, destination: str) -> None:
        scene = stage(max_destinations=2)
        client = scene.connect()
        client.publish("a,b", b"m")
        client.publish(destination, b"m")
        assert b"(max_destinations)" in client.error().body
        assert scene.broker.context.waiting == 2

    def test_so_much_memory(self, stage: Stage) -> None:
        scene = stage(memory_limit=4_000)
        client, other, reader = (scene.connect() for _ in range(3))
        reader.subscribe("/topic/a")
        client.publish("a", b"x" * 4_000)
        other.publish("/topic/a", b"m")
        assert reader.bodies() == [b"m"], "which costs nothing"
        other.publish("b", b"m")
        assert b"(memory_limit)" in other.error().body
        reader.subscribe("a", "1")
        assert scene.broker.memory.used == 0
        client.publish("b", b"m")
        assert not client.closed
        assert [each.body[:1] for each in reader.messages()] == [b"x"]

    def test_a_dead_letter_into_a_full_queue_holds_no_publisher_back(self, stage: Stage) -> None:
        scene = stage(
            {
                "/queue/a": {"max_messages": 1, "when_full": WhenFull.DEAD_LETTER, "dead_letter": "/queue/dead"},
                "/queue/dead": {"max_messages": 1},
            }
        )
        client = scene.connect()
        for _ in range(4):
            client.publish("/queue/a", b"m")
        assert not scene.broker.context.take_full()
        client.publish("/queue/dead", b"m")
        assert scene.broker.context.take_full() == {scene.broker.destinations["/queue/dead"]}

    def test_under_pressure_everything_still_flows(self, stage: Stage) -> None:
        """Between the mark and the limit SENDs take the long way, and arrive all the same."""
        scene = stage(memory_limit=4_000)
        client = scene.connect()
        client.subscribe("/topic/a", "0")
        client.subscribe("b", "1")
        client.publish("a", b"x" * 2_700)
        assert scene.broker.memory.pressed
        client.publish("/topic/a", b"1")
        client.publish("b", b"2")
        assert client.bodies() == [b"1", b"2"]


@pytest.mark.parametrize(
    ("header", "destination", "message"),
    [
        *(("browser", name, "browsers are for queues") for name in ("/topic/#", "/user/queue/x", "/temp-topic/x")),
        *(("no-local", name, "no-local is for topics") for name in ("/queue/a", "a", "/temp-queue/x")),
    ],
)
def test_options_of_another_kind_of_destination(scene: Scene, header: str, destination: str, message: str) -> None:
    client = scene.connect()
    client.subscribe(destination, **{header: "true"})
    assert client.error().headers["message"] == message
    assert not scene.broker.registry.count()


@pytest.mark.parametrize("kind", ["/queue/", "/topic/", "/exchange/amq.direct/", "/user/queue/"])
def test_dots_and_slashes_are_letters_of_a_name(scene: Scene, kind: str) -> None:
    names = ("a.b", "a/b", "a.b/c", "a/b.c", "a..b", "a//b", "a.b.", "a/b/")
    client, producer = scene.connect(), scene.connect()
    for name in names:
        client.subscribe(kind + name, name)
    to = kind.replace("/user/", f"/user/{client.session.id}/")
    for name in names:
        producer.publish(to + name, name.encode())
        message = client.message()
        assert (message.subscription, message.body) == (name, name.encode())
        assert message.headers["destination"] == to + name


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
