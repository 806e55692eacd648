"""Naming: what an UNSUBSCRIBE, ACK or NACK means in each version, strictly and with `lenient`; what the ERRORs say."""

from __future__ import annotations

import pytest

from gateway.codec import V10, V11, V12, Version

from ..client import WITH_NACK, Client, Scene
from ..conftest import Stage

both = pytest.mark.parametrize("command", ["ACK", "NACK"])
later = pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)


@pytest.fixture
def client(scene: Scene, version: Version) -> Client:
    return scene.connect(version)


@pytest.fixture
def lenient(stage: Stage) -> Scene:
    return stage(lenient=True)


def message_of(client: Client) -> str:
    return client.error().headers["message"]


class TestUnsubscribe:
    def test_in_1_0_by_the_destination_of_a_subscription_without_id(self, scene: Scene) -> None:
        client = scene.connect(V10)
        client.subscribe("/topic/a", "0")
        for destination in ("/topic/a", "/topic/b"):
            client.send("SUBSCRIBE", {"destination": destination})
        client.send("UNSUBSCRIBE", {"destination": "/topic/a"})
        assert list(client.session.subscriptions) == ["0", ("/topic/b",)]
        client.publish("/topic/b")
        assert "subscription" not in client.message().headers
        client.send("UNSUBSCRIBE", {"destination": "/topic/a"})
        error = client.error()
        assert (error.headers["message"], b"'/topic/a'" in error.body) == ("unknown subscription", True)

    @pytest.mark.parametrize("headers", [{"id": "nope"}, {"id": "nope", "destination": "/topic/a"}])
    def test_an_id_means_no_other_subscription_of_the_destination(
        self, scene: Scene, client: Client, headers: dict[str, str]
    ) -> None:
        scene.connect().subscribe("/topic/a", "nope")
        if client.version is V10:
            client.send("SUBSCRIBE", {"destination": "/topic/a"})
        else:
            client.subscribe("/topic/a")
        client.send("UNSUBSCRIBE", headers)
        error = client.error()
        assert (error.headers["message"], b"'nope'" in error.body) == ("unknown subscription", True)

    @later
    @pytest.mark.parametrize("command", ["SUBSCRIBE", "UNSUBSCRIBE"])
    def test_a_destination_is_no_substitute_for_the_id(self, client: Client, command: str) -> None:
        client.send(command, {"destination": "/topic/a"})
        error = client.error()
        assert error.headers["message"] == f"{command} needs the header id"
        assert b"lenient = true" in error.body

    @later
    def test_leniently_the_destination_is_the_id(self, lenient: Scene, version: Version) -> None:
        client = lenient.connect(version)
        for end in ({"destination": "/queue/a"}, {"id": "/queue/a"}):
            client.send("SUBSCRIBE", {"destination": "/queue/a", "ack": "client"})
            client.publish("/queue/a", b"m")
            message = client.message()
            assert message.subscription == "/queue/a"
            client.ack(message)
            client.send("UNSUBSCRIBE", end)
            assert not client.session.subscriptions
        for _ in range(2):
            client.send("SUBSCRIBE", {"destination": "/topic/a"})
        assert message_of(client) == "subscription id in use"

    def test_leniently_a_durable_one_is_known_by_its_destination(self, lenient: Scene) -> None:
        for bodies in ([], [b"m"]):
            client = lenient.connect()
            client.send("SUBSCRIBE", {"destination": "/topic/a", "durable": "true"})
            assert client.bodies() == bodies
            if bodies:
                client.send("UNSUBSCRIBE", {"destination": "/topic/a", "durable": "true"})
            client.disconnect()
            lenient.connect().publish("/topic/a", b"m")
        assert not lenient.broker.registry.hidden


@both
class TestAcknowledgement:
    @pytest.mark.parametrize(
        ("version", "headers", "missing"),
        [
            (V10, {"id": "1", "subscription": "0"}, "message-id"),
            (V11, {"id": "1", "subscription": "0"}, "message-id"),
            (V11, {"message-id": "1"}, "subscription"),
            (V12, {}, "id"),
            (V12, {"message-id": "1", "subscription": "0"}, "id"),
        ],
    )
    def test_a_header_is_missing(self, client: Client, command: str, headers: dict[str, str], missing: str) -> None:
        client.subscribe("/queue/a", ack="client")
        client.send(command, headers)
        assert message_of(client) == f"{command} needs the header {missing}"

    @pytest.mark.parametrize("ack", ["auto", "client"])
    @pytest.mark.parametrize("name", ["", "nope", "1", "1-", "1-1", "1-2", "-", "1-1-1"])
    def test_no_delivery_has_that_name(self, client: Client, command: str, name: str, ack: str) -> None:
        client.subscribe("/queue/a", ack=ack)
        if ack == "auto":
            client.publish("/queue/a")
            name = client.message().message_id if client.version is not V12 else name
        client.send(command, {"id": name, "message-id": name, "subscription": "0"})
        assert message_of(client) == f"{command} of an unknown message"

    @pytest.mark.parametrize("how", ["settled", "settled by a transaction", "unsubscribed", "another session"])
    def test_a_delivery_that_is_not_the_sessions_any_more(
        self, scene: Scene, client: Client, command: str, how: str
    ) -> None:
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a")
        message = client.message()
        names = client.named(message)
        if how == "settled":
            client.ack(message)
        elif how == "settled by a transaction":
            client.begin()
            client.ack(message, transaction="t")
            client.commit()
        elif how == "unsubscribed":
            client.unsubscribe()
        else:
            client = scene.connect(client.version)
            client.subscribe("/queue/b", ack="client")
        client.send(command, names | {"receipt": "r"})
        (error,) = client.received()  # and no RECEIPT: the client must not take the message for settled by this frame
        assert (error.command, error.headers["receipt-id"]) == ("ERROR", "r")
        assert error.headers["message"] == f"{command} of an unknown message"
        assert client.closed

    @pytest.mark.parametrize("subscription", ["1", "2", "nope"])
    def test_in_1_1_the_subscription_must_be_that_of_the_message(
        self, scene: Scene, command: str, subscription: str
    ) -> None:
        client = scene.connect(V11)
        client.subscribe("/queue/a", "0", ack="client")
        client.subscribe("/queue/b", "1", ack="client")
        client.subscribe("/queue/c", "2")
        client.publish("/queue/a")
        client.send(command, {"message-id": client.message().message_id, "subscription": subscription})
        error = client.error()
        assert error.headers["message"] == f"{command} of an unknown message"
        assert b"`subscription` must name the one that it came by" in error.body
        assert b"lenient = true" in error.body

    @pytest.mark.parametrize("header", ["id", "message-id"])
    def test_in_1_2_the_error_names_the_setting_that_takes_message_ids(
        self, scene: Scene, command: str, header: str
    ) -> None:
        client, message_id = waiting(scene, V12)
        client.send(command, {header: message_id})
        body = client.error().body
        assert b"in STOMP 1.2 `id` is the value of the `ack` header of the MESSAGE" in body
        assert b"lenient = true" in body

    @pytest.mark.parametrize(
        ("version", "headers"),
        [
            (V12, {"id": ""}),
            (V12, {"message-id": ""}),
            (V11, {"message-id": ""}),
            (V11, {"message-id": "", "subscription": "nope"}),
            (V11, {"message-id": "", "subscription": "other"}),
        ],
    )
    def test_leniently_by_message_id(
        self, lenient: Scene, command: str, version: Version, headers: dict[str, str]
    ) -> None:
        client, message_id = waiting(lenient, version)
        client.subscribe("/queue/b", "other", ack="client")
        client.send(command, {name: value or message_id for name, value in headers.items()})
        assert is_settled(client, command)

    def test_leniently_by_ack_as_ever(self, lenient: Scene, command: str) -> None:
        client, message_id = waiting(lenient, V12)
        by_message_id = client.session.subscriptions.naming.by_message_id
        assert by_message_id is not None
        delivery = by_message_id.find(message_id)
        assert delivery is not None
        client.send(command, {"id": delivery.handle})
        assert is_settled(client, command)

    @later
    @pytest.mark.parametrize("named", [{"id": "nope", "message-id": "nope"}, {"message-id": "nope"}])
    def test_leniently_an_unknown_one_is_an_error_all_the_same(
        self, lenient: Scene, version: Version, command: str, named: dict[str, str]
    ) -> None:
        client, _ = waiting(lenient, version)
        client.send(command, named)
        assert message_of(client) == f"{command} of an unknown message"


def waiting(scene: Scene, version: Version) -> tuple[Client, str]:
    """A client that has two messages to acknowledge, and the message-id of the second."""
    client = scene.connect(version)
    client.subscribe("/queue/a", ack="client-individual")
    for body in (b"1", b"2"):
        client.publish("/queue/a", body)
    return client, client.messages()[1].message_id


def is_settled(client: Client, command: str) -> bool:
    """ACK: the second message has left the ledger; NACK: it came again."""
    assert not client.closed
    return client.session.outstanding == 1 if command == "ACK" else client.bodies() == [b"2"]


@pytest.mark.parametrize("headers", [{}, {"transaction": "t"}])
def test_in_1_0_two_subscriptions_to_a_topic_are_acknowledged_one_by_one(scene: Scene, headers: dict[str, str]) -> None:
    client = scene.connect(V10)
    for id in "01":
        client.subscribe("/topic/a", id, ack="client")
    client.publish("/topic/a")
    client.begin()
    for message in client.messages():
        client.ack(message, **headers)
    client.commit()
    assert not client.closed
    assert client.session.outstanding == 0


@later
@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_leniently_each_of_two_subscriptions_has_its_copy(lenient: Scene, version: Version, mode: str) -> None:
    client = lenient.connect(version)
    for id in "ab":
        client.subscribe("/topic/t", id, ack=mode)
    client.publish("/topic/t", b"m")
    message_id = client.messages()[0].message_id
    client.send("ACK", {"message-id": message_id, "subscription": "b"})
    assert [len(each.ledger or ()) for each in client.session.subscriptions.values()] == [1, 0]
    client.send("ACK", {"message-id": message_id, "subscription": "b"})
    assert message_of(client) == "ACK of an unknown message"
