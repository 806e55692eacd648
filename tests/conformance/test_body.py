"""Body and standard headers (BOD, HDR): content-length, content-type, opaque octets, repeated and unknown headers."""

from __future__ import annotations

import pytest

from .scene import Scene

requirement = pytest.mark.requirement

ALL_OCTETS = bytes(range(256))
UNKNOWN = {"x-unknown": "1", "selector-hint": "k = 'v'", "prefetch-count": "5", "X.Y_z~!": ""}


@requirement("BOD-01")
def test_a_body_where_none_belongs_is_ignored(stomp: Scene) -> None:
    """As 1.0 demands; 1.1 and 1.2 leave open what a server does, and this gateway has one way for all."""
    peer, queue = stomp.connect(), stomp.queue()
    peer.request("SUBSCRIBE", {"id": "0", "destination": queue, "content-length": 5}, b"a\0b\n\0")
    peer.request("BEGIN", {"transaction": "t"}, b"some body")
    peer.request("COMMIT", {"transaction": "t"}, b"SEND\n\n")
    assert peer.seen(queue) == []
    peer.request("DISCONNECT", body=b"bye")


@requirement("BOD-02", "BOD-06", "BOD-11", "LEN-08")
def test_a_counted_body_may_hold_nul(stomp: Scene) -> None:
    for body in [b"\0", b"\0a\0\0b\0", b"\0\nSEND\ndestination:/queue/x\n\ny\0\n", b"\n\0", ALL_OCTETS * 3]:
        message = stomp.sent(body=body)
        assert (message.body, message["content-length"]) == (body, str(len(body)))


@requirement("BOD-03", "BOD-05", "BOD-07", "LEN-08", "LEN-09")
def test_an_uncounted_body_ends_at_nul(stomp: Scene) -> None:
    for body in [b"hello", b"\n\nhello\r\n\n", b"SEND\n\nx", b"\r", b"\xff\xfe", "漢字".encode()]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.send("SEND", {"destination": queue}, body)
        message = watcher.message()
        assert (message.body, message["content-length"]) == (body, str(len(body)))


@requirement("BOD-04", "SES-04")
def test_a_count_that_is_too_small_is_refused(stomp: Scene) -> None:
    for length in [0, 1, 5, 10]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.send("SEND", {"destination": queue, "content-length": length}, b"hello world")
        peer.refusal()
        assert watcher.seen(queue) == []


@requirement("BOD-08")
def test_content_type_is_that_of_the_send(stomp: Scene) -> None:
    for type in ["text/plain;charset=utf-8", "application/octet-stream", 'Text/HTML; charset="UTF-8"', "x", ""]:
        assert stomp.sent({"content-type": type})["content-type"] == type
    assert stomp.sent(body=b"\xff\0").get("content-type") is None, "none is made up"


@requirement("BOD-09")
def test_every_frame_may_carry_a_count_of_zero(stomp: Scene) -> None:
    queue, zero = stomp.queue(), {"content-length": 0}
    peer = stomp.connect(content_length=0)
    peer.request("SUBSCRIBE", {"destination": queue, "id": "1", "ack": "client-individual"} | zero)
    peer.put(queue, b"1", b"2")
    first, second = peer.messages(2)
    peer.request("BEGIN", {"transaction": "t"} | zero)
    peer.request("ACK", peer.settlement(first, "t") | zero)
    peer.request("COMMIT", {"transaction": "t"} | zero)
    peer.request("BEGIN", {"transaction": "t"} | zero)
    peer.request("ABORT", {"transaction": "t"} | zero)
    peer.request("NACK", peer.settlement(second) | zero)
    peer.request("UNSUBSCRIBE", {"id": "1"} | zero)
    peer.request("SEND", {"destination": queue} | zero)
    peer.request("DISCONNECT", zero)


@requirement("BOD-10", "SES-04")
def test_a_count_that_is_no_number_is_refused(stomp: Scene) -> None:
    for value in ["abc", "-1", "", "5.0", "1_0", "٥", "9" * 5_000]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.send("SEND", {"destination": queue, "content-length": value}, b"hello")
        peer.refusal()
        assert watcher.seen(queue) == []


@requirement("BOD-11", "LIM-05")
def test_bodies_of_many_sizes_arrive_unchanged(stomp: Scene) -> None:
    """The sizes at which WebSocket frames and common buffers change their ways are among them."""
    for size in [1, 125, 126, 127, 4_095, 65_535, 65_536, 200_000, 1_000_000]:
        body = (ALL_OCTETS * (size // 256 + 1))[:size]
        assert stomp.sent(body=body).body == body


@requirement("BOD-13")
def test_a_body_may_be_empty(stomp: Scene) -> None:
    for headers in [{}, {"content-length": "0"}, {"content-type": "text/plain"}]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.send("SEND", {"destination": queue, **headers})
        message = watcher.message()
        assert message.body == b""
        assert message.get("content-length") in (None, "0")


@requirement("HDR-01")
def test_of_repeated_headers_the_first_counts(stomp: Scene) -> None:
    peer, first, second = stomp.connect(), stomp.queue(), stomp.queue()
    twice = [("destination", first), ("destination", second), ("receipt", "r1"), ("receipt", "r2")]
    peer.send("SUBSCRIBE", [*twice, ("id", "1"), ("id", "2"), ("ack", "client"), ("ack", "x")])
    peer.receipt("r1")
    peer.send("SEND", [*twice, ("content-length", 3), ("content-length", 1)], b"a\0b")
    peer.receipt("r1")
    message = peer.message()
    assert (message["destination"], message["subscription"], message.body) == (first, "1", b"a\0b")
    peer.request("BEGIN", [("transaction", "t"), ("transaction", "u")])
    peer.request("ACK", [*peer.settlement(message).items(), ("id", "no"), ("message-id", "no"), ("subscription", "no")])
    peer.request("ABORT", [("transaction", "t"), ("transaction", "u")])
    assert not peer.inbox


@requirement("HDR-02")
def test_user_headers_are_passed_on(stomp: Scene) -> None:
    headers = {"x-one": "1", "Mixed-Case": "Yes", "n_1.2": 'v;w="q"', "priority": "9", "persistent": "true",
               "expires": "0", "correlation-id": "c", "reply-to": "/queue/r", "type": "t", "id": "mine"}  # fmt: skip
    message = stomp.sent(headers)
    assert {name: message.all(name) for name in headers} == {name: [value] for name, value in headers.items()}


@requirement("HDR-03")
def test_a_repeated_user_header_keeps_its_first_value(stomp: Scene) -> None:
    assert stomp.sent([("foo", "World"), ("foo", "Hello"), ("foo", "")])["foo"] == "World"


@requirement("HDR-04")
def test_unknown_headers_do_no_harm(stomp: Scene) -> None:
    queue = stomp.queue()
    peer = stomp.greet(stomp.open(), {**stomp.opening(), **UNKNOWN})
    peer.request("SUBSCRIBE", {"id": "1", "destination": queue, "ack": "client"} | UNKNOWN)
    peer.put(queue, b"x", b"y", headers=UNKNOWN)
    first, second = peer.messages(2)
    peer.request("BEGIN", {"transaction": "t"} | UNKNOWN)
    peer.request("ACK", peer.settlement(first, "t") | UNKNOWN)
    peer.request("COMMIT", {"transaction": "t"} | UNKNOWN)
    peer.request("BEGIN", {"transaction": "t"} | UNKNOWN)
    peer.request("ABORT", {"transaction": "t"} | UNKNOWN)
    if stomp.version != "1.0":
        peer.request("NACK", peer.settlement(second) | UNKNOWN)
    peer.request("UNSUBSCRIBE", {"id": "1"} | UNKNOWN)
    peer.request("DISCONNECT", UNKNOWN)
