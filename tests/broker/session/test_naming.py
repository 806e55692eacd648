"""What an UNSUBSCRIBE, ACK or NACK names, and what it must not name; each version has its own headers."""

from __future__ import annotations

import pytest

from gateway.codec import V10, V11, V12, Version

from ..client import WITH_NACK, Client, Scene

only_with_nack = pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)
in_1_0 = pytest.mark.parametrize("version", [V10], ids=["1.0"])


@pytest.fixture
def client(scene: Scene, version: Version) -> Client:
    return scene.connect(version)


@pytest.fixture
def other(scene: Scene, version: Version) -> Client:
    return scene.connect(version)


class TestUnsubscribe:
    @pytest.mark.requirement("UNS-01", "UNS-03", "UNS-06")
    def test_by_id(self, client: Client) -> None:
        client.subscribe("/topic/a", "0")
        client.subscribe("/topic/a", "1")
        client.unsubscribe("0")
        client.publish("/topic/a")
        assert client.message().subscription == "1"
        client.subscribe("/topic/b", "0")
        client.publish("/topic/b")
        assert client.message().subscription == "0"

    @pytest.mark.requirement("UNS-02", "SUB-04")
    @in_1_0
    def test_in_1_0_by_destination(self, client: Client) -> None:
        for destination in ("/topic/a", "/topic/b"):
            client.send("SUBSCRIBE", {"destination": destination})
        client.send("UNSUBSCRIBE", {"destination": "/topic/a"})
        client.publish("/topic/a")
        client.publish("/topic/b")
        message = client.message()
        assert message.headers["destination"] == "/topic/b"
        assert "subscription" not in message.headers

    @pytest.mark.requirement("UNS-02")
    @in_1_0
    def test_in_1_0_by_destination_only_where_no_id_was_given(self, client: Client) -> None:
        client.subscribe("/topic/a", "0")
        client.send("UNSUBSCRIBE", {"destination": "/topic/a"})
        error = client.error()
        assert error.headers["message"] == "unknown subscription"
        assert b"'/topic/a'" in error.body

    @pytest.mark.requirement("UNS-02")
    @in_1_0
    def test_in_1_0_the_one_without_id_is_meant(self, client: Client) -> None:
        client.subscribe("/topic/a", "0")
        client.send("SUBSCRIBE", {"destination": "/topic/a"})
        client.send("UNSUBSCRIBE", {"destination": "/topic/a"})
        assert list(client.session.subscriptions) == ["0"]

    @pytest.mark.requirement("UNS-03", "UNS-05")
    @in_1_0
    def test_an_id_means_that_id_and_no_other_subscription_of_the_destination(self, client: Client) -> None:
        client.send("SUBSCRIBE", {"destination": "/topic/a"})
        client.send("UNSUBSCRIBE", {"destination": "/topic/a", "id": "nope"})
        assert client.error().headers["message"] == "unknown subscription"

    @pytest.mark.requirement("UNS-04")
    @only_with_nack
    def test_a_destination_is_no_substitute_for_the_id(self, client: Client) -> None:
        client.subscribe("/topic/a")
        client.send("UNSUBSCRIBE", {"destination": "/topic/a"})
        assert client.error().headers["message"] == "UNSUBSCRIBE needs the header id"

    @pytest.mark.requirement("UNS-05")
    @pytest.mark.parametrize("headers", [{"id": "nope"}, {"id": "nope", "destination": "/topic/b"}])
    def test_it_must_match(self, client: Client, headers: dict[str, str]) -> None:
        client.subscribe("/topic/a")
        client.send("UNSUBSCRIBE", headers)
        error = client.error()
        assert error.headers["message"] == "unknown subscription"
        assert b"'nope'" in error.body

    @pytest.mark.requirement("UNS-05")
    @in_1_0
    def test_in_1_0_the_destination_must_match(self, client: Client) -> None:
        client.subscribe("/topic/a")
        client.send("UNSUBSCRIBE", {"destination": "/topic/b"})
        assert b"'/topic/b'" in client.error().body

    @pytest.mark.requirement("UNS-05", "SUB-07")
    def test_ids_of_other_connections_do_not_match(self, client: Client, other: Client) -> None:
        other.subscribe("/topic/a")
        client.unsubscribe("0")
        assert client.error().headers["message"] == "unknown subscription"
        other.publish("/topic/a")
        assert other.message()


class TestAcknowledgement:
    """Which message an ACK or NACK names, and which it must not name."""

    @pytest.fixture(params=["ACK", "NACK"])
    def command(self, request: pytest.FixtureRequest, version: Version) -> str:
        chosen: str = request.param
        return chosen

    @pytest.mark.requirement("ACK-09", "NAK-06", "ACK-14")
    @pytest.mark.parametrize(
        ("version", "headers", "missing"),
        [
            (V10, {"id": "1"}, "message-id"),
            (V10, {"subscription": "0"}, "message-id"),
            (V11, {"id": "1"}, "message-id"),
            (V11, {"subscription": "0"}, "message-id"),
            (V11, {"message-id": "1"}, "subscription"),
            (V12, {}, "id"),
            (V12, {"message-id": "1", "subscription": "0"}, "id"),
        ],
    )
    def test_a_header_is_missing(self, client: Client, command: str, headers: dict[str, str], missing: str) -> None:
        client.subscribe("/queue/a", ack="client")
        client.send(command, headers)
        assert client.error().headers["message"] == f"{command} needs the header {missing}"

    @pytest.mark.requirement("ACK-10", "NAK-06")
    @pytest.mark.parametrize("name", ["", "nope", "1", "1-", "1-2", "-", "1-1-1"])
    def test_nothing_is_called_so(self, client: Client, command: str, name: str) -> None:
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a")
        client.send(command, {"id": name, "message-id": name, "subscription": "0"})
        assert client.error().headers["message"] == f"{command} of an unknown message"

    @pytest.mark.requirement("ACK-10")
    def test_a_message_is_acknowledged_once(self, client: Client, command: str) -> None:
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a")
        message = client.message()
        client.ack(message)
        client.send(command, client.named(message))
        assert client.error().headers["message"] == f"{command} of an unknown message"

    @pytest.mark.requirement("ACK-10", "SUB-08")
    def test_in_mode_auto_there_is_nothing_to_acknowledge(self, client: Client, command: str) -> None:
        client.subscribe("/queue/a")
        client.publish("/queue/a")
        message = client.message()
        client.send(command, {"id": "1-1", "message-id": message.message_id, "subscription": "0"})
        assert client.error().headers["message"] == f"{command} of an unknown message"

    @pytest.mark.requirement("ACK-10")
    def test_messages_of_other_connections_are_unknown(self, client: Client, other: Client, command: str) -> None:
        client.subscribe("/queue/a", ack="client")
        other.subscribe("/queue/b", ack="client")
        client.publish("/queue/a")
        other.send(command, other.named(client.message()))
        assert other.error().headers["message"] == f"{command} of an unknown message"

    @pytest.mark.requirement("ACK-12")
    @pytest.mark.parametrize("version", [V11], ids=["1.1"])
    @pytest.mark.parametrize("subscription", ["1", "2", "nope"])
    def test_the_subscription_must_own_the_message(self, client: Client, command: str, subscription: str) -> None:
        client.subscribe("/queue/a", "0", ack="client")
        client.subscribe("/queue/b", "1", ack="client")
        client.subscribe("/queue/c", "2")
        client.publish("/queue/a")
        client.send(command, {"message-id": client.message().message_id, "subscription": subscription})
        assert client.error().headers["message"] == f"{command} of an unknown message"

    @pytest.mark.requirement("UNS-07")
    def test_after_unsubscribe_the_message_is_somebody_elses(self, client: Client, command: str) -> None:
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a")
        message = client.message()
        client.unsubscribe()
        client.send(command, client.named(message))
        assert client.error().headers["message"] == f"{command} of an unknown message"

    @pytest.mark.requirement("TXN-14")
    def test_an_unknown_transaction(self, client: Client, command: str) -> None:
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a")
        client.send(command, client.named(client.message()) | {"transaction": "nope"})
        assert client.error().headers["message"] == "unknown transaction"

    @pytest.mark.requirement("ACK-01")
    @in_1_0
    def test_in_1_0_the_message_id_finds_its_subscription(self, client: Client, other: Client) -> None:
        client.subscribe("/queue/a", "0", ack="client")
        client.send("SUBSCRIBE", {"destination": "/queue/b", "ack": "client"})
        client.subscribe("/queue/c", "2")
        client.publish("/queue/b")
        client.ack(client.message())
        client.drop()
        other.subscribe("/queue/b")
        assert not other.received()

    @pytest.mark.requirement("ACK-01", "SUB-12")
    @in_1_0
    @pytest.mark.parametrize("headers", [{}, {"transaction": "t"}])
    def test_in_1_0_two_subscriptions_to_a_topic_are_acknowledged_one_by_one(
        self, client: Client, headers: dict[str, str]
    ) -> None:
        client.subscribe("/topic/a", "0", ack="client")
        client.subscribe("/topic/a", "1", ack="client")
        client.publish("/topic/a")
        client.begin()
        for message in client.messages():
            client.ack(message, **headers)
        client.commit()
        assert not client.closed
        assert client.session.outstanding == 0
