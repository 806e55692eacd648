"""The verified sender: who sent a message, in the broker's own words."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.model.options import PLAIN
from gateway.broker.queue.queue import Queue
from gateway.codec import V10, V11, V12, Head, Version

from ..client import Client, Scene, waiting
from ..conftest import Stage

ON = {"add_user_id": True}
EVERYWHERE: dict[str, dict[str, Any]] = {"#": {**ON, "backoff": 0.0}}


def come(scene: Scene, login: str = "ada", version: Version = V12) -> Client:
    accept = f"accept-version:{version.name}\nhost:localhost\n" if version.subscription_id else ""
    return scene.connect_by(f"CONNECT\nlogin:{login}\n{accept}\n\0".encode())


def senders(client: Client) -> list[str | None]:
    """Whom the messages that came name."""
    return [message.headers.get("user-id") for message in client.messages()]


@pytest.fixture
def scene(stage: Stage) -> Scene:
    """Where each message tells who sent it."""
    return stage(EVERYWHERE)


@pytest.fixture
def reader(scene: Scene) -> Client:
    return scene.connect()


class TestWhere:
    @pytest.mark.parametrize(
        "destination", ["/queue/a", "/topic/a", "/amq/queue/a", "a", "/exchange/amq.topic/a", "/exchange/amq.direct/a"]
    )
    def test_each_message(self, scene: Scene, reader: Client, destination: str) -> None:
        """The first of a header block, those after it, and those that ask for a receipt."""
        reader.subscribe(destination)
        client = come(scene)
        for number in range(3):
            client.publish(destination, b"m", kind="k", receipt=str(number))
            client.publish(destination, b"m", kind="k")
        messages = reader.messages()
        assert [message.headers["user-id"] for message in messages] == ["ada"] * 6
        found = {(message.headers["kind"], message.headers["destination"]) for message in messages}
        assert found == {("k", destination)}

    def test_by_the_policy_of_the_name_it_was_sent_to(self, stage: Stage) -> None:
        """The last policy with the key counts, and policies without it change nothing."""
        scene = stage({"/queue/#": ON, "/queue/quiet.#": {"add_user_id": False}, "/queue/quiet.b": {"max_attempts": 2}})
        client, reader = come(scene), scene.connect()
        for name in ("/queue/a", "/queue/quiet.b", "/topic/a"):
            reader.subscribe(name, name)
        for _ in range(2):
            client.publish("/queue/a,/queue/quiet.b")
            client.publish("/topic/a")
            client.publish("/queue/a")
        found = [(message.subscription, message.headers.get("user-id")) for message in reader.messages()]
        assert found == [("/queue/a", "ada"), ("/queue/quiet.b", None), ("/topic/a", None), ("/queue/a", "ada")] * 2


class TestWho:
    def test_equal_headers_of_two_clients(self, scene: Scene, reader: Client) -> None:
        reader.subscribe("/queue/a")
        for login in ("ada", "bob"):
            client = come(scene, login)
            client.publish("/queue/a")
            client.publish("/queue/a")
        assert senders(reader) == ["ada", "ada", "bob", "bob"]

    def test_who_says_he_is_somebody_else_is_refused(self, scene: Scene, reader: Client) -> None:
        reader.subscribe("/queue/a")
        client = come(scene)
        client.publish("/queue/a", b"m", **{"user-id": "ada"})
        assert senders(reader) == ["ada"]
        client.publish("/queue/a", b"m", **{"user-id": "bob"})
        assert client.error().headers["message"] == "user-id of another user"
        assert not reader.received()

    @pytest.mark.parametrize("headers", [{}, {"user-id": "anonymous"}, {"User-Id": "root"}])
    def test_users_without_a_name(self, scene: Scene, reader: Client, headers: dict[str, str]) -> None:
        reader.subscribe("/queue/a")
        client = scene.connect()
        client.publish("/queue/a", b"m", **headers)
        client.publish("/queue/a", b"m", **headers)
        assert [message.headers.keys() & {"user-id", "User-Id"} for message in reader.messages()] == [set(), set()]

    @pytest.mark.parametrize("name", ["User-Id", "USER-ID", "user-id ", " user-id", "user-id\r"])
    @pytest.mark.parametrize("to", [V10, V12], ids=lambda version: version.name)
    def test_no_other_spelling_reaches_anybody(self, scene: Scene, name: str, to: Version) -> None:
        """Clients of 1.0 trim, and may read names in any case."""
        reader = scene.connect(to)
        reader.subscribe("/queue/a")
        come(scene).publish("/queue/a", b"m", **{name: "root"})
        headers = reader.message().headers
        assert [(each, value) for each, value in headers.items() if "user" in each.lower()] == [("user-id", "ada")]

    @pytest.mark.parametrize("login", ["a\\cb", "a\\\\b", "a/b", "*", "ä"])
    def test_any_name(self, scene: Scene, reader: Client, login: str) -> None:
        """CONNECT knows no escapes, so these are the names themselves."""
        reader.subscribe("/queue/a")
        client = come(scene, login, V11)
        client.publish("/queue/a")
        assert senders(reader) == [client.session.login]

    def test_an_operator_and_a_function_have_no_name(self, scene: Scene, reader: Client) -> None:
        reader.subscribe("/queue/a")
        router = scene.broker.router
        for headers in ({}, {"user-id": "robot"}):
            head = Head.of("SEND", {"destination": "/queue/a", **headers})
            router.send(router.prepare(head, b"", "/queue/a", PLAIN, None))
        scene.settle()
        assert senders(reader) == [None, "robot"]


class TestWays:
    """Whatever way a message takes."""

    def test_mail_and_answers(self, scene: Scene) -> None:
        ada, bob = come(scene), come(scene, "bob")
        bob.subscribe("/user/queue/a")
        ada.publish("/user/bob/queue/a", b"m", **{"reply-to": "/temp-queue/a"})
        question = bob.message()
        bob.publish(question.headers["reply-to"])
        assert (question.headers["user-id"], senders(ada)) == ("ada", ["bob"])

    def test_a_redelivered_message_and_a_dead_letter_name_the_first_sender(self, stage: Stage) -> None:
        scene = stage({"#": {**ON, "max_attempts": 2, "backoff": 0.0}})
        bob = come(scene, "bob")
        bob.subscribe("/queue/a", ack="client-individual")
        come(scene).publish("/queue/a")
        bob.nack(bob.message())
        message = bob.message()
        assert (message.headers["user-id"], message.headers["redelivered"]) == ("ada", "true")
        bob.nack(message)
        bob.subscribe("/queue/dlq.a", "1")
        assert senders(bob) == ["ada"]

    def test_a_selector(self, scene: Scene, reader: Client) -> None:
        reader.subscribe("/queue/a", selector="JMSXUserID = 'bob'")
        for login in ("ada", "bob"):
            come(scene, login).publish("/queue/a", login.encode())
        assert reader.bodies() == [b"bob"]
        reader.subscribe("/queue/a", "1")
        assert reader.bodies() == [b"ada"]

    def test_the_store(self, stage: Stage) -> None:
        """A queue, a durable subscription and what is retained, after a kill."""
        scene = stage({"#": {**ON, "durable": True}}, stored=True)
        subscriber = scene.connect_by(b"CONNECT\naccept-version:1.2\nhost:h\nclient-id:c\nlogin:bob\n\n\0")
        subscriber.subscribe("/topic/a", durable="true", ack="client-individual")
        client = come(scene)
        client.publish("/queue/a")
        client.publish("/topic/a", retain="set")
        scene.commit()
        again = scene.crash()
        subscriber = again.connect_by(b"CONNECT\naccept-version:1.2\nhost:h\nclient-id:c\nlogin:bob\n\n\0")
        subscriber.subscribe("/topic/a", durable="true")
        reader = again.connect()
        reader.subscribe("/queue/a", "0")
        reader.subscribe("/topic/a", "1")
        again.commit()  # what waits is read
        again.settle()
        assert (senders(subscriber), senders(reader)) == (["ada"], ["ada", "ada"])
        subscriber.send("UNSUBSCRIBE", {"id": "0", "durable": "true"})


def test_what_was_written_counts_and_is_shared_by_equal_headers(scene: Scene) -> None:
    client, nameless = come(scene, "a" * 500), scene.connect()
    nameless.publish("/queue/a")
    without = scene.broker.memory.used
    client.publish("/queue/a")
    assert scene.broker.memory.used - without > without + 500, "limits are told what is kept"
    for each in (client, nameless):
        each.publish("/queue/a")
    queue = scene.broker.destinations["/queue/a"]
    assert isinstance(queue, Queue)
    plain, named, named_again, plain_again = [message.head for message in waiting(queue)]
    assert named is named_again
    assert plain is plain_again
    assert plain.stamped is not plain
