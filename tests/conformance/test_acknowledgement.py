"""ACK and NACK (ACK, NAK): what is settled by which frame, and what comes again."""

from __future__ import annotations

import pytest

from .scene import Scene

requirement, columns = pytest.mark.requirement, pytest.mark.columns


def modes(version: str) -> list[str]:
    return ["client"] if version == "1.0" else ["client", "client-individual"]


@requirement("ACK-07", "ACK-01", "ACK-02", "ACK-03")
def test_what_is_acknowledged_is_consumed(stomp: Scene) -> None:
    for mode in modes(stomp.version):
        queue = stomp.queue()
        peer, messages = stomp.holder(queue, b"1", b"2", b"3", ack=mode)
        for message in messages[:2]:
            peer.ack(message)
        stomp.end(peer, "reset")
        assert stomp.left_in(queue) == [b"3"]


@requirement("ACK-04")
def test_client_mode_is_cumulative(stomp: Scene) -> None:
    queue = stomp.queue()
    peer, messages = stomp.holder(queue, b"1", b"2", b"3")
    peer.ack(messages[1])
    stomp.end(peer, "reset")
    assert stomp.left_in(queue) == [b"3"]


@requirement("ACK-05")
def test_individual_mode_is_not_cumulative(stomp: Scene) -> None:
    queue = stomp.queue()
    peer, messages = stomp.holder(queue, b"1", b"2", b"3", ack="client-individual")
    peer.ack(messages[1])
    stomp.end(peer, "reset")
    assert stomp.left_in(queue) == [b"1", b"3"]


@requirement("ACK-06", "ACK-13", "XTR-05")
def test_what_is_not_acknowledged_comes_again_in_order(stomp: Scene) -> None:
    for end in ["close", "reset", "disconnect"]:
        for mode in modes(stomp.version):
            queue, bodies = stomp.queue(), [b"%d" % number for number in range(10)]
            peer, _ = stomp.holder(queue, *bodies, ack=mode)
            stomp.connect().put(queue, b"later")
            peer.message()
            stomp.end(peer, end)  # type: ignore[arg-type]
            assert stomp.left_in(queue) == [*bodies, b"later"]


@requirement("ACK-06", "MSG-02", "NAK-03", "ACK-13")
def test_a_redelivered_message_says_so(stomp: Scene) -> None:
    queue = stomp.queue()
    peer, (first,) = stomp.holder(queue, b"x")
    assert first.get("redelivered") is None
    stomp.end(peer, "disconnect")
    again = stomp.watch(queue).message()
    assert (again["redelivered"], again["message-id"]) == ("true", first["message-id"])
    assert int(again["delivery-count"]) == 2


INCOMPLETE = {"1.0": [()], "1.1": [(), ("subscription",), ("message-id",)], "1.2": [()]}


UNKNOWN = {
    "1.0": {"message-id": "no-such"},
    "1.1": {"message-id": "no-such", "subscription": "0"},
    "1.2": {"id": "no-such"},
}


@requirement("ACK-09", "ACK-10", "NAK-06", "RCP-03", "ERR-02")
def test_settling_needs_the_headers_that_name_a_message_held(stomp: Scene) -> None:
    for command in ["ACK", "NACK"]:
        for names in [*INCOMPLETE[stomp.version], None]:
            queue = stomp.queue()
            peer, (message,) = stomp.holder(queue, b"x")
            headers = UNKNOWN[stomp.version] if names is None else {name: message[name] for name in names}
            peer.send(command, {**headers, "receipt": "r"})
            error = peer.refusal()
            assert stomp.version == "1.0" or error["receipt-id"] == "r"
            assert stomp.left_in(queue) == [b"x"]


@requirement("ACK-10")
@columns("1.1", "1.2")
def test_ack_of_a_message_acknowledged_before(stomp: Scene) -> None:
    peer, (message,) = stomp.holder(stomp.queue(), b"x", ack="client-individual")
    peer.ack(message)
    peer.send("ACK", {**peer.settlement(message), "receipt": "r"})
    peer.refusal()


@requirement("ACK-11")
def test_cumulation_stays_in_the_subscription(stomp: Scene) -> None:
    first, second, peer = stomp.queue(), stomp.queue(), stomp.connect()
    peer.subscribe(first, id="first", ack="client")
    peer.subscribe(second, id="second", ack="client")
    for queue, body in ((first, b"a1"), (second, b"b1"), (first, b"a2"), (second, b"b2")):
        peer.put(queue, body)
    messages = {message.body: message for message in peer.messages(4)}
    peer.ack(messages[b"a2"])
    stomp.end(peer, "reset")
    assert stomp.left_in(first) == []
    assert stomp.left_in(second) == [b"b1", b"b2"]


@requirement("ACK-12")
def test_a_subscription_that_does_not_own_the_message(stomp: Scene) -> None:
    for owner in ["other", "none"]:
        queue = stomp.queue()
        peer, (message,) = stomp.holder(queue, b"x")
        peer.subscribe(stomp.queue(), id="other", ack="client")
        peer.send("ACK", {"message-id": message["message-id"], "subscription": owner, "receipt": "r"})
        peer.refusal()
        assert stomp.left_in(queue) == [b"x"]


@requirement("ACK-14", "ACK-09")
@columns("1.2")
def test_a_message_id_is_no_ack_id_in_12(stomp: Scene) -> None:
    queue = stomp.queue()
    peer, (message,) = stomp.holder(queue, b"x")
    peer.send("ACK", {"message-id": message["message-id"], "subscription": "0", "receipt": "r"})
    peer.refusal()
    assert stomp.left_in(queue) == [b"x"]


# -- NACK


@requirement("NAK-02", "ACK-04")
def test_nack_is_cumulative_in_client_mode(stomp: Scene) -> None:
    """The first two are given back, and as there is nobody else come again; the third can still be acknowledged."""
    queue = stomp.queue()
    peer, messages = stomp.holder(queue, b"1", b"2", b"3")
    peer.nack(messages[1])
    again = peer.messages(2)
    assert [(message.body, message["redelivered"]) for message in again] == [(b"1", "true"), (b"2", "true")]
    peer.ack(messages[2])
    stomp.end(peer, "reset")
    assert stomp.left_in(queue) == [b"1", b"2"]


@requirement("NAK-04")
def test_nack_of_10_means_what_later_versions_say(stomp: Scene) -> None:
    """The specification of 1.0 has none; RabbitMQ and ActiveMQ take it, and so does the gateway."""
    queue = stomp.queue()
    peer, (message,) = stomp.holder(queue, b"x")
    peer.send("NACK", {"message-id": message["message-id"], "receipt": "r"})
    peer.receipt("r")
    assert peer.message().body == b"x"


@requirement("NAK-05")
def test_nack_covers_one_message_in_individual_mode(stomp: Scene) -> None:
    queue = stomp.queue()
    peer, messages = stomp.holder(queue, b"1", b"2", b"3", ack="client-individual")
    peer.nack(messages[2])
    assert peer.message().body == b"3"
    peer.ack(messages[0])
    stomp.end(peer, "reset")
    assert sorted(stomp.left_in(queue)) == [b"2", b"3"]
