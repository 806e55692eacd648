"""A session: its commands, receipts and errors, and which message an ACK names; for its end see test_session_end."""

from __future__ import annotations

import pytest

from gateway.codec import V10, V11, V12, Version

from .client import WITH_NACK, Client, Scene

only_with_nack = pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)
in_1_0 = pytest.mark.parametrize("version", [V10], ids=["1.0"])


@pytest.fixture
def client(scene: Scene, version: Version) -> Client:
    return scene.connect(version)


@pytest.fixture
def other(scene: Scene, version: Version) -> Client:
    return scene.connect(version)


class TestCommands:
    @pytest.mark.requirement("SES-02", "SES-03")
    @pytest.mark.parametrize("command", ["BOGUS", "MESSAGE", "RECEIPT", "CONNECTED", "ERROR"])
    def test_an_unknown_command_is_refused(self, client: Client, command: str) -> None:
        client.send(command, {"destination": "/queue/a"})
        error = client.error()
        assert error.headers["message"] == "unknown command"
        assert repr(command).encode() in error.body
        assert b"SEND SUBSCRIBE UNSUBSCRIBE" in error.body
        assert b"CONNECT" not in error.body.replace(repr(command).encode(), b"").replace(b"DISCONNECT", b"")

    @pytest.mark.requirement("NAK-04")
    @in_1_0
    def test_1_0_has_no_nack(self, client: Client, other: Client) -> None:
        client.send("NACK", {"message-id": "1"})
        error = client.error()
        assert error.headers["message"] == "unknown command"
        assert b"BEGIN" in error.body
        other.send("SEND", {"destination": "/topic/a", "receipt": "r"})
        assert other.receipts() == ["r"]

    @pytest.mark.requirement("SND-02", "SUB-02", "TXN-05", "ERR-02", "RCP-03")
    @pytest.mark.parametrize(
        ("command", "header"),
        [
            ("SEND", "destination"),
            ("SUBSCRIBE", "destination"),
            ("UNSUBSCRIBE", "id"),
            ("BEGIN", "transaction"),
            ("COMMIT", "transaction"),
            ("ABORT", "transaction"),
        ],
    )
    def test_a_missing_header_is_refused(self, client: Client, command: str, header: str) -> None:
        client.send(command, {"receipt": "r"})
        error = client.error()
        assert error.headers["message"] == f"{command} needs the header {header}"
        assert error.headers["receipt-id"] == "r"

    @pytest.mark.requirement("SND-03")
    def test_a_send_in_an_unknown_transaction_is_refused(self, client: Client, other: Client) -> None:
        other.subscribe("/queue/a")
        client.publish("/queue/a", b"m", transaction="nope", receipt="r")
        error = client.error()
        assert error.headers["message"] == "unknown transaction"
        assert error.headers["receipt-id"] == "r"
        assert not other.received()

    @pytest.mark.parametrize("reply_to", ["/temp-queue/a", "/temp-topic/a"])
    def test_a_temporary_reply_to_is_refused_rather_than_passed_on(
        self, client: Client, other: Client, reply_to: str
    ) -> None:
        """Nobody could ever answer there."""
        other.subscribe("/queue/a")
        client.publish("/queue/a", b"m", **{"reply-to": reply_to})
        assert client.error().headers["message"] == "temporary queues are not supported"
        assert not other.received()

    def test_another_reply_to_is_an_ordinary_header(self, client: Client, other: Client) -> None:
        other.subscribe("/queue/a")
        client.publish("/queue/a", b"m", **{"reply-to": "/queue/answers"})
        assert other.message().headers["reply-to"] == "/queue/answers"

    def test_an_error_shows_no_more_of_the_client_than_fits(self, client: Client) -> None:
        client.send("B" * 5_000)
        assert len(client.error().body) < 250

    def test_the_row_for_operators(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version, transport="websocket")
        client.stalled = True
        client.subscribe("/queue/a", "0", ack="client")
        client.subscribe("/topic/a", "1")
        client.publish("/queue/a")
        client.begin()
        assert client.session.row() == {
            "id": client.session.id,
            "login": "anonymous",
            "version": version.name,
            "transport": "websocket",
            "peer": "127.0.0.1:50000",
            "connected_at": 1_700_000_000.0,
            "subscriptions": 2,
            "unacknowledged": 1,
            "transactions": 1,
            "pending_octets": len(b"".join(client.session.outbound.parts)),
            "frames_in": 4,
        }


class TestReceipts:
    @pytest.mark.requirement("RCP-01", "NAK-01")
    def test_every_command_gets_one(self, client: Client, version: Version) -> None:
        client.send("SUBSCRIBE", {"destination": "/queue/a", "id": "0", "ack": "client", "receipt": "subscribe"})
        for _ in range(2):
            client.send("SEND", {"destination": "/queue/a", "receipt": "send"})
        message, *_ = [frame for frame in client.received() if frame.command == "MESSAGE"]
        client.ack(message, receipt="ack")
        for command in ("BEGIN", "COMMIT", "BEGIN", "ABORT"):
            client.send(command, {"transaction": "t", "receipt": command.lower()})
        client.send("UNSUBSCRIBE", {"id": "0", "receipt": "unsubscribe"})
        client.send("DISCONNECT", {"receipt": "disconnect"})
        assert client.receipts() == "ack begin commit begin abort unsubscribe disconnect".split()
        assert client.closed

    @pytest.mark.requirement("RCP-01", "NAK-01")
    @only_with_nack
    def test_nack_gets_one_too(self, client: Client) -> None:
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a")
        client.nack(client.message(), receipt="nack")
        assert client.receipts() == ["nack"]

    @pytest.mark.requirement("RCP-02", "ENC-04")
    @pytest.mark.parametrize("receipt", ["1", "a b  c", "x" * 1000, "ünï😀", "a:b", "a\\b", "/"])
    def test_any_value_comes_back(self, client: Client, receipt: str) -> None:
        client.send("SEND", {"destination": "/topic/a", "receipt": receipt})
        (frame,) = client.received()
        assert frame.headers == {"receipt-id": receipt}
        assert frame.body == b""

    @pytest.mark.requirement("RCP-02")
    @only_with_nack
    def test_also_one_with_line_breaks_or_nothing_in_it(self, client: Client) -> None:
        for receipt in ("a\nb", "", " a "):
            client.send("SEND", {"destination": "/topic/a", "receipt": receipt})
        assert client.receipts() == ["a\nb", "", " a "]

    @pytest.mark.requirement("RCP-07")
    def test_none_is_sent_unasked(self, client: Client) -> None:
        client.subscribe("/topic/a")
        client.publish("/queue/a")
        client.begin()
        client.abort()
        assert not client.received()

    @pytest.mark.requirement("RCP-04", "RCP-05", "DSC-04")
    def test_it_covers_all_that_came_before(self, client: Client, other: Client) -> None:
        bodies = [b"%d" % number for number in range(50)]
        for body in bodies[:-1]:
            client.publish("/queue/a", body)
        client.publish("/queue/a", bodies[-1], receipt="all")
        assert client.receipts() == ["all"]
        client.drop()
        other.subscribe("/queue/a")
        assert other.bodies() == bodies

    @pytest.mark.requirement("RCP-06")
    def test_inside_a_transaction_it_comes_when_the_frame_was_accepted(self, client: Client) -> None:
        client.begin()
        client.publish("/queue/a", transaction="t", receipt="r")
        assert client.receipts() == ["r"]


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
        chosen: str = request.param if version.nack else "ACK"
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
        assert client.session.row()["unacknowledged"] == 0
