"""A session: its commands, receipts, errors, its renewal and its end."""

from __future__ import annotations

import pytest

from gateway.broker.errors import RenewalRefused
from gateway.broker.model.destinations import EVENTS, RENEW
from gateway.codec import V10, Frame, Head, Version

from ..client import Client, Scene, Step
from ..conftest import Stage


class TestCommands:
    @pytest.mark.parametrize("command", ["BOGUS", "MESSAGE", "RECEIPT", "CONNECTED", "ERROR"])
    def test_an_unknown_command_is_refused(self, client: Client, command: str) -> None:
        client.send(command, {"destination": "/queue/a"})
        error = client.error()
        assert error.headers["message"] == "unknown command"
        assert repr(command).encode() in error.body
        assert b"SEND SUBSCRIBE UNSUBSCRIBE" in error.body
        assert b"CONNECT" not in error.body.replace(repr(command).encode(), b"").replace(b"DISCONNECT", b"")

    @pytest.mark.parametrize("command", ["SUBSRIBE", "subscribe"])
    def test_the_command_that_may_be_meant(self, client: Client, command: str) -> None:
        client.send(command, {"destination": "/queue/a"})
        assert client.error().body.endswith(b"is no command of STOMP 1.2; did you mean SUBSCRIBE?")

    def test_a_missing_header_is_refused(self, scene: Scene) -> None:
        needed = {"SEND": "destination", "SUBSCRIBE": "destination", "UNSUBSCRIBE": "id", "BEGIN": "transaction"}
        for command, header in {**needed, "COMMIT": "transaction", "ABORT": "transaction"}.items():
            client = scene.connect()
            client.send(command, {"receipt": "r"})
            error = client.error()
            assert error.headers["message"] == f"{command} needs the header {header}"
            assert error.headers["receipt-id"] == "r"

    @pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
    def test_a_session_connects_once(self, client: Client, command: str) -> None:
        client.send(command, {"accept-version": "1.2", "host": "localhost"})
        assert client.error().headers["message"] == "already connected"


class TestSubscribe:
    @pytest.mark.parametrize(
        ("first", "second", "shown"),
        [
            ({"destination": "/queue/a", "id": "0"}, {"destination": "/queue/b", "id": "0"}, b"'0'"),
            ({"destination": "/queue/a"}, {"destination": "/queue/a"}, b"'/queue/a'"),
        ],
    )
    def test_an_id_or_without_one_the_destination_must_be_new(
        self, scene: Scene, first: dict[str, str], second: dict[str, str], shown: bytes
    ) -> None:
        client = scene.connect(V10)
        client.send("SUBSCRIBE", first)
        client.subscribe("/queue/a", "another")
        client.send("SUBSCRIBE", second)
        error = client.error()
        assert (error.headers["message"], shown in error.body) == ("subscription id in use", True)

    @pytest.mark.parametrize("mode", ["", "AUTO", "clients", "dups-ok"])
    def test_an_unknown_mode(self, client: Client, mode: str) -> None:
        client.subscribe("/queue/a", ack=mode)
        error = client.error()
        assert error.headers["message"] == "unknown ack mode"
        assert b"auto, client, client-individual" in error.body
        assert error.body.endswith(b"; did you mean client?") is (mode == "clients")

    @pytest.mark.parametrize("mode", ["client", "client-individual"])
    def test_a_browser_acknowledges_nothing(self, scene: Scene, client: Client, mode: str) -> None:
        client.subscribe("/queue/a", ack=mode, browser="true")
        assert client.error().headers["message"] == "a browser consumes nothing"
        assert scene.broker.context.subscriptions == 0
        assert not scene.broker.destinations


class TestReceipts:
    def test_every_command_gets_one(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a", ack="client-individual", receipt="subscribe")
        for _ in range(2):
            client.publish("/queue/a", receipt="send")
        first, second = [frame for frame in client.received() if frame.command == "MESSAGE"]
        client.ack(first, receipt="ack")
        client.nack(second, receipt="nack")
        for command in ("BEGIN", "COMMIT", "BEGIN", "ABORT"):
            client.send(command, {"transaction": "t", "receipt": command.lower()})
        client.send("UNSUBSCRIBE", {"id": "0", "receipt": "unsubscribe"})
        client.send("DISCONNECT", {"receipt": "disconnect"})
        assert client.receipts() == "ack nack begin commit begin abort unsubscribe disconnect".split()
        assert client.closed


def kinds(client: Client) -> list[str]:
    """The frames that came: the receipt-id of a RECEIPT, the body of a MESSAGE."""
    return [
        frame.headers["receipt-id"] if frame.command == "RECEIPT" else frame.body.decode()
        for frame in client.received()
    ]


def end_durable(client: Client) -> None:
    client.send("UNSUBSCRIBE", {"id": "0", "durable": "true"})


class TestReceiptOfASubscribe:
    """It comes before the messages that the subscription brings."""

    @pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
    def test_of_a_queue(self, client: Client, other: Client, ack: str) -> None:
        other.subscribe("/queue/a", ack="client", **{"prefetch-count": "1"})
        for body in (b"0", b"1", b"2"):
            client.publish("/queue/a", body)
        client.subscribe("/queue/a", ack=ack, receipt="r")
        assert kinds(client) == ["r", "1", "2"]
        client.publish("/queue/a", b"3")
        assert kinds(client) == ["3"]
        assert other.bodies() == [b"0"]

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_of_a_replay(self, stage: Stage, ack: str) -> None:
        client = stage({"/topic/a": {"log_messages": 10}}).connect()
        for body in (b"1", b"2"):
            client.publish("/topic/a", body)
        client.subscribe("/topic/a", ack=ack, receipt="r", **{"from-seq": "0"})
        client.publish("/topic/a", b"3")
        came = kinds(client)
        assert came[:3] == ["r", "1", "2"]
        assert ack == "auto" or came[3:] == ["3"]

    def test_a_durable_subscription_is_stored_first(self, stage: Stage) -> None:
        scene = stage(stored=True)
        client, second = scene.connect(), scene.connect()
        client.subscribe("/topic/a", durable="true", receipt="1")
        end_durable(client)
        client.subscribe("/topic/a", durable="true", receipt="2")
        second.subscribe("/topic/a", durable="true", receipt="3")
        second.publish("/topic/a", b"m")
        assert kinds(client) == kinds(second) == []
        scene.commit()
        assert (kinds(client), kinds(second)) == (["1", "2", "m"], ["3"])
        second.unsubscribe()
        second.publish("/topic/a", b"n")
        assert kinds(client) == ["n"]
        end_durable(client)

    def test_a_later_receipt_tells_of_a_durable_subscription_too(self, stage: Stage) -> None:
        scene = stage(stored=True)
        client, second = scene.connect(), scene.connect()
        client.subscribe("/topic/a", durable="true")
        second.subscribe("/topic/a", durable="true", receipt="1")  # its first SUBSCRIBE is not stored yet
        second.publish("/topic/b", b"m", receipt="2")
        assert kinds(second) == []
        scene.commit()
        assert kinds(second) == ["1", "2"]
        second.unsubscribe()
        end_durable(client)

    @pytest.mark.parametrize("written", [False, True])
    def test_of_a_queue_it_waits_for_a_send_before_it(self, stage: Stage, written: bool) -> None:
        scene = stage(stored=True)
        client = scene.connect()
        client.publish("/queue/a", b"1", persistent="true", receipt="s")
        if written:
            scene.commit()
        client.subscribe("/queue/a", receipt="r")
        assert kinds(client) == (["s", "r", "1"] if written else [])
        scene.commit()
        assert kinds(client) == ([] if written else ["s", "r", "1"])

    def test_while_the_store_fails_messages_come_without_it(self, stage: Stage) -> None:
        scene = stage(stored=True)
        client, sender = scene.connect(), scene.connect()
        client.subscribe("/topic/a", durable="true", receipt="r")
        scene.vault.storage.failed("no")
        sender.publish("/topic/a", b"1", persistent="false")
        assert kinds(client) == ["1"]
        scene.commit()
        assert kinds(client) == ["r"]
        end_durable(client)

    @pytest.mark.parametrize("leave", [end_durable, Client.drop])
    def test_a_subscription_that_has_gone_before_it_is_stored(self, stage: Stage, leave: Step) -> None:
        scene = stage(stored=True)
        client, other = scene.connect(), scene.connect()
        client.subscribe("/topic/a", durable="true", receipt="r")
        other.publish("/topic/a", b"1")
        leave(client)
        scene.commit()
        assert kinds(client) == ([] if leave is Client.drop else ["r"])
        if leave is Client.drop:
            other.subscribe("/topic/a", durable="true")
            end_durable(other)


class TestUserId:
    """Subscribers can rely on the `user-id` of a MESSAGE."""

    @staticmethod
    def login(scene: Scene, name: str) -> Client:
        return scene.connect_by(f"CONNECT\nlogin:{name}\naccept-version:1.2\nhost:localhost\n\n\0".encode())

    @pytest.mark.parametrize("destination", ["/queue/a", "/queue/a,/topic/a", "/user/ada/queue/x"])
    @pytest.mark.parametrize("name", ["bob", "", "ADA", "ada ", "anonymous"])
    @pytest.mark.parametrize("headers", [{}, {"transaction": "t"}])
    def test_another_name_is_refused_at_once(
        self, scene: Scene, other: Client, destination: str, name: str, headers: dict[str, str]
    ) -> None:
        client = self.login(scene, "ada")
        for id, topic in enumerate(("/queue/a", "/topic/a")):
            other.subscribe(topic, str(id))
        client.begin()
        client.publish(destination, b"m", receipt="r", **{"user-id": name}, **headers)
        error = client.error()
        assert (error.headers["message"], error.headers["receipt-id"]) == ("user-id of another user", "r")
        assert not other.received()

    def test_an_equal_header_block_of_another_session(self, scene: Scene) -> None:
        """Equal blocks share what was read of them, but not the right to say it."""
        ada, bob = self.login(scene, "ada"), self.login(scene, "bob")
        for client in (ada, ada, bob):
            client.publish("/queue/a", b"m", **{"user-id": "ada"})
        assert bob.error().headers["message"] == "user-id of another user"
        assert scene.broker.context.waiting == 2


def tell(client: Client) -> bool:
    told = client.session.tell("token-expiring", {"expires-in": "60"}, "soon")
    client.scene.settle()
    return told


class TestEvents:
    def test_a_session_that_has_subscribed_is_told(self, client: Client, other: Client) -> None:
        client.subscribe(EVENTS, "mine")
        other.subscribe(EVENTS)
        assert tell(client)
        message = client.message()
        shown = [message.headers[name] for name in ("destination", "event", "expires-in", "subscription")]
        assert (shown, message.body) == ([EVENTS, "token-expiring", "60", "mine"], b"soon")
        assert "ack" not in message.headers
        assert other.messages() == []

    @pytest.mark.parametrize("leave", [None, Client.unsubscribe, Client.drop])
    def test_others_are_not(self, client: Client, leave: Step | None) -> None:
        if leave is not None:
            client.subscribe(EVENTS)
            leave(client)
        assert not tell(client)
        assert client.received() == []

    def test_no_client_can_send_there(self, client: Client) -> None:
        client.subscribe(EVENTS)
        client.publish(EVENTS, b"made up")
        assert client.error().headers["message"] == "unsupported kind of destination"

    @pytest.mark.parametrize("headers", [{"durable": "true"}, {"from-seq": "0"}, {"browser": "true"}])
    def test_not_durable_and_not_from_the_past(self, client: Client, headers: dict[str, str]) -> None:
        client.subscribe(EVENTS, **headers)
        assert client.error()


class TestRenewal:
    @pytest.mark.parametrize(
        ("headers", "body", "passcode", "authorization"),
        [
            ({"passcode": "new"}, b"other", "new", ""),
            ({"Authorization": "Bearer new"}, b"", "", "Bearer new"),
            ({"authorization": "Bearer new"}, b"", "", "Bearer new"),
            ({}, b" new\n", "new", ""),
            ({}, b"\xff", "\ufffd", ""),
        ],
    )
    def test_the_token_that_is_shown(
        self, scene: Scene, client: Client, headers: dict[str, str], body: bytes, passcode: str, authorization: str
    ) -> None:
        client.publish(RENEW, body, **headers)
        (asked,) = client.renewals
        assert (asked.login, asked.passcode, asked.authorization) == ("", passcode, authorization)
        assert client.received() == []
        assert scene.broker.counters.published == 0

    @pytest.mark.parametrize("headers", [{}, {"x-delay": "1000", "reply-to": "/temp-queue/a"}])
    def test_the_receipt_comes_when_it_is_accepted(self, client: Client, headers: dict[str, str]) -> None:
        """Also where a header that subscribers would not see makes another head of the frame's."""
        for _ in range(2):
            client.publish(RENEW, b"new", receipt="r", login="alice", **headers)
            client.publish("/topic/a", receipt="meanwhile")
            assert client.receipts() == ["meanwhile"]
            assert client.renewals[-1].login == "alice"
            client.session.renewed()
            client.flush()
            assert client.receipts() == ["r"]

    @pytest.mark.parametrize("receipt", ["r", None])
    def test_a_refusal(self, client: Client, receipt: str | None) -> None:
        client.publish(RENEW, b"new", **({"receipt": receipt} if receipt else {}))
        client.session.end(RenewalRefused("the token has expired", client.renewals[0].receipt))
        client.scene.settle()
        client.session.renewed()  # nothing goes out behind an ERROR
        error = client.error()
        assert (error.headers["message"], error.headers.get("receipt-id")) == ("renewal refused", receipt)
        assert error.body == b"the token has expired"

    def test_one_at_a_time(self, client: Client) -> None:
        client.publish(RENEW, b"new")
        client.publish(RENEW, b"newer")
        assert client.error().headers["message"] == "a renewal is under way"
        assert len(client.renewals) == 1

    @pytest.mark.parametrize(
        ("headers", "body", "message"),
        [
            ({}, b"", "a renewal without a token"),
            ({}, b" \n", "a renewal without a token"),
            ({}, b"x" * 65_537, "a renewal without a token"),
            ({"transaction": "t"}, b"new", "a renewal in a transaction"),
        ],
    )
    def test_refused_at_once(self, client: Client, headers: dict[str, str], body: bytes, message: str) -> None:
        client.begin()
        client.publish(RENEW, body, **headers)
        assert client.error().headers["message"] == message

    @pytest.mark.parametrize("destination", [f"/topic/a,{RENEW}", f"{RENEW}/x", f"{RENEW}?x", ""])
    def test_not_as_a_part_of_others_and_not_to_subscribe(self, client: Client, destination: str) -> None:
        client.publish(destination, b"new") if destination else client.subscribe(RENEW)
        assert client.error().headers["message"] == "unsupported kind of destination"
        assert client.renewals == []


class TestEnd:
    def test_nothing_goes_out_behind_its_receipt(self, client: Client, other: Client) -> None:
        client.subscribe("/topic/a", "0")
        client.subscribe("/queue/a", "1")
        client.stalled = True
        client.session.handle(Frame(Head("DISCONNECT", {"receipt": "bye"}), b""))
        other.publish("/topic/a")
        other.publish("/queue/a")
        client.resume()
        assert [frame.command for frame in client.received()] == ["RECEIPT"]
        client.drop()
        other.subscribe("/queue/a")
        assert not other.message().redelivered

    @pytest.mark.parametrize("unsubscribed", [False, True])
    def test_what_lay_in_the_outbox_comes_back_unmarked(
        self, client: Client, other: Client, unsubscribed: bool
    ) -> None:
        """The connection ends while messages still lie in the outbox: no consumer had them, so they are not marked."""
        for id in "ab":
            client.subscribe(f"/queue/{id}", id)
        client.stalled = True
        for number in range(3):
            other.publish("/queue/a", b"a%d" % number)
            other.publish("/queue/b", b"b%d" % number)
        if unsubscribed:
            client.unsubscribe("a")
        client.drop()
        assert client.at_close
        for id in "ab":
            other.subscribe(f"/queue/{id}", id)
        messages = other.messages()
        assert [each.body for each in messages] == [b"a0", b"a1", b"a2", b"b0", b"b1", b"b2"]
        assert not any(each.redelivered for each in messages)

    def test_messages_on_their_way_when_the_connection_ended_are_marked(self, client: Client, other: Client) -> None:
        """The socket took one message and a part of another, the transport has a third, the last was in the outbox."""
        client.subscribe("/queue/a")
        client.stalled = True
        for body in (b"1", b"2", b"3"):
            other.publish("/queue/a", body)
        outbox = client.session.outbox
        data = b"".join(outbox.take())
        other.publish("/queue/a", b"4")
        outbox.written(data.index(b"\0") + 3)
        client.drop()
        other.subscribe("/queue/a")
        messages = other.messages()
        assert [(each.body, each.redelivered) for each in messages] == [(b"2", True), (b"3", True), (b"4", False)]

    def test_paused_it_gets_nothing_that_others_give_back(self, client: Client, other: Client) -> None:
        for each in (client, other):
            each.subscribe("/queue/a", ack="client")
        client.publish("/queue/a", b"1")
        client.publish("/queue/a", b"2")
        assert (client.bodies(), other.bodies()) == ([b"1"], [b"2"])
        client.session.pause()
        client.subscribe("/queue/a", "late", receipt="r")  # its frame was on its way
        other.drop()
        assert [frame.command for frame in client.received()] == ["RECEIPT"]
