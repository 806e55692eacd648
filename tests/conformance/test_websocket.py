"""STOMP over WebSocket (WST): RFC 6455 beneath, and how frames lie in messages."""

from __future__ import annotations

import contextlib
import struct
import time

import pytest

from .links import BINARY, CLOSE, CONTINUATION, PING, TEXT, HandshakeRefused, WebSocket
from .scene import Scene
from .wire import WAIT, Peer, octets

requirement, columns = pytest.mark.requirement, pytest.mark.columns


def websocket(peer: Peer) -> WebSocket:
    assert isinstance(peer.link, WebSocket)
    return peer.link


@requirement("WST-01")
def test_the_best_of_the_subprotocols_offered_is_chosen(stomp: Scene) -> None:
    for offer, answer in [
        (("v10.stomp", "v11.stomp", "v12.stomp"), "v12.stomp"),
        (("v10.stomp", "v11.stomp"), "v11.stomp"),
        (("v10.stomp", "mqtt", "v13.stomp"), "v10.stomp"),
    ]:
        peer = stomp.open(subprotocols=offer)
        assert websocket(peer).subprotocol == answer
        stomp.greet(peer, stomp.opening()).barrier()


@requirement("WST-02")
def test_no_subprotocol_need_be_offered_and_an_unknown_one_is_not_echoed(stomp: Scene) -> None:
    for offer in [(), ("v13.stomp",), ("V12.STOMP",), ("v12.stomp2", "stomp")]:
        with contextlib.suppress(HandshakeRefused):  # the other right answer
            peer = stomp.open(subprotocols=offer)
            assert websocket(peer).subprotocol is None
            stomp.greet(peer, stomp.opening()).barrier()


@requirement("WST-11", "NEG-02")
def test_the_version_is_negotiated_by_connect(stomp: Scene) -> None:
    """The subprotocol says that it is STOMP; which one is said by accept-version, as over TCP."""
    for subprotocol in ["v10.stomp", "v11.stomp", "v12.stomp"]:
        peer = stomp.open(subprotocols=(subprotocol,))
        stomp.greet(peer, stomp.opening())
        assert (peer.frames[0].get("version") or "1.0") == stomp.version


@requirement("WST-03", "BOD-07")
def test_frames_come_in_text_and_in_binary_messages(stomp: Scene) -> None:
    for opcode in [TEXT, BINARY]:
        peer, queue = stomp.open(opcode=opcode), stomp.queue()
        stomp.greet(peer, stomp.opening())
        peer.subscribe(queue)
        peer.publish(queue, "dobrý den".encode(), {"k": "漢"})
        message = peer.message()
        assert (message.body.decode(), message["k"]) == ("dobrý den", "漢")


@requirement("WST-04")
def test_a_fragmented_message(stomp: Scene) -> None:
    """Cut in the middle of a character too, and with a ping in between, as RFC 6455 allows."""
    for opcode in [TEXT, BINARY]:
        peer, queue, body = stomp.connect(), stomp.queue(), "漢字".encode()
        peer.subscribe(queue)
        frame, link = octets("SEND", {"destination": queue}, body), websocket(peer)
        link.frame(opcode, frame[:10], fin=False)
        link.frame(CONTINUATION, frame[10:-4], fin=False)
        link.frame(PING, b"between")
        link.frame(CONTINUATION, b"", fin=False)
        link.frame(CONTINUATION, frame[-4:])
        assert peer.message().body == body
        assert link.pongs == [b"between"]


@requirement("WST-05", "FRM-04")
def test_a_message_of_one_end_of_line_is_a_beat(stomp: Scene) -> None:
    for opcode in [TEXT, BINARY]:
        peer, queue = stomp.connect(), stomp.queue()
        for _ in range(3):
            websocket(peer).frame(opcode, b"\n")
        peer.subscribe(queue)
        websocket(peer).frame(opcode, b"\n")
        assert peer.seen(queue) == []


@requirement("WST-06", "WST-12", "BOD-11")
def test_what_is_not_utf8_goes_out_in_a_binary_message(stomp: Scene) -> None:
    for body in [b"\xff\xfe\0\x80binary", b"\xc3", bytes(range(256)), b"\xed\xa0\x80"]:
        peer, queue = stomp.connect(), stomp.queue()
        peer.subscribe(queue)
        stomp.connect(transport="tcp").publish(queue, body)
        assert peer.message().body == body
        assert websocket(peer).messages[-1][0] == BINARY


@requirement("WST-07")
def test_a_ping_is_answered(stomp: Scene) -> None:
    for payload in [b"", b"abc", bytes(range(125))]:
        peer = stomp.connect()
        websocket(peer).frame(PING, payload)
        until = time.monotonic() + WAIT
        while not websocket(peer).pongs and time.monotonic() < until:
            peer.pump(0.05)
        assert websocket(peer).pongs == [payload]
        peer.barrier()


@requirement("WST-08")
def test_a_close_is_answered(stomp: Scene) -> None:
    for code in [1000, 1001, 3000, None]:
        peer = stomp.connect()
        link = websocket(peer)
        link.frame(CLOSE, b"" if code is None else struct.pack("!H", code) + b"bye")
        peer.ends()
        assert link.close_code == code or code is None
        assert link.tcp_ends(WAIT), "the server ends the TCP connection first"


@requirement("WST-08", "ERR-04", "DSC-03", "LNG-03")
def test_the_server_closes_properly_after_an_error_and_after_disconnect(stomp: Scene) -> None:
    for command, codes in [("SEND", (1000, 1002, 1008)), ("DISCONNECT", (1000,))]:
        peer = stomp.connect()
        peer.send(command)
        peer.ends()
        assert websocket(peer).close_code in codes
        assert websocket(peer).tcp_ends(WAIT)


WRONG = {
    "unmasked": ({"opcode": TEXT, "payload": b"\n", "masked": False}, 1002),
    "reserved-3": ({"opcode": 3, "payload": b"x"}, 1002),
    "rsv-bit": ({"opcode": TEXT, "payload": b"\n", "rsv": 4}, 1002),
    "lone-continuation": ({"opcode": CONTINUATION, "payload": b"\n"}, 1002),
    "fragmented-ping": ({"opcode": PING, "payload": b"", "fin": False}, 1002),
    "long-ping": ({"opcode": PING, "payload": b"x" * 126}, 1002),
    "one-octet-close": ({"opcode": CLOSE, "payload": b"\x03"}, 1002),
    "reason-not-utf8": ({"opcode": CLOSE, "payload": b"\x03\xe8\xff"}, 1007),
    "text-not-utf8": ({"opcode": TEXT, "payload": b"SEND\n\xff\xfe"}, 1007),
}


@requirement("WST-09", "SES-04")
def test_what_breaks_rfc_6455_fails_the_connection(stomp: Scene) -> None:
    for kind in WRONG:
        frame, code = WRONG[kind]
        queue = stomp.queue()
        peer, _ = stomp.holder(queue, b"x")
        websocket(peer).frame(**frame)  # type: ignore[arg-type]
        peer.ends()
        assert websocket(peer).close_code in (None, code)
        assert stomp.watch(queue).message().body == b"x"


@requirement("WST-10", "TXN-08", "ACK-06")
def test_a_vanished_client_is_a_lost_connection(stomp: Scene) -> None:
    for how in ["reset", "half_close", "without-a-close-frame"]:
        queue, target = stomp.queue(), stomp.queue()
        peer, _ = stomp.holder(queue, b"1", b"2")
        watcher = stomp.watch(target)
        peer.request("BEGIN", {"transaction": "t"})
        peer.publish(target, b"never", {"transaction": "t"})
        peer.barrier()
        if how == "without-a-close-frame":
            websocket(peer).tcp.close()
        else:
            getattr(peer.link, how)()
        successor = stomp.watch(queue, transport="tcp")
        assert [message.body for message in successor.messages(2)] == [b"1", b"2"]
        assert watcher.seen(target) == []
