"""The setting `lenient`: what clients of 1.1 and 1.2 may name as in 1.0, and the ERROR where it is not set."""

from __future__ import annotations

import pytest

from gateway.codec import V11, V12, Version

from ..client import Client, Scene
from ..conftest import Stage

LATER = (V11, V12)


@pytest.fixture(params=LATER, ids=lambda version: version.name)
def version(request: pytest.FixtureRequest) -> Version:
    chosen: Version = request.param
    return chosen


@pytest.fixture
def lenient(stage: Stage) -> Scene:
    return stage(lenient=True)


class TestSubscribe:
    def test_without_id_the_destination_is_the_id(self, lenient: Scene, version: Version) -> None:
        client = lenient.connect(version)
        client.send("SUBSCRIBE", {"destination": "/queue/a", "ack": "client"})
        client.publish("/queue/a", b"m")
        message = client.message()
        assert message.subscription == "/queue/a"
        client.ack(message)
        client.send("UNSUBSCRIBE", {"destination": "/queue/a"})
        assert not client.session.subscriptions

    def test_or_the_id_ends_it(self, lenient: Scene, version: Version) -> None:
        client = lenient.connect(version)
        client.send("SUBSCRIBE", {"destination": "/topic/a"})
        client.unsubscribe("/topic/a")
        assert not client.session.subscriptions

    def test_only_one_of_a_destination(self, lenient: Scene, version: Version) -> None:
        client = lenient.connect(version)
        for _ in range(2):
            client.send("SUBSCRIBE", {"destination": "/topic/a"})
        assert client.error().headers["message"] == "subscription id in use"

    def test_a_durable_one_is_known_by_its_destination(self, lenient: Scene, version: Version) -> None:
        client = lenient.connect(version)
        client.send("SUBSCRIBE", {"destination": "/topic/a", "durable": "true"})
        client.disconnect()
        client = lenient.connect(version)
        client.publish("/topic/a", b"m")
        client.send("SUBSCRIBE", {"destination": "/topic/a", "durable": "true"})
        assert client.bodies() == [b"m"]
        client.send("UNSUBSCRIBE", {"destination": "/topic/a", "durable": "true"})
        assert not lenient.broker.registry.hidden

    @pytest.mark.parametrize("command", ["SUBSCRIBE", "UNSUBSCRIBE"])
    def test_the_error_names_the_setting(self, scene: Scene, version: Version, command: str) -> None:
        client = scene.connect(version)
        client.send(command, {"destination": "/queue/a"})
        error = client.error()
        assert error.headers["message"] == f"{command} needs the header id"
        assert b"lenient = true" in error.body


@pytest.fixture(params=["ACK", "NACK"])
def command(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


def waiting(scene: Scene, version: Version) -> tuple[Client, str]:
    """A client that has two messages to acknowledge, and the message-id of the second."""
    client = scene.connect(version)
    client.subscribe("/queue/a", ack="client-individual")
    for body in (b"1", b"2"):
        client.publish("/queue/a", body)
    first, second = client.messages()
    assert first.message_id != second.message_id
    return client, second.message_id


def is_settled(client: Client, command: str) -> bool:
    """ACK: the second message has left the ledger; NACK: it came again."""
    assert not client.closed
    if command == "ACK":
        return client.session.outstanding == 1
    return client.bodies() == [b"2"]


class TestAcknowledgement:
    @pytest.mark.parametrize("header", ["id", "message-id"])
    def test_1_2_by_message_id(self, lenient: Scene, command: str, header: str) -> None:
        client, message_id = waiting(lenient, V12)
        client.send(command, {header: message_id})
        assert is_settled(client, command)

    def test_1_2_by_ack_as_ever(self, lenient: Scene, command: str) -> None:
        client, message_id = waiting(lenient, V12)
        by_message_id = client.session.subscriptions.naming.by_message_id
        assert by_message_id is not None
        delivery = by_message_id.find(message_id)
        assert delivery is not None
        client.send(command, {"id": delivery.handle})
        assert is_settled(client, command)

    @pytest.mark.parametrize("named", [{}, {"subscription": "nope"}, {"subscription": "other"}])
    def test_1_1_by_message_id_alone(self, lenient: Scene, command: str, named: dict[str, str]) -> None:
        client, message_id = waiting(lenient, V11)
        client.subscribe("/queue/b", "other", ack="client")
        client.send(command, {"message-id": message_id} | named)
        assert is_settled(client, command)

    @pytest.mark.parametrize("named", [{"id": "nope", "message-id": "nope"}, {"message-id": "nope"}])
    def test_an_unknown_one_is_an_error_all_the_same(
        self, lenient: Scene, version: Version, command: str, named: dict[str, str]
    ) -> None:
        client, _ = waiting(lenient, version)
        client.send(command, named)
        assert client.error().headers["message"] == f"{command} of an unknown message"

    def test_one_that_was_acknowledged_before(self, lenient: Scene, version: Version) -> None:
        client, message_id = waiting(lenient, version)
        for _ in range(2):
            client.send("ACK", {"id": message_id, "message-id": message_id})
        assert client.error().headers["message"] == "ACK of an unknown message"

    def test_one_of_a_subscription_in_mode_auto(self, lenient: Scene, version: Version) -> None:
        client = lenient.connect(version)
        client.subscribe("/queue/a")
        client.publish("/queue/a", b"m")
        message_id = client.message().message_id
        client.send("ACK", {"id": message_id, "message-id": message_id})
        assert client.error().headers["message"] == "ACK of an unknown message"

    @pytest.mark.parametrize("mode", ["client", "client-individual"])
    def test_each_of_two_subscriptions_has_its_copy(self, lenient: Scene, version: Version, mode: str) -> None:
        client = lenient.connect(version)
        for id in "ab":
            client.subscribe("/topic/t", id, ack=mode)
        client.publish("/topic/t", b"m")
        message_id = client.messages()[0].message_id
        client.send("ACK", {"message-id": message_id, "subscription": "b"})
        assert [len(each.ledger or ()) for each in client.session.subscriptions.values()] == [1, 0]
        client.send("ACK", {"message-id": message_id, "subscription": "b"})
        assert client.error().headers["message"] == "ACK of an unknown message"

    def test_one_that_a_transaction_holds_is_passed_over(self, lenient: Scene, version: Version) -> None:
        client = lenient.connect(version)
        for id in "ab":
            client.subscribe("/topic/t", id, ack="client")
        client.publish("/topic/t", b"m")
        message_id = client.messages()[0].message_id
        client.begin()
        client.send("ACK", {"message-id": message_id, "transaction": "t"})
        client.send("ACK", {"message-id": message_id})
        client.commit()
        assert client.session.outstanding == 0

    def test_none_at_all(self, lenient: Scene, command: str) -> None:
        client = lenient.connect(V12)
        client.send(command, {})
        assert client.error().headers["message"] == f"{command} needs the header id"


class TestTheErrorNamesTheSetting:
    @pytest.mark.parametrize("header", ["id", "message-id"])
    def test_1_2(self, scene: Scene, command: str, header: str) -> None:
        client, message_id = waiting(scene, V12)
        client.send(command, {header: message_id})
        error = client.error()
        assert b"in STOMP 1.2 `id` is the value of the `ack` header of the MESSAGE" in error.body
        assert b"lenient = true" in error.body

    def test_1_1_without_subscription(self, scene: Scene, command: str) -> None:
        client, message_id = waiting(scene, V11)
        client.send(command, {"message-id": message_id})
        error = client.error()
        assert error.headers["message"] == f"{command} needs the header subscription"
        assert b"lenient = true" in error.body

    def test_1_1_with_another_one(self, scene: Scene, command: str) -> None:
        client, message_id = waiting(scene, V11)
        client.send(command, {"message-id": message_id, "subscription": "nope"})
        error = client.error()
        assert error.headers["message"] == f"{command} of an unknown message"
        assert b"`subscription` must name the one that it came by" in error.body
        assert b"lenient = true" in error.body

    def test_only_where_it_would_help(self, scene: Scene, version: Version, command: str) -> None:
        client, _ = waiting(scene, version)
        client.send(command, {"id": "nope", "message-id": "nope", "subscription": "0"})
        assert b"lenient" not in client.error().body
