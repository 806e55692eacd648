"""The end of a session: what is written, what goes back to others, and that nothing comes behind."""

from __future__ import annotations

import pytest

from gateway.codec import Frame, Head, Version

from ..client import WITH_NACK, Client, Scene, Step

only_with_nack = pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)


@pytest.fixture
def client(scene: Scene, version: Version) -> Client:
    return scene.connect(version)


@pytest.fixture
def other(scene: Scene, version: Version) -> Client:
    return scene.connect(version)


@pytest.mark.requirement("DSC-01", "DSC-03", "LEN-13")
def test_disconnect_with_a_receipt(client: Client, other: Client) -> None:
    for number in range(20):
        client.publish("/queue/a", b"%d" % number)
    client.send("DISCONNECT", {"receipt": "bye"})
    assert client.receipts() == ["bye"]
    assert client.closed
    assert client.session.ended
    other.subscribe("/queue/a")
    assert len(other.messages()) == 20


@pytest.mark.requirement("DSC-02")
def test_what_follows_disconnect_is_not_processed(client: Client, other: Client) -> None:
    other.subscribe("/queue/a")
    client.receive(b"DISCONNECT\nreceipt:bye\n\n\0SEND\ndestination:/queue/a\nreceipt:r\n\nm\0")
    assert client.receipts() == ["bye"]
    assert not other.received()


@pytest.mark.requirement("DSC-01")
def test_nothing_goes_out_behind_the_receipt(client: Client, other: Client) -> None:
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


@pytest.mark.requirement("FRM-05")
def test_disconnect_needs_no_header(client: Client, scene: Scene) -> None:
    client.disconnect()
    assert not client.received()
    assert not scene.broker.sessions


@pytest.mark.requirement("ACK-13", "ACK-06")
@pytest.mark.parametrize("leave", [Client.disconnect, Client.drop])
def test_what_was_not_acknowledged_goes_to_others(client: Client, other: Client, leave: Step) -> None:
    client.subscribe("/queue/a", ack="client")
    other.publish("/queue/a", b"1")
    other.publish("/queue/a", b"2")
    assert client.bodies() == [b"1", b"2"]
    leave(client)
    other.subscribe("/queue/a")
    assert [(each.body, each.redelivered) for each in other.messages()] == [(b"1", True), (b"2", True)]


@pytest.mark.requirement("DSC-04")
def test_the_subscriptions_of_a_lost_connection_end(client: Client, other: Client, scene: Scene) -> None:
    client.subscribe("/queue/a", "0")
    client.subscribe("/topic/a", "1")
    client.subscribe("/topic/b", "2", ack="client")
    client.drop()
    assert not scene.broker.destinations
    other.publish("/queue/a", b"m")
    other.subscribe("/queue/a")
    assert other.bodies() == [b"m"]


@pytest.mark.requirement("UNS-07")
@pytest.mark.parametrize("ack", ["client", "client-individual"])
@only_with_nack
def test_unsubscribe_gives_back_too(client: Client, other: Client, ack: str) -> None:
    client.subscribe("/queue/a", ack=ack)
    client.publish("/queue/a", b"m")
    assert client.bodies() == [b"m"]
    client.unsubscribe()
    other.subscribe("/queue/a")
    assert other.message().redelivered


@pytest.mark.requirement("ACK-08", "SUB-08")
def test_in_mode_auto_a_message_is_consumed_when_it_was_sent(client: Client, other: Client) -> None:
    client.send("SUBSCRIBE", {"destination": "/queue/a", "id": "0"})
    client.publish("/queue/a", b"m")
    assert client.bodies() == [b"m"]
    client.drop()
    other.subscribe("/queue/a")
    assert not other.received()


@pytest.mark.requirement("ACK-08")
def test_and_not_before(client: Client, other: Client) -> None:
    """The connection ends while messages still lie in the outbox: nobody had them, so they are not marked."""
    client.subscribe("/queue/a", "0")
    client.subscribe("/queue/b", "1")
    client.stalled = True
    for number in range(3):
        other.publish("/queue/a", b"a%d" % number)
        other.publish("/queue/b", b"b%d" % number)
    client.drop()
    assert client.at_close
    other.subscribe("/queue/a", "0")
    other.subscribe("/queue/b", "1")
    messages = other.messages()
    assert [each.body for each in messages] == [b"a0", b"a1", b"a2", b"b0", b"b1", b"b2"]
    assert not any(each.redelivered for each in messages)


@pytest.mark.requirement("ACK-08")
def test_what_was_on_its_way_when_the_connection_ended_is_marked(client: Client, other: Client) -> None:
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


@pytest.mark.requirement("ACK-08", "UNS-07")
def test_nor_when_it_unsubscribed_in_between(client: Client, other: Client) -> None:
    client.subscribe("/queue/a")
    client.stalled = True
    other.publish("/queue/a", b"m")
    client.unsubscribe()
    client.drop()
    other.subscribe("/queue/a")
    assert other.bodies() == [b"m"]


def test_the_broker_forgets_it(client: Client, scene: Scene) -> None:
    client.drop()
    assert client.session.id not in scene.broker.sessions
    assert not scene.broker.end_session(client.session.id, "again")
