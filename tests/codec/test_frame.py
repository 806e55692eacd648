"""Frames and heads: thin, and shared."""

from __future__ import annotations

import pytest

from gateway.codec import Frame, Head


def test_a_frame_shows_its_head() -> None:
    head = Head("SEND", {"destination": "/queue/a"}, 5, 28)
    frame = Frame(head, b"hello")
    assert frame.command == "SEND"
    assert frame.headers is head.headers
    assert (head.content_length, head.size, head.encoded) == (5, 28, None)


def test_a_head_without_body_length() -> None:
    assert Head("ACK", {}).content_length == -1


def test_repr_shows_no_body() -> None:
    """Bodies are the users' data, and long."""
    assert repr(Frame(Head("SEND", {"a": "b"}), b"secret")) == "<SEND {'a': 'b'} 6 bytes>"


@pytest.mark.parametrize("thing", [Head("ACK", {}), Frame(Head("ACK", {}), b"")])
def test_no_dictionary_per_instance(thing: object) -> None:
    """Millions of them wait in queues."""
    assert not hasattr(thing, "__dict__")
