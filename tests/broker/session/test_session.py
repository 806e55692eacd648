"""A session: its commands, receipts and errors, and who it says it is; for its end see test_session_end."""

from __future__ import annotations

import pytest

from gateway.codec import V10, Version

from ..client import WITH_NACK, Client, Scene
from ..conftest import Stage

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
    @pytest.mark.parametrize("ack", ["client", "client-individual"])
    def test_1_0_has_nack_as_rabbitmq_and_activemq_do(self, client: Client, ack: str) -> None:
        for body in (b"1", b"2", b"3"):
            client.publish("/queue/a", body)
        client.subscribe("/queue/a", ack=ack)
        messages = client.messages()
        client.nack(messages[1], receipt="r")
        again = [frame.body for frame in client.received() if frame.command == "MESSAGE"]
        assert again == ([b"1", b"2"] if ack == "client" else [b"2"])
        client.ack(messages[2])
        assert not client.closed

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

    def test_another_reply_to_is_an_ordinary_header(self, client: Client, other: Client) -> None:
        other.subscribe("/queue/a")
        client.publish("/queue/a", b"m", **{"reply-to": "/queue/answers"})
        assert other.message().headers["reply-to"] == "/queue/answers"

    @pytest.mark.requirement("SES-01")
    @pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
    def test_it_connects_once(self, client: Client, command: str) -> None:
        client.send(command, {"accept-version": "1.2", "host": "localhost"})
        assert client.error().headers["message"] == "already connected"

    def test_an_error_shows_no_more_of_the_client_than_fits(self, client: Client) -> None:
        client.send("B" * 5_000)
        assert len(client.error().body) < 250


class TestSubscribe:
    """What is refused before a destination is looked at; for the rest see test_subscription."""

    @pytest.mark.requirement("SUB-03")
    @only_with_nack
    def test_an_id_is_required(self, client: Client) -> None:
        client.send("SUBSCRIBE", {"destination": "/queue/a"})
        assert client.error().headers["message"] == "SUBSCRIBE needs the header id"

    @pytest.mark.requirement("SUB-07")
    def test_it_must_be_new(self, client: Client) -> None:
        client.subscribe("/queue/a", "0")
        client.subscribe("/queue/b", "0")
        error = client.error()
        assert error.headers["message"] == "subscription id in use"
        assert b"'0'" in error.body

    @in_1_0
    def test_in_1_0_without_an_id_the_destination_must_be_new(self, client: Client) -> None:
        client.send("SUBSCRIBE", {"destination": "/queue/a"})
        client.subscribe("/queue/a", "0")
        client.send("SUBSCRIBE", {"destination": "/queue/a"})
        assert b"'/queue/a'" in client.error().body

    @pytest.mark.parametrize("mode", ["", "AUTO", "clients", "dups-ok"])
    def test_an_unknown_mode(self, client: Client, mode: str) -> None:
        client.subscribe("/queue/a", ack=mode)
        error = client.error()
        assert error.headers["message"] == "unknown ack mode"
        assert b"auto, client, client-individual" in error.body

    def test_none_is_auto_as_apollo_calls_it(self, client: Client) -> None:
        client.subscribe("/queue/a", ack="none")
        client.publish("/queue/a", b"m")
        assert client.bodies() == [b"m"]
        assert client.session.outstanding == 0

    @pytest.mark.parametrize("mode", ["client", "client-individual"])
    @only_with_nack
    def test_a_browser_acknowledges_nothing(self, client: Client, mode: str) -> None:
        client.subscribe("/queue/a", ack=mode, browser="true")
        assert client.error().headers["message"] == "a browser consumes nothing"

    def test_only_so_many(self, stage: Stage, version: Version) -> None:
        scene = stage(max_subscriptions=2)
        client = scene.connect(version)
        for id in "012":
            client.subscribe(f"/topic/{id}", id)
        assert b"(max_subscriptions)" in client.error().body

    def test_the_server_tells_none_of_a_failed_one(self, scene: Scene, client: Client) -> None:
        client.subscribe("/queue/a", "0", browser="true", ack="client")
        assert client.error()
        assert scene.broker.context.subscriptions == 0
        assert not scene.broker.destinations


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


class TestUserId:
    """Who reads `user-id` on a MESSAGE can rely on it."""

    @staticmethod
    def login(scene: Scene, version: Version, name: str) -> Client:
        accept = f"accept-version:{version.name}\nhost:localhost\n" if version.subscription_id else ""
        return scene.connect_by(f"CONNECT\nlogin:{name}\n{accept}\n\0".encode())

    @pytest.mark.parametrize("name", ["ada", "anonymous", "a/b", "*"])
    def test_ones_own_is_passed_on(self, scene: Scene, version: Version, other: Client, name: str) -> None:
        client = self.login(scene, version, name)
        other.subscribe("/queue/a")
        client.publish("/queue/a", b"m", **{"user-id": name})
        assert other.message().headers["user-id"] == name

    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a", "/queue/a,/topic/a", "/user/ada/queue/x"])
    @pytest.mark.parametrize("name", ["bob", "", "ADA", "ada ", "anonymous"])
    def test_somebody_elses_is_refused(
        self, scene: Scene, version: Version, other: Client, destination: str, name: str
    ) -> None:
        client = self.login(scene, version, "ada")
        if name.endswith(" ") and version is V10:
            name = "ada x"  # 1.0 trims
        other.subscribe("/queue/a", "0")
        other.subscribe("/topic/a", "1")
        client.publish(destination, b"m", receipt="r", **{"user-id": name})
        error = client.error()
        assert error.headers["message"] == "user-id of another user"
        assert error.headers["receipt-id"] == "r"
        assert not other.received()

    def test_of_an_equal_header_block_that_another_session_sent(self, scene: Scene, version: Version) -> None:
        """Equal blocks share what was read of them, but not who may say it."""
        ada, bob = self.login(scene, version, "ada"), self.login(scene, version, "bob")
        ada.publish("/queue/a", b"m", **{"user-id": "ada"})
        ada.publish("/queue/a", b"m", **{"user-id": "ada"})
        bob.publish("/queue/a", b"m", **{"user-id": "ada"})
        assert bob.error().headers["message"] == "user-id of another user"
        assert scene.broker.context.waiting == 2

    def test_in_a_transaction_it_is_refused_at_once(self, scene: Scene, version: Version) -> None:
        client = self.login(scene, version, "ada")
        client.begin()
        client.publish("/queue/a", b"m", transaction="t", **{"user-id": "bob"})
        assert client.error().headers["message"] == "user-id of another user"

    def test_somebody_without_a_name_is_not_the_session(self, client: Client) -> None:
        client.publish("/queue/a", b"m", **{"user-id": client.session.id})
        assert client.error().headers["message"] == "user-id of another user"


STEERING = {
    "receipt": "r",
    "x-delay": "10",
    "dedup-id": "1",
    "destination-type": "MULTICAST",
    "retain": "set",
    "x-max-length": "7",
    "message-id": "forged",
    "subscription": "forged",
    "ack": "forged",
    "redelivered": "true",
    "delivery-count": "9",
    "browser": "end",
    "JMSXUserID": "root",
}
PASSED_ON = {
    "correlation-id": "1",
    "type": "t",
    "content-type": "text/plain",
    "persistent": "true",
    "priority": "5",
    "JMSXGroupID": "g",
    "color": "red",
    "reply-to": "/queue/answers",
}


class TestControlHeaders:
    """What steers the broker does not reach subscribers; all else does."""

    def test_they_are_cut(self, scene: Scene, version: Version, client: Client, other: Client) -> None:
        other.subscribe("/topic/a", "7")
        client.publish("/topic/a", b"m", **STEERING, **PASSED_ON)
        scene.wait(0.1)
        message = other.message()
        assert message.subscription == "7"
        assert message.message_id != "forged"
        found = {name: value for name, value in message.headers.items() if name not in ("message-id", "subscription")}
        assert found == {"destination": "/topic/a", "content-length": "1", **PASSED_ON}

    def test_also_in_a_transaction(self, client: Client, other: Client) -> None:
        other.subscribe("/queue/a")
        client.begin()
        client.publish("/queue/a", b"m", transaction="t", receipt="r", color="red")
        client.commit()
        found = set(other.message().headers) - {"subscription", "message-id", "content-length"}
        assert found == {"destination", "color"}
