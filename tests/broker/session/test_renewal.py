"""What a session is told of itself, and how a client asks to stay longer."""

from __future__ import annotations

import pytest

from gateway.broker.errors import RenewalRefused
from gateway.broker.model.destinations import EVENTS, RENEW
from gateway.codec import Version

from ..client import Client, Scene
from ..conftest import Stage


@pytest.fixture
def client(scene: Scene, version: Version) -> Client:
    return scene.connect(version)


def tell(client: Client) -> bool:
    told = client.session.tell("token-expiring", {"expires-in": "60"}, "soon")
    client.scene.settle()
    return told


class TestEvents:
    def test_who_has_subscribed_is_told(self, client: Client) -> None:
        client.subscribe(EVENTS, "mine")
        assert tell(client)
        message = client.message()
        assert message.headers["destination"] == EVENTS
        assert (message.headers["event"], message.headers["expires-in"], message.body) == (
            "token-expiring",
            "60",
            b"soon",
        )
        assert message.headers["subscription"] == "mine"
        assert "ack" not in message.headers

    def test_who_has_not_is_not(self, client: Client) -> None:
        assert not tell(client)
        client.subscribe(EVENTS)
        client.unsubscribe()
        assert not tell(client)
        assert client.received() == []

    def test_nor_who_is_gone(self, client: Client) -> None:
        client.subscribe(EVENTS)
        client.drop()
        assert not client.session.tell("x", {}, "")

    def test_each_session_has_its_own(self, scene: Scene, client: Client, version: Version) -> None:
        other = scene.connect(version)
        client.subscribe(EVENTS)
        other.subscribe(EVENTS)
        assert tell(client)
        assert len(client.messages()) == 1
        assert other.messages() == []

    def test_nobody_else_can_send_there(self, client: Client) -> None:
        client.subscribe(EVENTS)
        client.publish(EVENTS, b"made up")
        assert client.error().headers["message"] == "unsupported kind of destination"

    def test_not_durable_and_not_from_the_past(self, scene: Scene, version: Version) -> None:
        for headers in ({"durable": "true", "auto-delete": "false"}, {"from-seq": "0"}, {"browser": "true"}):
            client = scene.connect(version)
            client.subscribe(EVENTS, **headers)
            assert client.error().command == "ERROR"


class TestAsking:
    @pytest.mark.parametrize(
        ("headers", "body", "passcode", "authorization"),
        [
            ({"passcode": "new"}, b"", "new", ""),
            ({"Authorization": "Bearer new"}, b"", "", "Bearer new"),
            ({"authorization": "Bearer new"}, b"", "", "Bearer new"),
            ({}, b" new\n", "new", ""),
            ({}, b"\xff", "\ufffd", ""),
            ({"passcode": "new"}, b"other", "new", ""),
        ],
    )
    def test_what_is_shown(
        self, scene: Scene, client: Client, headers: dict[str, str], body: bytes, passcode: str, authorization: str
    ) -> None:
        client.publish(RENEW, body, **headers)
        (asked,) = client.renewals
        assert (asked.login, asked.passcode, asked.authorization) == ("", passcode, authorization)
        assert client.session.renewal is asked
        assert client.received() == []
        assert scene.broker.counters.published == 0

    def test_the_receipt_comes_when_it_is_accepted(self, client: Client) -> None:
        client.publish(RENEW, b"new", receipt="r", login="alice")
        client.publish("/topic/a", receipt="meanwhile")
        assert client.receipts() == ["meanwhile"]
        assert client.renewals[0].login == "alice"
        client.session.renewed()
        client.flush()
        assert client.receipts() == ["r"]
        client.publish(RENEW, b"new", receipt="r")
        client.session.renewed()
        client.flush()
        assert client.receipts() == ["r"], "the same frame once more"

    def test_the_receipt_waits_also_where_headers_ask_for_more(self, client: Client) -> None:
        """A header that subscribers would not see makes another head of the frame's."""
        client.publish(RENEW, b"new", receipt="r", **{"x-delay": "1000", "reply-to": "/temp-queue/a"})
        client.publish("/topic/a", receipt="meanwhile")
        assert client.receipts() == ["meanwhile"]
        client.session.renewed()
        client.flush()
        assert client.receipts() == ["r"]

    def test_no_receipt_where_none_was_asked_for(self, client: Client) -> None:
        client.publish(RENEW, b"new")
        client.session.renewed()
        client.session.renewed()
        client.flush()
        assert client.received() == []

    def test_nothing_goes_out_behind_an_error(self, client: Client) -> None:
        client.publish(RENEW, b"new", receipt="r")
        client.session.end(RenewalRefused("the token has expired", client.renewals[0].receipt))
        client.scene.settle()
        client.session.renewed()
        error = client.error()
        assert (error.headers["message"], error.headers["receipt-id"]) == ("renewal refused", "r")
        assert error.body == b"the token has expired"

    def test_a_refusal_without_receipt(self, client: Client) -> None:
        client.session.end(RenewalRefused("no"))
        client.scene.settle()
        assert "receipt-id" not in client.error().headers

    def test_memory_that_is_short_does_not_matter(self, stage: Stage, version: Version) -> None:
        scene = stage(memory_limit=1000)
        client, reader = scene.connect(version), scene.connect(version)
        client.publish("/queue/a", b"x" * 2000)
        client.publish(RENEW, b"new")
        assert len(client.renewals) == 1
        reader.subscribe("/queue/a")


class TestRefused:
    def test_one_at_a_time(self, client: Client) -> None:
        client.publish(RENEW, b"new")
        client.publish(RENEW, b"newer")
        assert client.error().headers["message"] == "a renewal is under way"
        assert len(client.renewals) == 1

    @pytest.mark.parametrize("body", [b"", b" \n", b"x" * 65_537])
    def test_nothing_shown(self, client: Client, body: bytes) -> None:
        client.publish(RENEW, body)
        assert client.error().headers["message"] == "a renewal without a token"

    def test_in_a_transaction(self, client: Client) -> None:
        client.begin()
        client.publish(RENEW, b"new", transaction="t")
        assert client.error().headers["message"] == "a renewal in a transaction"

    def test_not_as_a_part_of_others_and_not_to_subscribe(self, scene: Scene, version: Version) -> None:
        for destination in (f"/topic/a,{RENEW}", f"{RENEW}/x", f"{RENEW}?x"):
            client = scene.connect(version)
            client.publish(destination, b"new")
            assert client.error().headers["message"] == "unsupported kind of destination"
            assert client.renewals == []
        client = scene.connect(version)
        client.subscribe(RENEW)
        assert client.error().headers["message"] == "unsupported kind of destination"
