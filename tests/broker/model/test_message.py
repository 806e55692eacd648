"""What a SEND becomes: the MESSAGE's headers in each version, its copies, and what keeping one costs."""

from __future__ import annotations

import pytest

from gateway.broker.model.message import OVERHEAD, History, Message, Wire
from gateway.broker.model.options import SendOptions
from gateway.codec import V10, V11, V12, Head, Version, encoder

from ..client import ALL, Client, Scene


def consumer(scene: Scene, version: Version, destination: str = "/queue/a") -> Client:
    client = scene.connect(version)
    client.subscribe(destination)
    return client


def test_the_size_is_that_of_head_body_and_overhead() -> None:
    assert Message(1, Head("SEND", {}, -1, 40), b"12345").size == 45 + OVERHEAD
    assert Message(1, Head("SEND", {"a": "b", "c": "d"}, -1, 40), b"").size > 40 + OVERHEAD


def new(number: int, priority: int = 4) -> Message:
    return Message(number, Head.of("SEND", {"a": "b"}), b"12345", SendOptions(priority=priority))


def test_those_of_higher_priority_are_due_first_then_those_that_came_first() -> None:
    messages = [new(number, priority) for number, priority in enumerate([0, 9, 4, 4, 9, 0, 5])]
    assert [each.number for each in sorted(messages, key=lambda message: message.order)] == [1, 4, 6, 2, 3, 0, 5]
    assert new(1).rank == Message(1, Head.of("SEND", {}), b"").rank


def test_what_replaces_another_may_have_its_place() -> None:
    older, between, newer = new(1), new(2), new(3)
    newer.place = older.place
    assert newer.order == older.order < between.order
    assert older < newer  # in a heap, where both are for a moment
    assert not newer < older


def test_a_copy_is_the_same_message_with_an_account_of_its_own() -> None:
    message = new(7, priority=9)
    message.expires, message.attempts, message.waits = 12.5, 3, True
    message.history = History(1.0)
    wire = Wire(message)
    copy = message.copy(wire)
    assert (copy.id, copy.head, copy.body, copy.size) == (message.id, message.head, message.body, message.size)
    assert (copy.options, copy.order, copy.expires) == (message.options, message.order, 12.5)
    assert (copy.attempts, copy.waits, copy.history) == (0, False, None)
    for form, (version, end) in enumerate(encoder.FORMS):
        assert wire[form] is wire[form]
        assert wire[form] == encoder.message(message.head, message.id, message.body, version, end)


@pytest.mark.parametrize("destination", ["/topic/a", "/topic/*"])
def test_each_receiver_of_a_copy_has_its_own_headers(scene: Scene, destination: str) -> None:
    clients = [scene.connect(version) for version in (*ALL, *ALL)]
    for number, client in enumerate(clients):
        client.subscribe(destination, f"s{number}", ack="client")
    clients[0].publish("/topic/a", "ü".encode(), x="a:b")
    messages = [client.message() for client in clients]
    assert [message.subscription for message in messages] == [f"s{number}" for number in range(6)]
    assert {message.message_id for message in messages} == {messages[0].message_id}
    assert {message.body for message in messages} == {"ü".encode()}
    assert {message.headers["x"] for message in messages} == {"a:b"}
    for client, message in zip(clients, messages, strict=True):
        client.ack(message)


@pytest.mark.requirement("XTR-02", "LEN-07")
@pytest.mark.parametrize("version", [V11, V12], ids=lambda version: version.name)
def test_what_1_0_cannot_say_is_left_out(scene: Scene, version: Version) -> None:
    client = consumer(scene, V10)
    scene.connect(version).publish("/queue/a", b"m", **{"lf": "a\nb", "a:b": "c", "tab": "\t", "fine": "a:b\\n"})
    message = client.message()
    assert message.headers["fine"] == "a:b\\n"
    assert message.headers.keys() == {"subscription", "destination", "message-id", "content-length", "fine"}


@pytest.mark.requirement("XTR-02", "ENC-10", "ENC-11")
def test_backslashes_and_crs_keep_their_meaning(scene: Scene) -> None:
    readers = {version: consumer(scene, version, "/topic/a") for version in ALL}
    scene.connect(V10).publish("/topic/a", b"m", foo="a\\cb")
    assert [client.message().headers["foo"] for client in readers.values()] == ["a\\cb"] * 3
    assert b"foo:a\\\\cb\n" in readers[V12].written
    scene.connect(V12).publish("/topic/a", b"m", foo="a\rb")
    assert "foo" not in readers[V10].message().headers
    assert readers[V11].message().headers["foo"] == readers[V12].message().headers["foo"] == "a\rb"
    assert b"foo:a\rb\n" in readers[V11].written
    assert b"foo:a\\rb\n" in readers[V12].written


def test_equal_sends_are_equal_messages_but_for_the_id(scene: Scene, version: Version) -> None:
    """Equal header blocks share what was encoded for an earlier message; another version's must not get it."""
    readers = [consumer(scene, each, "/topic/a") for each in (*ALL, *ALL)]
    producer = scene.connect(version)
    for _ in range(3):
        producer.publish("/topic/a", b"m", foo="a:b")
    for client in readers:
        assert [each.headers["foo"] for each in client.messages()] == ["a:b"] * 3


@pytest.mark.parametrize(("expires", "over"), [(0.0, False), (5.0, True), (9.0, True), (9.1, False)])
def test_a_message_expires_at_its_moment(expires: float, over: bool) -> None:
    message = Message(1, Head.of("SEND", {}), b"")
    message.expires = expires
    assert message.has_expired(9.0) is over
