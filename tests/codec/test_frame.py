"""Frames, heads and errors: thin, and safe to show."""

from __future__ import annotations

from gateway.codec import Frame, Head, LimitExceeded, MalformedFrame, ProtocolError


def test_a_frame_shows_its_head() -> None:
    head = Head("SEND", {"destination": "/queue/a"}, 5, 28)
    frame = Frame(head, b"hello")
    assert frame.command == "SEND"
    assert frame.headers is head.headers
    assert (head.content_length, head.size, head.encoded) == (5, 28, None)
    assert Head("ACK", {}).content_length == -1
    assert Head.of("SEND", {"a": "bc"}).size == len("a:bc\n")

    assert repr(Frame(Head("SEND", {"a": "b"}), b"secret")) == "<SEND {'a': 'b'} 6 bytes>", "bodies are the users' data"
    for each in (head, frame):
        assert not hasattr(each, "__dict__"), "millions of them wait in queues"


def test_errors_carry_message_and_detail() -> None:
    for kind in (ProtocolError, MalformedFrame, LimitExceeded):
        error = kind("short", "long")
        assert isinstance(error, ProtocolError)
        assert (str(error), error.detail) == ("short", "long")
    assert ProtocolError("short").detail == ""
