"""Frames of a client, without a connection."""

from __future__ import annotations

import pytest

from gateway.client.protocol import ClientProtocol, handle_of
from gateway.codec import ProtocolError


def connected(version: str, beats: str = "0,0", offered: str = "0,0") -> ClientProtocol:
    protocol = ClientProtocol()
    assert protocol.connect({"accept-version": version, "heart-beat": offered}).startswith(b"CONNECT\naccept-version:")
    answer = f"CONNECTED\nversion:{version}\nserver:a/1\nheart-beat:{beats}\n\n\0"
    (frame,) = protocol.receive(answer.encode())
    assert (frame.command, protocol.server, protocol.version.name) == ("CONNECTED", "a/1", version)
    return protocol


@pytest.mark.parametrize(
    ("offered", "beats", "intervals"),
    [
        ("100,100", "0,0", (0, 0)),
        ("100,200", "300,50", (0.1, 0.3)),
        ("100,100", "a,b", (0, 0)),
    ],
)
def test_heart_beats(offered: str, beats: str, intervals: tuple[float, float]) -> None:
    protocol = connected("1.2", beats, offered)
    assert (protocol.send_interval, protocol.receive_interval) == intervals


@pytest.mark.parametrize(
    ("version", "ack", "nack"),
    [
        ("1.2", b"ACK\nid:a\\cb\n\n\0ACK\nid:c\nreceipt:r\n\n\0", b"NACK\nid:h\nx:y\n\n\0\n"),
        (
            "1.1",
            b"ACK\nsubscription:s\nmessage-id:a\\cb\n\n\0ACK\nsubscription:s\nmessage-id:c\nreceipt:r\n\n\0",
            b"NACK\nsubscription:s\nmessage-id:h\nx:y\n\n\0\n",
        ),
    ],
)
def test_acks_and_nacks(version: str, ack: bytes, nack: bytes) -> None:
    protocol = connected(version)
    assert protocol.acks("s", ["a:b", "c"], "r") == ack
    assert protocol.acks("s", []) == b""
    assert protocol.nack("s", "h", {"x": "y"}) == nack


def test_the_version_holds_from_the_next_frame_on() -> None:
    protocol = ClientProtocol()
    chunk = b"CONNECTED\nversion:1.2\nx:a\\cb\n\n\0MESSAGE\nx:a\\cb\nmessage-id:1\nack:2\n\n\0"
    first, second = protocol.receive(chunk)
    assert (first.headers["x"], second.headers["x"]) == ("a\\cb", "a:b")
    assert handle_of(second) == "2"
    with pytest.raises(ProtocolError):
        list(protocol.receive(b"MESSAGE\nno colon\n\n\0"))
