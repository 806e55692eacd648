"""SEND, SUBSCRIBE, UNSUBSCRIBE (SND, SUB, UNS)."""

from __future__ import annotations

import pytest

from .scene import Scene

requirement, columns = pytest.mark.requirement, pytest.mark.columns


@requirement("SND-03", "TXN-12")
def test_send_in_a_transaction_that_was_not_begun(stomp: Scene) -> None:
    queue = stomp.queue()
    watcher = stomp.watch(queue)
    stomp.refuses("SEND", {"destination": queue, "transaction": "never-begun"}, b"x")
    assert watcher.seen(queue) == []


@requirement("SUB-06", "RCP-03")
def test_an_id_in_use_is_refused(stomp: Scene) -> None:
    queue = stomp.queue()
    for destination in [queue, stomp.queue()]:
        peer = stomp.connect()
        peer.subscribe(queue, id="1")
        peer.send("SUBSCRIBE", {"destination": destination, "id": "1", "receipt": "r"})
        peer.refusal()


@requirement("SUB-07", "UNS-03")
def test_ids_belong_to_the_connection(stomp: Scene) -> None:
    first, second = stomp.queue(), stomp.queue()
    one, two = stomp.watch(first), stomp.watch(second)
    one.put(second, b"for two")
    two.put(first, b"for one")
    assert (one.message().body, two.message().body) == (b"for one", b"for two")
    one.request("UNSUBSCRIBE", {"id": "0"})
    assert two.seen(second) == []


@requirement("SUB-08", "ACK-08")
def test_auto_is_the_default_and_consumes_when_sent(stomp: Scene) -> None:
    for ack in [None, "auto"]:
        queue = stomp.queue()
        stomp.connect().put(queue, b"1", b"2")
        consumer = stomp.connect()
        consumer.subscribe(queue, ack=ack)
        consumer.messages(2)
        stomp.end(consumer, "reset")
        assert stomp.left_in(queue) == []


@requirement("SUB-09")
def test_the_valid_ack_modes(stomp: Scene) -> None:
    for ack in ["auto", "client", "client-individual"]:
        if stomp.version == "1.0" and ack == "client-individual":
            ack = "client"  # the third mode came with 1.1
        peer, queue = stomp.connect(), stomp.queue()
        peer.subscribe(queue, ack=ack)
        assert peer.seen(queue) == []


@requirement("SUB-10", "ERR-04", "RCP-03")
def test_another_ack_mode_is_refused(stomp: Scene) -> None:
    for ack in ["bogus", "", "clients"] if stomp.version == "1.0" else ["bogus", "", "clients", "AUTO", " client"]:
        stomp.refuses("SUBSCRIBE", {"destination": stomp.queue(), "id": "1", "ack": ack})


@requirement("SUB-11")
def test_a_selector_chooses_by_headers(stomp: Scene) -> None:
    for kind in ["queue", "topic"]:
        peer, destination = stomp.connect(), getattr(stomp, kind)()
        peer.request("SUBSCRIBE", {"destination": destination, "id": "1", "selector": "colour = 'red' AND size > 9"})
        for colour, size in (("red", "9"), ("blue", "10"), ("red", "10"), ("red", "11")):
            peer.publish(destination, f"{colour} {size}".encode(), {"colour": colour, "size": size})
        assert [message.body for message in peer.messages(2)] == [b"red 10", b"red 11"]
        peer.barrier()
        assert not peer.inbox
        if kind == "queue":
            assert stomp.left_in(destination) == [b"red 9", b"blue 10"]


@requirement("SUB-12", "XTR-04", "MSG-07")
def test_two_subscriptions_to_one_topic_both_get_the_message(stomp: Scene) -> None:
    peer, topic = stomp.connect(), stomp.topic()
    peer.subscribe(topic, id="one")
    peer.subscribe(topic, id="two", ack="client")
    peer.put(topic, b"x")
    first, second = peer.messages(2)
    assert {first["subscription"], second["subscription"]} == {"one", "two"}
    assert not peer.inbox


@requirement("UNS-01", "UNS-03")
def test_unsubscribe_by_id(stomp: Scene) -> None:
    for kind in ["queue", "topic"]:
        peer, first, second = stomp.connect(), getattr(stomp, kind)(), getattr(stomp, kind)()
        peer.subscribe(first, id="first")
        peer.subscribe(second, id="second")
        peer.request("UNSUBSCRIBE", {"id": "first"})
        peer.put(first, b"gone")
        assert peer.seen(second) == []


@requirement("UNS-01", "UNS-02", "SUB-04")
@columns("1.0")
def test_unsubscribe_by_destination_in_10(stomp: Scene) -> None:
    peer, first, second = stomp.connect(), stomp.topic(), stomp.topic()
    peer.request("SUBSCRIBE", {"destination": first})
    peer.request("SUBSCRIBE", {"destination": second})
    peer.request("UNSUBSCRIBE", {"destination": first})
    peer.put(first, b"gone")
    assert peer.seen(second) == []


@requirement("SND-02", "SUB-02", "UNS-04", "UNS-05", "LEN-16", "RCP-03", "ERR-01", "ERR-04")
def test_what_a_frame_is_about_must_be_named(stomp: Scene) -> None:
    stomp.refuses("SEND", {"content-type": "text/plain"}, b"x")
    stomp.refuses("SUBSCRIBE", {"id": "1"})
    queue = stomp.queue()
    for headers in [{}, {"id": "2"}] if stomp.version == "1.0" else [{"destination": queue}, {"id": "2"}]:
        peer = stomp.connect()
        peer.subscribe(queue, id="1")
        peer.send("UNSUBSCRIBE", {**headers, "receipt": "r"})
        peer.refusal()


@requirement("SUB-03", "ERR-04")
def test_subscribe_without_id(stomp: Scene) -> None:
    stomp.refuses("SUBSCRIBE", {"destination": stomp.queue()})


@requirement("UNS-06")
def test_a_freed_id_can_be_used_again(stomp: Scene) -> None:
    peer, first, second = stomp.connect(), stomp.queue(), stomp.queue()
    peer.subscribe(first, id="x")
    peer.request("UNSUBSCRIBE", {"id": "x"})
    peer.subscribe(second, id="x")
    peer.put(first, b"old")
    assert peer.seen(second) == []
    assert stomp.left_in(first) == [b"old"]


@requirement("UNS-07", "ACK-13")
def test_unacknowledged_messages_of_a_removed_subscription_are_not_lost(stomp: Scene) -> None:
    for end in ["disconnect", "close", "reset"]:
        queue = stomp.queue()
        peer, _ = stomp.holder(queue, b"1", b"2")
        peer.request("UNSUBSCRIBE", {"id": "0"})
        stomp.end(peer, end)  # type: ignore[arg-type]
        assert stomp.left_in(queue) == [b"1", b"2"]


@requirement("SUB-05", "MSG-03")
def test_subscriptions_are_told_apart(stomp: Scene) -> None:
    peer, first, second = stomp.connect(), stomp.queue(), stomp.queue()
    peer.subscribe(first, id="first")
    peer.subscribe(second, id="Second 2")
    peer.put(second, b"B")
    peer.put(first, b"A")
    got = [(message["subscription"], message.body) for message in peer.messages(2)]
    assert got == [("Second 2", b"B"), ("first", b"A")]
