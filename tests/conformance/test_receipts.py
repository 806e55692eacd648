"""Receipts and DISCONNECT (RCP, DSC)."""

from __future__ import annotations

import pytest

from .requirements import TRANSPORTS
from .scene import Scene
from .wire import octets

requirement, columns = pytest.mark.requirement, pytest.mark.columns

RECEIPTS = ["0", "x" * 1_000, "a b  c", '{"k"=1}', "%41;/?#", "🧾é", "\u00a0"]


@requirement("RCP-01", "LEN-15", "BOD-12")
def test_every_client_frame_can_ask_for_a_receipt(stomp: Scene) -> None:
    peer, queue = stomp.connect(), stomp.queue()
    peer.request("SUBSCRIBE", {"id": "1", "destination": queue, "ack": "client"})
    peer.request("SEND", {"destination": queue}, b"1")
    peer.request("SEND", {"destination": queue}, b"2")
    first, second = peer.messages(2)
    peer.request("BEGIN", {"transaction": "t"})
    peer.request("SEND", {"destination": queue, "transaction": "t"}, b"3")
    peer.request("ACK", peer.settlement(first, "t"))
    peer.request("COMMIT", {"transaction": "t"})
    peer.request("BEGIN", {"transaction": "t"})
    peer.request("ABORT", {"transaction": "t"})
    if stomp.version != "1.0":
        peer.request("NACK", peer.settlement(second))
    peer.request("UNSUBSCRIBE", {"id": "1"})
    peer.request("DISCONNECT")
    receipts = [frame for frame in peer.frames if frame.command == "RECEIPT"]
    assert [(frame.headers[0][0], frame.body) for frame in receipts] == [("receipt-id", b"")] * len(receipts)


@requirement("RCP-02", "RCP-04", "LEN-15")
def test_receipt_values_are_arbitrary_and_come_in_order(stomp: Scene) -> None:
    peer, topic = stomp.connect(), stomp.topic()
    peer.raw(b"".join(octets("SEND", {"destination": topic, "receipt": value}, b"x") for value in RECEIPTS))
    assert [peer.take("RECEIPT").raw(b"receipt-id").decode() for _ in RECEIPTS] == RECEIPTS


@requirement("DSC-04", "RCP-05", "LNG-01")
@columns(*TRANSPORTS)
def test_frames_received_before_the_end_are_processed(stomp: Scene) -> None:
    """Some clients close straight behind their last frame, without waiting for anything."""
    for last in [b"", b"DISCONNECT\n\n\0"]:
        queue, bodies = stomp.queue(), [b"%d" % number for number in range(50)]
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.raw(b"".join(octets("SEND", {"destination": queue}, body) for body in bodies) + last)
        peer.link.close()
        assert [message.body for message in watcher.messages(50)] == bodies


@requirement("RCP-06", "TXN-01")
def test_a_frame_in_a_transaction_gets_its_receipt_before_commit(stomp: Scene) -> None:
    queue = stomp.queue()
    peer, (message,) = stomp.holder(queue, b"x")
    peer.request("BEGIN", {"transaction": "t"})
    peer.request("SEND", {"destination": stomp.topic(), "transaction": "t"}, b"y")
    peer.request("ACK", peer.settlement(message, "t"))
    peer.request("ABORT", {"transaction": "t"})


@requirement("RCP-07")
def test_no_receipt_unasked(stomp: Scene) -> None:
    peer, queue = stomp.connect(), stomp.queue()
    peer.send("SUBSCRIBE", {"destination": queue, "id": "1"})
    peer.send("SEND", {"destination": queue, "receipt-id": "not asked"}, b"x")
    peer.send("BEGIN", {"transaction": "t"})
    peer.send("ABORT", {"transaction": "t"})
    peer.send("UNSUBSCRIBE", {"id": "1"})
    peer.barrier()
    assert [frame.command for frame in peer.frames] == ["CONNECTED", "MESSAGE", "RECEIPT"]
    peer.send("DISCONNECT")
    peer.ends()
    assert peer.frames[-1].command == "RECEIPT"
    assert len(peer.frames) == 3


# -- DISCONNECT


@requirement("DSC-01", "DSC-03")
def test_messages_under_way_come_before_the_receipt_of_disconnect(stomp: Scene) -> None:
    peer, topic = stomp.connect(), stomp.topic()
    peer.subscribe(topic)
    peer.raw(octets("SEND", {"destination": topic}, b"x") * 10 + octets("DISCONNECT", {"receipt": "bye"}))
    peer.ends()
    assert [frame.command for frame in peer.inbox] == ["MESSAGE"] * 10 + ["RECEIPT"]


@requirement("DSC-02")
def test_frames_after_disconnect_are_not_processed(stomp: Scene) -> None:
    for apart in [False, True]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        disconnect = octets("DISCONNECT", {"receipt": "bye"})
        late = octets("SEND", {"destination": queue, "receipt": "late"}, b"late")
        if apart:
            peer.raw(disconnect)
            peer.receipt("bye")
            peer.flood(late)
        else:
            peer.raw(disconnect + late + b"garbage\0")
            peer.receipt("bye")
        peer.ends()
        assert not peer.inbox
        assert watcher.seen(queue) == []
