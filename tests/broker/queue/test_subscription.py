"""A subscription: its ack mode, its selector, its ledger, and the headers that are its own on a MESSAGE."""

from __future__ import annotations

import pytest

from gateway.codec import V10, V11, V12, Version

from ..client import WITH_NACK, Client, Scene

with_nack = pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)
in_1_2 = pytest.mark.parametrize("version", [V12], ids=["1.2"])


def fill(producer: Client, count: int, destination: str = "/queue/a") -> list[bytes]:
    """Send so many numbered messages; returns their bodies."""
    bodies = [b"%d" % number for number in range(1, count + 1)]
    for body in bodies:
        producer.publish(destination, body)
    return bodies


def left_behind(scene: Scene, client: Client, destination: str = "/queue/a") -> list[bytes]:
    """What the next consumer gets when this one is gone."""
    client.drop()
    following = scene.connect(client.version)
    following.subscribe(destination)
    return following.bodies()


class TestSubscribe:
    @pytest.mark.requirement("SUB-01", "SND-01")
    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
    def test_messages_come(self, scene: Scene, version: Version, destination: str) -> None:
        client, producer = scene.connect(version), scene.connect(version)
        client.subscribe(destination)
        producer.publish(destination, b"m")
        assert client.bodies() == [b"m"]

    @pytest.mark.requirement("SUB-03")
    @with_nack
    def test_the_id_is_required(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.send("SUBSCRIBE", {"destination": "/queue/a"})
        assert client.error().headers["message"] == "SUBSCRIBE needs the header id"

    @pytest.mark.requirement("SUB-04")
    def test_in_1_0_it_is_not(self, scene: Scene) -> None:
        client = scene.connect(V10)
        for destination in ("/queue/a", "/topic/a"):
            client.send("SUBSCRIBE", {"destination": destination})
            client.publish(destination)
        messages = client.messages()
        assert [each.headers["destination"] for each in messages] == ["/queue/a", "/topic/a"]
        assert not any("subscription" in each.headers for each in messages)

    @pytest.mark.requirement("SUB-06")
    def test_in_1_0_a_destination_without_id_is_subscribed_once(self, scene: Scene) -> None:
        client = scene.connect(V10)
        for _ in range(2):
            client.send("SUBSCRIBE", {"destination": "/queue/a"})
        error = client.error()
        assert error.headers["message"] == "subscription id in use"
        assert error.body == b"this connection already has a subscription '/queue/a'"

    @pytest.mark.requirement("SUB-05", "SUB-12", "MSG-03")
    def test_subscriptions_of_one_connection_are_independent(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        for id, destination in (("a", "/topic/a"), ("b", "/topic/a"), ("c", "/topic/b"), ("ü d", "/queue/a")):
            client.subscribe(destination, id)
        client.publish("/topic/a")
        assert {each.subscription for each in client.messages()} == {"a", "b"}
        client.publish("/topic/b")
        client.publish("/queue/a")
        assert [each.subscription for each in client.messages()] == ["c", "ü d"]

    @pytest.mark.requirement("SUB-06")
    def test_an_id_in_use_is_refused(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a")
        client.subscribe("/queue/b", receipt="r")
        error = client.error()
        assert error.headers["message"] == "subscription id in use"
        assert error.headers["receipt-id"] == "r"

    @pytest.mark.requirement("SUB-07")
    def test_ids_are_scoped_to_the_connection(self, scene: Scene, version: Version) -> None:
        one, two = scene.connect(version), scene.connect(version)
        for client in (one, two):
            client.subscribe("/topic/a")
        one.unsubscribe()
        one.publish("/topic/a", b"m")
        assert two.bodies() == [b"m"]
        assert not one.received()

    @pytest.mark.requirement("SUB-09")
    @pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
    def test_the_ack_modes(self, scene: Scene, version: Version, ack: str, destination: str) -> None:
        client = scene.connect(version)
        client.subscribe(destination, ack=ack, receipt="r")
        assert client.receipts() == ["r"]

    @pytest.mark.requirement("SUB-10")
    @pytest.mark.parametrize("ack", ["bogus", "", "AUTO", "client "])
    def test_no_other_ack_mode(self, scene: Scene, version: Version, ack: str) -> None:
        if version is V10 and ack == "client ":
            ack = "clients"  # 1.0 cuts spaces
        client = scene.connect(version)
        client.subscribe("/queue/a", ack=ack)
        error = client.error()
        assert error.headers["message"] == "unknown ack mode"
        assert b"auto, client, client-individual" in error.body
        assert not scene.broker.destinations

    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
    def test_none_is_auto_as_apollo_calls_it(self, scene: Scene, version: Version, destination: str) -> None:
        client = scene.connect(version)
        client.subscribe(destination, ack="none")
        client.publish(destination)
        client.message()
        assert client.session.outstanding == 0

    @pytest.mark.requirement("SUB-02")
    @pytest.mark.parametrize("name", ["*", "a.*", "#", "a.#", "a.>", "a/**", "*.b", "a/*"])
    def test_a_topic_may_be_a_pattern(self, scene: Scene, version: Version, name: str) -> None:
        client = scene.connect(version)
        client.subscribe(f"/topic/{name}", receipt="r")
        assert client.receipts() == ["r"]
        client.publish("/topic/a.b" if name != "*" else "/topic/a")
        assert client.message().headers["destination"] in ("/topic/a.b", "/topic/a")
        client.publish("/topic/c.d.e" if name != "#" else "/queue/a.b")
        assert not client.received()

    @pytest.mark.requirement("SND-04")
    @pytest.mark.parametrize(
        "name", ["/topic/c++", "/topic/#general", "/queue/a*", "/exchange/amq.direct/a#b", "/temp-topic/*"]
    )
    def test_what_only_looks_like_one_is_a_name(self, scene: Scene, version: Version, name: str) -> None:
        client = scene.connect(version)
        client.subscribe(name)
        client.publish(name)
        assert client.message().headers["destination"] == name

    @pytest.mark.requirement("SUB-02")
    @pytest.mark.parametrize("name", ["a*", "*b", "a**", "***"])
    @pytest.mark.parametrize("command", ["SUBSCRIBE", "SEND"])
    def test_a_part_of_a_word_is_none(self, scene: Scene, version: Version, command: str, name: str) -> None:
        client = scene.connect(version)
        client.send(command, {"destination": f"/topic/{name}", "id": "0", "receipt": "r"})
        error = client.error()
        assert error.headers["message"] == "a wildcard inside of a word"
        assert b"make it a whole word" in error.body
        assert not scene.broker.destinations

    @pytest.mark.requirement("SUB-02")
    @pytest.mark.parametrize("name", ["/queue/*", "/queue/a.#", "a.>", "/queue/a/**/b"])
    def test_queues_have_no_patterns(self, scene: Scene, version: Version, name: str) -> None:
        client = scene.connect(version)
        client.subscribe(name, receipt="r")
        error = client.error()
        assert error.headers["message"] == "wildcards are for topics"
        assert error.headers["receipt-id"] == "r"
        assert not scene.broker.destinations


class TestSelector:
    @pytest.mark.requirement("SUB-11")
    @pytest.mark.parametrize("ack", ["auto", "client"])
    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a", "/topic/*"])
    def test_only_what_it_takes(self, scene: Scene, version: Version, destination: str, ack: str) -> None:
        client = scene.connect(version)
        client.subscribe(destination, ack=ack, selector="n > 1 AND n <> 3")
        for number in range(5):
            client.publish(destination.replace("*", "a"), b"%d" % number, n=str(number))
        assert client.bodies() == [b"2", b"4"]

    @pytest.mark.parametrize("selector", ["", "  "])
    def test_an_empty_one_is_none(self, scene: Scene, version: Version, selector: str) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a", selector=selector)
        client.publish("/queue/a", b"m")
        assert client.bodies() == [b"m"]

    @pytest.mark.requirement("SUB-11")
    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
    def test_one_that_does_not_parse_is_refused_with_its_column(
        self, scene: Scene, version: Version, destination: str
    ) -> None:
        client = scene.connect(version)
        client.subscribe(destination, selector="a = ", receipt="r")
        error = client.error()
        assert error.headers["message"] == "selector does not parse"
        assert error.headers["receipt-id"] == "r"
        assert error.body.startswith(b"column 4: ")
        assert not scene.broker.destinations


class TestHeaders:
    @pytest.mark.requirement("MSG-03", "MSG-04", "MSG-05")
    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
    @pytest.mark.parametrize("mode", ["auto", "client", "client-individual"])
    def test_subscription_and_ack(self, scene: Scene, version: Version, destination: str, mode: str) -> None:
        client = scene.connect(version)
        client.subscribe(destination, "a b", ack=mode)
        client.publish(destination)
        message = client.message()
        assert message.subscription == "a b"
        assert ("ack" in message.headers) is (version is V12 and mode != "auto")
        assert "redelivered" not in message.headers
        assert "delivery-count" not in message.headers

    @pytest.mark.requirement("MSG-07")
    @in_1_2
    def test_each_delivery_has_an_ack_of_its_own(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        for id in ("0", "1", "2"):
            client.subscribe("/topic/a", id, ack="client")
        client.subscribe("/queue/a", "3", ack="client")
        fill(client, 3, "/topic/a")
        fill(client, 3)
        acks = [each.headers["ack"] for each in client.messages()]
        assert len(set(acks)) == 12
        assert not set("".join(acks)) & set(":\\ \n")

    @with_nack
    def test_a_redelivery_is_marked_and_counted(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a", b"m")
        ids, acks = [], []
        for count in range(1, 5):
            message = client.message()
            assert message.headers.get("delivery-count", "1") == str(count)
            assert message.redelivered is (count > 1)
            ids.append(message.message_id)
            acks.append(client.named(message))
            client.nack(message)
        assert len(set(ids)) == 1
        assert version is V11 or len({each["id"] for each in acks}) == 4

    @with_nack
    def test_also_in_mode_auto(self, scene: Scene, version: Version) -> None:
        one, two = scene.connect(version), scene.connect(version)
        one.subscribe("/queue/a", ack="client")
        one.publish("/queue/a")
        one.drop()
        two.subscribe("/queue/a")
        assert two.message().headers["delivery-count"] == "2"


class TestLedger:
    @pytest.mark.requirement("ACK-01", "ACK-02", "ACK-03", "ACK-07")
    @pytest.mark.parametrize("mode", ["client", "client-individual"])
    def test_acknowledged_is_consumed(self, scene: Scene, version: Version, mode: str) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a", ack=mode)
        client.publish("/queue/a")
        client.ack(client.message())
        assert left_behind(scene, client) == []

    @pytest.mark.requirement("ACK-06")
    def test_not_acknowledged_is_not_consumed(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a", ack="client")
        bodies = fill(client, 5)
        assert client.bodies() == bodies
        assert left_behind(scene, client) == bodies

    @pytest.mark.requirement("ACK-04")
    def test_in_mode_client_an_ack_covers_all_before_it(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a", ack="client")
        fill(client, 5)
        messages = client.messages()
        client.ack(messages[1])
        client.ack(messages[2])
        assert client.session.outstanding == 2
        assert left_behind(scene, client) == [b"4", b"5"]

    @pytest.mark.requirement("ACK-05")
    @with_nack
    def test_in_mode_client_individual_only_its_own(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a", ack="client-individual")
        fill(client, 5)
        messages = client.messages()
        client.ack(messages[3])
        client.ack(messages[1])
        assert left_behind(scene, client) == [b"1", b"3", b"5"]

    @pytest.mark.requirement("ACK-11")
    def test_cumulation_stays_in_the_subscription(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a", "0", ack="client")
        client.subscribe("/queue/b", "1", ack="client")
        client.publish("/queue/a", b"a")
        client.publish("/queue/b", b"b")
        client.ack(client.messages()[1])
        assert left_behind(scene, client) == [b"a"]

    @pytest.mark.requirement("NAK-02")
    @with_nack
    def test_in_mode_client_a_nack_covers_all_before_it(self, scene: Scene, version: Version) -> None:
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe("/queue/a", ack="client")
        fill(client, 3)
        messages = client.messages()
        other.subscribe("/queue/a", ack="client")
        client.nack(messages[1])
        assert other.bodies() == [b"1", b"2"]
        assert client.session.outstanding == 1

    @pytest.mark.requirement("NAK-05")
    @with_nack
    def test_in_mode_client_individual_only_itself(self, scene: Scene, version: Version) -> None:
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe("/queue/a", ack="client-individual")
        fill(client, 3)
        messages = client.messages()
        other.subscribe("/queue/a", ack="client")
        client.nack(messages[2])
        assert other.bodies() == [b"3"]
        client.drop()
        assert other.bodies() == [b"1", b"2"]

    @with_nack
    def test_a_redelivered_message_stands_behind_those_that_came_before_it(
        self, scene: Scene, version: Version
    ) -> None:
        """The order of an ACK is the order of delivery, not that of the messages."""
        client = scene.connect(version)
        client.subscribe("/queue/a", ack="client")
        fill(client, 3)
        first, _, _ = client.messages()
        client.nack(first)
        again = client.message()
        assert again.body == b"1"
        client.ack(again)
        assert left_behind(scene, client) == []
