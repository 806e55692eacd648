"""Frames, heads and errors, thin and safe to show; and which version a client gets."""

from __future__ import annotations

from gateway.codec import V10, V11, V12, Frame, Head, negotiate


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


def test_the_highest_common_version() -> None:
    for chosen, offers in [
        (V10, [None, "1.0", "9.9,1.0", "1.0,", "1.0,,1.0", "0.9,1.0,1.3"]),
        (V11, ["1.1", "1.0,1.1", "1.1,1.1", " 1.0 , 1.1 ", "1.0,1.1,2.0"]),
        (V12, ["1.2", "1.0,1.1,1.2", "1.2,1.0,1.1", "1.2,1.1,1.0", "1.1, 1.2"]),
        (None, ["", ",", "2.0,9.9", "11.2", "1.20", "1.1.1", "1", "1.2;1.1", "V1.2", "v1.2", "1.2;q=1"]),
    ]:
        for offered in offers:
            assert negotiate(offered) is chosen, offered
